/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delay.h - the delay header: what the control headers of a message ask for.
 *
 *   deliver-after, delay   duration: 30s, 1h30m, PT5M     deliver-at   RFC 3339 or epoch
 *   x-delay                ms, an integer                 delay-id     the producer's
 * name deliver-before         instant, or duration after due delay-to     target delay-op
 * add, replace, cancel           delay-retry  name of a schedule delay-hops deliveries by
 * tarry so far, written by tarry
 *
 * Names are compared without case. deliver-at beats deliver-after, which beats x-delay;
 * of a repeated header the first counts. Pure: no clock. Any thread.
 */
#ifndef BRIDGE_DELAY_H
#define BRIDGE_DELAY_H

#include "bridge/job.h"
#include "bridge/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct opt_pairs;

enum { DELAY_ID_MAX = 128 }; /* bytes of a delay-id */

struct delay_rules {
    int bare_unit;                  /* enum when_unit: a delay that is a bare integer */
    const struct opt_pairs *rename; /* standard name = the one in its place; NULL: none */
    int64_t default_delay_ms;       /* where the message names none */
    int64_t max_delay_ms;           /* a longer one is too-long; 0: no limit */
    int64_t hops_max;               /* so many hops, or more, are a loop */
};

enum delay_op { DELAY_ADD, DELAY_REPLACE, DELAY_CANCEL };

/* The slices are borrowed from the job's headers; p NULL: no such header. */
struct delay_read {
    enum delay_op op;
    int64_t due_ms;     /* now, or in the past, means at once */
    bool undelayed;     /* nobody asked for a delay */
    int64_t expires_ms; /* 0: never */
    struct slice id, to, retry;
    int64_t hops; /* 0 without the header */
    const char
        *reason;   /* NULL: fine. "bad-delay" "too-long" "bad-id" "bad-op" "bad-target"
                    * "bad-retry" "loop": a dead letter; id and op are as far as read */
    char why[200]; /* the reason in words, with the offending value; else "" */
};

void delay_read(const struct job *job, const struct delay_rules *rules, int64_t now_ms,
                struct delay_read *out);

/* Stripped when the job is emitted: what delay_read() looks at, and what tarry adds
 * itself (delay-id -due -emitted -attempt -source -hops), which is stripped even if
 * renamed. */
bool delay_is_control(struct slice name, const struct delay_rules *rules);

/* Whether a source may give this header another name; for checking the configuration. */
bool delay_may_rename(const char *standard_name);

#endif
