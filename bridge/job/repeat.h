/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repeat.h - when a job that repeats runs next: delay-repeat.
 *
 *   every 5m                          an interval: n times after the first run
 *   0 9 * * 1-5 Europe/Berlin         a line of cron(5), minute hour day month weekday,
 *                                     and a zone of the tz database; without one UTC
 *
 * Lists, ranges, steps and names (jan, mon) as in cron(5), also @hourly @daily @weekly
 * @monthly @yearly. Day and weekday mean either where both are restricted, which a field
 * that begins with a star is not: with such a one both must fit. A run is when the clocks
 * of the zone first show its time, or a later one: a time that they skip when summer time
 * begins runs at the first instant after the gap, and one that comes twice runs once, the
 * first time, unless the line has every hour: such a line goes on through both. Pure but
 * for the zone, see when.h. Loop thread.
 */
#ifndef BRIDGE_REPEAT_H
#define BRIDGE_REPEAT_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum { REPEAT_MAX = 128 }; /* bytes of a delay-repeat */

struct repeat {
    int64_t every_ms; /* 0: by the cron line */
    uint64_t minutes; /* bit by bit, as of cron(5) */
    uint32_t hours, days, months, weekdays;
    bool any_day, any_weekday; /* the field began with a star */
    struct zone *zone;         /* shared; NULL: UTC */
};

/* -1: err says what is wrong and what would be right. Any bytes are fine. */
int repeat_parse(struct slice text, struct repeat *out, struct err *err);
/* The first run after after_ms, where one was due at due_ms (an interval counts from
 * there, and that run is not given again). ms since 1970; -1: there is none (30
 * February). */
int64_t repeat_next_ms(const struct repeat *r, int64_t due_ms, int64_t after_ms);
/* The shortest time between two runs; of a cron line as the clock shows it, on days that
 * follow each other. */
int64_t repeat_least_ms(const struct repeat *r);

#endif
