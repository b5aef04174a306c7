/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_offsets.h - the offset below which every record of a partition is stored, now and
 * some time ago.
 *
 * Answers arrive in any order, but an offset may be committed only if all records below
 * it are stored. Offsets may have gaps (compaction, transactions): compare their order,
 * do not count. Pure; does not use librdkafka.
 */
#ifndef SOURCES_KAFKA_KAFKA_OFFSETS_H
#define SOURCES_KAFKA_KAFKA_OFFSETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct kafka_read { /* a record that was read */
    STAILQ_ENTRY(kafka_read) link;
    void *owner; /* the caller's */
    int64_t offset;
    enum { READ_OPEN, READ_STORED, READ_FAILED } state;
};

struct kafka_offsets {
    STAILQ_HEAD(, kafka_read) reads; /* starts at the first record that is not stored */
    int64_t position; /* offset of the record to read next; -1: not known */
    int64_t done;     /* everything below it is stored; -1: nothing yet */
    unsigned count;   /* of reads */
    unsigned open;    /* reads without an answer */
    bool has_failed;  /* a record was not stored: rewind once open is 0 */
};

void kafka_offsets_init(struct kafka_offsets *o);
void kafka_offsets_fini(struct kafka_offsets *o); /* also with open reads */

/* Adds a record that was read; offset must not be below o->position. The entry is valid
 * until it is answered or o is rewound. */
struct kafka_read *kafka_offsets_read(struct kafka_offsets *o, int64_t offset,
                                      void *owner);
/* Answers a read. Call it once for each read; it may free the read. True: o->done
 * rose. */
bool kafka_offsets_answer(struct kafka_offsets *o, struct kafka_read *read, bool stored);
/* Drops every read; none may be open. Returns the offset to read from: the first that is
 * not stored, or back_to if that is lower (-1: ignored).
 */
int64_t kafka_offsets_rewind(struct kafka_offsets *o, int64_t back_to);

enum { KAFKA_LAG_SLOTS = 20 /* 16 for the lag, the slot being filled, 3 spare */ };

/* An offset as it was lag_ms ago: a ring of slots, each a sixteenth of the lag long. The
 * last offset of a slot is ripe when the lag has passed since the slot's end. Its age is
 * the lag, and at most a sixteenth more. Times are monotonic ms. */
struct kafka_lag {
    int64_t lag_ms; /* 0: everything is ripe at once */
    struct {
        int64_t end_ms, offset;
    } slot[KAFKA_LAG_SLOTS];
    unsigned first, count;
    int64_t ripe; /* -1: nothing yet */
};

void kafka_lag_init(struct kafka_lag *l, int64_t lag_ms);
void kafka_lag_add(struct kafka_lag *l, int64_t now_ms, int64_t offset);
/* Returns the last offset noted at least lag_ms ago; -1: none. */
int64_t kafka_lag_ripe(struct kafka_lag *l, int64_t now_ms);
/* Drops all noted offsets. offset is ripe from now on; -1: no offset is ripe. */
void kafka_lag_reset(struct kafka_lag *l, int64_t offset);

#endif
