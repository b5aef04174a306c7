/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_message.c - a message that paho received, as a frame for the source.
 */
#include "sources/mqtt/mqtt_message.h"

#include <stdbool.h>

static const struct prop_row {
    enum MQTTPropertyCodes code;
    enum mqtt_prop_kind kind;
} prop_rows[] = {{MQTTPROPERTY_CODE_CONTENT_TYPE, PROP_CONTENT_TYPE},
                 {MQTTPROPERTY_CODE_RESPONSE_TOPIC, PROP_RESPONSE_TOPIC},
                 {MQTTPROPERTY_CODE_CORRELATION_DATA, PROP_CORRELATION},
                 {MQTTPROPERTY_CODE_USER_PROPERTY, PROP_USER}};

static struct slice slice_from(MQTTLenString s)
{
    return (struct slice){s.data ? s.data : "", s.len > 0 ? (size_t)s.len : 0};
}

/* As text; the bytes of the others stay paho's. */
static void add_format(struct buf *out, const MQTTProperty *p)
{
    const struct mqtt_prop prop = {.kind = PROP_PAYLOAD_FORMAT,
                                   .value = slice_of(p->value.byte == 1 ? "1" : "0")};
    frame_put_prop(out, &prop);
}

static void add_one(struct buf *out, const MQTTProperty *p, enum mqtt_prop_kind kind)
{
    const bool pair = kind == PROP_USER;
    const struct mqtt_prop prop = {
        .kind = kind,
        .name = pair ? slice_from(p->value.data) : (struct slice){NULL, 0},
        .value = slice_from(pair ? p->value.value : p->value.data)};
    frame_put_prop(out, &prop);
}

static void add_props(struct buf *out, const MQTTProperties *props)
{
    for (int i = 0; i < props->count; i++) {
        const MQTTProperty *p = &props->array[i];
        if (p->identifier == MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR)
            add_format(out, p);
        for (size_t k = 0; k < sizeof(prop_rows) / sizeof(prop_rows[0]); k++)
            if (p->identifier == prop_rows[k].code)
                add_one(out, p, prop_rows[k].kind);
    }
}

/* Seconds left of the message expiry interval; -1: none. */
static int64_t expiry_s(const MQTTProperties *props)
{
    for (int i = 0; i < props->count; i++)
        if (props->array[i].identifier == MQTTPROPERTY_CODE_MESSAGE_EXPIRY_INTERVAL)
            return props->array[i].value.integer4;
    return -1;
}

void mqtt_message_put(struct buf *frame, struct slice topic,
                      const MQTTAsync_message *message, uint64_t message_max)
{
    struct buf props = {0};
    struct mqtt_message m = {.dup = message->dup,
                             .retained = message->retained,
                             .msgid = (unsigned)message->msgid & 0xffff,
                             .expiry_s = expiry_s(&message->properties),
                             .topic = topic,
                             .payload = {message->payload, (size_t)message->payloadlen}};
    size_t whole = topic.n + m.payload.n + (size_t)message->properties.length;

    if (m.payload.p == NULL)
        m.payload.p = "";
    if (whole > message_max) {
        m.whole_bytes = whole;
        if (m.payload.n > FRAME_CUT_BYTES)
            m.payload.n = FRAME_CUT_BYTES;
    } else {
        add_props(&props, &message->properties);
    }
    m.props = buf_slice(&props);
    frame_put_message(frame, &m);
    buf_free(&props);
}
