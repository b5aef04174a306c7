/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_stall.h - finds a partition that librdkafka reads from the wrong broker.
 *
 * If the leader changes twice in quick succession, or an old answer follows a new one,
 * the first change of broker may still be in progress when librdkafka (2.0.2) applies the
 * second; it then ends at the first broker, and librdkafka believes it is at the second.
 * That broker refuses each fetch, and nothing but another change or a new client helps
 * (https://github.com/confluentinc/librdkafka/issues/3399). Its statistics show both.
 *
 * Format: https://github.com/confluentinc/librdkafka/blob/master/STATISTICS.md. Pure.
 */
#ifndef SOURCES_KAFKA_KAFKA_STALL_H
#define SOURCES_KAFKA_KAFKA_STALL_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* Adds to where a sentence about the first such partition. false: there is none. A change
 * of broker in progress looks the same: judge by two statistics. */
bool kafka_stall_find(const char *stats, size_t n, struct buf *where);

#endif
