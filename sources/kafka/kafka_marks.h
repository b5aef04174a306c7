/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_marks.h - up to where each partition is stored, kept in Redis beside the jobs.
 *
 * The shelf "marks" of the source: "topic/partition" -> offset of the record to read
 * next; further fields: kafka_reading.h. A mark is written after the jobs before it, so
 * that where a mark has survived a loss, they have too; and an offset is committed only
 * after it was written as a mark, so that a commit can't be ahead of a Redis that lost
 * its tail without being found out. Loop thread.
 */
#ifndef SOURCES_KAFKA_KAFKA_MARKS_H
#define SOURCES_KAFKA_KAFKA_MARKS_H

#include "bridge/store/shelf.h"
#include "sources/kafka/kafka_part.h"

struct kafka_marks_events {
    /* What kafka_marks_flush() asked for is written and handed to librdkafka, or Redis
     * is away. */
    void (*flushed)(void *arg);
    /* items were read; false: Redis is away. */
    void (*read)(void *arg, bool good);
};

struct kafka_marks {
    struct kafka_parts *parts;
    const struct kafka_marks_events *events; /* borrowed */
    void *arg;
    struct timer *tick;
    bool writing, reading;
    bool flushing;            /* flushed() is owed */
    bool write_more;          /* a flush came while a write was on its way */
    bool read_more;           /* the same of reads */
    struct shelf_item *items; /* as they were read last; NULL: never */
    unsigned n;
    struct buf text; /* of items */
};

void kafka_marks_init(struct kafka_marks *m, struct kafka_parts *parts,
                      const struct kafka_marks_events *events, void *arg);
void kafka_marks_fini(struct kafka_marks *m); /* only when parts->asks is 0 */

/* Writes what changed, at once; all that is stored of partitions that have `all` set. */
void kafka_marks_flush(struct kafka_marks *m);
/* Reads all fields; answered after the last call only. */
void kafka_marks_read(struct kafka_marks *m);
/* -1: there is none. */
int64_t kafka_marks_find(const struct kafka_marks *m, const char *topic,
                         int32_t partition, unsigned incarnation);

#endif
