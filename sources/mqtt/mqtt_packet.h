/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_packet.h - reads MQTT packets, versions 3.1.1 and 5. Pure; safe for untrusted
 * bytes.
 *
 * A packet is a byte with type and flags, the length of the rest in one to four bytes,
 * and the rest. Numbers are big-endian.
 */
#ifndef SOURCES_MQTT_MQTT_PACKET_H
#define SOURCES_MQTT_MQTT_PACKET_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packet_type {
    PACKET_CONNACK = 2,
    PACKET_PUBLISH,
    PACKET_PUBACK,
    PACKET_PUBREC,
    PACKET_PUBREL,
    PACKET_PUBCOMP,
    PACKET_PINGREQ = 12
};

#define PACKET_PINGREQ_BYTES SLICE_LIT("\xc0\0")
#define PACKET_PINGRESP_BYTES SLICE_LIT("\xd0\0")
#define PACKET_DISCONNECT_BYTES SLICE_LIT("\xe0\0")

struct packet_head {
    unsigned type;      /* enum packet_type, or another type */
    bool dup, retained; /* of PUBLISH, as qos */
    unsigned qos;
    size_t size;       /* of the packet, head included */
    size_t head_bytes; /* 2 to 5 */
};
/* Reads the head of the first packet of in. Returns head_bytes; 0: incomplete; -1: the
 * length is invalid. */
int packet_head(struct slice in, struct packet_head *h);

/* The functions below read a whole packet with its head. */

/* Returns 1 if the broker has resumed an earlier session, 0 if it began a new one; -1: it
 * rejects the connection. */
int packet_connack(struct slice packet, const struct packet_head *h);
/* Returns the packet id of a PUBREL; 0: there is none. */
unsigned packet_id(struct slice packet, const struct packet_head *h);

struct mqtt_message {
    bool dup, retained;
    unsigned msgid;       /* 0 at QoS 0 */
    uint64_t whole_bytes; /* original size of a truncated message; 0: not truncated */
    int64_t expiry_s;     /* seconds left of the message expiry interval; -1: none */
    struct slice topic, payload;
    struct slice props; /* of MQTT 5, as in the packet */
};
/* Reads a PUBLISH. m borrows from packet. -1: it is invalid. */
int packet_publish(struct slice packet, const struct packet_head *h, bool v5,
                   struct mqtt_message *m);

/* The properties that PUBLISH may have. */
enum packet_prop_id {
    PROP_PAYLOAD_FORMAT = 1,
    PROP_EXPIRY = 2,
    PROP_CONTENT_TYPE = 3,
    PROP_RESPONSE_TOPIC = 8,
    PROP_CORRELATION = 9,
    PROP_SUBSCRIPTION = 11,
    PROP_TOPIC_ALIAS = 35,
    PROP_USER = 38
};
struct packet_prop {
    unsigned id;        /* enum packet_prop_id */
    struct slice name;  /* PROP_USER only */
    struct slice value; /* the bytes of a text or number */
};
/* Removes the first property from props. false: props is empty, or invalid from here on.
 */
bool packet_next_prop(struct slice *props, struct packet_prop *prop);

/* --- for parsers of packets and frames --- */
struct reader {
    const char *p;
    size_t n;
    bool bad; /* the input is too short; all later reads return 0 or an empty slice */
};
uint64_t reader_number(struct reader *r, unsigned bytes);
struct slice reader_take(struct reader *r, uint64_t bytes);

#endif
