/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock.h - the clock of the load generators.
 */
#ifndef TESTS_BENCH_CLOCK_H
#define TESTS_BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Monotonic. */
static inline int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

#endif
