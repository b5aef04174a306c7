/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp_job.h - converts an AMQP message to a job. Pure.
 *
 * The routing key becomes the topic. The encoded properties are kept as they are in
 * job->native, from which an AMQP sink restores them byte for byte. Properties and scalar
 * headers also become headers of the job, for control headers, templates and other sinks:
 * integers and booleans as text, properties by the names of amqp_prop_header(), and the
 * exchange as "amqp-exchange". Tables and arrays, such as x-death, are only in
 * job->native. expiration becomes job->before, counted from the due time: in the queue
 * of the consumer it also counts only from then. A negative x-delay becomes 0.
 */
#ifndef SOURCES_AMQP_AMQP_JOB_H
#define SOURCES_AMQP_AMQP_JOB_H

#include "bridge/job/job.h"
#include "sources/amqp/amqp_content.h"

#define AMQP_EXCHANGE_HEADER "amqp-exchange"
#define AMQP_X_DELAY_HEADER "x-delay"

/* Returns a job, owned by the caller. If the message cannot be converted, sets
 * job->unreadable. message_id_is_id: the message id becomes job->name. */
struct job *amqp_job_new(const struct amqp_message *m, bool message_id_is_id);

#endif
