/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_part.h - the assigned partitions: records read, offsets to commit, reasons to
 * pause reading. Loop thread.
 *
 * If a record cannot be stored, its partition is paused until all open records are
 * answered, then rewound to that record. If Redis may have lost its last writes, the
 * partition is rewound further.
 */
#ifndef SOURCES_KAFKA_KAFKA_PART_H
#define SOURCES_KAFKA_KAFKA_PART_H

#include "bridge/plugin.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <librdkafka/rdkafka.h>

/* ------------------- kafka_offsets.c: what is stored. Pure; does not use librdkafka. */

/* Answers arrive in any order, but an offset may be committed only if all records below
 * it are stored. Offsets may have gaps (compaction, transactions): compare their order,
 * do not count. */
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
    /* safe: Redis is known to have run until it was ripe; -1: nothing yet. asked: the
     * next one; it was ripe at asked_ms. */
    int64_t safe, asked, asked_ms;
};

void kafka_lag_init(struct kafka_lag *l, int64_t lag_ms);
void kafka_lag_add(struct kafka_lag *l, int64_t now_ms, int64_t offset);
/* Returns the last offset noted at least lag_ms ago; -1: none. */
int64_t kafka_lag_ripe(struct kafka_lag *l, int64_t now_ms);
/* Returns the last offset that was ripe at answered_ms, or at an earlier call; -1: none.
 */
int64_t kafka_lag_safe(struct kafka_lag *l, int64_t now_ms, int64_t answered_ms);
/* Drops all noted offsets. offset is ripe from now on; -1: no offset is ripe. */
void kafka_lag_reset(struct kafka_lag *l, int64_t offset);

/* --------------------------------------------------------------- the partitions */

enum kafka_pause_reason { /* bits: while any is set, the partition is not read */
                          PAUSE_FLOW = 1,   /* the store is full */
                          PAUSE_WINDOW = 2, /* too many reads after an unanswered one */
                          PAUSE_REWIND = 4, /* waits to be rewound */
                          PAUSE_REVOKE = 8, /* is revoked */
                          PAUSE_MARKS = 16  /* waits for the mark from Redis */
};

struct kafka_parts;

struct kafka_part {
    TAILQ_ENTRY(kafka_part) link;
    struct kafka_parts *parts;
    char *topic;
    int32_t partition;
    struct kafka_offsets offsets;
    unsigned pauses;      /* enum kafka_pause_reason */
    struct kafka_lag lag; /* of offsets.done */
    int64_t start;        /* the offset where reading began; -1: not known yet */
    int64_t started_ms;   /* when; monotonic */
    int64_t mark;         /* in Redis (kafka_marks.h); -1: not known */
    int64_t mark_sent;    /* being written to Redis; -1: none */
    int64_t rewind_to; /* offset to rewind to; -1: only to the first record not stored */
    int64_t
        commit_below; /* the topic was recreated or truncated: offsets below this need an
                       * explicit commit, since librdkafka only commits higher ones */
    int64_t last_offset;  /* of the record read last, at first the one below start and
                           * mark; -1: not known */
    int64_t last_ms;      /* its timestamp, ms since 1970; 0: not known */
    int64_t probe_offset; /* offset read again to compare the record; -1: none */
    unsigned generation;  /* unique; each rewind assigns a new value, which invalidates
                           * earlier requests */
    bool maybe_new; /* a mark in Redis but no committed offset: it may be a new topic */
    /* Incarnation and rewinds of its jobs, as stored in Redis. rewinds_done "": none. */
    unsigned incarnation;
    char *rewinds_done;
    bool reading_known; /* both were read from Redis; submit no record before */
    char *rewinds_next; /* rewinds to write to Redis before the seek; NULL: none */
    bool recreated;     /* the topic was recreated: write the new incarnation to Redis */
    bool ignore_lag;    /* ignore the commit lag: mark all stored records */
    unsigned rewind_count; /* consecutive, without a stored record in between */
    struct timer *rewind;
    bool topic_missing; /* the brokers do not know its topic */
    bool revoked;       /* no longer assigned; kept for its open reads */
};
TAILQ_HEAD(kafka_part_list, kafka_part);

