/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_packet.h - the framing of MQTT packets, versions 3.1.1 and 5. Pure.
 *
 * A packet is a byte with type and flags, the length of the rest in one to four bytes,
 * and the rest.
 */
#ifndef SOURCES_MQTT_MQTT_PACKET_H
#define SOURCES_MQTT_MQTT_PACKET_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

enum packet_type {
    PACKET_CONNACK = 2,
    PACKET_PUBLISH,
    PACKET_PUBACK,
    PACKET_PUBREC,
    PACKET_PUBREL,
    PACKET_PUBCOMP,
    PACKET_PINGREQ = 12
};

#define PACKET_PINGRESP_BYTES SLICE_LIT("\xd0\0")
#define PACKET_DISCONNECT_BYTES SLICE_LIT("\xe0\0")

struct packet_head {
    unsigned type;     /* enum packet_type, or another type */
    unsigned qos;      /* of PUBLISH; otherwise meaningless */
    size_t size;       /* of the packet, head included */
    size_t head_bytes; /* 2 to 5 */
};
/* Reads the head of the first packet of in. Returns head_bytes; 0: incomplete; -1: the
 * length is invalid. */
int packet_head(struct slice in, struct packet_head *h);

/* CONNACK begins with a byte of flags and a reason, also in incomplete packets. */
enum { PACKET_CONNACK_BYTES = 2 };
/* Returns 1 if the broker has resumed an earlier session, 0 if it began a new one; -1: it
 * rejects the connection, or in is too short. */
int packet_connack(struct slice in, const struct packet_head *h);

/* Returns the packet id of a whole PUBACK, PUBREC or PUBCOMP; -1: another type, or too
 * short for an id. Reason codes and properties may follow the id. */
int packet_acknowledged(struct slice packet, const struct packet_head *h);

#endif
