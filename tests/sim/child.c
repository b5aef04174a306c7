/* SPDX-License-Identifier: BSD-2-Clause */
/* child.c - the processes that simulate one seed each, several at once. */
#include "tests/sim/shorten.h"

#include "bridge/base/mem.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/tarry-sim-XXXXXX"; /* of their working folders */

static struct child {
    pid_t pid;             /* 0: none */
    struct result *result; /* shared with it */
} children[CHILDREN_MAX];
static struct result *result; /* of this process */

/* ------------------------------------------------------------------ in the child */

static void on_end(void)
{
    memcpy(result->reason, world.reason, sizeof(result->reason));
    result->faults = world.plan.faults.begun;
    result->jobs = world.plan.jobs.begun;
    result->totals = world.totals;
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

static void enter_folder(int child)
{
    char name[16];
    snprintf(name, sizeof(name), "%d", child);
    must(chdir(folder) == 0 && (mkdir(name, 0700) == 0 || errno == EEXIST));
    must(chdir(name) == 0);
}

static _Noreturn void run(int child, uint64_t seed, struct words keep, const char *story,
                          int cpu_s)
{
    const struct rlimit cpu = {(rlim_t)cpu_s, (rlim_t)cpu_s};
    setrlimit(RLIMIT_CPU, &cpu);
    result = children[child].result;
    catch_crashes();
    world.story = story ? fopen(story, "w") : NULL;
    must(story == NULL || world.story != NULL);
    if (world.story)
        setvbuf(world.story, NULL, _IOLBF, 1 << 16);
    enter_folder(child);
    reached_use((unsigned)child);
    seed_simulate(seed, keep);
    if (world.story)
        fclose(world.story);
    on_end();
    _exit(world.failed);
}

/* ----------------------------------------------------------------- in the parent */

void children_open(void)
{
    must(mkdtemp(folder) != NULL);
    struct result *all = mmap(NULL, CHILDREN_MAX * sizeof(*all), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(all != MAP_FAILED);
    for (int i = 0; i < CHILDREN_MAX; i++)
        children[i].result = &all[i];
}

void children_close(void)
{
    char path[64];
    for (int i = 0; i < CHILDREN_MAX; i++) {
        if (children[i].pid)
            kill(children[i].pid, SIGKILL);
        while (children[i].pid && waitpid(children[i].pid, NULL, 0) < 0)
            must(errno == EINTR);
        snprintf(path, sizeof(path), "%s/%d/%s", folder, i, conf_file);
        unlink(path);
        *strrchr(path, '/') = '\0';
        rmdir(path);
    }
    rmdir(folder);
}

int child_start(uint64_t seed, struct words keep, const char *story, int cpu_s)
{
    int i = 0;
    while (children[i].pid)
        must(++i < CHILDREN_MAX);
    *children[i].result = (struct result){0};
    fflush(stdout);
    children[i].pid = fork();
    must(children[i].pid >= 0);
    if (children[i].pid == 0)
        run(i, seed, keep, story, cpu_s);
    return i;
}

struct result child_wait(int *child)
{
    pid_t pid, of = *child < 0 ? -1 : children[*child].pid;
    int status, i = 0;
    while ((pid = waitpid(of, &status, 0)) < 0)
        must(errno == EINTR);
    while (children[i].pid != pid)
        must(++i < CHILDREN_MAX);
    *child = i;
    children[i].pid = 0;
    children[i].result->code =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return *children[i].result;
}

struct result run_child(uint64_t seed, struct words keep, const char *story, int cpu_s)
{
    int child = child_start(seed, keep, story, cpu_s);
    return child_wait(&child);
}

double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}
