/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_client.h - the calls into paho's MQTTClient, which publishes in the calling
 * thread, and the callbacks from it.
 *
 * paho has one mutex for all clients of a process and holds it during callbacks. So never
 * call these functions on the loop thread, nor while holding a lock that a callback
 * needs. They may block.
 */
#ifndef SINKS_MQTT_MQTT_CLIENT_H
#define SINKS_MQTT_MQTT_CLIENT_H

#include "sinks/mqtt/mqtt_parcel.h"
#include "sources/mqtt/mqtt_link.h"

#include <MQTTClient.h>

/* Called on paho's thread. */
struct mqtt_client_events {
    /* The broker has answered the message. reason: of MQTT 5, else success. */
    void (*answered)(void *context, int token, enum MQTTReasonCodes reason);
    /* The connection has ended, not by mqtt_client_disconnect(). */
    void (*lost)(void *context, const char *why);
};

/* The limits of the broker. */
struct mqtt_limits {
    uint32_t packet_max_bytes;
    unsigned receive_max; /* messages without an answer */
    unsigned qos_max;
    bool retain;
};

struct mqtt_client {
    MQTTClient handle; /* NULL: none */
    const struct mqtt_peer *peer;
    const struct mqtt_client_events *events;
    void *context;
    char tls_why[MQTT_WHY_MAX]; /* TLS error of a failed connection; "": none */
    MQTTProperty *props;        /* of the message being published; reused */
    unsigned props_max;
};

/* Creates a client and connects, within PAHO_CONNECT_TIMEOUT_S. c: zeroed. Borrows all
 * pointers until mqtt_client_destroy(). -1: why contains the reason. */
int mqtt_client_connect(struct mqtt_client *c, const struct mqtt_peer *peer,
                        unsigned in_flight_max, const struct mqtt_client_events *events,
                        void *context, struct mqtt_limits *limits, char *why,
                        size_t why_size);
/* Returns 0 or an error of paho. With QoS 0 the message has been written to the socket.
 * Otherwise answered() is called, possibly before this returns; token receives the
 * message's id. */
int mqtt_client_publish(struct mqtt_client *c, const struct mqtt_parcel *p, unsigned qos,
                        int *token);
/* Sends DISCONNECT and closes the connection. A callback may follow for a moment, if the
 * broker disconnected at the same time. */
void mqtt_client_disconnect(struct mqtt_client *c);
/* Only when no callback can follow any more. handle may be NULL. */
void mqtt_client_destroy(struct mqtt_client *c);

#endif
