/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_core.c - cores: loading them, their lives, and their turns.
 *
 * Each core is a copy of core.so of its own, so it has variables of its own. Its daemon
 * runs as a coroutine. To kill it is never to resume it; before the next life its
 * variables are set back to their state after loading.
 */
#include "tests/sim/world.h"

#include "bridge/base/mem.h"

#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 20, IMAGE_PARTS = 8, TURN_US = 40, LATE_US = 150 };

struct sim_core cores[CORES_MAX];

struct item {
    STAILQ_ENTRY(item) link;
    struct event event;
    char bytes[];
};
struct inbox {
    STAILQ_HEAD(, item) items;
    struct item *current; /* given to the core */
};

/* Of ucontext.h only the first switch, because its others set the signal mask: a call of
 * the system each. */
struct coroutine {
    ucontext_t first;
    jmp_buf core, world;
    bool begun;
    char *stack;
    int code;
};

struct image {
    size_t count;
    struct {
        void *at;
        size_t n;
        void *copy;
    } parts[IMAGE_PARTS];
};

/* ----------------------------------------------------------------------- loading */

static void add_part(struct image *image, uintptr_t from, uintptr_t end)
{
    if (from >= end)
        return;
    must(image->count < IMAGE_PARTS);
    void *copy = mem_alloc(end - from);
    memcpy(copy, (void *)from, end - from);
    image->parts[image->count].at = (void *)from;
    image->parts[image->count].n = end - from;
    image->parts[image->count++].copy = copy;
}

struct search {
    uintptr_t base;
    struct image *image;
};

/* Copies the writable parts of a shared object: what remains writable after relocation.
 */
static int copy_parts(struct dl_phdr_info *info, size_t size, void *arg)
{
    const struct search *search = arg;
    uintptr_t relro = 0, relro_end = 0, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size;
    if (info->dlpi_addr != search->base)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
            relro = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            relro_end = (relro + info->dlpi_phdr[i].p_memsz) & ~(page - 1);
        }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr, end = from + p->p_memsz;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_W))
            continue;
        if (relro_end > from && relro < end)
            from = relro_end;
        add_part(search->image, from, end);
    }
    return 1;
}

static void put_back(const struct image *image)
{
    for (size_t i = 0; i < image->count; i++)
        memcpy(image->parts[i].at, image->parts[i].copy, image->parts[i].n);
}

static void copy_file(const char *from, int to)
{
    char bytes[65536];
    FILE *in = fopen(from, "rb");
    must(in != NULL);
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), in)) > 0;)
        must(write(to, bytes, n) == (ssize_t)n);
    fclose(in);
}

void cores_load(const char *file)
{
    for (unsigned i = 0; i < CORES_MAX; i++) {
        struct sim_core *core = &cores[i];
        char path[64];
        struct link_map *map;
        int fd = memfd_create("core", 0);
        must(fd >= 0);
        copy_file(file, fd);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (so == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            exit(1);
        }
        must(dlinfo(so, RTLD_DI_LINKMAP, &map) == 0);
        core->index = i;
        core->entry = dlsym(so, "sim_entry");
        core->image = mem_alloc(sizeof(*core->image));
        core->inbox = mem_alloc(sizeof(*core->inbox));
        core->coroutine = mem_alloc(sizeof(*core->coroutine));
        STAILQ_INIT(&core->inbox->items);
        dl_iterate_phdr(copy_parts, &(struct search){map->l_addr, core->image});
        must(core->image->count > 0);
    }
}

/* ------------------------------------------------------------------------- turns */

/* Runs the core until it calls leave(). */
static void resume(struct coroutine *c)
{
    if (_setjmp(c->world) != 0)
        return;
    if (c->begun)
        _longjmp(c->core, 1);
    c->begun = true;
    setcontext(&c->first);
}

static void leave(struct coroutine *c)
{
    if (_setjmp(c->core) == 0)
        _longjmp(c->world, 1);
}

static void turn(void *arg, int64_t when);
static void clear_inbox(struct sim_core *core, const void *of);

/* Schedules a turn, unless one is due earlier. */
static void wake(struct sim_core *core, int64_t us)
{
    us = us < core->busy_until_us ? core->busy_until_us : us;
    if (!core->alive || us >= core->turn_at)
        return;
    core->turn_at = us;
    at(us, turn, core, us);
}

static void turn(void *arg, int64_t when)
{
    struct sim_core *core = arg;
    if (!core->alive || core->turn_at != when)
        return;
    if (core->busy_until_us > world.now_us) { /* stalled meanwhile */
        core->turn_at = NEVER;
        wake(core, core->busy_until_us);
        return;
    }
    core->turn_at = NEVER;
    draw_from(&core->stream);
    world.totals.turns++;
    resume(core->coroutine);
    if (!core->alive) { /* it has ended by itself */
        conns_of_dead(core);
        clear_inbox(core, NULL);
        jobs_core_changed(core);
        core_ended(core, core->coroutine->code);
        return;
    }
    core->busy_until_us = world.now_us + between(1, TURN_US);
    if (!STAILQ_EMPTY(&core->inbox->items))
        wake(core, world.now_us);
    else if (core->until_us != NEVER)
        wake(core, core->until_us + between(0, LATE_US));
}

void core_stall(struct sim_core *core, int64_t until_us)
{
    if (until_us > core->busy_until_us)
        core->busy_until_us = until_us;
}

