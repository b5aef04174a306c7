/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_job.h - the job of a Kafka record.
 */
#ifndef SOURCES_KAFKA_KAFKA_JOB_H
#define SOURCES_KAFKA_KAFKA_JOB_H

#include "sources/kafka/kafka_part.h"

#include <librdkafka/rdkafka.h>

/* Returns a new job with copies of the record's fields. A job whose headers cannot be
 * read is marked as unreadable. Distinguishes a null key, payload or header value from an
 * empty one. */
struct job *kafka_job_new(const struct kafka_part *part, const rd_kafka_message_t *m);
/* Returns the record's timestamp, ms since 1970; 0: none. */
int64_t kafka_record_ms(const rd_kafka_message_t *m);

#endif
