/* SPDX-License-Identifier: BSD-2-Clause */
/* world.c - time, chance, and the story of one seed. */
#include "tests/sim/world.h"

#include "bridge/base/mem.h"

#include <stdarg.h>
#include <stdlib.h>

struct world world;

/* ------------------------------------------------------------------------ chance */

/* splitmix64 */
uint64_t chance(void)
{
    uint64_t z = *world.stream += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return (z ^ z >> 31) >> 32;
}

int64_t between(int64_t least, int64_t most)
{
    uint64_t range = (uint64_t)(most - least) + 1;
    uint64_t high = chance(), low = chance();
    return least + (int64_t)((high << 32 | low) % range);
}

bool one_in(unsigned n)
{
    return chance() % n == 0;
}

int64_t skewed(int64_t least, int64_t most)
{
    int64_t range = most - least;
    for (int i = 0; i < 3 && !one_in(4); i++)
        range /= 8;
    return between(least, least + range);
}

/* -------------------------------------------------------------------------- time */

struct moment {
    int64_t us;
    uint64_t order;
    void (*fn)(void *arg, int64_t number);
    void *arg;
    int64_t number;
    uint64_t *stream;
};

static struct {
    struct moment *heap;
    size_t n, cap;
    uint64_t orders;
} agenda;

static bool is_before(const struct moment *a, const struct moment *b)
{
    return a->us != b->us ? a->us < b->us : a->order < b->order;
}

void at(int64_t us, void (*fn)(void *arg, int64_t number), void *arg, int64_t number)
{
    if (agenda.n == agenda.cap) {
        agenda.cap = agenda.cap ? 2 * agenda.cap : 1024;
        agenda.heap = mem_realloc(agenda.heap, agenda.cap * sizeof(*agenda.heap));
    }
    const struct moment m = {us > world.now_us ? us : world.now_us,
                             agenda.orders++,
                             fn,
                             arg,
                             number,
                             world.stream};
    size_t i = agenda.n++;
    for (; i > 0 && is_before(&m, &agenda.heap[(i - 1) / 2]); i = (i - 1) / 2)
        agenda.heap[i] = agenda.heap[(i - 1) / 2];
    agenda.heap[i] = m;
}

void after(int64_t us, void (*fn)(void *arg, int64_t number), void *arg, int64_t number)
{
    at(world.now_us + us, fn, arg, number);
}

static struct moment take_first(void)
{
    struct moment first = agenda.heap[0], last = agenda.heap[--agenda.n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < agenda.n; i = child) {
        child += child + 1 < agenda.n &&
                 is_before(&agenda.heap[child + 1], &agenda.heap[child]);
        if (!is_before(&agenda.heap[child], &last))
            break;
        agenda.heap[i] = agenda.heap[child];
    }
    agenda.heap[i] = last;
    return first;
}

void world_run(int64_t until_us, bool until_done)
{
    while (!world.failed && agenda.n > 0 && agenda.heap[0].us <= until_us) {
        struct moment m = take_first();
        world.now_us = m.us;
        draw_from(m.stream);
        m.fn(m.arg, m.number);
        if (until_done && jobs_are_done())
            return;
    }
    if (!world.failed)
        world.now_us = until_us;
}

/* ------------------------------------------------------------------------- story */

static void __attribute__((format(printf, 1, 0))) tell_va(const char *fmt, va_list args)
{
    fprintf(world.story, "%10.6f ", (double)world.now_us / 1e6);
    vfprintf(world.story, fmt, args);
    putc('\n', world.story);
}

void tell(const char *fmt, ...)
{
    va_list args;
    if (world.story == NULL)
        return;
    va_start(args, fmt);
    tell_va(fmt, args);
    va_end(args);
}

static void __attribute__((format(printf, 2, 0)))
note_fault(int64_t until_us, const char *fmt, va_list args)
{
    world.totals.faults++;
    world.last_fault_us = world.pausing_us = world.now_us;
    if (!world.healed && until_us > world.hurt_us)
        world.hurt_us = until_us;
    reached("fault %s", fmt);
    if (world.story)
        tell_va(fmt, args);
}

void fault(const char *fmt, ...)
{
    va_list args;
    world.shared_fault_us = world.now_us;
    va_start(args, fmt);
    note_fault(world.now_us, fmt, args);
    va_end(args);
}

void fault_of(struct sim_core *core, int64_t until_us, const char *fmt, ...)
{
    va_list args;
    core->fault_us = until_us > core->fault_us ? until_us : core->fault_us;
    va_start(args, fmt);
    note_fault(until_us, fmt, args);
    va_end(args);
}

int64_t faults_over_us(void)
{
    static int64_t lasted_us; /* a fault that lasts: until then */
    if (!replicas_are_enough() || !cluster_is_whole())
        lasted_us = world.now_us;
    int64_t us = reconf_us() > world.last_fault_us ? reconf_us() : world.last_fault_us;
    us = us > lasted_us ? us : lasted_us;
    for (unsigned i = 0; i < world.plan.servers; i++)
        if (redis_model_faults(servers[i].redis)->script_fails > 0 &&
            !servers[i].fails_move)
            return NEVER;
    for (unsigned i = 0; i < world.plan.cores; i++)
        us = cores[i].fault_us > us ? cores[i].fault_us : us;
    return us;
}

int64_t faults_end_us(void)
{
    int64_t over_us = faults_over_us(), regained_us = servers_regained_us();
    return over_us > regained_us ? over_us : regained_us; /* leases wait for it */
}

bool core_is_calm_since(const struct sim_core *core, int64_t us)
{
    return core->fault_us < us && world.shared_fault_us < us;
}

void broken(const char *fmt, ...)
{
    va_list args;
    FILE *story = world.story;
    if (!world.failed) {
        va_start(args, fmt);
        vsnprintf(world.reason, sizeof(world.reason), fmt, args);
        va_end(args);
    }
    world.failed = true;
    va_start(args, fmt);
    if (story) {
        fprintf(story, "BROKEN: ");
        tell_va(fmt, args);
    }
    va_end(args);
}
