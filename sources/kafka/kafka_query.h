/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_query.h - queries to the brokers that use their own librdkafka handle: `tarry
 * check --connect`, and offsets by timestamp.
 */
#ifndef SOURCES_KAFKA_KAFKA_QUERY_H
#define SOURCES_KAFKA_KAFKA_QUERY_H

#include "bridge/plugin.h"
#include "sources/kafka/kafka_conf.h"

struct kafka_marks;

/* Appends the number of brokers, and of partitions for each topic. Ignores names that
 * begin with ^. -1: err names what is missing. Blocks. */
int kafka_probe(const struct kafka_link *link, char *const *topics, size_t n,
                struct buf *said, struct err *err);

struct kafka_rewind {
    const char *route; /* copied */
    int64_t to_ms;     /* since 1970 */
    bool dry_run;
    const struct kafka_link *link; /* borrowed until the answer, as are the topics */
    char *const *topics;           /* as in the subscription */
    size_t topic_count;
};
/* Looks up the offsets of to_ms in a thread, then asks all instances to rewind the
 * partitions of the route to them (kafka_marks.h). Calls cb once, never before it has
 * returned; until then marks->parts->open_requests is above 0. Loop thread. */
void kafka_rewind(struct kafka_marks *marks, const struct kafka_rewind *what,
                  rewind_cb *cb, void *arg);

#endif
