/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_packet.h"

enum { LENGTH_BYTES_MAX = 4, ID_BYTES = 2 };

int packet_head(struct slice in, struct packet_head *h)
{
    const unsigned char *p = (const unsigned char *)in.p;
    size_t rest = 0;

    for (size_t i = 1; i <= LENGTH_BYTES_MAX; i++) {
        if (in.n <= i)
            return 0;
        rest |= (size_t)(p[i] & 0x7f) << 7 * (i - 1);
        if (p[i] & 0x80)
            continue;
        *h = (struct packet_head){.type = p[0] >> 4,
                                  .qos = p[0] >> 1 & 3,
                                  .size = i + 1 + rest,
                                  .head_bytes = i + 1};
        return (int)h->head_bytes;
    }
    return -1;
}

int packet_connack(struct slice in, const struct packet_head *h)
{
    const size_t end = h->head_bytes + PACKET_CONNACK_BYTES;

    if (h->size < end || in.n < end || in.p[end - 1] != 0)
        return -1;
    return in.p[end - 2] & 1;
}

int packet_acknowledged(struct slice packet, const struct packet_head *h)
{
    const bool acknowledges =
        h->type == PACKET_PUBACK || h->type == PACKET_PUBREC || h->type == PACKET_PUBCOMP;

    if (!acknowledges || h->size < h->head_bytes + ID_BYTES || packet.n < h->size)
        return -1;
    const unsigned char *id = (const unsigned char *)packet.p + h->head_bytes;
    return id[0] << 8 | id[1];
}
