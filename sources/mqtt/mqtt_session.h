/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_session.h - the MQTT client of a worker: a thread connects to the relay and
 * subscribes, and paho's callbacks collect messages.
 *
 * The callbacks return at once. What they report waits in a mailbox for the loop. All
 * functions: loop thread.
 */
#ifndef SOURCES_MQTT_MQTT_SESSION_H
#define SOURCES_MQTT_MQTT_SESSION_H

#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_frame.h"

#include <stdbool.h>

enum { SESSION_WHY_MAX = 320 };

struct mqtt_session;

/* A zeroed struct is valid and empty. */
struct session_mail {
    struct buf frames;   /* for the source, in order */
    struct buf messages; /* a struct window_message for each MESSAGE frame */
    bool subscribed;     /* to all filters */
    bool failed;
    bool refused; /* failed, and why is the broker's own reason */
    char why[SESSION_WHY_MAX];
};

/* Starts to connect to 127.0.0.1 and this port, in the background. Borrows setup until
 * the process exits. Calls on_mail(arg) on the loop thread, once after each
 * session_take(), if there is anything but messages of QoS 1: paho acknowledges these,
 * which the relay sees. NULL: err says why. */
struct mqtt_session *session_new(struct mqtt_setup *setup, unsigned port,
                                 loop_cb *on_mail, void *arg, struct err *err);
/* Moves the reports since the last call to mail, which must be empty. */
void session_take(struct mqtt_session *s, struct session_mail *mail);
/* Also calls on_mail() for the next message of QoS 1. */
void session_expect(struct mqtt_session *s);

#endif
