/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_run.h - a message on its way to the broker (mqtt_parcel.c), and one connection
 * with the thread that uses it, from connecting to disconnecting (mqtt_run.c).
 *
 * paho may block the thread, so nobody waits for it. A run is not reused after its
 * connection broke. Exactly one owns a parcel: the sink, or one of its runs.
 */
#ifndef SINKS_MQTT_MQTT_RUN_H
#define SINKS_MQTT_MQTT_RUN_H

#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

/* --------------------------------------------------------------------- parcels */

/* A copy of a delivery, which may end earlier. */
struct mqtt_parcel {
    char *topic;
    struct slice payload;
    struct header *headers; /* those that MQTT 5 can transport */
    unsigned header_count;
    uint64_t packet_bytes; /* at most */
    bool retain;
    int64_t expires_ms; /* monotonic; 0: never */

    /* The result. */
    enum outcome outcome;
    char why[MQTT_WHY_MAX];
    int64_t retry_after_ms;
    int status; /* MQTT 5: the broker's reason code; 0: none */

    /* Used by the sink. */
    struct delivery *d; /* NULL: already reported */
    bool sent;          /* a run owns it */
    int64_t unsent_ms;  /* monotonic; give up if it was not sent until then */
    int64_t deadline_ms;
    LIST_ENTRY(mqtt_parcel) open;

    /* Used by the owner. */
    TAILQ_ENTRY(mqtt_parcel) link;
    int token; /* paho's id of the message */
};
TAILQ_HEAD(mqtt_parcels, mqtt_parcel);

/* dropped: set to true if MQTT cannot transport a header. The caller frees the parcel
 * with free(). */
struct mqtt_parcel *mqtt_parcel_new(const struct delivery *d, bool v5, bool *dropped);
/* Any thread. */
void mqtt_parcel_result(struct mqtt_parcel *p, enum outcome outcome, const char *why);

/* Memory for the properties of one message, reused. A zeroed struct is valid; free v. */
struct mqtt_props {
    MQTTProperty *v;
    unsigned max;
};
/* Publishes with the headers as MQTT 5 properties. May block. Returns 0 or an error of
 * paho. With QoS 0 the message has been written to the socket. Otherwise answered() is
 * called, possibly before this returns; token receives the message's id. */
int mqtt_publish(const struct mqtt_client *c, struct mqtt_props *room,
                 const struct mqtt_parcel *p, unsigned qos, int *token);

/* ------------------------------------------------------------------------ runs */

/* What all runs of a sink need. The last user frees it: a run may outlive its sink. */
struct mqtt_target {
    atomic_uint users;
    atomic_uint keepalive_s; /* set by the broker; 0: that of peer */
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

/* Call on the loop thread. No call blocks. */

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
