/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim.c - simulates seeds for a time, each in a child process.
 *
 * sim [SECONDS [SEED [STEP...]]]: prints a line for each seed that breaks a guarantee,
 * and writes its story to story-SEED beside the program. With SEED: this seed alone, and
 * always its story. STEP: keeps only these steps of its plan (plan_keep() in world.h).
 * The first seed that fails is shortened. Exits with 1 if one fails. SIM_FROM=N: begins
 * with the seed N; otherwise the time chooses it. SIM_TWICE=1: simulates each seed twice
 * and compares the stories. SIM_FIRST=1: ends at the first that fails, and does not
 * shorten it.
 */
#include "tests/sim/shorten.h"

#include "bridge/base/mem.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SEED_CPU_S = 300 };

static const char conf_file[] =
    "sim.conf"; /* in conf_folder: its name is in the stories */
static char conf_folder[] = "/tmp/tarry-sim-XXXXXX";

/* -------------------------------------------------------------------- the plan */

static void choose_plan(struct words keep)
{
    struct plan *p = &world.plan;
    p->cores = (unsigned)between(1, CORES_MAX);
    p->faults_end_us = skewed(20, 1800) * SECOND;
    p->fault_every_us = one_in(10) ? NEVER : skewed(1, 100) * SECOND;
    p->record_every_us = skewed(10, 3000) * MS;
    p->far_ms = one_in(3) ? 7200000 : skewed(1000, 600000);
    p->fsync_always = one_in(2);
    p->by_key = one_in(4);
    p->buckets = !p->by_key && one_in(3) ? (unsigned)between(2, 4) : 1;
    p->consumers = one_in(2) ? (unsigned)between(1, 6) : 0;
    p->clock_jumps = one_in(6);
    p->sink_fails = !one_in(4);
    p->batch_max = skewed(1, 200);
    p->horizon_ms = one_in(4) ? 0 : one_in(2) ? 120000 : between(1000, 20000);
    tell("plan: %u cores, faults until %lld s, one in %lld ms, a job in %lld ms, due "
         "within %lld s, fsync %s, order %s, "
         "horizon %lld ms, %u buckets, %u consumers%s%s",
         p->cores, (long long)(p->faults_end_us / SECOND),
         p->fault_every_us == NEVER ? -1 : (long long)(p->fault_every_us / MS),
         (long long)(p->record_every_us / MS), (long long)p->far_ms / 1000,
         p->fsync_always ? "always" : "everysec", p->by_key ? "key" : "none",
         (long long)p->horizon_ms, p->buckets, p->consumers,
         p->clock_jumps ? ", clock jumps" : "", p->sink_fails ? ", the sink fails" : "");
    plan_steps(p);
    tell("plan: %zu faults, %zu jobs", p->faults.n, p->jobs.n);
    plan_keep(p, keep.at, keep.n);
    p->faults_end_us = plan_end_us(p);
}

static void write_conf(void)
{
    const struct plan *p = &world.plan;
    /* Not as an argument: their order of evaluation is up to the compiler. */
    int64_t in_flight_max = between(20, 200);
    unsigned factor = (unsigned)between(1, 3);
    FILE *out = fopen(conf_file, "w");
    must(out != NULL);
    fprintf(out,
            "redis: { url = \"redis://127.0.0.1:6379\"; horizon = \"%lldms\"; };\n"
            "http: { listen = \"\"; }; admin: { listen = \"\"; };\n"
            "daemon: { log = \"info\"; batch_max = %lld; };\n"
            "sources: { log: { type = \"log\"; }; web: { type = \"web\"; }; };\n"
            "sinks: { out: { type = \"remote\"; max_in_flight = %lld; };\n"
            "         lines: { type = \"queue\"; lease = \"5s\"; }; };\n"
            "routes: {\n"
            "  line: { from = \"web\"; to = \"lines\"; match = \"q\"; };\n",
            (long long)p->horizon_ms, (long long)p->batch_max, (long long)in_flight_max);
    for (int i = 0; i < 2; i++)
        fprintf(out,
                "  %s: { from = \"%s\"; to = \"out\"; retry: { first = \"1s\"; factor = "
                "%u.0; max = \"20s\"; };\n"
                "       order = \"%s\"; buckets = %u; };\n",
                i ? "web" : "log", i ? "web" : "log", factor, p->by_key ? "key" : "none",
                p->buckets);
    fprintf(out, "};\n");
    must(fclose(out) == 0);
}

