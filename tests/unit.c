/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit.c - runs the unit tests.
 *
 *   unit            every subject, each in a process of its own
 *   unit SUBJECT    one subject in this process, for a debugger
 *   unit --list     the names of the subjects
 */
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SUBJECTS_MAX = 200 };
static struct {
    const char *subject;
    unit_run *run;
} units[SUBJECTS_MAX];
static int count;

void unit_add(const char *subject, unit_run *run)
{
    if (count == SUBJECTS_MAX)
        abort();
    units[count].subject = subject;
    units[count++].run = run;
}

static int by_subject(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum { SUBJECT_MAX_S = 150 };

/* A subject that hangs ends with SIGALRM. */
static int run_one(unit_run *run)
{
    alarm(SUBJECT_MAX_S);
    return run() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Whether the subject passed. */
static int passes_alone(const char *subject, unit_run *run)
{
    int status = -1;

    printf("# %s\n", subject);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(run_one(run));
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int run_all(void)
{
    int failed = 0;

    for (int i = 0; i < count; i++) {
        if (!passes_alone(units[i].subject, units[i].run)) {
            fprintf(stderr, "FAILED: %s\n", units[i].subject);
            failed++;
        }
    }
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    qsort(units, (size_t)count, sizeof(units[0]), by_subject);
    if (argc == 1)
        return run_all();
    for (int i = 0; i < count; i++) {
        if (strcmp(argv[1], "--list") == 0)
            puts(units[i].subject);
        else if (strcmp(argv[1], units[i].subject) == 0)
            return run_one(units[i].run);
    }
    if (strcmp(argv[1], "--list") == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "unit: no subject %s; unit --list prints the subjects\n", argv[1]);
    return 64;
}
