/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_part.h - the partitions that are ours at present: what was read, what may be
 * committed, and why one is held at the moment. Loop thread.
 *
 * A partition whose record could not be stored is held, and when the answers to all of
 * its open records are there it is read again from that record. So is one that has to go
 * back further, since Redis may have lost what it had taken.
 */
#ifndef SOURCES_KAFKA_KAFKA_PART_H
#define SOURCES_KAFKA_KAFKA_PART_H

#include "bridge/plugin.h"
#include "sources/kafka/kafka_offsets.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <librdkafka/rdkafka.h>

enum kafka_hold {                  /* bits: a partition with any of them is not read */
                  HOLD_FLOW = 1,   /* the store is full */
                  HOLD_WINDOW = 2, /* too many reads behind one without an answer */
                  HOLD_REWIND = 4, /* will be read again from an earlier offset */
                  HOLD_REVOKE = 8, /* goes to another member of the group */
                  HOLD_MARKS = 16  /* Redis is asked how far it has come */
};

struct kafka_parts;

struct kafka_part {
    TAILQ_ENTRY(kafka_part) link;
    struct kafka_parts *parts;
    char *topic;
    int32_t partition;
    struct kafka_offsets offsets;
    unsigned holds;       /* enum kafka_hold */
    struct kafka_lag lag; /* of offsets.done */
    int64_t start;        /* where it began to be read; -1: not known yet */
    int64_t begun_ms;     /* when; monotonic */
    int64_t mark;         /* as Redis has it (kafka_marks.h); -1: none that is known */
    int64_t mark_sent;    /* on its way to Redis; -1: none that counts */
    int64_t back_to; /* it goes back to this offset; -1: only to what is not stored */
    int64_t below; /* the broker went back by itself: offsets below this are committed in
                    * so many words, since librdkafka only commits what is higher */
    int64_t last_offset, last_ms; /* of the record read last, and its timestamp; -1, 0:
                                   * not known */
    int64_t probe; /* it is read again, to see whether it is the same; -1: not */
    unsigned era;  /* goes up whenever it goes back: what was asked before is void */
    bool unsure;   /* Redis knows it and the group does not: it may have been made anew */
    /* Of struct partition_reading, as Redis has them; rewound: "" none. */
    unsigned incarnation;
    char *rewound;
    bool known;  /* they were read: before that no record may be submitted */
    char *asked; /* the rewinds that are to be noted before it goes back; NULL: none */
    bool anew;   /* it was made anew: the next incarnation is to be noted likewise */
    bool all;    /* all that is stored may be marked, without the lag */
    unsigned rewinds; /* in a row, without anything stored in between */
    struct timer *rewind;
    bool vanished; /* its topic is not there */
    bool gone;     /* no longer ours; kept for its open reads */
};
TAILQ_HEAD(kafka_part_list, kafka_part);

struct kafka_parts {
    struct source *src;
    const char *who; /* its name */
    int64_t lag_ms;
    void *owner;    /* the caller's */
    rd_kafka_t *rk; /* NULL: there is no client */
    unsigned asks;  /* of Redis, without an answer yet; none may be open at the end */
    unsigned eras;  /* given to parts so far */
    struct kafka_part_list list;
    struct kafka_part *last; /* found last */
    unsigned count;
    struct log_limit not_stored, went_back, commits, read_again;
};

void kafka_parts_init(struct kafka_parts *parts, struct source *src, int64_t lag_ms);

/* start: where it is read from; -1: nobody has committed an offset. mark: as Redis has
 * it; -1: it has none. */
struct kafka_part *kafka_part_add(struct kafka_parts *parts, const char *topic,
                                  int32_t partition, int64_t start, int64_t mark);
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

/* Where it began is known now, if it was not: what comes from there on is not skipped. */
void kafka_part_begins(struct kafka_part *part, int64_t offset);
/* A record came; stamp_ms 0: without a timestamp. Gives its read, whose owner is part;
 * NULL: leave the record, it will come again. */
struct kafka_read *kafka_part_read(struct kafka_part *part, int64_t offset,
                                   int64_t stamp_ms);
/* The brokers do not know that topic any more. If it comes back it may be another one. */
void kafka_parts_vanish(struct kafka_parts *parts, const char *topic);
/* The core's answer to it. read may be gone afterwards, and so may a part that is gone.
 */
void kafka_part_answer(struct kafka_read *read, bool stored);

/* It is to be read again from offset on (-1: only to be noted), for the routes whose
 * rewinds differ. */
void kafka_part_rewind(struct kafka_part *part, const char *rewinds, int64_t offset);
/* Redis has the next reading, with that mark; the partition goes back. */
void kafka_part_renewed(struct kafka_part *part, int64_t mark);

/* Redis may have lost what it took last; mark: as it has it now, -1: none. Goes back to
 * it, or where there is none to where we began in the last minute, or to the last mark
 * that was written. */
void kafka_part_reread(struct kafka_part *part, int64_t mark);
/* Up to where it may be marked and committed; -1: not known, or not now. */
int64_t kafka_part_sure(struct kafka_part *part);

/* Takes list. Hands to librdkafka what may be committed; it commits by its own timer. */
void kafka_parts_store(struct kafka_parts *parts, rd_kafka_topic_partition_list_t *list);

#endif
