/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_relay.h - connects paho to the broker, passes its messages to the source,
 * and acknowledges them when the source has stored them. Loop thread of the worker
 * process.
 *
 * paho connects and subscribes through the relay: to a port on 127.0.0.1 that accepts
 * only a socket of this process. The relay passes on all packets but messages, which paho
 * would acknowledge before it delivers them. While the source has too many messages, the
 * relay stops reading from the broker and answers paho's PINGREQ itself.
 */
#ifndef SOURCES_MQTT_MQTT_RELAY_H
#define SOURCES_MQTT_MQTT_RELAY_H

#include "bridge/base/net.h"
#include "sources/mqtt/mqtt_packet.h"

struct mqtt_relay;

struct relay_events {
    /* The broker accepts connections: connect paho to 127.0.0.1 and this port. */
    void (*ready)(void *arg, unsigned port);
    /* The broker has accepted paho's connection. session_present: it has resumed an
     * earlier session. paho has not yet received this. */
    void (*connected)(void *arg, bool session_present);
    /* A message, which is borrowed. */
    void (*message)(void *arg, const struct mqtt_message *m);
    /* The connection to the broker, or to paho, is lost. A connected paho notices the
     * loss first, and may report a better reason. Called once. */
    void (*lost)(void *arg, const char *why);
    /* relay_leave() is done: exit. */
    void (*left)(void *arg);
};

/* broker and events are borrowed until relay_free(). open_max: the number of messages
 * that the source may have that are not stored. v5: MQTT 5. */
struct mqtt_relay *relay_new(const struct net_conf *broker, unsigned open_max, bool v5,
                             const struct relay_events *events, void *arg);
void relay_free(struct mqtt_relay *r); /* closes both connections */
/* Acknowledges the next count messages, in order, which the source has stored. -1: fewer
 * than count messages are open. */
int relay_stored(struct mqtt_relay *r, uint64_t count);
/* Returns whether the source has messages that it has not stored. */
bool relay_waits(const struct mqtt_relay *r);
/* Disconnects from the broker, which keeps the session, and calls left() within
 * seconds. */
void relay_leave(struct mqtt_relay *r);
/* Sends the broker a PINGREQ every keepalive_s seconds, in addition to those of paho. */
void relay_ping(struct mqtt_relay *r, unsigned keepalive_s);
/* Returns why the connection to the broker was lost; "": it was not. */
const char *relay_why(const struct mqtt_relay *r);

#endif
