/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/mqtt/mqtt_client.h"

#include "bridge/base/text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONNECT_TIMEOUT_S = 10,
    LENGTH_BYTES = 2 /* in front of each text of a packet */
};

/* -------------------------------------------------------------------- callbacks */

/* MQTT 5: PUBACK and PUBCOMP, and a PUBREC that rejects the message. */
static void on_published(void *context, int token, int packet_type, MQTTProperties *props,
                         enum MQTTReasonCodes reason)
{
    const struct mqtt_client *c = context;

    (void)packet_type;
    (void)props;
    c->events->answered(c->context, token, reason);
}

/* MQTT 3.1.1: PUBACK and PUBCOMP. */
static void on_complete(void *context, MQTTClient_deliveryToken token)
{
    const struct mqtt_client *c = context;

    c->events->answered(c->context, token, MQTTREASONCODE_SUCCESS);
}

static void on_lost(void *context, char *cause)
{
    const struct mqtt_client *c = context;

    c->events->lost(c->context, cause ? cause : "connection lost");
}

/* MQTT 5: paho calls this instead of on_lost(), or after it. */
static void on_disconnect_packet(void *context, MQTTProperties *props,
                                 enum MQTTReasonCodes reason)
{
    const struct mqtt_client *c = context;
    const struct mqtt_failure failure = {.reason = reason,
                                         .message = "the broker closed the connection"};
    char why[MQTT_WHY_MAX];

    (void)props;
    mqtt_why(why, sizeof(why), &failure);
    c->events->lost(c->context, why);
}

/* Never called, since the sink does not subscribe, but paho requires it. */
static int on_message(void *context, char *topic, int topic_len, MQTTClient_message *m)
{
    (void)context;
    (void)topic_len;
    MQTTClient_freeMessage(&m);
    MQTTClient_free(topic);
    return 1;
}

static int on_tls_error(const char *line, size_t len, void *context)
{
    struct mqtt_client *c = context;

    mqtt_why_tls(c->tls_why, sizeof(c->tls_why), line, len);
    return 1;
}

/* -------------------------------------------------------------------- connecting */

/* Keeps a client that never connects: paho shuts down with its last client, which is not
 * safe while another thread creates a new client. */
static void keep_paho(void)
{
    static MQTTClient anchor;

    MQTTClient_create(&anchor, "tcp://127.0.0.1:1883", "tarry",
                      MQTTCLIENT_PERSISTENCE_NONE, NULL);
}

static int create(struct mqtt_client *c)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const bool v5 = c->peer->v5;
    MQTTClient_createOptions opts = MQTTClient_createOptions_initializer;

    pthread_once(&once, keep_paho);
    opts.MQTTVersion = v5 ? MQTTVERSION_5 : MQTTVERSION_3_1_1;
    int rc = MQTTClient_createWithOptions(&c->handle, c->peer->uri, c->peer->client_id,
                                          MQTTCLIENT_PERSISTENCE_NONE, NULL, &opts);
    if (rc != MQTTCLIENT_SUCCESS) {
        c->handle = NULL;
        return rc;
    }
    MQTTClient_setCallbacks(c->handle, c, on_lost, on_message, v5 ? NULL : on_complete);
    if (v5) {
        MQTTClient_setPublished(c->handle, c, on_published);
        MQTTClient_setDisconnected(c->handle, c, on_disconnect_packet);
    }
    return MQTTCLIENT_SUCCESS;
}

static bool uses_tls(const struct mqtt_client *c)
{
    return strncmp(c->peer->uri, "ssl://", 6) == 0;
}

static MQTTClient_SSLOptions tls_options(struct mqtt_client *c)
{
    const struct mqtt_peer *peer = c->peer;
    MQTTClient_SSLOptions tls = MQTTClient_SSLOptions_initializer;

    tls.enableServerCertAuth = 1;
    tls.verify = 1; /* 0, paho's default, accepts a certificate for any host */
    tls.trustStore = peer->ca_file;
    tls.keyStore = peer->cert_file;
    tls.privateKey = peer->key_file;
    tls.privateKeyPassword = peer->key_password;
    tls.protos = (const unsigned char *)peer->alpn; /* borrowed from peer */
    tls.protos_len = peer->alpn ? (unsigned)strlen(peer->alpn) : 0;
    tls.ssl_error_cb = on_tls_error;
    tls.ssl_error_context = c;
    return tls;
}

static unsigned number_or(MQTTProperties *props, enum MQTTPropertyCodes code,
                          unsigned otherwise)
{
    /* The value is read as an int and may exceed its range. */
    return props && MQTTProperties_hasProperty(props, code)
               ? (unsigned)MQTTProperties_getNumericValue(props, code)
               : otherwise;
}

/* The broker closes the connection if we exceed its limits. 0 means no limit. */
static struct mqtt_limits limits_of(MQTTProperties *props)
{
    unsigned packet_max = number_or(props, MQTTPROPERTY_CODE_MAXIMUM_PACKET_SIZE, 0);
    unsigned receive_max = number_or(props, MQTTPROPERTY_CODE_RECEIVE_MAXIMUM, 0);

