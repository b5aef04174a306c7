/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_part.h - the assigned partitions: what was read, what may be committed, and why
 * one is held. Loop thread.
 *
 * If a record cannot be stored, its partition is held until all its open records are
 * answered, and is then read again from that record. If Redis may have lost its last
 * writes, the partition goes back further.
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
                  HOLD_REVOKE = 8, /* is revoked */
                  HOLD_MARKS = 16  /* Redis is asked for the mark */
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
    int64_t start;        /* the offset where reading began; -1: not known yet */
    int64_t begun_ms;     /* when; monotonic */
    int64_t mark;         /* as Redis has it (kafka_marks.h); -1: none is known */
    int64_t mark_sent;    /* on its way to Redis; -1: none that counts */
    int64_t back_to; /* it goes back to this offset; -1: only to what is not stored */
    int64_t below;   /* the broker went back: offsets below this need an explicit commit,
                      * since   librdkafka only commits higher ones */
    int64_t last_offset, last_ms; /* of the record read last, and its timestamp; -1, 0:
                                   * not known */
    int64_t probe; /* read again to see whether the record is the same; -1: none */
    unsigned
        era;     /* unique; a new one whenever it goes back makes earlier requests void */
    bool unsure; /* Redis has a mark and the group no offset: perhaps a new topic */
    /* incarnation and rewinds of its jobs, as Redis has them; rewound: "" none. */
    unsigned incarnation;
    char *rewound;
    bool known;  /* both were read from Redis: only then may records be submitted */
    char *asked; /* rewinds that Redis must have before it goes back; NULL: none */
    bool anew;   /* the topic was deleted and created: Redis must have the incarnation */
    bool all;    /* ignore the commit lag: all that is stored may be marked */
    unsigned rewinds; /* in a row, with nothing stored in between */
    struct timer *rewind;
    bool vanished; /* the brokers do not know its topic */
    bool gone;     /* no longer assigned; kept for its open reads */
};
TAILQ_HEAD(kafka_part_list, kafka_part);

struct kafka_parts {
    struct source *src;
    const char *who; /* its name */
    int64_t lag_ms;
    void *owner;    /* the caller's */
    rd_kafka_t *rk; /* NULL: there is no client */
    unsigned asks;  /* requests without an answer; must be 0 at the end */
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
/* NULL: it is not assigned. */
struct kafka_part *kafka_part_find(struct kafka_parts *parts, const char *topic,
                                   int32_t partition);
/* It is revoked; answers to its open reads change nothing any more. */
void kafka_part_drop(struct kafka_part *part);

/* Adds or removes a reason not to read. part NULL: of all partitions. */
void kafka_parts_hold(struct kafka_parts *parts, struct kafka_part *part,
                      enum kafka_hold why);
void kafka_parts_let_go(struct kafka_parts *parts, struct kafka_part *part,
                        enum kafka_hold why);

/* Sets where it began, if that was not known. */
void kafka_part_begins(struct kafka_part *part, int64_t offset);
/* Notes a record; stamp_ms 0: without a timestamp. Gives its read, whose owner is part;
 * NULL: ignore the record, it will be read again. */
struct kafka_read *kafka_part_read(struct kafka_part *part, int64_t offset,
                                   int64_t stamp_ms);
/* The brokers do not know that topic any more. A later one of the name may be another. */
void kafka_parts_vanish(struct kafka_parts *parts, const char *topic);
/* The engine's answer. Frees read sooner or later, and a part that is gone. */
void kafka_part_answer(struct kafka_read *read, bool stored);

/* Begins to go back to offset (-1: only notes the rewinds) for the routes whose rewinds
 * differ. */
void kafka_part_rewind(struct kafka_part *part, const char *rewinds, int64_t offset);
/* Redis has the next reading, with that mark: goes back. */
void kafka_part_renewed(struct kafka_part *part, int64_t mark);

/* Redis may have lost its last writes; mark: as it has it now, -1: none. Goes back to the
 * mark. Without one: to the start of a reading younger than a minute, else to the last
 * mark that was written. */
void kafka_part_reread(struct kafka_part *part, int64_t mark);
/* The offset that may be marked and committed; -1: not known, or not now. */
int64_t kafka_part_sure(struct kafka_part *part);

/* Takes list. Hands to librdkafka what may be committed; it commits by its own timer. */
void kafka_parts_store(struct kafka_parts *parts, rd_kafka_topic_partition_list_t *list);

#endif
