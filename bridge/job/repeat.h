/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repeat.h - computes the next run of a repeating job (delay-repeat).
 *
 *   every 5m                     an interval: multiples of it after the first run
 *   0 9 * * 1-5 Europe/Berlin    a line of cron(5): minute hour day month weekday,
 *                                and a tz database zone, default UTC
 *
 * Lists, ranges, steps and names (jan, mon) as in cron(5), also @hourly @daily @weekly
 * @monthly @yearly. If day and weekday are both restricted, either may match; a field
 * that begins with a star counts as unrestricted, and then both must match.
 *
 * A run is due when local time first reaches its time. A time skipped by daylight saving
 * runs at the first instant after the gap. A repeated time runs once, the first time,
 * unless the line matches every hour. Pure except for the zone, see when.h. Loop thread.
 */
#ifndef BRIDGE_REPEAT_H
#define BRIDGE_REPEAT_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum { REPEAT_MAX = 128 }; /* bytes of a delay-repeat */

struct repeat {
    int64_t every_ms; /* 0: use the cron fields */
    uint64_t minutes; /* bit sets of the values that match */
    uint32_t hours, days, months, weekdays;
    bool any_day, any_weekday; /* the field began with a star */
    struct zone *zone;         /* not owned; NULL: UTC */
};

/* Parses text. -1: err says what is wrong and what is expected. Safe for untrusted
 * bytes. */
int repeat_parse(struct slice text, struct repeat *out, struct err *err);
/* Returns the first run after after_ms, in ms since 1970. due_ms: the previous run, from
 * which intervals count. -1: no further run (30 February). */
int64_t repeat_next_ms(const struct repeat *r, int64_t due_ms, int64_t after_ms);
/* Returns the shortest time between two runs in ms; for a cron line by local time, on
 * consecutive days. */
int64_t repeat_least_ms(const struct repeat *r);

#endif
