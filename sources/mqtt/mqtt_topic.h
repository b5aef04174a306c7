/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_topic.h - what MQTT allows in names, and EMQX's way to put a delay into a topic.
 *
 * Pure. A broker closes the connection over a bad name, which hurts every other message
 * on it: hence names are judged here before they are sent.
 */
#ifndef SOURCES_MQTT_MQTT_TOPIC_H
#define SOURCES_MQTT_MQTT_TOPIC_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

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