struct kafka_parts {
    struct source *src;
    const char *who; /* name of the source, for log lines */
    int64_t lag_ms;
    void *owner;            /* the caller's */
    rd_kafka_t *rk;         /* NULL: there is no client */
    unsigned open_requests; /* requests without an answer; must be 0 at the end */
    unsigned generations;   /* last generation assigned */
    struct kafka_part_list list;
    struct kafka_part *last; /* cache of kafka_part_find() */
    unsigned count;
    struct log_limit not_stored, offset_fell, commits, lost_writes;
};

void kafka_parts_init(struct kafka_parts *parts, struct source *src, int64_t lag_ms);

/* Adds a partition. start: offset to read from; -1: no committed offset. mark: from
 * Redis; -1: none. */
struct kafka_part *kafka_part_add(struct kafka_parts *parts, const char *topic,
                                  int32_t partition, int64_t start, int64_t mark);
/* Returns NULL if the partition is not assigned. */
struct kafka_part *kafka_part_find(struct kafka_parts *parts, const char *topic,
                                   int32_t partition);
/* Drops a revoked partition. Later answers to its open reads are ignored. */
void kafka_part_drop(struct kafka_part *part);

/* kafka_pause.c: adds or removes a reason not to read. part NULL: of all partitions. */
void kafka_parts_pause(struct kafka_parts *parts, struct kafka_part *part,
                       enum kafka_pause_reason why);
void kafka_parts_resume(struct kafka_parts *parts, struct kafka_part *part,
                        enum kafka_pause_reason why);

/* Sets the offset where reading began, if it was not known. */
void kafka_part_set_start(struct kafka_part *part, int64_t offset);
/* Adds a record. stamp_ms: ms since 1970; 0: none. Returns its read, whose owner is part.
 * NULL: ignore the record, it will be read again. */
struct kafka_read *kafka_part_read(struct kafka_part *part, int64_t offset,
                                   int64_t stamp_ms);
/* The brokers no longer know the topic. A later topic of that name may be a new topic. */
void kafka_parts_topic_missing(struct kafka_parts *parts, const char *topic);
/* Finds a new topic that ends just before the record to compare: Kafka answers a read
 * from its end with no record and no error. */
void kafka_parts_check_ends(struct kafka_parts *parts);
/* Redis has stored an older record at this offset: the topic was recreated, or lost its
 * end. Call it before kafka_part_answer(), with stored false. */
void kafka_part_recreated(const struct kafka_read *read);
/* Passes on the engine's answer. Takes ownership of read; frees the part once it is
 * revoked and has no open reads. */
void kafka_part_answer(struct kafka_read *read, bool stored);

/* Starts to rewind to offset for the routes whose rewinds differ. A partition that has no
 * position yet is read from its start. offset -1: only stores the rewinds. */
void kafka_part_rewind(struct kafka_part *part, const char *rewinds, int64_t offset);
/* Call when Redis has stored the next reading with that mark. Seeks. */
void kafka_part_reading_written(struct kafka_part *part, int64_t mark);

/* Call when Redis may have lost its last writes. Rewinds to mark, the value now in Redis.
 * mark -1 (none): rewinds to the start if reading began less than a minute ago, else to
 * the last mark written. */
void kafka_part_rewind_to_mark(struct kafka_part *part, int64_t mark);
/* ------------------------------------------------------------- kafka_commit.c */

/* Returns the offset that may be marked and committed; -1: not known, or not now.
 * answered_ms: of kv_answered_ms(). */
int64_t kafka_part_committable(struct kafka_part *part, int64_t answered_ms);

/* Passes to librdkafka the offsets to commit, and takes ownership of list. librdkafka
 * commits by its own timer. */
void kafka_parts_store(struct kafka_parts *parts, rd_kafka_topic_partition_list_t *list);

/* ------------------------------------------------------- kafka_job.c: their records */

/* Returns a new job with copies of the record's fields. A job whose headers cannot be
 * read is marked as unreadable. Distinguishes a null key, payload or header value from an
 * empty one. */
struct job *kafka_job_new(const struct kafka_part *part, const rd_kafka_message_t *m);
/* Returns the record's timestamp, ms since 1970; 0: none. */
int64_t kafka_record_ms(const rd_kafka_message_t *m);

#endif