static void clear_inbox(struct sim_core *core, const void *of)
{
    struct item *item, *next;
    for (item = STAILQ_FIRST(&core->inbox->items); item; item = next) {
        next = STAILQ_NEXT(item, link);
        if (of && item->event.of != of)
            continue;
        STAILQ_REMOVE(&core->inbox->items, item, item, link);
        free(item);
    }
}

void core_forget(struct sim_core *core, const void *of)
{
    clear_inbox(core, of);
}

void core_event(struct sim_core *core, const struct event *event)
{
    if (!core->alive)
        return;
    struct item *item = mem_alloc(sizeof(*item) + event->bytes.n);
    item->event = *event;
    item->event.bytes.p = item->bytes;
    slice_put(item->bytes, event->bytes);
    STAILQ_INSERT_TAIL(&core->inbox->items, item, link);
    wake(core, world.now_us);
}

void core_signal(struct sim_core *core, int signo)
{
    core->reloads = core->reloads || signo == SIGHUP;
    core_event(core, &(struct event){.kind = EVENT_SIGNAL, .number = signo});
}

/* ---------------------------------------------------------------------- the host */

static int64_t mono_us(struct sim_core *core)
{
    return world.now_us + core->mono_offset_us;
}

static int64_t wall_ms(struct sim_core *core)
{
    return (world.now_us + core->wall_offset_us) / 1000;
}

static uint64_t core_random(struct sim_core *core)
{
    core->random = core->random * 6364136223846793005U + 1442695040888963407U;
    return core->random >> 32;
}

static void on_log(struct sim_core *core, struct slice line)
{
    const char *text = memchr(line.p, ' ', line.n); /* without its time */
    line.n -= line.n > 0 && line.p[line.n - 1] == '\n';
    if (text && (size_t)(text - line.p) < line.n)
        line = (struct slice){text + 1, line.n - (size_t)(text + 1 - line.p)};
    reached_line(line);
    reconf_line(core, line);
    tell("core%u %.*s", core->index, SLICE_ARG(line));
}

static void wait_for(struct sim_core *core, int64_t until_us)
{
    core->until_us = until_us == NEVER ? NEVER : until_us - core->mono_offset_us;
    leave(core->coroutine);
}

static void end(struct sim_core *core, int code)
{
    core->coroutine->code = code;
    core->alive = false;
    leave(core->coroutine);
}

static bool next_event(struct sim_core *core, struct event *event)
{
    struct inbox *inbox = core->inbox;
    free(inbox->current);
    inbox->current = STAILQ_FIRST(&inbox->items);
    if (inbox->current == NULL)
        return false;
    STAILQ_REMOVE_HEAD(&inbox->items, link);
    *event = inbox->current->event;
    return true;
}

static const struct sim_host host = {
    .mono_us = mono_us,
    .wall_ms = wall_ms,
    .random = core_random,
    .log = on_log,
    .wait = wait_for,
    .exit = end,
    .next_event = next_event,
    .open = conn_open,
    .send = conn_send,
    .close = conn_close,
    .group_call = group_call,
    .group_event = group_event,
    .group_has_left = group_has_left,
    .group_is_lost = group_is_lost,
    .watermarks = group_watermarks,
    .offsets_at = log_offsets_at,
    .session_call = session_call,
    .session_event = session_event,
    .submitted = jobs_submitted,
    .stored = jobs_stored,
    .paused = alive_paused,
    .request = jobs_request,
    .answered = jobs_answered,
    .ask = consumer_ask,
    .pulled = consumer_pulled,
    .finished = consumer_finished,
    .deliver = jobs_deliver,
    .lab_ask = lab_ask,
    .lab_answer = lab_answer,
    .lab_deliver = lab_deliver,
};

/* ------------------------------------------------------------------------- lives */

static void run(unsigned index)
{
    struct sim_core *core = &cores[index];
    end(core, core->entry->run(conf_file));
}

void core_start(struct sim_core *core)
{
    struct coroutine *c = core->coroutine;
    world.totals.lives++;
    core->life++;
    core->alive = true;
    core->stream =
        stream_new('c', (world.order * CORES_MAX + core->index) << 32 | core->life);
    uint64_t *before = draw_from(&core->stream);
    core->mono_offset_us = between(SECOND, 1000000 * SECOND);
    core->wall_offset_us = servers[0].clock_us + between(-5 * SECOND, 5 * SECOND);
    core->random = chance();
    draw_from(before);
    core->turn_at = NEVER;
    core->busy_until_us = world.now_us;
    core->fault_us = world.now_us;
    free(core->inbox->current);
    core->inbox->current = NULL;
    clear_inbox(core, NULL);
    put_back(core->image);
    core->entry->host = &host;
    core->entry->core = core;
    if (c->stack == NULL)
        c->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(c->stack != MAP_FAILED);
    c->code = 0;
    c->begun = false;
    getcontext(&c->first);
    c->first.uc_stack.ss_sp = c->stack;
    c->first.uc_stack.ss_size = STACK_BYTES;
    c->first.uc_link = NULL;
    makecontext(&c->first, (void (*)(void))run, 1, core->index);
    tell("core%u starts its life %u", core->index, core->life);
    alive_started(core);
    reconf_started(core);
    wake(core, world.now_us);
    jobs_core_changed(core);
}

void core_kill(struct sim_core *core, const char *why)
{
    if (!core->alive)
        return;
    fault_of(core, world.now_us, "core%u is killed (%s)", core->index, why);
    core->alive = false;
    core->coroutine->code = -1;
    conns_of_dead(core);
    clear_inbox(core, NULL);
    jobs_core_changed(core);
}
