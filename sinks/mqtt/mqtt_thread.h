/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_thread.h - the one thread that calls paho for an MQTT sink, its mailbox
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

/* One message on its way to the broker: a copy, since the delivery may end before it. The
 * sink makes it. Its thread gives it back exactly once, whatever becomes of the
 * connection. */
struct mqtt_parcel {
    /* The sink's; loop thread. */
    struct delivery *d; /* NULL: reported already */
    int64_t deadline_ms;
    LIST_ENTRY(mqtt_parcel) open;

    /* Set by the sink, read by its thread. */
    mqtt_parcel_cb *returned; /* takes the parcel, on the loop thread */
    char *topic;
    struct slice payload;
    struct header *headers; /* what MQTT 5 can carry */
    unsigned header_count;
    void *memory; /* that all of these point into */
    bool retain;
    int64_t expires_ms;   /* as loop_mono_ms() counts; 0: never */
    int64_t hold_ms;      /* how long it may wait for a connection */
    atomic_bool given_up; /* the sink set it: do not send it any more */

    /* The answer. */
    enum outcome outcome;
    char why[PAHO_WHY_MAX];
    int64_t retry_after_ms;
    int status; /* MQTT 5: reason code of the broker; 0: none */

    /* The thread's own, under its lock. */
    struct mqtt_parcels *list; /* in which it stands */
    TAILQ_ENTRY(mqtt_parcel) link;
    struct mqtt_run *run; /* in which it was sent */
    int64_t posted_ms;
};

/* Takes it off its list and gives it back to the sink. Any thread, with the lock held. */
void mqtt_parcel_finish(struct mqtt_parcel *p, enum outcome outcome, const char *why);

/* ----------------------------------- the thread: called on the loop thread, returns at
 * once */

struct mqtt_thread_spec {
    const char *name; /* of the sink, for the log; borrowed for the thread's life */
    struct mqtt_peer peer;
    unsigned qos;
    bool retain; /* any parcel may have the flag */
    unsigned max_in_flight;
    loop_cb *ended; /* after mqtt_thread_stop() */
    void *ended_arg;
};

struct mqtt_thread;
/* Takes spec->peer. NULL: err says why there is no thread. */
struct mqtt_thread *mqtt_thread_start(struct mqtt_thread_spec *spec, struct err *err);
bool mqtt_thread_is_connected(struct mqtt_thread *t);
/* Takes the parcel until it is returned. */
void mqtt_thread_post(struct mqtt_thread *t, struct mqtt_parcel *parcel);
/* Connects anew: the broker owed an answer for too long, and would clog the window. */
void mqtt_thread_renew(struct mqtt_thread *t);
/* Disconnects; spec->ended is called, then mqtt_thread_free() may be. */
void mqtt_thread_stop(struct mqtt_thread *t);
void mqtt_thread_free(struct mqtt_thread *t); /* NULL is fine */

/* ----------------------------------- a run: one client of paho, called on the sink's
 * thread */

/* It is never used again after its connection broke, so that nothing it still held can be
 * sent later. paho's callbacks take the lock: it is never held in a call here, except
 * mqtt_run_packet_bytes(). */
struct mqtt_run {
    const struct mqtt_thread_spec *spec;
    pthread_mutex_t *lock;   /* the thread's, of all below */
    pthread_cond_t *changed; /* the thread's: look at the state again */
    enum mqtt_run_state { RUN_CONNECTING, RUN_UP, RUN_OVER } state;
    int64_t begun_ms, up_ms;  /* created; connected, 0: never */
    uint32_t packet_max;      /* bytes; the broker's limit */
    unsigned window;          /* parcels in sent at most: ours, and the broker's limit */
    struct mqtt_parcels sent; /* and not answered */
    char why[PAHO_WHY_MAX];   /* it is over */
    struct paho paho;
};

/* Starts connecting; state tells how it went. */
void mqtt_run_connect(struct mqtt_run *run);
/* Hands over p, which stands in sent. 0: paho answers it, and it may be gone by now. Else
 * paho's error: it is the caller's to finish. */
int mqtt_run_publish(struct mqtt_run *run, struct mqtt_parcel *p);
/* Disconnects, bounded, and destroys. No callback comes after it returned. */
void mqtt_run_end(struct mqtt_run *run);
/* At most so large is the packet of p. */
uint64_t mqtt_run_packet_bytes(const struct mqtt_run *run, const struct mqtt_parcel *p);

#endif
