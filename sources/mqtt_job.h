/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_job.h - makes a job of an MQTT message. Pure.
 *
 * MQTT 5 user properties become headers. The content type becomes "content-type",
 * response topic and correlation data become the two headers below, so that a sink can
 * put them back. The attributes of an event are named as bridge/job/cloudevent.h has it.
 * A topic $delayed/N/rest becomes rest, with a delay that beats all headers. The message
 * expiry interval is not looked at: it is over when the broker has handed the message to
 * us, and says nothing of the delivery that was asked for; deliver-before does.
 */
#ifndef SOURCES_MQTT_JOB_H
#define SOURCES_MQTT_JOB_H

#include "bridge/job/job.h"
#include "sources/mqtt_frame.h"

#define MQTT_RESPONSE_TOPIC_HEADER "mqtt-response-topic"
#define MQTT_CORRELATION_HEADER "mqtt-correlation-data"

/* Takes the prefix $delayed/N/ off job->topic, and notes its delay. */
void mqtt_job_topic(struct job *job);

/* Gives the job. *reason: NULL, or the word by which it must be quarantined, err saying
 * why; it then has the raw payload and no headers. */
struct job *mqtt_job_new(const struct mqtt_message *m, const char **reason,
                         struct err *err);

#endif
