/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delay.h - the delay header: what the control headers of a message ask for.
 *
 *   deliver-after, delay  duration: 30s, 1h30m, PT5M
 *   deliver-at            instant: RFC 3339, or since 1970 in s or (from 10^12) ms
 *   x-delay               ms, an integer
 *   deliver-before        instant, or duration after due
 *   delay-id              the producer's name of the job
 *   delay-op              add, replace, cancel
 *   delay-to              target
 *   delay-retry           name of a retry schedule
 *   delay-attempts        deliveries at most, 1 to 1000000
 *   delay-repeat          text for repeat.h
 *   delay-repeat-count    so many runs in all, from 1
 *   delay-repeat-until    instant: no run is due later
 *   delay-hops            deliveries by tarry so far, written by tarry
 *
 * Names are compared without case. deliver-at beats deliver-after, which beats x-delay;
 * a header that is repeated must say the same again. The headers of a compat set
 * (compat.c) say the same things in other words, and count where none of ours does. Pure:
 * no clock. Any thread.
 */
#ifndef BRIDGE_DELAY_H
#define BRIDGE_DELAY_H

#include "bridge/base/buf.h"
#include "bridge/job/job.h"
#include "bridge/job/repeat.h"

#include <stdbool.h>
#include <stdint.h>

enum { DELAY_ID_MAX = 128 }; /* bytes of a delay-id */

struct delay_rules {
    int bare_unit;              /* enum when_unit: a delay that is a bare integer */
    const struct pairs *rename; /* standard name = the one in its place; NULL: none */
    int64_t default_delay_ms;   /* where the message names none */
    int64_t max_delay_ms;       /* a longer one is too-long; 0: no limit */
    int64_t hops_max;           /* so many hops, or more, are a loop */
    unsigned compat;            /* bits of delay_compat(): foreign headers that count */
    bool binary_ints; /* 8 bytes that are no text are a big-endian integer, signed, where
                       * a number, a duration or an instant is asked for */
    bool key_is_id;   /* where no header names the job, its key does */
    bool clamp;       /* a delay that is too long becomes the longest; nothing is wrong */
};

enum delay_op { DELAY_ADD, DELAY_REPLACE, DELAY_CANCEL };

/* The slices are borrowed from the job, and repeat may stand in text; p NULL: no such
 * header. */
struct delay_read {
    enum delay_op op;
    bool clamped;        /* to the longest delay */
    struct slice key;    /* of the job that goes out, instead of its own; empty, but not
                          * NULL: it goes out without one */
    struct slice repeat; /* delay-repeat, not looked into: repeat.h */
    int64_t repeat_count, repeat_until_ms; /* 0: none */
    int64_t attempts;                      /* delay-attempts; 0: none */
    int64_t due_ms;                        /* now, or in the past, means at once */
    bool undelayed;                        /* nobody asked for a delay */
    int64_t expires_ms;                    /* 0: never */
    bool expires_from_due; /* it was given as a time after due, not as an instant */
    struct slice id, to, retry;
    int64_t hops;       /* 0 without the header */
    const char *reason; /* NULL: fine. "bad-delay" "too-long" "bad-id" "bad-op"
                         * "bad-target" "bad-retry" "bad-repeat" "loop": a dead letter; id
                         * and op are as far as they can be read */
    char text[REPEAT_MAX + 1];
    char why[200]; /* the reason in words, with the offending value; else "" */
};

void delay_read(const struct job *job, const struct delay_rules *rules, int64_t now_ms,
                struct delay_read *out);

/* Stripped when the job is emitted: what delay_read() looks at, and what tarry adds
 * itself (delay-id -due -emitted -attempt -source -hops -replays -run -route, and the
 * delay-dead-... of a dead letter), which is stripped even if renamed. */
bool delay_is_control(struct slice name, const struct delay_rules *rules);

/* Whether a source may give this header another name; for checking the configuration. */
bool delay_may_rename(const char *standard_name);

/* The bit of a compat set by its name ("rabbitmq"), and the names, "a, b, c"; 0: there is
 * no such set. */
unsigned delay_compat(const char *name);
const char *delay_compat_names(void);

#endif
