/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_job.h - makes a job of an MQTT message. Pure.
 *
 * MQTT 5 user properties become headers. The content type becomes "content-type",
 * response topic and correlation data become the two headers below, so that a sink can
 * put them back. The attributes of an event are named as bridge/job/cloudevent.h has it.
 * The payload format indicator and the retain flag become headers, too. A topic
 * $delayed/N/rest becomes rest, with a delay that beats all headers. The caller applies
 * the message expiry interval, which needs a clock.
 */
#ifndef SOURCES_MQTT_MQTT_JOB_H
#define SOURCES_MQTT_MQTT_JOB_H

#include "bridge/job/job.h"
#include "sources/mqtt/mqtt_frame.h"

#define MQTT_RESPONSE_TOPIC_HEADER "mqtt-response-topic"
#define MQTT_CORRELATION_HEADER "mqtt-correlation-data"
#define MQTT_PAYLOAD_FORMAT_HEADER "mqtt-payload-format" /* "0" or "1": UTF-8 text */
#define MQTT_RETAIN_HEADER "mqtt-retain" /* "1": published with the flag */

/* Takes the prefix $delayed/N/ off job->topic, and notes its delay. */
void mqtt_job_topic(struct job *job);

/* Gives the job. *reason: NULL, or the word by which it must be quarantined, err saying
 * why; it then has the raw payload and no headers. */
struct job *mqtt_job_new(const struct mqtt_message *m, const char **reason,
                         struct err *err);

#endif
