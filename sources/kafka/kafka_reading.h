/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_reading.h - which reading of a partition is the current one (struct
 * partition_reading of bridge/plugin.h), and how it becomes another.
 *
 * Kept in the shelf "marks" of the source, beside the marks:
 *
 *   reading TOPIC/PARTITION  "INCARNATION ROUTE:N ROUTE:N"; none: "0"
 *   rewind ROUTE             "N TOPIC/PARTITION:OFFSET ...": the last rewind that was
 * asked for, its number, and where each partition goes back to
 *
 * The member of the group that owns a partition carries a rewind out: it waits for its
 * open records, writes the next reading and the lower mark in one command, and seeks. A
 * partition that nobody owns is rewound when it is assigned. Loop thread.
 */
#ifndef SOURCES_KAFKA_KAFKA_READING_H
#define SOURCES_KAFKA_KAFKA_READING_H

#include "bridge/store/shelf.h"
#include "sources/kafka/kafka_part.h"

#define KAFKA_MARKS_SHELF "marks"
#define KAFKA_REWIND_OF "rewind " /* what the field of a route begins with */

/* Takes over what Redis has. The partition has no open records. */
void kafka_reading_load(struct kafka_part *part, const struct shelf_item *items,
                        unsigned n);
/* Begins the rewinds that were asked for and that the partition has not seen. */
void kafka_reading_look(struct kafka_part *part, const struct shelf_item *items,
                        unsigned n);
/* Writes the next reading of a partition without open records, then calls
 * kafka_part_renewed(); sets its timer where Redis did not answer. */
void kafka_reading_renew(struct kafka_part *part);
/* Appends the value of "rewind ROUTE". */
void kafka_rewind_format(int64_t number, const struct rewind_row *rows, size_t n,
                         struct buf *out);
/* Number of the last rewind of that route; 0: none. */
int64_t kafka_rewind_last(const struct shelf_item *items, unsigned n, const char *route);
/* The field of a mark: "topic/7", of a later incarnation "topic/7~2". */
void kafka_mark_field(const char *topic, int32_t partition, unsigned incarnation,
                      struct buf *out);
/* The incarnation of a partition; 0 where nothing is noted. */
unsigned kafka_incarnation_find(const struct shelf_item *items, unsigned n,
                                const char *topic, int32_t partition);

#endif
