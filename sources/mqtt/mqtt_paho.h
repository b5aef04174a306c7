/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_paho.h - helpers around the paho library for the MQTT worker and sink: the life of
 * a client, error texts, messages as frames.
 *
 * paho has one mutex for all clients of a process and holds it during callbacks. So never
 * call paho on the loop thread, nor while holding a lock that a callback needs.
 */
#ifndef SOURCES_MQTT_MQTT_PAHO_H
#define SOURCES_MQTT_MQTT_PAHO_H

#include "sources/mqtt/mqtt_frame.h"
#include "sources/mqtt/mqtt_link.h"

#include <pthread.h>

#include <MQTTAsync.h>

enum { PAHO_CONNECT_TIMEOUT_S = 10, PAHO_WHY_MAX = 192 };

/* A lock and its condition variable. until_ms: deadline on the clock of loop_mono_ms().
 * Destroy both with the pthread functions. */
void paho_lock_init(pthread_mutex_t *lock, pthread_cond_t *changed);
void paho_wait(pthread_mutex_t *lock, pthread_cond_t *changed, int64_t until_ms);

/* Called on paho's threads, or within paho_connect(). */
struct paho_events {
    /* session_present: the broker has resumed an earlier session. props: MQTT 5 only,
     * else NULL. */
    void (*connected)(void *context, bool session_present, MQTTProperties *props);
    void (*failed)(void *context, const char *why);
};

struct paho {
    MQTTAsync client; /* NULL: none */
    const struct mqtt_peer *peer;
    const struct paho_events *events;
    void *context;
    bool refused; /* the broker has answered, and rejects the connection */
    bool tls;
    char tls_why[PAHO_WHY_MAX]; /* TLS error of a failed connection; "": none */
    pthread_mutex_t lock;       /* guards disconnected */
    pthread_cond_t changed;
    bool disconnected;
};

/* Creates a client without persistence. Borrows peer and events until paho_close(). -1:
 * no client was created. */
int paho_open(struct paho *p, const struct mqtt_peer *peer, int buffered_max,
              const struct paho_events *events, void *context, struct err *err);
/* Connects, then calls one of the events. clean: discard an earlier session.
 * in_flight_max 0: paho's default. props: MQTT 5 only. */
void paho_connect(struct paho *p, bool clean, int in_flight_max, MQTTProperties *props);
/* Sends DISCONNECT. Returns once it is sent, or after limit_ms. */
void paho_disconnect(struct paho *p, int limit_ms);
/* Destroys the client. Calls back for most open messages, but never after it has
 * returned. */
void paho_close(struct paho *p);

/* Writes the text of a failure to out. reason: from MQTT 5; code: from paho or CONNACK.
 * message and p may be NULL. */
void paho_why(char *out, size_t size, enum MQTTReasonCodes reason, int code,
              const char *message, const struct paho *p);

/* Appends a MESSAGE frame. Truncates a message of more than message_max bytes. */
void paho_put_message(struct buf *frame, struct slice topic,
                      const MQTTAsync_message *message, uint64_t message_max);

/* For `tarry check --connect`: connects with its own client id and disconnects.
 * Blocks. */
int mqtt_probe(const struct mqtt_link *link, struct buf *said, struct err *err);

#endif
