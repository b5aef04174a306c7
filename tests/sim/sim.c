/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim.c - simulates seeds for a time, each in a child process.
 *
 * sim [SECONDS [SEED [STEP...]]]: prints a line for each seed that breaks a guarantee,
 * and writes its story to story-SEED beside the program. With SEED: this seed alone, and
 * always its story. STEP: keeps only these steps of its plan (plan_keep() in world.h).
 * The first seed that fails is shortened. Exits with 1 if one fails. SIM_FROM=N: begins
 * with the seed N; otherwise the time chooses it. SIM_UNTIL=N: ends with that seed.
 * SIM_TWICE=1: simulates each seed twice and compares the stories. SIM_FIRST=1: ends at
 * the first that fails, and does not shorten it. SIM_PLANS=volume: only seeds of very
 * many jobs; far: of far jobs; cluster: of a Redis Cluster; slow: of slow deliveries;
 * replicas: with durability = "replicas:N"; lab: of queues, rates, runs and dead letters;
 * kafka: several readers, and rewinds; buckets: their number changes.
 * SIM_JOBS=N: N seeds at once; otherwise one for each CPU.
 */
#include "tests/sim/shorten.h"

#include "bridge/base/mem.h"

#include <stdlib.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

enum { SEED_CPU_S = 300, AHEAD_MAX = 512 };

/* How to simulate the seeds. */
static struct {
    const char *folder; /* of the program and the stories */
    struct words keep;
    bool alone, twice; /* alone: one seed, whose story is kept */
    const char *only;  /* simulates only seeds of this kind; NULL: all */
    unsigned at_once, failures_max;
    double begun_s, limit_s;
    uint64_t until; /* the last seed */
} run;

static struct {
    struct totals totals;
    unsigned seeds, failures;
} sum;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---------------------------------------------------------------------- one seed */

static bool is_same(const char *a, const char *b)
{
    char command[800];
    snprintf(command, sizeof(command), "cmp -s '%s' '%s'", a, b);
    return system(command) == 0;
}

