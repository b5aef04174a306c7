/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_client.h - a connection to an MQTT broker by paho's MQTTClient, for the source's
 * worker and the sink.
 *
 * The calls may block, and paho has one mutex for all clients of a process. So never call
 * these functions on the loop thread, nor while holding a lock that a callback needs.
 */
#ifndef SOURCES_MQTT_MQTT_CLIENT_H
#define SOURCES_MQTT_MQTT_CLIENT_H

#include "bridge/base/buf.h"
#include "sources/mqtt/mqtt_link.h"

#include <MQTTClient.h>

enum { MQTT_CONNECT_TIMEOUT_S = 10, MQTT_WHY_MAX = 192 };

/* Called on paho's threads. */
struct mqtt_client_events {
    /* The broker has answered a published message. reason: of MQTT 5, else success. NULL:
     * nothing is published. */
    void (*answered)(void *context, int token, enum MQTTReasonCodes reason);
    /* The connection has ended, not by mqtt_client_disconnect(). reason and why are those
     * of the broker's DISCONNECT (MQTT 5); why NULL: it sent none. May be called twice.
     */
    void (*lost)(void *context, enum MQTTReasonCodes reason, const char *why);
};

/* The limits of the broker. */
struct mqtt_limits {
    uint32_t packet_max_bytes;
    unsigned receive_max; /* messages without an answer */
    unsigned qos_max;
    bool retain;
    unsigned keepalive_s; /* shorter than the requested one; 0: as requested */
};

struct mqtt_client {
    /* Set by the caller, borrowed until mqtt_client_destroy(). */
    const struct mqtt_peer *peer;
    const struct mqtt_client_events *events;
    void *context;
    int timeout_s;          /* of mqtt_client_connect() */
    bool resume;            /* an earlier session of this client id; false: discard it */
    unsigned in_flight_max; /* published messages without an answer; 0: paho's default */
    MQTTProperties *props;  /* of CONNECT, MQTT 5 only; NULL: none */
    unsigned keepalive_s;   /* as the broker has set it on an earlier connection; 0: that
                             * of peer. mqtt_client_connect() updates it */

    MQTTClient handle;          /* NULL: none */
    char tls_why[MQTT_WHY_MAX]; /* TLS error of a failed connection; "": none */

    /* Results of mqtt_client_connect(). */
    struct mqtt_limits limits;
    bool refused;           /* the broker has answered, and rejects the connection */
    char why[MQTT_WHY_MAX]; /* of a failure */
};

/* Creates a client and connects. -1: see refused and why; call mqtt_client_destroy() then
 * too. */
int mqtt_client_connect(struct mqtt_client *c);
/* Sends DISCONNECT and closes the connection. A callback may follow for a moment, if the
 * broker disconnected at the same time. */
void mqtt_client_disconnect(struct mqtt_client *c);
/* Only when no callback can follow any more. handle may be NULL. */
void mqtt_client_destroy(struct mqtt_client *c);

/* Starts a detached thread that may call the functions above. It blocks all signals,
 * which the loop thread handles; paho's threads inherit the mask. Returns 0 or an errno.
 */
int mqtt_client_thread(void *(*run)(void *), void *arg);

/* What is known about a failure. Zeroed fields are unknown. */
struct mqtt_failure {
    enum MQTTReasonCodes reason; /* of MQTT 5 */
    int code;                    /* of paho or CONNACK */
    const char *message;         /* paho's text */
    bool tls;                    /* a TLS connection that was never complete */
    const char *tls_why;         /* "TLS: reason" */
};
/* Writes the text of the failure, with advice, to out. Any thread. */
void mqtt_why(char *out, size_t size, const struct mqtt_failure *f);

/* For `tarry check --connect`: connects with a client id of its own and disconnects. */
int mqtt_probe(const struct mqtt_link *link, struct buf *said, struct err *err);

#endif
