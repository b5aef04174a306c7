/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_marks.h - the state of a source's partitions in Redis: the fields of the kv
 * "marks". Loop thread.
 *
 *   TOPIC/PARTITION          the mark: offset of the record to read next; of a later
 *                            incarnation TOPIC/PARTITION~INCARNATION
 *   reading TOPIC/PARTITION  incarnation and rewinds of its jobs (bridge/job/job.h):
 *                            "INCARNATION ROUTE:N@OFFSET ..."; none: "0"
 *   rewind ROUTE             the last rewind of that route, its number and where each
 *                            partition goes back to: "N TOPIC/PARTITION:OFFSET ..."
 *
 * A mark is written after the jobs below it. If Redis loses its last writes but still has
 * the mark, it still has these jobs. An offset is committed only after it was written as
 * a mark, so a committed offset above the mark always reveals such a loss.
 *
 * The group member that owns a partition performs the rewind. It waits for its open
 * records, writes the next reading and the lower mark in one command, and seeks. A
 * partition without an owner is rewound when it is assigned.
 */
#ifndef SOURCES_KAFKA_KAFKA_MARKS_H
#define SOURCES_KAFKA_KAFKA_MARKS_H

#include "bridge/engine/kv.h"
#include "sources/kafka/kafka_conf.h"
#include "sources/kafka/kafka_part.h"

struct kafka_marks_events {
    /* Completes kafka_marks_flush(): the marks are written and passed to librdkafka, or
     * Redis is unavailable. */
    void (*flushed)(void *arg);
    /* Completes kafka_marks_read(). good false: Redis is unavailable. */
    void (*read)(void *arg, bool good);
};

/* Fields of the kv, with copies of their text. All zeros: empty. */
struct kafka_fields {
    struct kv_item *item;
    unsigned n;
};

struct kafka_marks {
    struct kafka_parts *parts;
    const struct kafka_marks_events *events; /* borrowed */
    void *arg;
    struct timer *tick;
    bool writing, reading;
    bool flushing;              /* flushed() must still be called */
    bool write_more, read_more; /* repeat after the open request is answered */
    struct kafka_fields fields; /* result of the last read */
};

void kafka_marks_init(struct kafka_marks *m, struct kafka_parts *parts,
                      const struct kafka_marks_events *events, void *arg);
void kafka_marks_fini(struct kafka_marks *m); /* only when parts->open_requests is 0 */

/* Writes changed marks at once. Partitions with `ignore_lag` set ignore the commit lag.
 */
void kafka_marks_flush(struct kafka_marks *m);
/* Reads all fields. If called several times, only the last call is answered. */
void kafka_marks_read(struct kafka_marks *m);

/* Returns the mark of a partition; -1: none. */
int64_t kafka_marks_find(const struct kafka_fields *f, const char *topic,
                         int32_t partition, unsigned incarnation);
/* Returns the stored incarnation of a partition; 0: none. */
unsigned kafka_marks_incarnation(const struct kafka_fields *f, const char *topic,
                                 int32_t partition);
/* Copies the stored reading to a partition, which must have no open records. */
void kafka_marks_load_reading(const struct kafka_fields *f, struct kafka_part *part);
/* Starts the rewinds that are new to the partition. */
void kafka_marks_start_rewinds(const struct kafka_fields *f, struct kafka_part *part);

/* Writes the next reading of a partition, which must have no open records, then calls
 * kafka_part_reading_written(). If Redis does not answer, restarts the timer
 * part->rewind. */
void kafka_marks_write_reading(struct kafka_part *part);
/* Asks all instances to rewind a route. Calls cb once, never before it has returned. */
void kafka_marks_ask_rewind(struct kafka_marks *m, const char *route,
                            const struct rewind_row *rows, size_t n, kv_cb *cb,
                            void *arg);

/* kafka_query.c: an operator asks for a rewind to a time. */
struct kafka_rewind {
    const char *route; /* copied */
    int64_t to_ms;     /* since 1970 */
    bool dry_run;
    const struct kafka_link *link; /* borrowed until the answer, as are the topics */
    char *const *topics;           /* as in the subscription */
    size_t topic_count;
};
/* Looks up the offsets of to_ms in a thread, then asks all instances to rewind the
 * partitions of the route to them. Calls cb once, never before it has
 * returned; until then marks->parts->open_requests is above 0. Loop thread. */
void kafka_rewind(struct kafka_marks *marks, const struct kafka_rewind *what,
                  rewind_cb *cb, void *arg);

/* For tests: append a mark's field name; append the value of "rewind ROUTE"; return its
 * number (0: none).
 */
void kafka_mark_field(const char *topic, int32_t partition, unsigned incarnation,
                      struct buf *out);
void kafka_rewind_format(int64_t number, const struct rewind_row *rows, size_t n,
                         struct buf *out);
int64_t kafka_rewind_last(const struct kafka_fields *f, const char *route);

#endif