/* ---------------------------------------------------------------------- faults */

static void start_core(void *arg, int64_t life)
{
    struct sim_core *core = arg;
    if (!core->alive && core->life == (unsigned)life)
        core_start(core, conf_file);
}

void core_ended(struct sim_core *core, int code)
{
    tell("core%u ends with %d", core->index, code);
    if (code != 0 && code != 70)
        broken("core%u ends by itself with %d", core->index, code);
    after(skewed(100 * MS, 20 * SECOND), start_core, core, core->life);
}

static void start_server(void *arg, int64_t number)
{
    (void)arg, (void)number;
    server_start();
}

static void end_faults_of_server(void *arg, int64_t number)
{
    (void)arg, (void)number;
    fault("Redis recovers");
    *redis_model_faults(server.redis) = (struct redis_faults){0};
}

static void hurt_server(void)
{
    struct redis_faults *f = redis_model_faults(server.redis);
    switch (between(0, 7)) {
    case 0:
    case 1:
    case 2:
        if (server.down)
            return;
        server_crash(world.plan.fsync_always ? 0 : (size_t)skewed(0, 100));
        after(skewed(10 * MS, 30 * SECOND), start_server, NULL, 0);
        return;
    case 3:
        fault("Redis is out of memory");
        f->oom = true;
        break;
    case 4:
        fault("Redis is a replica");
        f->readonly = true;
        break;
    case 5:
        fault("Redis cannot save");
        f->misconf = true;
        break;
    case 6:
        fault("Redis is %s", (f->busy = one_in(2)) ? "busy" : "loading");
        f->loading = !f->busy;
        break;
    default:
        fault("Redis forgets the scripts");
        redis_model_flush_scripts(server.redis);
        return;
    }
    after(skewed(10 * MS, 20 * SECOND), end_faults_of_server, NULL, 0);
}

/* Other numbers in flight, and other retries. Is no fault: it must cause no duplicate. */
static void reload(struct sim_core *core)
{
    tell("core%u reloads a changed configuration", core->index);
    write_conf();
    core_signal(core, SIGHUP);
}

static void jump(void)
{
    int64_t by_us = one_in(2) ? skewed(MS, 3 * SECOND) : -skewed(MS, 3 * SECOND);
    fault("the clock of Redis jumps by %lld ms", (long long)by_us / MS);
    server.clock_us += by_us;
}

static void hurt(void *arg, int64_t number)
{
    struct step *step = arg;
    draw_from(&step->stream);
    struct sim_core *core = &cores[between(0, world.plan.cores - 1)];
    tell("f%lld begins", (long long)number);
    world.plan.faults.begun = step->number + 1;
    switch (between(0, world.plan.clock_jumps ? 10 : 9)) {
    case 0:
    case 1:
        core_kill(core, "SIGKILL");
        after(skewed(100 * MS, 40 * SECOND), start_core, core, core->life);
        break;
    case 2:
        fault("core%u is asked to stop", core->index);
        core_signal(core, SIGTERM);
        break;
    case 3:
        conns_cut(core, false);
        break;
    case 4:
        conns_cut(core, true);
        break;
    case 5:
        conns_slow(core, world.now_us + skewed(MS, 12 * SECOND));
        break;
    case 6:
        fault("core%u stands still", core->index);
        core_stall(core, world.now_us + skewed(10 * MS, 40 * SECOND));
        break;
    case 7:
    case 8:
        hurt_server();
        break;
    case 9:
        reload(core);
        break;
    default:
        jump();
    }
}

