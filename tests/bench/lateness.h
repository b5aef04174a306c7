/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lateness.h - collects durations in microseconds and prints their percentiles.
 */
#ifndef TESTS_BENCH_LATENESS_H
#define TESTS_BENCH_LATENESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prepares room for count durations. Call it first. */
void lateness_init(int64_t count);
/* Adds a duration; a negative one is an early job. Ignores durations after the last. */
void lateness_note(int64_t us);
/* Adds the lateness of a job whose payload of n bytes begins with its due time, in ms
 * since 1970, by the clock of this host. Ignores due time 0: such a job only opens
 * connections. */
void lateness_note_due(const char *payload, size_t n);
/* Points to true once all durations have been added. */
const bool *lateness_done(void);
/* Prints one line of JSON: {"n", "early", "p50", "p99", "p999", "max"}. Returns the exit
 * code: 1 if durations are missing. */
int lateness_print(void);

#endif
