/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_rewind.h - finds the offsets of a point in time, and asks all instances to read
 * a route's partitions again from there (kafka_reading.h). Loop thread; the brokers are
 * asked in a thread of its own.
 */
#ifndef SOURCES_KAFKA_KAFKA_REWIND_H
#define SOURCES_KAFKA_KAFKA_REWIND_H

#include "sources/kafka/kafka_conf.h"
#include "sources/kafka/kafka_marks.h"

struct kafka_rewind {
    const char *route; /* copied */
    int64_t to_ms;     /* since 1970 */
    bool dry_run;
    const struct kafka_link *link; /* these stay until the answer, as parts->asks says */
    char *const *topics;           /* as they are subscribed to */
    size_t topic_count;
};

/* Calls cb once, never before it has returned. */
void kafka_rewind(struct kafka_marks *marks, const struct kafka_rewind *what,
                  rewind_cb *cb, void *arg);

#endif
