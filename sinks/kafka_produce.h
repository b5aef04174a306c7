/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_produce.h - what of a delivery goes into a Kafka record, and what the broker's
 * word on it means.
 */
#ifndef SINKS_KAFKA_PRODUCE_H
#define SINKS_KAFKA_PRODUCE_H

#include "bridge/plugin.h"

#include <librdkafka/rdkafka.h>

/* Hands the record to librdkafka, which copies it; opaque comes back in the delivery
 * report. Else gives the reason, and there will be no report. */
rd_kafka_resp_err_t kafka_produce(rd_kafka_t *rk, const struct delivery *d, void *opaque);

/* The batch that a report is of, and the record's place in it, from 0. */
struct kafka_batch {
    unsigned count, place;
};
/* Fills in after_ms with a wait that the code asks for, or 0: the route's own. A broker
 * takes or refuses whole batches: what it says of a record counts for one that came
 * alone. Others try again apart. */
enum outcome kafka_outcome(rd_kafka_resp_err_t code, struct kafka_batch batch,
                           int64_t *after_ms);

#endif
