/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_frame.h - the protocol between the MQTT source and its worker processes.
 *
 * A frame is a u32 length, then that many bytes: a u8 type and the type's fields. Numbers
 * are big-endian. A text is a u32 length and its bytes. Pure; the reader enforces the
 * limits.
 *
 * The source sends SETUP once, STORED when Redis has stored the jobs of the next MESSAGE
 * frames, and finally STOP. The worker sends CONNECTED, SUBSCRIBED, and each MESSAGE as
 * it arrives. FAILED is its last frame. Either end closes the socket to give up.
 */
#ifndef SOURCES_MQTT_MQTT_FRAME_H
#define SOURCES_MQTT_MQTT_FRAME_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/opt.h"
#include "sources/mqtt/mqtt_link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum frame_type {
    FRAME_SETUP = 1,
    FRAME_CONNECTED,
    FRAME_SUBSCRIBED,
    FRAME_MESSAGE,
    FRAME_FAILED,
    FRAME_STORED,
    FRAME_STOP
};
enum {
    FRAME_SMALL_MAX = 1024 * 1024, /* bytes of any frame except MESSAGE */
    FRAME_CUT_BYTES = 4096         /* of the payload that a truncated message contains */
};

struct frame {
    enum frame_type type;
    struct slice body; /* after the type; borrowed from the input */
};
/* Parses the first frame of in and returns its size in bytes; 0: incomplete; -1: invalid,
 * or larger than max_bytes. */
ssize_t frame_take(struct slice in, size_t max_bytes, struct frame *f, struct err *err);

/* Appends a frame without fields: SUBSCRIBED, STOP. */
void frame_put(struct buf *out, enum frame_type type);
void frame_put_failed(struct buf *out, const char *why);
int frame_get_failed(struct slice body, struct slice *why, struct err *err);
/* count: further messages that are stored, in the order of their MESSAGE frames. */
void frame_put_stored(struct buf *out, unsigned count);
int frame_get_stored(struct slice body, unsigned *count, struct err *err);
void frame_put_connected(struct buf *out, bool session_present);
int frame_get_connected(struct slice body, bool *session_present, struct err *err);

/* --- how a worker must connect --- */
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

/* --- one message --- */
struct mqtt_message {
    bool dup, retained;
    unsigned msgid;       /* 0 at QoS 0 */
    uint64_t whole_bytes; /* original size of a truncated message; 0: not truncated */
    /* MQTT 5: seconds left of the message expiry interval; -1: none. Not in the hash: it
     * has changed when the broker sends the message again. */
    int64_t expiry_s;
    struct slice topic, payload;
    struct slice props; /* made by frame_put_prop() */
};
void frame_put_message(struct buf *out, const struct mqtt_message *m);
int frame_get_message(struct slice body, struct mqtt_message *m, struct err *err);
/* The largest MESSAGE frame that a worker makes under this message_max. */
size_t frame_message_max(uint64_t message_max);
/* Equal for equal topic, payload and properties. */
uint64_t mqtt_message_hash(const struct mqtt_message *m);

enum mqtt_prop_kind {
    PROP_USER,
    PROP_CONTENT_TYPE,
    PROP_RESPONSE_TOPIC,
    PROP_CORRELATION,
    PROP_PAYLOAD_FORMAT, /* value: "0" or "1" */
    PROP_KINDS
};
struct mqtt_prop {
    enum mqtt_prop_kind kind;
    struct slice name; /* PROP_USER only */
    struct slice value;
};
void frame_put_prop(struct buf *props, const struct mqtt_prop *prop);
/* Removes the first property from props; false: props is empty. */
bool frame_next_prop(struct slice *props, struct mqtt_prop *prop);

#endif
