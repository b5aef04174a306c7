/* SPDX-License-Identifier: BSD-2-Clause */
/* shorten.h - leaves out what a failing seed does not need, as long as it fails alike. */
#ifndef TESTS_SIM_SHORTEN_H
#define TESTS_SIM_SHORTEN_H

#include "tests/sim/world.h"

/* Of one run of a seed, in a child process. */
struct result {
    int code; /* its exit code, 128 + the signal; 0: no guarantee was broken */
    struct totals totals;
    char reason[256];    /* of the failure; empty: a crash */
    size_t faults, jobs; /* steps of the plan that began before its end */
};

/* The words of plan_keep(); none: the whole plan. */
struct words {
    const char **at;
    size_t n;
};

/* --- seed.c --- */

/* Whether its plan is of a kind: volume, far, cluster or slow. Exits with 64 if there is
 * no such kind. */
bool seed_is(const char *kind, uint64_t seed);
/* Simulates it in this process. */
void seed_simulate(uint64_t seed, struct words keep);

/* --- child.c --- */

enum { CHILDREN_MAX = 17 }; /* at once */

void children_open(void);  /* before the first */
void children_close(void); /* kills those that still run */
/* Runs a seed. story: NULL, or the path of the story that it writes. Returns the number
 * of the child. */
int child_start(uint64_t seed, struct words keep, const char *story, int cpu_s);
/* *child: its number; -1: any, and it is set. */
struct result child_wait(int *child);
struct result run_child(uint64_t seed, struct words keep, const char *story, int cpu_s);
double cpu_seconds(void); /* of all seeds that have ended */

/* --- shorten.c --- */

/* Repeats the seed with fewer and fewer steps. Prints the words that keep what is
 * left, and writes and prints the story of that run. */
void shorten(uint64_t seed, const struct result *failed, const char *story);

#endif
