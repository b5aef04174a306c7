/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_thread.h - the one thread that calls paho for an MQTT sink, and its mailbox.
 *
 * Functions are called on the loop thread and return at once. Each parcel that is posted
 * comes back exactly once, on the loop thread.
 */
#ifndef SINKS_MQTT_MQTT_THREAD_H
#define SINKS_MQTT_MQTT_THREAD_H

#include "sinks/mqtt/mqtt_parcel.h"
#include "sources/mqtt/mqtt_link.h"

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
/* Takes spec->peer. Gives NULL with a reason when there is no thread to be had. */
struct mqtt_thread *mqtt_thread_start(struct mqtt_thread_spec *spec, struct err *err);
/* It is connected. */
bool mqtt_thread_is_up(struct mqtt_thread *t);
/* Takes the parcel until it is returned. */
void mqtt_thread_post(struct mqtt_thread *t, struct mqtt_parcel *parcel);
/* The broker owed an answer for too long: connect anew, since it would clog the window.
 */
void mqtt_thread_renew(struct mqtt_thread *t);
/* Disconnects; spec->ended is called, then mqtt_thread_free() may be. */
void mqtt_thread_stop(struct mqtt_thread *t);
void mqtt_thread_free(struct mqtt_thread *t); /* NULL is fine */

#endif
