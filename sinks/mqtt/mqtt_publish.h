/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_publish.h - publishes a parcel, with its headers as MQTT 5 properties. May block,
 * as the functions of mqtt_client.h.
 */
#ifndef SINKS_MQTT_MQTT_PUBLISH_H
#define SINKS_MQTT_MQTT_PUBLISH_H

#include "sinks/mqtt/mqtt_parcel.h"
#include "sources/mqtt/mqtt_client.h"

/* Memory for the properties of one message, reused. A zeroed struct is valid; free v. */
struct mqtt_props {
    MQTTProperty *v;
    unsigned max;
};

/* Returns 0 or an error of paho. With QoS 0 the message has been written to the socket.
 * Otherwise answered() is called, possibly before this returns; token receives the
 * message's id. */
int mqtt_publish(const struct mqtt_client *c, struct mqtt_props *room,
                 const struct mqtt_parcel *p, unsigned qos, int *token);

#endif
