/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_job.h - converts an MQTT message to a job; checks names and topics. Pure.
 *
 * MQTT 5 user properties become headers. The content type becomes "content-type".
 * Response topic, correlation data, payload format indicator and retain flag become the
 * headers below, from which a sink can restore them. CloudEvents attributes are named as
 * in bridge/job/cloudevent.h. A topic $delayed/N/rest becomes rest, with a delay that
 * overrides all headers. The caller applies the message expiry interval, which needs a
 * clock.
 */
#ifndef SOURCES_MQTT_MQTT_JOB_H
#define SOURCES_MQTT_MQTT_JOB_H

#include "bridge/job/job.h"
#include "sources/mqtt/mqtt_packet.h"

#define MQTT_RESPONSE_TOPIC_HEADER "mqtt-response-topic"
#define MQTT_CORRELATION_HEADER "mqtt-correlation-data"
#define MQTT_PAYLOAD_FORMAT_HEADER "mqtt-payload-format" /* "0" or "1": UTF-8 text */
#define MQTT_RETAIN_HEADER "mqtt-retain" /* "1": published with the flag */

/* Removes the prefix $delayed/N/ from job->topic and stores its delay in the job. */
void mqtt_job_topic(struct job *job);

/* Makes a new job, owned by the caller. If the message cannot be converted, sets
 * job->unreadable; the job then contains the raw payload and no headers.
 */
struct job *mqtt_job_new(const struct mqtt_message *m);

/* A broker closes the connection if a name is invalid, which affects every other message
 * on it. So check names before sending them. */
enum { MQTT_TEXT_MAX = 65535 }; /* bytes of any text field of MQTT */

/* Checks for valid UTF-8 of at most MQTT_TEXT_MAX bytes, without control characters and
 * non-characters: brokers may reject these, and mosquitto does. */
bool mqtt_text_ok(struct slice text);

/* Return -1 and set err if the text is no valid topic to publish to, or no valid filter
 * to subscribe to. */
int mqtt_topic_check(struct slice topic, struct err *err);
int mqtt_filter_check(struct slice filter, struct err *err);

/* A parsed topic $delayed/N/rest. N below 10^9 is seconds from now; otherwise N is the
 * time since 1970, in seconds or (from 10^12) in milliseconds. */
struct mqtt_delayed {
    enum mqtt_delay_form {
        MQTT_NOT_DELAYED,   /* the topic is of another form */
        MQTT_DELAYED_AFTER, /* number: seconds from now */
        MQTT_DELAYED_AT,    /* number: time since 1970, as in the header deliver-at */
        MQTT_DELAYED_BAD    /* $delayed without a number, or without a topic after it */
    } form;
    int64_t number;
    struct slice rest; /* the topic without the prefix; when bad: the whole topic */
};
struct mqtt_delayed mqtt_delayed_split(struct slice topic);

#endif
