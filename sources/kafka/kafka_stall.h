/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_stall.h - reads librdkafka's statistics: connected brokers, and a partition that
 * librdkafka reads from the wrong broker.
 *
 * If the leader changes twice in quick succession, or an old answer follows a new one,
 * the first change of broker may still be in progress when librdkafka (2.0.2) applies the
 * second. It then stays at the first broker for good: that broker refuses each fetch, but
 * librdkafka takes it for a follower of the leader that it knows already
 * (https://github.com/confluentinc/librdkafka/issues/3399). Only a new client helps.
 *
 * Format: https://github.com/confluentinc/librdkafka/blob/master/STATISTICS.md.
 */
#ifndef SOURCES_KAFKA_KAFKA_STALL_H
#define SOURCES_KAFKA_KAFKA_STALL_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

#include <librdkafka/rdkafka.h>

/* Adds to where a sentence about the first such partition. false: there is none.
 * connected: receives the number of open connections to brokers. */
bool kafka_stall_find(const char *stats, size_t n, struct buf *where,
                      unsigned *connected);

/* Call with each statistics of rk. Returns whether the same partition was found in the
 * last one, too: a change of broker in progress looks the same. last: what was found,
 * empty at first; the caller frees it. Always false for a producer, and with client.rack,
 * since followers are then read on purpose. connected: as above. */
bool kafka_stall_lasts(struct buf *last, rd_kafka_t *rk, const char *stats,
                       unsigned *connected);

#endif
