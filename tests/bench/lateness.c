/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/lateness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t *durations_us, wanted, got, early;
static bool done;

void lateness_init(int64_t count)
{
    wanted = count;
    durations_us = calloc((size_t)count, sizeof(*durations_us));
    if (durations_us == NULL)
        exit(1);
}

void lateness_note(int64_t us)
{
    if (got >= wanted)
        return;
    early += us < 0;
    durations_us[got++] = us;
    done = got == wanted;
}

void lateness_note_due(const char *payload, size_t n)
{
    char due_ms[24] = "";
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    memcpy(due_ms, payload, n < sizeof(due_ms) ? n : sizeof(due_ms) - 1);
    const long long due_us = atoll(due_ms) * 1000;
    if (due_us > 0)
        lateness_note((int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 - due_us);
}

const bool *lateness_done(void)
{
    return &done;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t percentile(double p)
{
    return durations_us[(size_t)(p * (double)(got - 1))];
}

int lateness_print(void)
{
    if (got < wanted) {
        fprintf(stderr, "only %" PRId64 " of %" PRId64 "\n", got, wanted);
        return 1;
    }
    qsort(durations_us, (size_t)got, sizeof(*durations_us), by_size);
    printf("{\"n\": %" PRId64 ", \"early\": %" PRId64 ", \"p50\": %" PRId64
           ", \"p99\": %" PRId64 ", \"p999\": %" PRId64 ", \"max\": %" PRId64 "}\n",
           got, early, percentile(0.5), percentile(0.99), percentile(0.999),
           percentile(1));
    return 0;
}
