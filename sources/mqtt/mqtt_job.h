/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_job.h - makes a job of an MQTT message; what MQTT allows in names and topics.
 * Pure.
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

#include <stdbool.h>
#include <stdint.h>

#define MQTT_RESPONSE_TOPIC_HEADER "mqtt-response-topic"
#define MQTT_CORRELATION_HEADER "mqtt-correlation-data"
#define MQTT_PAYLOAD_FORMAT_HEADER "mqtt-payload-format" /* "0" or "1": UTF-8 text */
#define MQTT_RETAIN_HEADER "mqtt-retain" /* "1": published with the flag */

/* Takes the prefix $delayed/N/ off job->topic, and notes its delay. */
void mqtt_job_topic(struct job *job);

/* Gives the job. If it cannot be one (job->unread), it has the raw payload and no
 * headers.
 */
struct job *mqtt_job_new(const struct mqtt_message *m);

/* A broker closes the connection over a bad name, which hurts every other message on it.
 * So names are checked before they are sent. */
enum { MQTT_TEXT_MAX = 65535 }; /* bytes of any text field of MQTT */

/* Well-formed UTF-8, not too long, without control characters and non-characters, which
 * brokers may refuse and mosquitto does. */
bool mqtt_text_ok(struct slice text);

/* -1 with the reason: not a topic to publish to / not a filter to subscribe to. */
int mqtt_topic_check(struct slice topic, struct err *err);
int mqtt_filter_check(struct slice filter, struct err *err);

/* A topic $delayed/N/rest, taken apart. N below 10^9 is seconds from now, else the time
 * since 1970, in seconds or (from 10^12) in milliseconds. */
struct mqtt_delayed {
    enum mqtt_delay_form {
        MQTT_NOT_DELAYED,   /* the topic is of another form */
        MQTT_DELAYED_AFTER, /* number: seconds from now */
        MQTT_DELAYED_AT, /* number: time since 1970 as the delay header deliver-at has it
                          */
        MQTT_DELAYED_BAD /* $delayed without a number, or without a topic after it */
    } form;
    int64_t number;
    struct slice rest; /* the topic without the prefix; when bad: the topic as it came */
};
struct mqtt_delayed mqtt_delayed_split(struct slice topic);

#endif
