/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_conn.h - the connection of an MQTT sink: sends its parcels in order, within the
 * limits of the broker, and reconnects. Loop thread. Does all waiting and backoff of the
 * sink; mqtt_run.c is one connection.
 */
#ifndef SINKS_MQTT_MQTT_CONN_H
#define SINKS_MQTT_MQTT_CONN_H

#include "sinks/mqtt/mqtt_run.h"

struct mqtt_conn_spec {
    const char *name; /* of the sink, for log lines; borrowed until mqtt_conn_free() */
    struct mqtt_peer peer;
    unsigned qos;
    bool retain; /* a parcel may have the retain flag */
    unsigned max_in_flight;
    loop_cb *ended; /* called after mqtt_conn_stop() */
    void *ended_arg;
};

struct mqtt_conn;
/* Takes ownership of spec->peer. NULL: no thread could be started. */
struct mqtt_conn *mqtt_conn_new(struct mqtt_conn_spec *spec, struct err *err);
bool mqtt_conn_is_up(const struct mqtt_conn *conn);
/* Takes ownership of the parcel until returned() is called, exactly once. */
void mqtt_conn_post(struct mqtt_conn *conn, struct mqtt_parcel *p);
/* Reconnects. Call if the broker leaves a message unanswered for too long, which would
 * block the window. */
void mqtt_conn_reconnect(struct mqtt_conn *conn);
/* Disconnects, then calls spec->ended. All deliveries must be reported. Call
 * mqtt_conn_free() only after that. */
void mqtt_conn_stop(struct mqtt_conn *conn);
void mqtt_conn_free(struct mqtt_conn *conn);

#endif
