/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_parcel.c - copies a delivery to a parcel; publishes it.
 *
 * Headers become user properties, which MQTT 3.1.1 does not support.
 */
#include "bridge/base/text.h"
#include "bridge/job/cloudevent.h"
#include "sinks/mqtt/mqtt_run.h"
#include "sources/mqtt/mqtt_job.h"

#include <stdio.h>

enum {
    LENGTH_BYTES = 2, /* in front of each text of a packet */
    PACKET_EXTRA = 64 /* upper bound for headers and lengths of a PUBLISH */
};

/* -------------------------------------------------------------------- from a delivery */

/* Can a property contain the header? Otherwise the broker would close the connection,
 * which affects every message in flight. Only correlation data may be arbitrary bytes,
 * and only the first such header. */
static bool header_fits(const struct header *h, bool *correlated)
{
    bool text = mqtt_text_ok(h->name) && mqtt_text_ok(h->value);

    if (slice_is_nocase(h->name, MQTT_RESPONSE_TOPIC_HEADER))
        return mqtt_topic_check(h->value, NULL) == 0;
    if (!slice_is_nocase(h->name, MQTT_CORRELATION_HEADER) || *correlated)
        return text;
    *correlated = h->value.n <= MQTT_TEXT_MAX;
    return *correlated;
}

static struct slice keep(char **at, struct slice s)
{
    char *to = *at;

    *at = slice_put(to, s);
    return (struct slice){to, s.n};
}

static bool is_trace(struct slice name)
{
    return slice_is_nocase(name, "traceparent") || slice_is_nocase(name, "tracestate");
}

/* Renames a CloudEvents header for MQTT; name and value are its storage. false: drop the
 * header. If two headers get the same name, the attribute wins, since the event requires
 * it; for trace context the plain header wins, since it is newer. */
static bool of_event(const struct delivery *d, struct header *h, struct buf *name,
                     struct buf *value)
{
    buf_clear(name);
    buf_clear(value);
    if (cloudevent_out(h, CE_MQTT, name, value)) {
        *h = (struct header){buf_slice(name), buf_slice(value)};
        return !is_trace(h->name) || !delivery_header(d, buf_str(name));
    }
    buf_add_str(name, "ce_");
    buf_add_slice(name, h->name);
    return is_trace(h->name) || !delivery_header(d, buf_str(name));
}

/* false: MQTT cannot transport one of them. */
static bool keep_headers(struct mqtt_parcel *p, const struct delivery *d, char **at)
{
    const bool event = cloudevent_is(d->job);
    bool correlated = false, all = true;
    struct buf name = {0}, value = {0};

    for (unsigned i = 0; i < d->header_count; i++) {
        struct header h = d->headers[i];
        if (slice_is_nocase(h.name, MQTT_RETAIN_HEADER))
            continue; /* it sets the flag, or is ignored */
        if (event && !of_event(d, &h, &name, &value))
            continue;
        if (header_fits(&h, &correlated)) {
            p->headers[p->header_count++] =
                (struct header){keep(at, h.name), keep(at, h.value)};
            p->packet_bytes += 1 + 2 * LENGTH_BYTES + h.name.n + h.value.n;
        } else {
            all = false;
        }
    }
    buf_free(&name);
    buf_free(&value);
    return all;
}

struct mqtt_parcel *mqtt_parcel_new(const struct delivery *d, bool v5, bool *dropped)
{
    const size_t header_bytes = d->header_count * sizeof(struct header);
    size_t bytes = d->target.n + 1 + d->job->payload.n;

    for (unsigned i = 0; i < d->header_count; i++)
        bytes += d->headers[i].name.n + d->headers[i].value.n;
    struct mqtt_parcel *p = mem_alloc(sizeof(*p) + header_bytes + bytes);
    p->headers = (struct header *)(p + 1);
    char *at = (char *)(p + 1) + header_bytes;
    p->topic = at;
    keep(&at, d->target);
    *at++ = '\0';
    p->payload = keep(&at, d->job->payload);
    p->packet_bytes = PACKET_EXTRA + d->target.n + p->payload.n;
    *dropped = v5 && !keep_headers(p, d, &at);
    p->expires_ms = d->left_ms > 0 ? loop_mono_ms() + d->left_ms : 0;
    return p;
}

void mqtt_parcel_result(struct mqtt_parcel *p, enum outcome outcome, const char *why)
{
    p->outcome = outcome;
    snprintf(p->why, sizeof(p->why), "%s", why);
}

/* -------------------------------------------------------------------- to the broker */

static const struct prop_row {
    const char *header;
    enum MQTTPropertyCodes code;
} prop_rows[] = {
    {"content-type", MQTTPROPERTY_CODE_CONTENT_TYPE},
    {MQTT_RESPONSE_TOPIC_HEADER, MQTTPROPERTY_CODE_RESPONSE_TOPIC},
    {MQTT_CORRELATION_HEADER, MQTTPROPERTY_CODE_CORRELATION_DATA},
    {MQTT_PAYLOAD_FORMAT_HEADER, MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR}};

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
