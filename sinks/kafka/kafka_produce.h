/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_produce.h - makes a Kafka record of a delivery, and an outcome of the broker's
 * code.
 */
#ifndef SINKS_KAFKA_KAFKA_PRODUCE_H
#define SINKS_KAFKA_KAFKA_PRODUCE_H

#include "bridge/plugin.h"

#include <librdkafka/rdkafka.h>

/* Hands the record to librdkafka, which copies it; opaque returns in the delivery report.
 * On error gives the reason, and there is no report. last: the topic that was written to
 * last, NULL: none; the caller destroys it before rk. */
rd_kafka_resp_err_t kafka_produce(rd_kafka_t *rk, rd_kafka_topic_t **last,
                                  const struct delivery *d, void *opaque);

/* Brokers accept or reject whole batches. Can a single record of the batch be the cause
 * of this code? Then the code is certain only of a record that was sent alone. */
bool kafka_is_of_record(rd_kafka_resp_err_t code);
/* For a record that was sent alone, or a code that holds for all. after_ms: the wait that
 * the code requires; 0: the route's own. */
enum outcome kafka_outcome(rd_kafka_resp_err_t code, int64_t *after_ms);

#endif