static char *story_of(uint64_t seed)
{
    return mem_format("%s/story-%llu", run.folder, (unsigned long long)seed);
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

/* Repeats a seed that has failed, or each one if run.twice. Returns whether it is sound.
 */
static bool judge(uint64_t seed, const struct result *r)
{
    static bool shortened;
    char *story = story_of(seed), *again = mem_format("%s.again", story),
         *brief = mem_format("%s.short", story);
    bool repeats = true;
    if (r->code != 0 && !run.twice && !run.alone)
        run_child(seed, run.keep, story, SEED_CPU_S);
    if (r->code != 0 || run.twice) {
        repeats = run_child(seed, run.keep, again, SEED_CPU_S).code == r->code &&
                  is_same(story, again);
        if (!repeats)
            printf("FAILED: seed %llu is not repeatable: %s differs from %s\n",
                   (unsigned long long)seed, story, again);
        else
            unlink(again);
    }
    if (r->code != 0)
        show_failure(seed, story, r->code);
    else if (repeats && !run.alone)
        unlink(story);
    if (r->code != 0 && repeats && run.keep.n == 0 && !shortened &&
        !getenv("SIM_FIRST")) {
        shorten(seed, r, brief);
        shortened = true;
    }
    free(story);
    free(again);
    free(brief);
    return r->code == 0 && repeats;
}

/* --------------------------------------------------------------------- all seeds */

/* Seeds that were started, in their order. Their results are judged in this order, so a
 * long one may delay those of others. */
static struct {
    struct {
        uint64_t seed;
        int child; /* -1: it has ended */
        struct result result;
    } ring[AHEAD_MAX];
    size_t first, n;
    unsigned running;
} started;

static bool may_start(void)
{
    bool is_first = sum.seeds + started.n == 0;
    return started.running < run.at_once && started.n < AHEAD_MAX &&
           (is_first || (!run.alone && seconds() - run.begun_s < run.limit_s));
}

static void start(uint64_t seed)
{
    size_t i = (started.first + started.n++) % AHEAD_MAX;
    char *story = run.twice || run.alone ? story_of(seed) : NULL;
    started.ring[i].seed = seed;
    started.ring[i].child = child_start(seed, run.keep, story, SEED_CPU_S);
    started.running++;
    free(story);
}

static void wait_for_any(void)
{
    int child = -1;
    struct result r = child_wait(&child);
    size_t i = started.first;
    while (started.ring[i].child != child)
        i = (i + 1) % AHEAD_MAX;
    started.ring[i].child = -1;
    started.ring[i].result = r;
    started.running--;
}

static void end_first(void)
{
    const struct result *r = &started.ring[started.first].result;
    sum.failures += !judge(started.ring[started.first].seed, r);
    sum.seeds++;
    sum.totals.simulated_us += r->totals.simulated_us;
    sum.totals.jobs += r->totals.jobs;
    sum.totals.deliveries += r->totals.deliveries;
    sum.totals.faults += r->totals.faults;
    sum.totals.lives += r->totals.lives;
    sum.totals.turns += r->totals.turns;
    started.first = (started.first + 1) % AHEAD_MAX;
    started.n--;
}

/* Returns the last seed that was judged. */
static uint64_t simulate_from(uint64_t seed)
{
    uint64_t last = seed;
    while (sum.failures < run.failures_max) {
        for (; seed <= run.until && may_start(); seed++) {
            while (run.only && !seed_is(run.only, seed))
                seed++;
            start(seed);
        }
        if (started.n == 0)
            break;
        if (started.ring[started.first].child >= 0) {
            wait_for_any();
            continue;
        }
        last = started.ring[started.first].seed;
        end_first();
    }
    return last;
}

static void read_environment(void)
{
    const char *jobs = getenv("SIM_JOBS");
    long cpus = jobs ? atol(jobs) : sysconf(_SC_NPROCESSORS_ONLN);
    run.twice = getenv("SIM_TWICE") != NULL;
    run.only = run.alone ? NULL : getenv("SIM_PLANS");
    run.until =
        getenv("SIM_UNTIL") ? strtoull(getenv("SIM_UNTIL"), NULL, 10) : UINT64_MAX;
    run.failures_max = getenv("SIM_FIRST") ? 1 : 10;
    run.at_once = cpus < 1 ? 1 : cpus < CHILDREN_MAX ? (unsigned)cpus : CHILDREN_MAX - 1;
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
    const char *from = argc > 2 ? argv[2] : getenv("SIM_FROM");
    run.folder = folder;
    run.limit_s = argc > 1 ? atof(argv[1]) : 60;
    run.alone = argc > 2;
    run.keep = (struct words){(const char **)argv + 3, argc > 3 ? (size_t)argc - 3 : 0};
    run.begun_s = seconds();
    read_environment();
    children_open();
    cores_load(mem_format("%s/core.so", folder));
    reached_open();
    uint64_t last =
        simulate_from(from ? strtoull(from, NULL, 10) : (uint64_t)time(NULL) * 1000);
    children_close();
    if (run.keep.n == 0)
        reached_write(mem_format("%s/reached", folder));
    printf("%u seeds in %.1f s (%.1f s of CPU), the last %llu: %.2f simulated hours, "
           "%lld jobs, %lld deliveries, %lld faults, %lld lives of cores, %lld turns; %u "
           "seeds failed\n",
           sum.seeds, seconds() - run.begun_s, cpu_seconds(), (unsigned long long)last,
           (double)sum.totals.simulated_us / 3.6e9, (long long)sum.totals.jobs,
           (long long)sum.totals.deliveries, (long long)sum.totals.faults,
           (long long)sum.totals.lives, (long long)sum.totals.turns, sum.failures);
    return sum.failures > 0;
}
