/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_frame.h - the protocol between the MQTT source and its worker processes.
 *
 * A frame is a 32-bit length, then that many bytes: a byte with the type, and the body.
 * Numbers have the host's byte order, since both ends are the same program. Pure; the
 * reader enforces the limits: a broker's input may have corrupted the worker.
 *
 * The source sends SETUP once, STORED when Redis has stored the jobs of the next MESSAGE
 * frames, and finally STOP. The worker sends CONNECTED, SUBSCRIBED, and each MESSAGE as
 * it arrives. FAILED is its last frame. Either end closes the socket to give up.
 */
#ifndef SOURCES_MQTT_MQTT_FRAME_H
#define SOURCES_MQTT_MQTT_FRAME_H

#include "bridge/base/mem.h"
#include "bridge/opt.h"
#include "sources/mqtt/mqtt_link.h"
#include "sources/mqtt/mqtt_packet.h"

#include <sys/types.h>

enum frame_type {
    FRAME_SETUP = 1,
    FRAME_CONNECTED,  /* number: whether the broker has resumed an earlier session */
    FRAME_SUBSCRIBED, /* empty */
    FRAME_MESSAGE,
    FRAME_FAILED, /* text: why */
    FRAME_STORED, /* number: further messages stored, in the order of their frames */
    FRAME_STOP    /* empty */
};
enum {
    FRAME_SMALL_MAX = 1024 * 1024, /* bytes of any frame except MESSAGE */
    FRAME_CUT_BYTES = 4096         /* of the payload that a truncated message contains */
};

struct frame {
    enum frame_type type;
    struct slice body; /* borrowed from the input */
};
/* Parses the first frame of in and returns its size in bytes; 0: incomplete; -1: invalid,
 * or larger than max_bytes. */
ssize_t frame_take(struct slice in, size_t max_bytes, struct frame *f, struct err *err);

void frame_put(struct buf *out, enum frame_type type, struct slice body);
void frame_put_number(struct buf *out, enum frame_type type, uint32_t number);
int frame_get_number(struct slice body, uint32_t *number, struct err *err);

/* How a worker must connect. */
struct mqtt_setup {
    struct mqtt_peer peer;
    struct opt_list filters;
    unsigned qos;
    uint32_t session_expiry_s;
    unsigned receive_max;
    bool retained;        /* whether to receive retained messages */
    uint64_t message_max; /* bytes; a larger message is truncated */
};
void frame_put_setup(struct buf *out, const struct mqtt_setup *setup);
/* Fills in setup with copies; on failure nothing is left to free. */
int frame_get_setup(struct slice body, struct mqtt_setup *setup, struct err *err);
void mqtt_setup_free(struct mqtt_setup *setup); /* wipes the password */

/* Truncates a message of more than message_max bytes. */
void frame_put_message(struct buf *out, const struct mqtt_message *m,
                       uint64_t message_max);
int frame_get_message(struct slice body, struct mqtt_message *m, struct err *err);
/* The largest MESSAGE frame that a worker makes under this message_max. */
size_t frame_message_max(uint64_t message_max);

#endif
