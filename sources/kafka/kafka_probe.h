/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_probe.h - for `tarry check --connect`: asks the brokers for topics, and waits for
 * the answer.
 */
#ifndef SOURCES_KAFKA_KAFKA_PROBE_H
#define SOURCES_KAFKA_KAFKA_PROBE_H

#include "bridge/base/buf.h"
#include "bridge/base/err.h"
#include "sources/kafka/kafka_conf.h"

#include <librdkafka/rdkafka.h>

/* topics: n names; those that begin with ^ are not asked for. Blocks. */
int kafka_probe(const struct kafka_link *link, char *const *topics, size_t n,
                struct buf *said, struct err *err);

/* Its parts, for kafka_rewind.c. why: KAFKA_PROBE_WHY bytes that live as long as the
 * handle, for the last error. Both block. NULL, -1: err says why. */
enum { KAFKA_PROBE_WHY = 300 };
rd_kafka_t *kafka_probe_open(const struct kafka_link *link, char *why, struct err *err);
/* All topics that there are; the caller frees *all by rd_kafka_metadata_destroy(). */
int kafka_probe_topics(rd_kafka_t *rk, const struct kafka_link *link, const char *why,
                       const struct rd_kafka_metadata **all, struct err *err);

#endif
