/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_thread.h - the thread that calls paho for an MQTT sink: its mailbox
 * (mqtt_thread.c) and its connection (mqtt_run.c).
 */
#ifndef SINKS_MQTT_MQTT_THREAD_H
#define SINKS_MQTT_MQTT_THREAD_H

#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_paho.h"

#include <stdatomic.h>
#include <sys/queue.h>

/* ------------------------------------------------------------------- parcels */

struct mqtt_parcel;
typedef void mqtt_parcel_cb(struct mqtt_parcel *p);

struct mqtt_parcels {
    TAILQ_HEAD(, mqtt_parcel) list;
    unsigned count;
};

/* A message for the broker: a copy, since the delivery may end earlier. The sink creates
 * it. The thread returns it exactly once, also if the connection fails. */
struct mqtt_parcel {
    /* Used by the sink on the loop thread. */
    struct delivery *d; /* NULL: already reported */
    int64_t deadline_ms;
    LIST_ENTRY(mqtt_parcel) open;

    /* Set by the sink, read by its thread. */
    mqtt_parcel_cb *returned; /* receives ownership; called on the loop thread */
    char *topic;
    struct slice payload;
    struct header *headers; /* those that MQTT 5 can transport */
    unsigned header_count;
    void *memory; /* storage of the fields above */
    bool retain;
    int64_t expires_ms;    /* monotonic; 0: never */
    int64_t wait_max_ms;   /* maximum wait for a connection */
    atomic_bool cancelled; /* set by the sink: do not send */

    /* The result, set by the thread. */
    enum outcome outcome;
    char why[PAHO_WHY_MAX];
    int64_t retry_after_ms;
    int status; /* MQTT 5: the broker's reason code; 0: none */

    /* Used by the thread; its lock guards them. */
    struct mqtt_parcels *list; /* list that contains it */
    TAILQ_ENTRY(mqtt_parcel) link;
    struct mqtt_run *run; /* run that sent it */
    int64_t posted_ms;
};

/* Removes p from its list and returns it to the sink. Any thread; the lock must be
 * held. */
void mqtt_parcel_finish(struct mqtt_parcel *p, enum outcome outcome, const char *why);

/* ---------------------------- the thread: call on the loop thread; never blocks */

struct mqtt_thread_spec {
    const char *name; /* of the sink, for log lines; borrowed until mqtt_thread_free() */
    struct mqtt_peer peer;
    unsigned qos;
    bool retain; /* a parcel may have the retain flag */
    unsigned max_in_flight;
    loop_cb *ended; /* called after mqtt_thread_stop() */
    void *ended_arg;
};

struct mqtt_thread;
/* Takes ownership of spec->peer. NULL: the thread was not started. */
struct mqtt_thread *mqtt_thread_start(struct mqtt_thread_spec *spec, struct err *err);
bool mqtt_thread_is_connected(struct mqtt_thread *t);
/* Takes ownership of the parcel until returned() is called. */
void mqtt_thread_post(struct mqtt_thread *t, struct mqtt_parcel *parcel);
/* Reconnects. Call if the broker leaves a message unanswered for too long, which would
 * block the window. */
void mqtt_thread_reconnect(struct mqtt_thread *t);
/* Disconnects, then calls spec->ended. Call mqtt_thread_free() only after that. */
void mqtt_thread_stop(struct mqtt_thread *t);
void mqtt_thread_free(struct mqtt_thread *t); /* t may be NULL */

/* ---------------------------- a run: one paho client; call on the sink's thread */

/* A run is not reused after its connection broke, so that paho cannot send its buffered
 * messages later. paho's callbacks need the lock: do not hold it when calling these
 * functions, except mqtt_run_packet_bytes(). */
struct mqtt_run {
    const struct mqtt_thread_spec *spec;
    pthread_mutex_t *lock;   /* of the thread; guards the fields below */
    pthread_cond_t *changed; /* of the thread; signals a new state */
    enum mqtt_run_state { RUN_CONNECTING, RUN_CONNECTED, RUN_ENDED } state;
    int64_t started_ms, connected_ms; /* monotonic: created; connected, 0: never */
    uint32_t packet_max;              /* bytes; the broker's limit */
    unsigned window;          /* maximum of parcels in sent: the lower of our and the
                               * broker's limit */
    struct mqtt_parcels sent; /* not answered yet */
    char why[PAHO_WHY_MAX];   /* reason for RUN_ENDED */
    struct paho paho;
};

/* Starts to connect. The result is in state. */
void mqtt_run_connect(struct mqtt_run *run);
/* Passes p, which must be in sent, to paho. 0: paho will answer it, or has done so; p may
 * be freed already. Otherwise returns paho's error and the caller must finish p. */
int mqtt_run_publish(struct mqtt_run *run, struct mqtt_parcel *p);
/* Disconnects within a time limit and destroys the client. No callback follows its
 * return. */
void mqtt_run_end(struct mqtt_run *run);
/* Returns the maximum size of the packet of p. */
uint64_t mqtt_run_packet_bytes(const struct mqtt_run *run, const struct mqtt_parcel *p);

#endif