static void sync_server(void *arg, int64_t number)
{
    (void)arg, (void)number;
    if (!server.down)
        redis_model_sync(server.redis);
    after(SECOND, sync_server, NULL, 0);
}

static void heal(void)
{
    tell("faults have ended");
    fault("the last one");
    world.healed = true;
    *redis_model_faults(server.redis) = (struct redis_faults){0};
    server_start();
    for (unsigned i = 0; i < world.plan.cores; i++)
        if (!cores[i].alive)
            core_start(&cores[i], conf_file);
}

/* -------------------------------------------------------------------- one seed */

static void simulate(uint64_t seed, struct words keep)
{
    static uint64_t stream;
    world.seed = seed;
    world.counts = keep.n == 0; /* not a shortened plan */
    stream = stream_new('p', 0);
    draw_from(&stream);
    choose_plan(keep);
    write_conf();
    net_init();
    reached_watch();
    jobs_init();
    consumers_init();
    for (unsigned i = 0; i < world.plan.cores; i++)
        core_start(&cores[i], conf_file);
    after(SECOND, sync_server, NULL, 0);
    for (size_t i = 0; i < world.plan.faults.n; i++)
        if (world.plan.faults.at[i].kept)
            at(world.plan.faults.at[i].us, hurt, &world.plan.faults.at[i], (int64_t)i);
    world_run(world.plan.faults_end_us, false);
    if (!world.failed)
        heal();
    if (!world.failed)
        world_run(jobs_latest_us(), true);
    int64_t quiet_us = world.now_us + SECOND;
    /* The last outcomes, leases and attempts; also jobs that may have been lost. */
    int64_t limit_us = jobs_latest_us();
    while (!world.failed && world.now_us < limit_us &&
           (world.now_us < quiet_us || !judge_is_quiet()))
        world_run(world.now_us + SECOND, false);
    if (!world.failed)
        jobs_judge();
    world.totals.simulated_us = world.now_us;
}

static struct result *shared; /* of the child; NULL before the first one */

static void on_end(void)
{
    memcpy(shared->reason, world.reason, sizeof(shared->reason));
    shared->faults = world.plan.faults.begun;
    shared->jobs = world.plan.jobs.begun;
}

/* Appends the stack to the story: addresses in core.so, for addr2line. */
static void on_crash(int signo)
{
    void *frames[60];
    on_end();
    if (world.story)
        backtrace_symbols_fd(frames, backtrace(frames, 60), fileno(world.story));
    signal(signo, SIG_DFL);
    raise(signo);
}

static void catch_crashes(void)
{
    static char stack[1 << 16];
    const stack_t alternative = {.ss_sp = stack, .ss_size = sizeof(stack)};
    const struct sigaction act = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
    void *frame;
    backtrace(&frame, 1); /* loads what it needs */
    must(sigaltstack(&alternative, NULL) == 0);
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGABRT, &act, NULL);
}

struct result run_child(uint64_t seed, struct words keep, const char *story, int cpu_s)
{
    if (shared == NULL)
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED);
    *shared = (struct result){0};
    fflush(stdout);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        const struct rlimit cpu = {(rlim_t)cpu_s, (rlim_t)cpu_s};
        setrlimit(RLIMIT_CPU, &cpu);
        catch_crashes();
        world.story = story ? fopen(story, "w") : NULL;
        must(story == NULL || world.story != NULL);
        if (world.story)
            setvbuf(world.story, NULL, _IOLBF, 1 << 16);
        must(chdir(conf_folder) == 0);
        simulate(seed, keep);
        shared->totals = world.totals;
        if (world.story)
            fclose(world.story);
        on_end();
        _exit(world.failed);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        must(errno == EINTR);
    shared->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return *shared;
}

static double begun_s;

double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool is_same(const char *a, const char *b)
{
    char command[800];
    snprintf(command, sizeof(command), "cmp -s '%s' '%s'", a, b);
    return system(command) == 0;
}