    return (struct mqtt_limits){
        .packet_max_bytes = packet_max ? packet_max : UINT32_MAX,
        .receive_max = receive_max ? receive_max : UINT16_MAX,
        .qos_max = number_or(props, MQTTPROPERTY_CODE_MAXIMUM_QOS, 2),
        .retain = number_or(props, MQTTPROPERTY_CODE_RETAIN_AVAILABLE, 1)};
}

/* Returns 0, an error of paho, or the refusal of the broker. Clean session: a session
 * that outlives the connection could deliver cancelled messages. */
static int connect_now(struct mqtt_client *c, unsigned in_flight_max,
                       struct mqtt_limits *limits)
{
    const MQTTClient_connectOptions v3 = MQTTClient_connectOptions_initializer;
    const MQTTClient_connectOptions v5 = MQTTClient_connectOptions_initializer5;
    const struct mqtt_peer *peer = c->peer;
    MQTTClient_connectOptions opts = peer->v5 ? v5 : v3;
    MQTTClient_SSLOptions tls = tls_options(c);

    opts.MQTTVersion = peer->v5 ? MQTTVERSION_5 : MQTTVERSION_3_1_1;
    opts.keepAliveInterval = (int)peer->keepalive_s;
    opts.connectTimeout = CONNECT_TIMEOUT_S;
    opts.username = peer->user;
    opts.password = peer->password;
    opts.reliable = 0; /* 1, paho's default, allows one message in flight */
    opts.maxInflightMessages = (int)in_flight_max + 1;
    if (uses_tls(c))
        opts.ssl = &tls;
    *limits = limits_of(NULL);
    if (!peer->v5)
        return MQTTClient_connect(c->handle, &opts);
    MQTTResponse answer = MQTTClient_connect5(c->handle, &opts, NULL, NULL);
    if (answer.reasonCode == MQTTREASONCODE_SUCCESS)
        *limits = limits_of(answer.properties);
    int rc = (int)answer.reasonCode;
    MQTTResponse_free(answer);
    return rc;
}

/* paho (1.3.12 to 1.4) stops its thread when the last connection ends, also if a new one
 * begins in that moment. Then nothing would ever be answered. receive() fails at once
 * while the thread runs, before it sets topic. */
static bool has_thread(struct mqtt_client *c)
{
    char none, *topic = &none;
    int topic_len = 0;
    MQTTClient_message *m = NULL;

    MQTTClient_receive(c->handle, &topic, &topic_len, &m, 0);
    return topic == &none;
}

int mqtt_client_connect(struct mqtt_client *c, const struct mqtt_peer *peer,
                        unsigned in_flight_max, const struct mqtt_client_events *events,
                        void *context, struct mqtt_limits *limits, char *why,
                        size_t why_size)
{
    struct mqtt_failure failure = {.tls_why = c->tls_why};

    c->peer = peer;
    c->events = events;
    c->context = context;
    failure.code = create(c);
    if (failure.code == MQTTCLIENT_SUCCESS) {
        failure.code = connect_now(c, in_flight_max, limits);
        failure.tls = uses_tls(c);
        if (failure.code == MQTTCLIENT_SUCCESS && has_thread(c))
            return 0;
    }
    if (failure.code < -1)
        failure.message = MQTTClient_strerror(failure.code);
    else if (failure.code == MQTTCLIENT_SUCCESS)
        failure = (struct mqtt_failure){.message = "the MQTT client stopped"};
    mqtt_why(why, why_size, &failure);
    return -1;
}

void mqtt_client_disconnect(struct mqtt_client *c)
{
    if (c->handle == NULL)
        return;
    if (c->peer->v5)
        MQTTClient_disconnect5(c->handle, 0, MQTTREASONCODE_SUCCESS, NULL);
    else
        MQTTClient_disconnect(c->handle, 0);
}

void mqtt_client_destroy(struct mqtt_client *c)
{
    if (c->handle)
        MQTTClient_destroy(&c->handle);
    free(c->props);
}

/* -------------------------------------------------------------------- publishing */

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

/* The result borrows from p, and is valid until the next call. */
static MQTTProperties props_of(struct mqtt_client *c, const struct mqtt_parcel *p)
{
    const unsigned count = p->header_count + 1;

    if (count > c->props_max) {
        c->props = mem_realloc(c->props, count * sizeof(*c->props));
        c->props_max = count;
    }
    MQTTProperties props = {.max_count = (int)count, .array = c->props};
    if (p->expires_ms > 0)
        put_expiry(&props, p->expires_ms - loop_mono_ms());
    for (unsigned i = 0; i < p->header_count; i++)
        put_header(&props, &p->headers[i], p->payload);
    return props;
}

int mqtt_client_publish(struct mqtt_client *c, const struct mqtt_parcel *p, unsigned qos,
                        int *token)
{
    MQTTClient_message message = MQTTClient_message_initializer;
    MQTTLenString payload = len_string(p->payload);

    message.payload = payload.data;
    message.payloadlen = payload.len;
    message.qos = (int)qos;
    message.retained = p->retain;
    if (c->peer->v5)
        message.properties = props_of(c, p);
    return (int)MQTTClient_publishMessage5(c->handle, p->topic, &message, token)
        .reasonCode;
}
