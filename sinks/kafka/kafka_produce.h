/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_produce.h - converts a delivery to a Kafka record, and the broker's error code to
 * an outcome.
 */
#ifndef SINKS_KAFKA_KAFKA_PRODUCE_H
#define SINKS_KAFKA_KAFKA_PRODUCE_H

#include "bridge/plugin.h"

#include <librdkafka/rdkafka.h>

/* Passes the record to librdkafka, which copies it. The delivery report contains opaque.
 * On error returns the code, and no report follows. last: cache of the last topic, NULL:
 * none; the caller destroys it before rk. */
rd_kafka_resp_err_t kafka_produce(rd_kafka_t *rk, rd_kafka_topic_t **last,
                                  const struct delivery *d, void *opaque);

/* Can a single record of a batch cause this code? Brokers accept or reject whole batches,
 * so such a code is conclusive only for a record sent alone. */
bool kafka_is_of_record(rd_kafka_resp_err_t code);
/* Returns the outcome for a record sent alone, or for a code that applies to the whole
 * batch. after_ms: wait that the code requires; 0: use the route's schedule. */
enum outcome kafka_outcome(rd_kafka_resp_err_t code, int64_t *after_ms);

#endif
