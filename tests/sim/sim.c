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
 * shorten it. SIM_PLANS=volume: only seeds of very many jobs.
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

static char conf_folder[] = "/tmp/tarry-sim-XXXXXX";

/* ------------------------------------------------------------------- a child */

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
        seed_simulate(seed, keep);
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
    const char *plans = getenv("SIM_PLANS");
    bool volume = plans && strcmp(plans, "volume") == 0;
    begun_s = seconds();
    must(mkdtemp(conf_folder) != NULL);
    cores_load(mem_format("%s/core.so", folder));
    reached_open();
    do {
        while (argc <= 2 && volume && !seed_is_volume(seed))
            seed++;
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
