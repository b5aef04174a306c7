/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/mqtt/mqtt_publish.h"

#include "bridge/base/text.h"

enum { LENGTH_BYTES = 2 /* in front of each text of a packet */ };

static const struct prop_row {
    const char *header;
    enum MQTTPropertyCodes code;
} prop_rows[] = {{"content-type", MQTTPROPERTY_CODE_CONTENT_TYPE},
                 {"mqtt-response-topic", MQTTPROPERTY_CODE_RESPONSE_TOPIC},
                 {"mqtt-correlation-data", MQTTPROPERTY_CODE_CORRELATION_DATA},
                 {"mqtt-payload-format", MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR}};

/* Checks the payload format: a broker may close the connection if the payload does not
 * match. */
static bool is_format(struct slice value, struct slice payload)
{
    return slice_is(value, "0") || (slice_is(value, "1") && text_is_utf8(payload));
}

/* Returns the property for a header. A standard property is allowed only once; a second
 * header of that name becomes a user property. */
static enum MQTTPropertyCodes code_of(MQTTProperties *props, const struct header *h,
                                      struct slice payload)
{
    for (size_t i = 0; i < sizeof(prop_rows) / sizeof(prop_rows[0]); i++) {
        enum MQTTPropertyCodes code = prop_rows[i].code;
        if (!slice_is_nocase(h->name, prop_rows[i].header) ||
            MQTTProperties_hasProperty(props, code))
            continue;
        if (code != MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR ||
            is_format(h->value, payload))
            return code;
    }
    return MQTTPROPERTY_CODE_USER_PROPERTY;
}

/* Borrows s; paho copies it. */
static MQTTLenString len_string(struct slice s)
{
    union {
        const char *in;
        char *out;
    } p = {.in = s.p ? s.p : ""};

    return (MQTTLenString){.len = (int)s.n, .data = p.out};
}

/* props->array must have room. MQTTProperties_add() would copy the text once more, each
 * copy entered in paho's list of allocations. bytes: of the value in the packet. */
static void put(MQTTProperties *props, const MQTTProperty *prop, size_t bytes)
{
    props->array[props->count++] = *prop;
    props->length += 1 + (int)bytes;
}

/* Rounds up, since some brokers treat 0 as no expiry. */
static void put_expiry(MQTTProperties *props, int64_t left_ms)
{
    int64_t left_s = left_ms > 0 ? (left_ms - 1) / 1000 + 1 : 1;
    const MQTTProperty prop = {.identifier = MQTTPROPERTY_CODE_MESSAGE_EXPIRY_INTERVAL,
                               .value.integer4 =
                                   left_s < UINT32_MAX ? (unsigned)left_s : UINT32_MAX};

    put(props, &prop, sizeof(uint32_t));
}

static void put_header(MQTTProperties *props, const struct header *h,
                       struct slice payload)
{
    MQTTProperty prop = {.identifier = code_of(props, h, payload)};
    size_t bytes = LENGTH_BYTES + h->value.n;

    if (prop.identifier == MQTTPROPERTY_CODE_USER_PROPERTY) {
        prop.value.data = len_string(h->name);
        prop.value.value = len_string(h->value);
        bytes += LENGTH_BYTES + h->name.n;
    } else if (prop.identifier == MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR) {
        prop.value.byte = h->value.p[0] == '1';
        bytes = 1;
    } else {
        prop.value.data = len_string(h->value);
    }
    put(props, &prop, bytes);
}

/* The result borrows from room and p. */
static MQTTProperties props_of(struct mqtt_props *room, const struct mqtt_parcel *p)
{
    const unsigned count = p->header_count + 1;

    if (count > room->max) {
        room->v = mem_realloc(room->v, count * sizeof(*room->v));
        room->max = count;
    }
    MQTTProperties props = {.max_count = (int)count, .array = room->v};
    if (p->expires_ms > 0)
        put_expiry(&props, p->expires_ms - loop_mono_ms());
    for (unsigned i = 0; i < p->header_count; i++)
        put_header(&props, &p->headers[i], p->payload);
    return props;
}

int mqtt_publish(const struct mqtt_client *c, struct mqtt_props *room,
                 const struct mqtt_parcel *p, unsigned qos, int *token)
{
    MQTTClient_message message = MQTTClient_message_initializer;
    MQTTLenString payload = len_string(p->payload);

    message.payload = payload.data;
    message.payloadlen = payload.len;
    message.qos = (int)qos;
    message.retained = p->retain;
    if (c->peer->v5)
        message.properties = props_of(room, p);
    return (int)MQTTClient_publishMessage5(c->handle, p->topic, &message, token)
        .reasonCode;
}
