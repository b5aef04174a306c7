/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_parcel.h - a message on its way to the broker, and the result. Exactly one module
 * owns a parcel at a time: the connection (mqtt_conn.c) or one of its runs (mqtt_run.c).
 */
#ifndef SINKS_MQTT_MQTT_PARCEL_H
#define SINKS_MQTT_MQTT_PARCEL_H

#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_client.h"

#include <sys/queue.h>

struct mqtt_parcel;
typedef void mqtt_parcel_cb(struct mqtt_parcel *p);

/* A copy, since the delivery may end earlier. */
struct mqtt_parcel {
    /* Used by the sink on the loop thread. */
    struct delivery *d; /* NULL: already reported */
    int64_t deadline_ms;
    LIST_ENTRY(mqtt_parcel) open;

    /* Set by the sink. */
    mqtt_parcel_cb *returned; /* receives ownership; called on the loop thread */
    char *topic;
    struct slice payload;
    struct header *headers; /* those that MQTT 5 can transport */
    unsigned header_count;
    void *memory; /* storage of the fields above */
    bool retain;
    int64_t expires_ms; /* monotonic; 0: never */
    int64_t unsent_ms;  /* monotonic; return it if it was not sent until then */

    /* The result. */
    enum outcome outcome;
    char why[MQTT_WHY_MAX];
    int64_t retry_after_ms;
    int status; /* MQTT 5: the broker's reason code; 0: none */

    /* Used by the owner. */
    TAILQ_ENTRY(mqtt_parcel) link;
    int token; /* paho's id of the message */
};
TAILQ_HEAD(mqtt_parcels, mqtt_parcel);

/* Any thread. */
void mqtt_parcel_result(struct mqtt_parcel *p, enum outcome outcome, const char *why);
void mqtt_parcel_free(struct mqtt_parcel *p);

#endif
