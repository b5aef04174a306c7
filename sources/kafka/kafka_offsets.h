/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_offsets.h - up to where one partition is stored, and was stored some time ago.
 *
 * Answers come in any order, but only what has nothing unanswered before it may be
 * committed. Offsets may have gaps (compaction, transactions), so order counts, not +1.
 * Pure; knows no library.
 */
#ifndef SOURCES_KAFKA_KAFKA_OFFSETS_H
#define SOURCES_KAFKA_KAFKA_OFFSETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct kafka_read { /* one record that was read */
    STAILQ_ENTRY(kafka_read) link;
    void *owner; /* the caller's */
    int64_t offset;
    enum { READ_OPEN, READ_STORED, READ_FAILED } state;
};

struct kafka_offsets {
    STAILQ_HEAD(, kafka_read) reads; /* from the first that is not stored */
    int64_t position; /* offset of the record to read next; -1: not known */
    int64_t done;     /* everything below it is stored; -1: nothing yet */
    unsigned count;   /* of reads */
    unsigned open;    /* those without an answer */
    bool torn;        /* one was not stored: rewind when none is open */
};

void kafka_offsets_init(struct kafka_offsets *o);
void kafka_offsets_fini(struct kafka_offsets *o); /* also with open reads */

/* A record was read; offset is not below o->position. Gives its entry, which lives until
 * it is answered or o is rewound. */
struct kafka_read *kafka_offsets_read(struct kafka_offsets *o, int64_t offset,
                                      void *owner);
/* Once for each read, which may be gone afterwards. True: o->done went up. */
bool kafka_offsets_answer(struct kafka_offsets *o, struct kafka_read *read, bool stored);
/* Forgets every read, of which none may be open; gives the offset to read from again:
 * that of the first that is not stored, or back_to where that is lower (-1: it is not).
 */
int64_t kafka_offsets_rewind(struct kafka_offsets *o, int64_t back_to);

enum { KAFKA_LAG_SLOTS = 20 /* 16 of the lag, the one being filled, and 3 to spare */ };

/* An offset as it was some time ago. A ring of slots, each a sixteenth of the lag long:
 * an offset noted in a slot is ripe when the lag has passed since the slot's end. So a
 * ripe offset is as old as the lag, and at most a sixteenth older. Times are monotonic
 * ms. */
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
