/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_session.h - the paho client of a worker process: it connects to the relay,
 * subscribes, and collects what paho's threads report.
 *
 * paho's callbacks return at once. What they report waits in a mailbox for the loop.
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
 * session_take(), if paho's threads have reported anything but a message of QoS 1: after
 * that paho acknowledges, which the relay sees. NULL: err says why. */
struct mqtt_session *session_new(struct mqtt_setup *setup, unsigned port,
                                 loop_cb *on_mail, void *arg, struct err *err);
/* Moves the reports since the last call to mail, which must be empty. */
void session_take(struct mqtt_session *s, struct session_mail *mail);

#endif
