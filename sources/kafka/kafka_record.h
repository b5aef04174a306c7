/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_record.h - makes a job of a Kafka record. No I/O.
 *
 * A null key, payload or header value stays apart from an empty one.
 */
#ifndef SOURCES_KAFKA_KAFKA_RECORD_H
#define SOURCES_KAFKA_KAFKA_RECORD_H

#include "bridge/job/job.h"

#include <librdkafka/rdkafka.h>

/* Gives the job. *reason: NULL, or the word by which it must be quarantined, err saying
 * why; it then has the raw key and payload and no headers. */
struct job *kafka_record_job(const rd_kafka_message_t *m, const char **reason,
                             struct err *err);
/* Its timestamp, ms since 1970; 0: it has none. */
int64_t kafka_record_ms(const rd_kafka_message_t *m);

#endif
