/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_run.h - one connection to the broker and the thread that uses it, from connecting
 * to disconnecting. paho may block the thread, so nobody waits for it. A run is not
 * reused after its connection broke.
 *
 * Call on the loop thread. No call blocks.
 */
#ifndef SINKS_MQTT_MQTT_RUN_H
#define SINKS_MQTT_MQTT_RUN_H

#include "sinks/mqtt/mqtt_publish.h"

#include <pthread.h>
#include <stdatomic.h>

/* What all runs of a sink need. The last user frees it: a run may outlive its sink. */
struct mqtt_target {
    atomic_uint users;
    struct mqtt_peer peer;
    unsigned qos, max_in_flight;
    bool retain; /* a parcel may have the retain flag */
};
void mqtt_target_drop(struct mqtt_target *target);

enum mqtt_run_state { RUN_CONNECTING, RUN_CONNECTED, RUN_ENDED };

struct mqtt_run {
    struct mqtt_target *target;

    /* Used by the loop thread. */
    LIST_ENTRY(mqtt_run) link;
    loop_cb *on_news; /* called with the run as argument when one of the fields below
                       * changes */
    void *owner;      /* NULL: forgotten */
    bool was_connected;
    unsigned held;                    /* parcels that were sent and not returned */
    int64_t started_ms, connected_ms; /* monotonic */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    enum mqtt_run_state state;
    char why[MQTT_WHY_MAX]; /* reason for RUN_ENDED */
    struct mqtt_parcels unsent, sent, answered;
    struct mqtt_parcel *current; /* paho reads it; in no list */
    int current_token;           /* its answer arrived already; 0: no */
    int last_token;              /* of the latest message with QoS 1 or 2 */
    bool leaving;                /* the thread must disconnect */
    bool deaf;                   /* the client's callbacks are ignored */
    bool finished;               /* the thread has disconnected */
    bool forgotten;              /* no more news; the thread frees its parcels */
    bool notified;               /* a call of on_news is pending */

    struct mqtt_client client; /* used by the thread; limits: valid once connected */
    struct mqtt_props props;
    int64_t retired_ms;
    TAILQ_ENTRY(mqtt_run) retired;
};

/* Becomes a user of target. NULL: the thread was not started. */
struct mqtt_run *mqtt_run_start(struct mqtt_target *target, void *owner, loop_cb *on_news,
                                struct err *err);
/* Takes ownership of p until it is answered or returned. */
void mqtt_run_send(struct mqtt_run *run, struct mqtt_parcel *p);
/* Disconnects, later. Returns the parcels that are not answered, except the one that paho
 * has now, which arrives in answered. */
void mqtt_run_leave(struct mqtt_run *run, struct mqtt_parcels *unsent,
                    struct mqtt_parcels *sent);
/* After the last news, or to forget a run whose thread is blocked. Frees everything once
 * the thread is done; on_news is not called any more. */
void mqtt_run_free(struct mqtt_run *run);

#endif
