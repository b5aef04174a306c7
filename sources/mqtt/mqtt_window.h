/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_window.h - the messages that a worker has given to the source, and paho's
 * acknowledgements of them, which wait until the source has stored the messages. Pure.
 *
 * The messages form a queue. Acknowledgements leave it in the order of the messages
 * (MQTT 5, section 4.6). paho acknowledges a message, then calls back with it, then
 * acknowledges the next one. So at most one acknowledgement comes before its message.
 */
#ifndef SOURCES_MQTT_MQTT_WINDOW_H
#define SOURCES_MQTT_MQTT_WINDOW_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct window_message {
    unsigned id; /* packet id; 0 at QoS 0 */
    unsigned qos;
    size_t bytes;     /* of memory that it uses in the worker */
    size_t ack_bytes; /* of its acknowledgement in acks; 0: none yet */
};

/* A zeroed struct is a valid empty window. The first four numbers count messages since
 * the start: released <= stored <= added, released <= acked <= added. */
struct mqtt_window {
    uint64_t released; /* acknowledgement sent, or none needed */
    uint64_t acked;    /* by paho, or nothing to hold */
    uint64_t stored;   /* by the source */
    uint64_t added;
    uint64_t passed;               /* to paho, at QoS 0 or 1 */
    uint64_t passed_stored;        /* of these stored */
    size_t bytes;                  /* of the messages that are not stored */
    struct window_message *places; /* a ring */
    size_t place_count;            /* a power of two, or 0 */
    struct buf acks;               /* held acknowledgements */
    unsigned early_id;  /* of the acknowledgement that came before its message */
    size_t early_bytes; /* of it in acks; 0: none */
    bool holds_qos_2; /* MQTT 5: paho calls back before PUBREL. With 3.1.1 it forgets the
                       * message with the connection, so holding would not save it */
};
void window_free(struct mqtt_window *w);

/* A PUBLISH packet of this QoS was passed to paho, which has not yet called back. */
void window_pass(struct mqtt_window *w, unsigned qos);
/* paho called back with a message, which was given to the source. -1: paho has
 * acknowledged another one before. */
int window_add(struct mqtt_window *w, struct window_message m);
/* The source has stored count further messages. -1: more than it was given. */
int window_store(struct mqtt_window *w, uint64_t count);

/* paho sent a PUBACK for id, or a PUBREC if holds_qos_2. Copies the packet. -1: it is not
 * for the next message. */
int window_ack(struct mqtt_window *w, struct slice packet, unsigned id);
/* Moves the acknowledgements of stored messages to out, in order. */
void window_release(struct mqtt_window *w, struct buf *out);

/* Returns the number of messages at QoS 0 or 1 that were passed and are not stored. */
uint64_t window_open(const struct mqtt_window *w);
/* Returns whether the acknowledgement of every stored message was released. */
bool window_settled(const struct mqtt_window *w);

#endif
