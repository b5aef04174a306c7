/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delay.h - reads the control headers of a message.
 *
 *   deliver-after, delay  duration: 30s, 1h30m, PT5M
 *   deliver-at            instant: RFC 3339, or since 1970 in s or (from 10^12) ms
 *   x-delay               ms, an integer
 *   deliver-before        instant, or duration after due
 *   delay-id              the producer's name of the job
 *   delay-op              add, replace, cancel
 *   delay-to              target
 *   delay-retry           name of a retry schedule
 *   delay-attempts        the most deliveries, 1 to 1000000
 *   delay-repeat          see repeat.c below
 *   delay-repeat-count    number of runs, from 1
 *   delay-repeat-until    instant: no run is due later
 *   delay-hops            previous deliveries by tarry, written by tarry
 *
 * Names are case-insensitive. deliver-at takes precedence over deliver-after, which takes
 * precedence over x-delay. A repeated header must have the same value. The headers of a
 * compat set (compat.c) are alternatives with lower precedence than ours. Pure: no clock.
 * Any thread.
 */
#ifndef BRIDGE_DELAY_H
#define BRIDGE_DELAY_H

#include "bridge/base/buf.h"
#include "bridge/job/job.h"

#include <stdbool.h>
#include <stdint.h>

enum { DELAY_ID_MAX = 128 }; /* bytes of a delay-id */
enum { REPEAT_MAX = 128 };   /* bytes of a delay-repeat */

struct delay_rules {
    int bare_unit;              /* enum when_unit: the unit of a delay that is a bare
                                 * integer */
    const struct pairs *rename; /* standard name = name used instead; NULL: none */
    int64_t default_delay_ms;   /* delay if the message has none */
    int64_t max_delay_ms;       /* the longest delay; above it too-long; 0: no limit */
    int64_t hops_max;           /* messages with at least this many hops are a loop */
    unsigned compat;            /* set of delay_compat() bits: the foreign headers to
                                 * read */
    bool binary_ints; /* numbers, durations and instants may be 8 bytes: a signed
                       * big-endian integer */
    bool key_is_id;   /* without an id header, the key is the id */
    bool clamp;       /* shorten a delay above max_delay_ms instead of rejecting it */
};

enum delay_op { DELAY_ADD, DELAY_REPLACE, DELAY_CANCEL };

/* Slices are borrowed from the job, except that repeat may be in text. p NULL: no
 * header. */
struct delay_read {
    enum delay_op op;
    bool clamped;        /* the delay was shortened to max_delay_ms */
    struct slice key;    /* key of the delivered message, instead of the job's; empty
                          * but not NULL: no key */
    struct slice repeat; /* delay-repeat, unparsed; see repeat.c below */
    int64_t repeat_count, repeat_until_ms; /* 0: no limit */
    int64_t attempts;                      /* delay-attempts; 0: no header */
    int64_t due_ms;                        /* due time, ms since 1970; now or earlier:
                                            * due at once */
    bool undelayed;                        /* the message sets no delay */
    int64_t expires_ms;                    /* ms since 1970; 0: never */
    bool expires_from_due; /* expires_ms was given relative to due, not as an instant */
    struct slice id, to, retry;
    int64_t hops;       /* delay-hops; 0 without the header */
    const char *reason; /* NULL: valid. Else "bad-delay" "too-long" "bad-id" "bad-op"
                         * "bad-target" "bad-retry" "bad-repeat" "loop": the message
                         * becomes a dead letter, with id and op as far as they are
                         * valid */
    char text[REPEAT_MAX + 1];
    char why[200]; /* explanation with the invalid value, or "" */
};

void delay_read(const struct job *job, const struct delay_rules *rules, int64_t now_ms,
                struct delay_read *out);

/* Returns whether to remove this header before delivery: those that delay_read() reads,
 * and those that tarry adds (delay-id -due -emitted -attempt -source -hops -replays -run
 * -route, delay-dead-... of dead letters). The latter are removed under their standard
 * names too. */
bool delay_is_control(struct slice name, const struct delay_rules *rules);

/* Returns whether a source may rename this header. For checks of the configuration. */
bool delay_may_rename(const char *standard_name);

/* delay_compat() returns the bit of a compat set ("rabbitmq"), or 0 for an unknown name.
 * delay_compat_names() returns all names: "a, b, c". */
unsigned delay_compat(const char *name);
const char *delay_compat_names(void);

/* --- repeat.c: computes the next run of a repeating job (delay-repeat) --- */

/*
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
