/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_run.c - the calls into paho and the callbacks from it, for the MQTT sink.
 */
#include "sinks/mqtt/mqtt_thread.h"

#include "bridge/base/text.h"

#include <string.h>
#include <stdio.h>

enum {
    DISCONNECT_WAIT_MS = 2000,
    PACKET_EXTRA = 64 /* upper bound for headers and lengths of a PUBLISH */
};

/* --------------------------------------------------- answers, on paho's threads */

/* status: the broker's reason code; 0: none. */
static void answered(struct mqtt_parcel *p, enum outcome outcome, int status,
                     const char *why)
{
    struct mqtt_run *run = p->run;

    pthread_mutex_lock(run->lock);
    p->status = status;
    bool was_full = run->sent.count == run->window;
    mqtt_parcel_finish(p, outcome, why);
    if (was_full)
        pthread_cond_broadcast(run->changed);
    pthread_mutex_unlock(run->lock);
}

static void on_sent(void *context, MQTTAsync_successData *d)
{
    (void)d;
    answered(context, DELIVERED, 0, "");
}

/* Also called for "no matching subscribers", which counts as delivered. */
static void on_sent5(void *context, MQTTAsync_successData5 *d)
{
    (void)d;
    answered(context, DELIVERED, 0, "");
}

static void on_not_sent(void *context, MQTTAsync_failureData *d)
{
    char why[PAHO_WHY_MAX];

    paho_why(why, sizeof(why), MQTTREASONCODE_SUCCESS, d ? d->code : 0,
             d ? d->message : NULL, NULL);
    answered(context, TRY_AGAIN, 0, why);
}

/* Reason codes about the message itself. All other failures are retried. */
static const enum MQTTReasonCodes hopeless[] = {MQTTREASONCODE_TOPIC_NAME_INVALID,
                                                MQTTREASONCODE_PAYLOAD_FORMAT_INVALID,
                                                MQTTREASONCODE_PACKET_TOO_LARGE};

static void on_not_sent5(void *context, MQTTAsync_failureData5 *d)
{
    enum MQTTReasonCodes reason = d ? d->reasonCode : MQTTREASONCODE_SUCCESS;
    enum outcome outcome = TRY_AGAIN;
    char why[PAHO_WHY_MAX];

    for (size_t i = 0; i < sizeof(hopeless) / sizeof(hopeless[0]); i++)
        if (reason == hopeless[i])
            outcome = REJECTED;
    paho_why(why, sizeof(why), reason, d ? d->code : 0, d ? d->message : NULL, NULL);
    answered(context, outcome,
             reason >= MQTTREASONCODE_UNSPECIFIED_ERROR ? (int)reason : 0, why);
}

/* ------------------------------------------------ connection, on paho's threads */

static void set_state(struct mqtt_run *run, enum mqtt_run_state state, const char *why)
{
    pthread_mutex_lock(run->lock);
    if (run->state != RUN_ENDED) {
        run->state = state;
        if (state == RUN_CONNECTED)
            run->connected_ms = loop_mono_ms();
        if (why && run->why[0] == '\0')
            snprintf(run->why, sizeof(run->why), "%.191s", why);
    }
    pthread_cond_broadcast(run->changed);
    pthread_mutex_unlock(run->lock);
}

static void on_lost(void *context, char *cause)
{
    set_state(context, RUN_ENDED, cause ? cause : "connection lost");
}

/* MQTT 5: called before on_lost(). */
static void on_disconnect_packet(void *context, MQTTProperties *props,
                                 enum MQTTReasonCodes reason)
{
    char why[PAHO_WHY_MAX];

    (void)props;
    paho_why(why, sizeof(why), reason, 0, "the broker closed the connection", NULL);
    set_state(context, RUN_ENDED, why);
}

static int number_or(MQTTProperties *props, enum MQTTPropertyCodes code, int otherwise)
{
    return MQTTProperties_hasProperty(props, code)
               ? MQTTProperties_getNumericValue(props, code)
               : otherwise;
}

/* Reads the broker's limits: it closes the connection if we exceed them. The receive
 * maximum is enforced here, since paho (1.3.12) checks for room only once a second. */
static void on_connected(void *context, bool session_present, MQTTProperties *props)
{
    struct mqtt_run *run = context;
    const struct mqtt_thread_spec *spec = run->spec;

    (void)session_present;
    if (props == NULL) {
        set_state(run, RUN_CONNECTED, NULL);
        return;
    }
    /* 0 means no limit. The value is read as an int and may exceed its range. */
    int packet_max = number_or(props, MQTTPROPERTY_CODE_MAXIMUM_PACKET_SIZE, 0);
    run->packet_max = packet_max == 0 ? UINT32_MAX : (uint32_t)packet_max;
    unsigned receive_max =
        (unsigned)number_or(props, MQTTPROPERTY_CODE_RECEIVE_MAXIMUM, (int)run->window);
    if (spec->qos > 0 && receive_max > 0 && receive_max < run->window)
        run->window = receive_max;
    if ((int)spec->qos > number_or(props, MQTTPROPERTY_CODE_MAXIMUM_QOS, 2))
        set_state(run, RUN_ENDED,
                  "the broker accepts only QoS 0; set qos = 0 if messages may be lost");
    else if (spec->retain && !number_or(props, MQTTPROPERTY_CODE_RETAIN_AVAILABLE, 1))
        set_state(run, RUN_ENDED,
                  "the broker does not accept retained messages; set retain and "
                  "retain_as_published to false");
    else
        set_state(run, RUN_CONNECTED, NULL);
}

