/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_packet.h"

enum { LENGTH_BYTES_MAX = 4, CONNACK_BYTES = 2 };

/* -------------------------------------------------------------------- parts */

uint64_t reader_number(struct reader *r, unsigned bytes)
{
    const struct slice s = reader_take(r, bytes);
    uint64_t v = 0;

    for (size_t i = 0; i < s.n; i++)
        v = v << 8 | (unsigned char)s.p[i];
    return v;
}

struct slice reader_take(struct reader *r, uint64_t bytes)
{
    r->bad = r->bad || r->n < bytes;
    if (r->bad)
        return (struct slice){NULL, 0};
    const struct slice s = {r->p, (size_t)bytes};
    r->p += s.n;
    r->n -= s.n;
    return s;
}

static struct slice take_text(struct reader *r)
{
    return reader_take(r, reader_number(r, 2));
}

/* Reads a number of one to four bytes. Returns how many; 0: incomplete; -1: invalid. */
static int read_length(struct slice in, size_t *length)
{
    *length = 0;
    for (size_t i = 0; i < LENGTH_BYTES_MAX; i++) {
        if (in.n <= i)
            return 0;
        const unsigned char byte = (unsigned char)in.p[i];
        *length |= (size_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80)
            return (int)i + 1;
    }
    return -1;
}

static size_t take_length(struct reader *r)
{
    size_t length;
    const int n = read_length((struct slice){r->p, r->n}, &length);

    r->bad = r->bad || n <= 0;
    reader_take(r, (uint64_t)n);
    return length;
}

/* -------------------------------------------------------------------- packets */

int packet_head(struct slice in, struct packet_head *h)
{
    size_t rest;

    if (in.n == 0)
        return 0;
    const unsigned char first = (unsigned char)in.p[0];
    const int n = read_length((struct slice){in.p + 1, in.n - 1}, &rest);
    if (n <= 0)
        return n;
    *h = (struct packet_head){.type = first >> 4,
                              .dup = first & 8,
                              .retained = first & 1,
                              .qos = first >> 1 & 3,
                              .size = 1 + (size_t)n + rest,
                              .head_bytes = 1 + (size_t)n};
    return n + 1;
}

static struct reader body_of(struct slice packet, const struct packet_head *h)
{
    return (struct reader){packet.p + h->head_bytes, h->size - h->head_bytes, false};
}

int packet_connack(struct slice packet, const struct packet_head *h)
{
    struct reader r = body_of(packet, h);
    const struct slice flags_and_reason = reader_take(&r, CONNACK_BYTES);

    return r.bad || flags_and_reason.p[1] != 0 ? -1 : flags_and_reason.p[0] & 1;
}

unsigned packet_id(struct slice packet, const struct packet_head *h)
{
    struct reader r = body_of(packet, h);

    return (unsigned)reader_number(&r, 2);
}

bool packet_next_prop(struct slice *props, struct packet_prop *prop)
{
    struct reader r = {props->p, props->n, props->n == 0};

    *prop = (struct packet_prop){.id = (unsigned)reader_number(&r, 1)};
    switch (prop->id) {
    case PROP_PAYLOAD_FORMAT:
        prop->value = reader_take(&r, 1);
        break;
    case PROP_TOPIC_ALIAS:
        prop->value = reader_take(&r, 2);
        break;
    case PROP_EXPIRY:
        prop->value = reader_take(&r, 4);
        break;
    case PROP_SUBSCRIPTION:
        take_length(&r);
        break;
    case PROP_USER:
        prop->name = take_text(&r);
        prop->value = take_text(&r);
        break;
    case PROP_CONTENT_TYPE:
    case PROP_RESPONSE_TOPIC:
    case PROP_CORRELATION:
        prop->value = take_text(&r);
        break;
    default:
        r.bad = true;
    }
    if (!r.bad)
        *props = (struct slice){r.p, r.n};
    return !r.bad;
}

/* Reads all properties. -1: one of them is invalid. */
static int read_props(struct mqtt_message *m)
{
    struct slice rest = m->props;
    struct packet_prop prop;

    while (packet_next_prop(&rest, &prop)) {
        struct reader r = {prop.value.p, prop.value.n, false};
        if (prop.id == PROP_EXPIRY)
            m->expiry_s = (int64_t)reader_number(&r, 4);
    }
    return rest.n == 0 ? 0 : -1;
}

int packet_publish(struct slice packet, const struct packet_head *h, bool v5,
                   struct mqtt_message *m)
{
    struct reader r = body_of(packet, h);

    *m = (struct mqtt_message){.dup = h->dup, .retained = h->retained, .expiry_s = -1};
    m->topic = take_text(&r);
    if (h->qos > 0)
        m->msgid = (unsigned)reader_number(&r, 2);
    if (v5)
        m->props = reader_take(&r, take_length(&r));
    m->payload = reader_take(&r, r.n);
    /* A topic is empty only with a topic alias, which tarry does not permit. */
    if (r.bad || m->topic.n == 0 || h->qos > 2 || (h->qos > 0 && m->msgid == 0))
        return -1;
    return read_props(m);
}
