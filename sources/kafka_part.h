/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_part.h - the partitions that are ours at present: what was read, what may be
 * committed, and why one is held at the moment. Loop thread.
 *
 * A partition whose record could not be stored is held, and when the answers to all of
 * its open records are there it is read again from that record.
 */
#ifndef SOURCES_KAFKA_PART_H
#define SOURCES_KAFKA_PART_H

#include "bridge/log.h"
#include "bridge/loop.h"
#include "sources/kafka_offsets.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <librdkafka/rdkafka.h>

enum kafka_hold {                  /* bits: a partition with any of them is not read */
                  HOLD_FLOW = 1,   /* the store is full */
                  HOLD_WINDOW = 2, /* too many reads behind one without an answer */
                  HOLD_REWIND = 4, /* will be read again from an earlier offset */
                  HOLD_REVOKE = 8  /* goes to another member of the group */
};

struct kafka_parts;

struct kafka_part {
    TAILQ_ENTRY(kafka_part) link;
    struct kafka_parts *parts;
    char *topic;
    int32_t partition;
    struct kafka_offsets offsets;
    unsigned holds;   /* enum kafka_hold */
    int64_t back_to;  /* the broker went back to this offset by itself; -1: it did not */
    unsigned rewinds; /* in a row, without anything stored in between */
    struct timer *rewind;
    bool gone;  /* no longer ours; kept for its open reads */
    bool dirty; /* offsets.done was not handed to librdkafka yet */
};
TAILQ_HEAD(kafka_part_list, kafka_part);

struct kafka_parts {
    const char *who;
    void *owner;    /* the caller's */
    rd_kafka_t *rk; /* NULL: there is no client */
    struct kafka_part_list list;
    struct kafka_part *last; /* found last */
    unsigned count;
    bool dirty; /* some partition is */
    struct log_limit not_stored, went_back, commits;
};

void kafka_parts_init(struct kafka_parts *parts, const char *who);

struct kafka_part *kafka_part_add(struct kafka_parts *parts, const char *topic,
                                  int32_t partition);
/* NULL: it is not ours. */
struct kafka_part *kafka_part_find(struct kafka_parts *parts, const char *topic,
                                   int32_t partition);
/* It is no longer ours; answers to its open reads change nothing any more. */
void kafka_part_drop(struct kafka_part *part);

/* Adds or takes away a reason not to read. */
void kafka_part_hold(struct kafka_part *part, enum kafka_hold why);
void kafka_part_let_go(struct kafka_part *part, enum kafka_hold why);
void kafka_parts_hold(struct kafka_parts *parts, enum kafka_hold why);
void kafka_parts_let_go(struct kafka_parts *parts, enum kafka_hold why);

/* A record came. Gives its read, whose owner is part; NULL: leave the record, it will
 * come again. */
struct kafka_read *kafka_part_read(struct kafka_part *part, int64_t offset);
/* The core's answer to it. read may be gone afterwards, and so may a part that is gone.
 */
void kafka_part_answer(struct kafka_read *read, bool stored);

/* Hands to librdkafka what may be committed; it commits by its own timer. */
void kafka_parts_store(struct kafka_parts *parts);

#endif
