/* SPDX-License-Identifier: BSD-2-Clause */
/* plan.c - the steps of a seed's plan: faults and jobs; and which of them are kept. */
#include "tests/sim/world.h"

#include "bridge/base/mem.h"

#include <ctype.h>
#include <stdlib.h>

enum { AFTER_LAST_S = 60 };

uint64_t stream_new(char kind, uint64_t number)
{
    uint64_t state = world.seed * 0x2545F4914F6CDD1DU + 1, *before = world.stream;
    world.stream = &state;
    state ^= chance() << 32 | chance();
    state += (unsigned char)kind * UINT64_C(0xD1342543DE82EF95);
    state ^= chance() << 32 | chance();
    state += number;
    state = chance() << 32 | chance();
    world.stream = before;
    return state;
}

uint64_t *draw_from(uint64_t *stream)
{
    uint64_t *before = world.stream;
    world.stream = stream;
    return before;
}

/* ------------------------------------------------------------------------- steps */

static void add(struct steps *steps, char kind, int64_t us)
{
    if ((steps->n & (steps->n - 1)) == 0) /* 0, 1, 2, 4, ... */
        steps->at = mem_realloc(steps->at, (2 * steps->n + 1) * sizeof(steps->at[0]));
    steps->at[steps->n] = (struct step){.us = us,
                                        .number = (unsigned)steps->n,
                                        .kept = true,
                                        .stream = stream_new(kind, steps->n)};
    steps->n++;
}

void plan_steps(struct plan *p)
{
    int64_t us = skewed(MS, 10 * SECOND);
    for (; p->fault_every_us != NEVER && us < p->faults_end_us;
         us += skewed(MS, 4 * p->fault_every_us))
        add(&p->faults, 'f', us);
    for (us = SECOND; us < p->faults_end_us && p->jobs.n < p->jobs_max;
         us += skewed(1, 10 * p->record_every_us))
        for (int64_t n = one_in(p->bursts) ? between(1, p->burst_max) : 1; n > 0; n--)
            add(&p->jobs, 'j', us);
    p->whole_time = true;
}

static int64_t last_kept_us(const struct steps *steps)
{
    int64_t us = 0;
    for (size_t i = 0; i < steps->n; i++)
        if (steps->at[i].kept)
            us = steps->at[i].us;
    return us;
}

int64_t plan_end_us(const struct plan *p)
{
    int64_t faults_us = last_kept_us(&p->faults), jobs_us = last_kept_us(&p->jobs),
            end_us = (faults_us > jobs_us ? faults_us : jobs_us) + AFTER_LAST_S * SECOND;
    return p->whole_time || end_us > p->faults_end_us ? p->faults_end_us : end_us;
}

/* ------------------------------------------------------------------ what is kept */

static void keep_range(struct plan *p, const char *word)
{
    struct steps *steps = *word == 'f' ? &p->faults : &p->jobs;
    const char *range = word + 1;
    char *end;
    size_t first = strtoul(range, &end, 10), last = first;
    if (*end == '-')
        last = strtoul(end + 1, &end, 10);
    if (strchr("fj", *word) == NULL || !isdigit((unsigned char)*range) || *end ||
        last < first || last >= steps->n) {
        fprintf(stderr, "the seed has no step %s\n", word);
        exit(64);
    }
    for (size_t i = first; i <= last; i++)
        steps->at[i].kept = true;
}

void plan_keep(struct plan *p, const char *const *words, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < p->faults.n; i++)
        p->faults.at[i].kept = false;
    for (size_t i = 0; i < p->jobs.n; i++)
        p->jobs.at[i].kept = false;
    unsigned sink_fails = p->sink_fails;
    p->sink_fails = 0;
    p->whole_time = false;
    for (size_t i = 0; i < n; i++) {
        const char *word = words[i];
        if (strcmp(word, "sink") == 0)
            p->sink_fails = sink_fails;
        else if (strcmp(word, "time") == 0)
            p->whole_time = true;
        else if (*word == 'o')
            world.order = strtoul(word + 1, NULL, 10);
        else
            keep_range(p, word);
    }
}
