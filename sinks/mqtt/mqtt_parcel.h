/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_parcel.h - one message on its way from the MQTT sink to the broker.
 *
 * A copy, so that the delivery may end before it: the sink makes it, its thread gives it
 * back exactly once, whatever becomes of the connection.
 */
#ifndef SINKS_MQTT_MQTT_PARCEL_H
#define SINKS_MQTT_MQTT_PARCEL_H

#include "bridge/plugin.h"

#include <stdatomic.h>

struct mqtt_parcel;
typedef void mqtt_parcel_cb(struct mqtt_parcel *p);

struct mqtt_parcels {
    struct mqtt_parcel *first, *last;
    unsigned count;
};

struct mqtt_parcel {
    /* The sink's; loop thread. */
    void *owner;
    struct delivery *d; /* NULL: reported already */
    int64_t deadline_ms;
    struct mqtt_parcel *next_open, *prev_open;

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
    char why[192];
    int64_t retry_after_ms;
    int status; /* MQTT 5: reason code of the broker; 0: none */

    /* The thread's own, under its lock. */
    struct mqtt_parcels *list; /* in which it stands */
    struct mqtt_parcel *next, *prev;
    void *run; /* in which it was sent */
    int64_t posted_ms;
};

void mqtt_parcel_append(struct mqtt_parcels *list, struct mqtt_parcel *p);
void mqtt_parcel_unlink(struct mqtt_parcel *p);
/* Takes it off its list and gives it back to the sink. Any thread, with the lock held. */
void mqtt_parcel_finish(struct mqtt_parcel *p, enum outcome outcome, const char *why);

#endif
