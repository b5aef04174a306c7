/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_message.h - a message that paho received, as a frame for the source. Any thread.
 */
#ifndef SOURCES_MQTT_MQTT_MESSAGE_H
#define SOURCES_MQTT_MQTT_MESSAGE_H

#include "sources/mqtt/mqtt_frame.h"

#include <MQTTAsync.h>

/* Appends a MESSAGE frame to frame. Cuts a message of more than message_max bytes. */
void mqtt_message_put(struct buf *frame, struct slice topic,
                      const MQTTAsync_message *message, uint64_t message_max);

#endif
