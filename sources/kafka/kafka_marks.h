/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_marks.h - what Redis keeps of a source's partitions, beside the jobs: the fields
 * of the kv "marks". Loop thread.
 *
 *   TOPIC/PARTITION          the mark: offset of the record to read next; of a later
 *                            incarnation TOPIC/PARTITION~INCARNATION
 *   reading TOPIC/PARTITION  incarnation and rewinds of its jobs (bridge/job/job.h):
 *                            "INCARNATION ROUTE:N ROUTE:N"; none: "0"
 *   rewind ROUTE             the last rewind of that route, its number and where each
 *                            partition goes back to: "N TOPIC/PARTITION:OFFSET ..."
 *
 * A mark is written after the jobs before it: if the mark has survived a loss, so have
 * the jobs. An offset is committed only after it was written as a mark: a commit that is
 * ahead of a Redis that lost its tail is always found out.
 *
 * The member of the group that owns a partition carries out a rewind: it waits for its
 * open records, writes the next reading and the lower mark in one command, and seeks. A
 * partition that nobody owns is rewound when it is assigned.
 */
#ifndef SOURCES_KAFKA_KAFKA_MARKS_H
#define SOURCES_KAFKA_KAFKA_MARKS_H

#include "bridge/engine/kv.h"
#include "sources/kafka/kafka_part.h"

struct kafka_marks_events {
    /* Marks are written and handed to librdkafka as kafka_marks_flush() asked, or Redis
     * is away. */
    void (*flushed)(void *arg);
    /* The fields were read; good false: Redis is away. */
    void (*read)(void *arg, bool good);
};

/* Fields of the kv, with their text. Zeroed is empty. */
struct kafka_fields {
    struct kv_item *item;
    unsigned n;
    struct buf text; /* that the items point into */
};

struct kafka_marks {
    struct kafka_parts *parts;
    const struct kafka_marks_events *events; /* borrowed */
    void *arg;
    struct timer *tick;
    bool writing, reading;
    bool flushing;              /* flushed() is owed */
    bool write_more, read_more; /* once more, when the one on its way is answered */
    struct kafka_fields fields; /* as they were read last */
};

void kafka_marks_init(struct kafka_marks *m, struct kafka_parts *parts,
                      const struct kafka_marks_events *events, void *arg);
void kafka_marks_fini(struct kafka_marks *m); /* only when parts->asks is 0 */

/* Writes changed marks at once, without the lag where the partition has `all` set. */
void kafka_marks_flush(struct kafka_marks *m);
/* Reads all fields. Of several calls only the last is answered. */
void kafka_marks_read(struct kafka_marks *m);

/* -1: there is none. */
int64_t kafka_marks_find(const struct kafka_fields *f, const char *topic,
                         int32_t partition, unsigned incarnation);
/* 0 where none is noted. */
unsigned kafka_marks_incarnation(const struct kafka_fields *f, const char *topic,
                                 int32_t partition);
/* Takes over the reading of a partition that has no open records. */
void kafka_marks_load_reading(const struct kafka_fields *f, struct kafka_part *part);
/* Begins the rewinds that the partition has not seen. */
void kafka_marks_look_for_rewinds(const struct kafka_fields *f, struct kafka_part *part);

/* Writes the next reading of a partition without open records, then calls
 * kafka_part_renewed(). If Redis does not answer, sets part->rewind again. */
void kafka_marks_renew(struct kafka_part *part);
/* Asks all instances to rewind a route. Answered once, never before it has returned. */
void kafka_marks_ask_rewind(struct kafka_marks *m, const char *route,
                            const struct rewind_row *rows, size_t n, kv_cb *cb,
                            void *arg);

/* For its tests: the name of a mark, the value of "rewind ROUTE", its number (0: none).
 */
void kafka_mark_field(const char *topic, int32_t partition, unsigned incarnation,
                      struct buf *out);
void kafka_rewind_format(int64_t number, const struct rewind_row *rows, size_t n,
                         struct buf *out);
int64_t kafka_rewind_last(const struct kafka_fields *f, const char *route);

#endif