/* Prints the last lines of the story that say why. */
static void show_failure(uint64_t seed, const char *story, int code)
{
    char command[800];
    printf("FAILED after %.1f s of CPU: seed %llu, exit code %d; its story: %s\n",
           cpu_seconds(), (unsigned long long)seed, code, story);
    fflush(stdout);
    snprintf(command, sizeof(command), "grep BROKEN '%s' || tail -n 3 '%s'", story,
             story);
    if (system(command) != 0)
        printf("(no reason)\n");
}

static bool run_seed(uint64_t seed, struct words keep, const char *folder, bool alone,
                     struct totals *totals)
{
    static bool shortened;
    char *story = mem_format("%s/story-%llu", folder, (unsigned long long)seed),
         *again = mem_format("%s.again", story), *brief = mem_format("%s.short", story);
    bool twice = getenv("SIM_TWICE") != NULL, repeats = true;
    struct result r = run_child(seed, keep, twice || alone ? story : NULL, SEED_CPU_S);
    if (r.code != 0 && !twice && !alone)
        run_child(seed, keep, story, SEED_CPU_S);
    if (r.code != 0 || twice) {
        repeats = run_child(seed, keep, again, SEED_CPU_S).code == r.code &&
                  is_same(story, again);
        if (!repeats)
            printf("FAILED: seed %llu is not repeatable: %s differs from %s\n",
                   (unsigned long long)seed, story, again);
        else
            unlink(again);
    }
    if (r.code != 0)
        show_failure(seed, story, r.code);
    else if (repeats && !alone)
        unlink(story);
    if (r.code != 0 && repeats && keep.n == 0 && !shortened && !getenv("SIM_FIRST")) {
        shorten(seed, &r, brief);
        shortened = true;
    }
    *totals = r.totals;
    free(story);
    free(again);
    free(brief);
    return r.code == 0 && repeats;
}

int main(int argc, char **argv)
{
    /* Addresses must not differ between runs: a table may be ordered by them. */
    if (personality(ADDR_NO_RANDOMIZE) >= 0 && getenv("SIM_CHILD") == NULL) {
        setenv("SIM_CHILD", "1", 1);
        execv("/proc/self/exe", argv);
    }
    char folder[256];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    must(length > 0);
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    double limit = argc > 1 ? atof(argv[1]) : 60;
    const char *from = argc > 2 ? argv[2] : getenv("SIM_FROM");
    uint64_t seed = from ? strtoull(from, NULL, 10) : (uint64_t)time(NULL) * 1000;
    const struct words keep = {(const char **)argv + 3, argc > 3 ? (size_t)argc - 3 : 0};
    struct totals sum = {0}, one;
    unsigned failures = 0, seeds = 0, failures_max = getenv("SIM_FIRST") ? 1 : 10;
    begun_s = seconds();
    must(mkdtemp(conf_folder) != NULL);
    cores_load(mem_format("%s/core.so", folder));
    reached_open();
    do {
        failures += !run_seed(seed, keep, folder, argc > 2, &one);
        seeds++;
        sum.simulated_us += one.simulated_us;
        sum.jobs += one.jobs;
        sum.deliveries += one.deliveries;
        sum.faults += one.faults;
        sum.lives += one.lives;
        sum.turns += one.turns;
        seed++;
    } while (argc <= 2 && seconds() - begun_s < limit && failures < failures_max);
    if (keep.n == 0)
        reached_write(mem_format("%s/reached", folder));
    must(chdir(conf_folder) == 0);
    unlink(conf_file);
    rmdir(conf_folder);
    printf(
        "%u seeds in %.1f s (%.1f s of CPU), the last %llu: %.2f simulated hours, %lld "
        "jobs, %lld "
        "deliveries, %lld faults, "
        "%lld lives of cores, %lld turns; %u seeds failed\n",
        seeds, seconds() - begun_s, cpu_seconds(), (unsigned long long)seed - 1,
        (double)sum.simulated_us / 3.6e9, (long long)sum.jobs, (long long)sum.deliveries,
        (long long)sum.faults, (long long)sum.lives, (long long)sum.turns, failures);
    return failures > 0;
}
