/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_lag.h - a number as it was some time ago: offsets that trail what Redis has
 * stored.
 *
 * A ring of slots, each a sixteenth of the lag long: what was noted in one is ripe when
 * the lag is over since the slot's end. So it trails by the lag and at most a sixteenth
 * more. O(1) for each note. Pure: the caller tells the time, monotonic ms.
 */
#ifndef SOURCES_KAFKA_KAFKA_LAG_H
#define SOURCES_KAFKA_KAFKA_LAG_H

#include <stdint.h>

enum { KAFKA_LAG_SLOTS = 20 /* those of the lag, the one being filled, and to spare */ };

struct kafka_lag {
    int64_t lag_ms; /* 0: everything is ripe at once */
    struct {
        int64_t end_ms, offset;
    } slot[KAFKA_LAG_SLOTS];
    unsigned first, count;
    int64_t ripe; /* -1: nothing yet */
};

void kafka_lag_init(struct kafka_lag *l, int64_t lag_ms);
void kafka_lag_note(struct kafka_lag *l, int64_t now_ms, int64_t offset);
/* The last offset that was noted so long ago; -1: none. */
int64_t kafka_lag_ripe(struct kafka_lag *l, int64_t now_ms);
/* Forgets all that was noted: offset is ripe, -1: nothing is. */
void kafka_lag_reset(struct kafka_lag *l, int64_t offset);

#endif
