/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_conf.h - settings of librdkafka: ours, and those that ops pass through.
 *
 * Shared by the Kafka source and sink. No I/O. No error text repeats a secret.
 */
#ifndef SOURCES_KAFKA_KAFKA_CONF_H
#define SOURCES_KAFKA_KAFKA_CONF_H

#include "bridge/base/mem.h"
#include "sources/kafka/kafka_link.h"

#include <stdint.h>

#include <librdkafka/rdkafka.h>

/* One of ours. text NULL: number counts, unless that is KAFKA_UNSET too. */
struct kafka_setting {
    const char *name, *text;
    int64_t number;
};
enum { KAFKA_UNSET = -1 };

/* What link says, then rows, then link->settings: the last one wins where both may set a
 * thing. rows ends with a row of zeros. Gives, free with rd_kafka_conf_destroy(), or
 * NULL: a setting is unknown, wrong, or not theirs to make. */
rd_kafka_conf_t *kafka_conf_new(const struct kafka_link *link,
                                const struct kafka_setting *rows, struct err *err);

/* Can it be the name of a topic? */
int kafka_topic_check(const char *topic, size_t n, struct err *err);

#endif
