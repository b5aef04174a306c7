/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_produce.h - what of a delivery goes into a Kafka record, and what the broker's
 * word on it means.
 */
#ifndef SINKS_KAFKA_KAFKA_PRODUCE_H
#define SINKS_KAFKA_KAFKA_PRODUCE_H

#include "bridge/plugin.h"

#include <librdkafka/rdkafka.h>

/* Hands the record to librdkafka, which copies it; opaque comes back in the delivery
 * report. Else gives the reason, and there will be no report. last: the topic that was
 * written to last, NULL: none; the caller destroys it before rk. */
rd_kafka_resp_err_t kafka_produce(rd_kafka_t *rk, rd_kafka_topic_t **last,
                                  const struct delivery *d, void *opaque);

/* A broker takes or refuses whole batches. Is this code one that a single record brings
 * upon all that it came with? Then it says something only of a record that came alone. */
bool kafka_is_of_record(rd_kafka_resp_err_t code);
/* For a record that came alone, or a code that is the same for all. Fills in after_ms
 * with a wait that the code asks for, or 0: the route's own. */
enum outcome kafka_outcome(rd_kafka_resp_err_t code, int64_t *after_ms);

#endif
