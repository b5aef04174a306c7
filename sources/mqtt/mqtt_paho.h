/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_paho.h - what the MQTT worker and sink share of the paho library: one client from
 * its creation to its end, errors in words, messages as frames.
 *
 * paho has one mutex for all clients of a process and holds it while it calls back. So no
 * call into paho is made on the loop thread, and none with a lock that a callback takes.
 */
#ifndef SOURCES_MQTT_MQTT_PAHO_H
#define SOURCES_MQTT_MQTT_PAHO_H

#include "sources/mqtt/mqtt_frame.h"
#include "sources/mqtt/mqtt_link.h"

#include <pthread.h>

#include <MQTTAsync.h>

enum { PAHO_CONNECT_TIMEOUT_S = 10, PAHO_WHY_MAX = 192 };

/* A lock, and the news of what it guards, which are waited for until a time of
 * loop_mono_ms(). Destroy both as pthread has it. */
void paho_lock_init(pthread_mutex_t *lock, pthread_cond_t *changed);
void paho_wait(pthread_mutex_t *lock, pthread_cond_t *changed, int64_t until_ms);

/* On paho's threads, or within paho_connect(). */
struct paho_events {
    /* session_present: the broker has kept an earlier session. props: MQTT 5 only, else
     * NULL. */
    void (*connected)(void *context, bool session_present, MQTTProperties *props);
    void (*failed)(void *context, const char *why);
};

struct paho {
    MQTTAsync client; /* NULL: there is none */
    const struct mqtt_peer *peer;
    const struct paho_events *events;
    void *context;
    bool tls;
    char tls_why[PAHO_WHY_MAX]; /* what TLS said about a failed connection; "" nothing */
    pthread_mutex_t lock;       /* of disconnected */
    pthread_cond_t changed;
    bool disconnected;
};

/* Creates a client without persistence. Borrows peer and events until paho_close(). -1:
 * err says why; there is no client then. */
int paho_open(struct paho *p, const struct mqtt_peer *peer, int buffered_max,
              const struct paho_events *events, void *context, struct err *err);
/* Connects; one of the events tells how it went. clean: without an earlier session.
 * in_flight_max 0: paho's own. props: MQTT 5 only. */
void paho_connect(struct paho *p, bool clean, int in_flight_max, MQTTProperties *props);
/* Disconnects in order; returns when the broker has been told, after limit_ms at most. */
void paho_disconnect(struct paho *p, int limit_ms);
/* Calls back for most of what is still open; no callback comes after it returned. */
void paho_close(struct paho *p);

/* A failure in words: reason is MQTT 5's, code paho's or CONNACK's; message and p may be
 * NULL. */
void paho_why(char *out, size_t size, enum MQTTReasonCodes reason, int code,
              const char *message, const struct paho *p);

/* Appends a MESSAGE frame. Cuts a message of more than message_max bytes. */
void paho_put_message(struct buf *frame, struct slice topic,
                      const MQTTAsync_message *message, uint64_t message_max);

/* A descriptor of our own of the connection to the broker, which stays when paho closes
 * its own; for paho_leave(). -1: there is no connection. */
int paho_hold(void);
/* Ends a process of one client amid messages. A socket that closes with some of them
 * unread resets the connection, and the PUBACKs that the broker had not read by then are
 * lost to it: so this only stops sending, and reads on until the broker has hung up, for
 * limit_ms at most. Any thread; what paho reads meanwhile must not be acknowledged. */
_Noreturn void paho_leave(int held, int limit_ms);

/* For `tarry check --connect`: connects under a name of its own, and leaves. Blocks. */
int mqtt_probe(const struct mqtt_link *link, struct buf *said, struct err *err);

#endif
