/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp_props.h - frames, and the properties of a message, as AMQP 0-9-1 encodes them.
 * Pure. Any thread. Safe for untrusted bytes.
 *
 * librabbitmq decodes tables recursively without a limit: a producer could nest tables so
 * deeply that the stack overflows. It also does not tell where a field begins, which a
 * sink must know to restore a field byte for byte. So properties are read here, and
 * methods by librabbitmq.
 */
#ifndef SOURCES_AMQP_AMQP_PROPS_H
#define SOURCES_AMQP_AMQP_PROPS_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    AMQP_NAME_MAX = 255,           /* bytes of a name, key or short string */
    AMQP_FRAME_MIN_BYTES = 4096,   /* each side accepts frames of this size */
    AMQP_FRAME_MAX_BYTES = 131072, /* what tarry offers, and RabbitMQ's default */
    AMQP_FRAME_EXTRA_BYTES = 8     /* of each frame, besides its payload */
};

/* -------------------------------------------------------------------- frames */

enum amqp_frame_type { AMQP_METHOD = 1, AMQP_HEADER = 2, AMQP_BODY = 3, AMQP_BEAT = 8 };

struct amqp_frame {
    unsigned type, channel;
    struct slice payload; /* borrowed from the input */
};

/* Removes the first frame from in. Returns 1, or 0 if in contains no whole frame, or -1:
 * err says what is wrong with it. max_bytes: of a whole frame. */
int amqp_frame_take(struct slice *in, size_t max_bytes, struct amqp_frame *out,
                    struct err *err);
void amqp_frame_put(struct buf *out, enum amqp_frame_type type, unsigned channel,
                    struct slice payload);

/* Big-endian integers of n bytes, at most 8. */
uint64_t amqp_number(const char *at, unsigned n);
void amqp_put_number(struct buf *out, uint64_t number, unsigned n);

/* -------------------------------------------------------------------- properties */

/* In the order of their flags, from the highest bit. */
enum amqp_prop {
    AMQP_CONTENT_TYPE,
    AMQP_CONTENT_ENCODING,
    AMQP_HEADERS,
    AMQP_DELIVERY_MODE,
    AMQP_PRIORITY,
    AMQP_CORRELATION_ID,
    AMQP_REPLY_TO,
    AMQP_EXPIRATION,
    AMQP_MESSAGE_ID,
    AMQP_TIMESTAMP,
    AMQP_TYPE,
    AMQP_USER_ID,
    AMQP_APP_ID,
    AMQP_CLUSTER_ID,
    AMQP_PROPS
};

/* The encoded values. p NULL: absent. */
struct amqp_props {
    struct slice raw[AMQP_PROPS];
};

/* Reads flags and values. Checks everything, also nested tables. -1: invalid. */
int amqp_props_parse(struct slice bytes, struct amqp_props *out, struct err *err);
/* Appends flags and values. */
void amqp_props_put(const struct amqp_props *props, struct buf *out);

/* The header that stands for the property in a job: "content-type", "amqp-priority".
 * NULL: none. */
const char *amqp_prop_header(enum amqp_prop prop);
/* Room for the text of a number. */
enum { AMQP_TEXT_SIZE = 32 };
/* Returns the value as text. p NULL: absent, or it is the table. */
struct slice amqp_prop_text(const struct amqp_props *props, enum amqp_prop prop,
                            char room[AMQP_TEXT_SIZE]);
/* Appends the encoded value of a property. -1: the text is no value of it. */
int amqp_prop_put(struct buf *out, enum amqp_prop prop, struct slice text);

/* -------------------------------------------------------------------- the headers */

struct amqp_field {
    struct slice name, value;
    char type;
    struct slice raw; /* name, type and value */
};
/* Returns the content of the headers table; empty if it is absent. */
struct slice amqp_props_table(const struct amqp_props *props);
/* Removes the first field of a table from rest, which must be valid. false: none. */
bool amqp_field_take(struct slice *rest, struct amqp_field *out);
/* Returns whether the field is neither a table nor an array. text: receives the value;
 * numbers are decimal, "true" and "false"; p NULL: AMQP's void. */
bool amqp_field_text(const struct amqp_field *f, char room[AMQP_TEXT_SIZE],
                     struct slice *text);
/* Returns whether the field is a number, or a text of a whole number. n: receives it,
 * truncated. */
bool amqp_field_number(const struct amqp_field *f, int64_t *n);

/* Append a field. name: at most AMQP_NAME_MAX bytes. Value p NULL: AMQP's void. */
void amqp_field_put(struct buf *out, struct slice name, struct slice value);
void amqp_field_put_number(struct buf *out, struct slice name, int64_t n);

#endif
