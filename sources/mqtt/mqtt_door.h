/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_door.h - a listener on 127.0.0.1 that accepts one connection, and only from this
 * process. Loop thread.
 *
 * A connection from any other process is reset. So no other user of the machine can read
 * or acknowledge messages.
 */
#ifndef SOURCES_MQTT_MQTT_DOOR_H
#define SOURCES_MQTT_MQTT_DOOR_H

struct err;
struct door;

/* Called once. fd is non-blocking and owned by the callee. */
typedef void door_cb(void *arg, int fd);

/* Returns NULL on failure. */
struct door *door_open(door_cb *accepted, void *arg, struct err *err);
unsigned door_port(const struct door *d);
/* Closes the listener, which has also happened before accepted(). NULL is allowed. */
void door_close(struct door *d);

#endif