static void on_not_connected(void *context, const char *why)
{
    set_state(context, RUN_ENDED, why);
}

/* Never called, since the sink does not subscribe, but paho requires it. */
static int on_message(void *context, char *topic, int topic_len,
                      MQTTAsync_message *message)
{
    (void)context;
    (void)topic_len;
    MQTTAsync_freeMessage(&message);
    MQTTAsync_free(topic);
    return 1;
}

/* ------------------------------------------------- calls into paho: lock not held */

void mqtt_run_connect(struct mqtt_run *run)
{
    static const struct paho_events events = {on_connected, on_not_connected};
    const struct mqtt_thread_spec *spec = run->spec;
    struct err err;

    if (paho_open(&run->paho, &spec->peer, (int)spec->max_in_flight + 1, &events, run,
                  &err) != 0) {
        set_state(run, RUN_ENDED, err.text);
        return;
    }
    MQTTAsync_setCallbacks(run->paho.client, run, on_lost, on_message, NULL);
    MQTTAsync_setDisconnected(run->paho.client, run, on_disconnect_packet);
    /* Clean session: a session that outlives the connection could deliver cancelled
     * messages. */
    paho_connect(&run->paho, true, (int)spec->max_in_flight, NULL);
}

void mqtt_run_end(struct mqtt_run *run)
{
    if (run->paho.client == NULL)
        return;
    /* Disconnect first, so that paho closes its socket before it frees the client: its
     * QoS 0 writes complete without its mutex. */
    paho_disconnect(&run->paho, DISCONNECT_WAIT_MS);
    paho_close(&run->paho);
}

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

/* Rounds up, since some brokers treat 0 as no expiry. */
static void add_expiry(MQTTProperties *props, int64_t left_ms)
{
    int64_t left_s = left_ms > 0 ? (left_ms - 1) / 1000 + 1 : 1;
    const MQTTProperty prop = {.identifier = MQTTPROPERTY_CODE_MESSAGE_EXPIRY_INTERVAL,
                               .value.integer4 =
                                   left_s < UINT32_MAX ? (unsigned)left_s : UINT32_MAX};

    MQTTProperties_add(props, &prop);
}

static void add_props(MQTTProperties *props, const struct mqtt_parcel *p)
{
    if (p->expires_ms > 0)
        add_expiry(props, p->expires_ms - loop_mono_ms());
    for (unsigned i = 0; i < p->header_count; i++) {
        const struct header *h = &p->headers[i];
        MQTTProperty prop = {.identifier = code_of(props, h, p->payload)};
        if (prop.identifier == MQTTPROPERTY_CODE_USER_PROPERTY) {
            prop.value.data = len_string(h->name);
            prop.value.value = len_string(h->value);
        } else if (prop.identifier == MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR) {
            prop.value.byte = h->value.p[0] == '1';
        } else {
            prop.value.data = len_string(h->value);
        }
        MQTTProperties_add(props, &prop);
    }
}

int mqtt_run_publish(struct mqtt_run *run, struct mqtt_parcel *p)
{
    const struct mqtt_thread_spec *spec = run->spec;
    MQTTAsync_responseOptions opts = MQTTAsync_responseOptions_initializer;
    MQTTAsync_message message = MQTTAsync_message_initializer;

    MQTTLenString payload = len_string(p->payload);
    message.payload = payload.data;
    message.payloadlen = payload.len;
    message.qos = (int)spec->qos;
    message.retained = p->retain;
    opts.context = p;
    if (spec->peer.v5) {
        add_props(&message.properties, p);
        opts.onSuccess5 = on_sent5;
        opts.onFailure5 = on_not_sent5;
    } else {
        opts.onSuccess = on_sent;
        opts.onFailure = on_not_sent;
    }
    /* Once paho accepts it, p may be answered and freed before this returns. */
    int rc = MQTTAsync_sendMessage(run->paho.client, p->topic, &message, &opts);
    MQTTProperties_free(&message.properties);
    return rc;
}

uint64_t mqtt_run_packet_bytes(const struct mqtt_run *run, const struct mqtt_parcel *p)
{
    bool v5 = run->spec->peer.v5;
    uint64_t n = PACKET_EXTRA + strlen(p->topic) + p->payload.n;

    for (unsigned i = 0; v5 && i < p->header_count; i++)
        n += 5 + p->headers[i].name.n + p->headers[i].value.n;
    return n;
}
