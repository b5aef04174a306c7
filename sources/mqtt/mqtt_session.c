/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_session.h"

#include "sources/mqtt/mqtt_client.h"
#include "sources/mqtt/mqtt_window.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    URI_BYTES = 64,
    SUBSCRIBE_TIMEOUT_MS = 24 * 60 * 60 * 1000 /* the worker gives up earlier */
};

struct mqtt_session {
    struct mqtt_setup *setup;
    struct mqtt_client client; /* used by the thread */
    loop_cb *on_mail;
    void *arg;

    pthread_mutex_t lock; /* guards all below */
    bool expected;        /* the loop waits for the next message */
    bool posted;          /* on_mail() follows */
    struct session_mail mail;
};

/* -------------------------------------------------------------------- the mailbox */

/* The lock must be held. */
static void post_locked(struct mqtt_session *s)
{
    if (!s->posted)
        loop_post(s->on_mail, s->arg);
    s->posted = true;
}

static void report_subscribed(struct mqtt_session *s)
{
    pthread_mutex_lock(&s->lock);
    frame_put(&s->mail.frames, FRAME_SUBSCRIBED);
    s->mail.subscribed = true;
    post_locked(s);
    pthread_mutex_unlock(&s->lock);
}

/* Reports the first failure; later ones are consequences. */
static void fail(struct mqtt_session *s, bool refused, const char *why)
{
    pthread_mutex_lock(&s->lock);
    if (!s->mail.failed)
        snprintf(s->mail.why, sizeof(s->mail.why), "%s", why);
    s->mail.refused |= refused && !s->mail.failed;
    s->mail.failed = true;
    post_locked(s);
    pthread_mutex_unlock(&s->lock);
}

void session_take(struct mqtt_session *s, struct session_mail *mail)
{
    pthread_mutex_lock(&s->lock);
    struct session_mail taken = s->mail;
    s->mail.frames = mail->frames; /* keeps the memory of both buffers in use */
    s->mail.messages = mail->messages;
    *mail = taken;
    s->posted = s->expected = false;
    pthread_mutex_unlock(&s->lock);
}

void session_expect(struct mqtt_session *s)
{
    pthread_mutex_lock(&s->lock);
    s->expected = true;
    if (s->mail.messages.n > 0)
        post_locked(s);
    pthread_mutex_unlock(&s->lock);
}

/* -------------------------------------------------------------------- messages */

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

/* Adds the number as text. The bytes of other properties belong to paho. */
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

/* Returns the seconds left of the message expiry interval; -1: none. */
static int64_t expiry_s(const MQTTProperties *props)
{
    for (int i = 0; i < props->count; i++)
        if (props->array[i].identifier == MQTTPROPERTY_CODE_MESSAGE_EXPIRY_INTERVAL)
            return props->array[i].value.integer4;
    return -1;
}

/* Appends a MESSAGE frame. Truncates a message of more than message_max bytes. */
static void put_message(struct buf *frame, struct slice topic,
                        const MQTTClient_message *message, uint64_t message_max)
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

static void on_message(void *context, struct slice topic,
                       const MQTTClient_message *message)
{
    struct mqtt_session *s = context;
    struct window_message m = {.id = (unsigned)message->msgid & 0xffff,
                               .qos = (unsigned)message->qos};

    pthread_mutex_lock(&s->lock);
    const size_t before = s->mail.frames.n;
    put_message(&s->mail.frames, topic, message, s->setup->message_max);
    m.bytes = s->mail.frames.n - before;
    buf_add(&s->mail.messages, &m, sizeof(m));
    if (m.qos != 1 || s->expected)
        post_locked(s);
    pthread_mutex_unlock(&s->lock);
}

/* ------------------------------------------------------------ connection */

static void on_lost(void *context, enum MQTTReasonCodes reason, const char *why)
{
    struct mqtt_session *s = context;
    char text[SESSION_WHY_MAX];

    if (reason == MQTTREASONCODE_SESSION_TAKEN_OVER)
        snprintf(text, sizeof(text),
                 "connection lost: another client connected as %s; give every daemon its "
                 "own client_id",
                 s->setup->peer.client_id);
    else
        snprintf(text, sizeof(text), "connection lost%s%s", why ? ": " : "",
                 why ? why : "");
    fail(s, why != NULL, text);
}

static bool connect_client(struct mqtt_session *s)
{
    MQTTProperties props = MQTTProperties_initializer;
    MQTTProperty expiry = {.identifier = MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL,
                           .value.integer4 = s->setup->session_expiry_s};
    MQTTProperty receive_max = {.identifier = MQTTPROPERTY_CODE_RECEIVE_MAXIMUM,
                                .value.integer2 = (unsigned short)s->setup->receive_max};

    MQTTProperties_add(&props, &expiry);
    MQTTProperties_add(&props, &receive_max);
    s->client.props = &props;
    int rc = mqtt_client_connect(&s->client);
    s->client.props = NULL;
    MQTTProperties_free(&props);
    if (rc != 0)
        fail(s, s->client.refused,
             s->client.refused
                 ? s->client.why
                 : "the broker did not answer in time, or sent an invalid packet");
    return rc == 0;
}

static void subscribe_refused(struct mqtt_session *s, const char *filter, int granted)
{
    const char *text = s->setup->peer.v5 ? MQTTReasonCode_toString(granted) : NULL;
    char why[SESSION_WHY_MAX];

    if (granted < MQTTREASONCODE_UNSPECIFIED_ERROR)
        snprintf(why, sizeof(why),
                 "the broker grants less than QoS %u for topic filter %.96s",
                 s->setup->qos, filter);
    else
        snprintf(why, sizeof(why),
                 "cannot subscribe to %.96s: %s; check whether the broker permits it to "
                 "this client",
                 filter, text ? text : "refused");
    fail(s, true, why);
}

/* Subscribes to one filter, since paho reports only one reason for several. */
static bool subscribe(struct mqtt_session *s, char *filter)
{
    const struct mqtt_setup *setup = s->setup;
    MQTTSubscribe_options opts = MQTTSubscribe_options_initializer;
    int granted = (int)setup->qos;

    /* 1: only for a new subscription; otherwise the broker would send retained messages
     * after every connect. A shared subscription never receives any. */
    opts.retainHandling = setup->retained ? 1 : 2;
    opts.retainAsPublished = 1; /* the job contains the flag */
    MQTTResponse answer = MQTTClient_subscribeMany5(
        s->client.handle, 1, &filter, &granted, setup->peer.v5 ? &opts : NULL, NULL);
    const int rc = (int)answer.reasonCode;
    MQTTResponse_free(answer);
    if (rc < 0) {
        fail(s, false, "connection lost while subscribing");
        return false;
    }
    if (setup->peer.v5)
        granted = rc;
    if (granted < (int)setup->qos || granted > 2) {
        subscribe_refused(s, filter, granted);
        return false;
    }
    return true;
}

static void *thread_main(void *arg)
{
    struct mqtt_session *s = arg;
    bool ok = connect_client(s);

    if (ok)
        MQTTClient_setCommandTimeout(s->client.handle, SUBSCRIBE_TIMEOUT_MS);
    for (size_t i = 0; ok && i < s->setup->filters.n; i++)
        ok = subscribe(s, s->setup->filters.v[i]);
    if (ok)
        report_subscribed(s);
    return NULL;
}

struct mqtt_session *session_new(struct mqtt_setup *setup, unsigned port,
                                 loop_cb *on_mail, void *arg, struct err *err)
{
    static const struct mqtt_client_events events = {.message = on_message,
                                                     .lost = on_lost};
    struct mqtt_session *s = mem_alloc(sizeof(*s));
    char uri[URI_BYTES];

    s->setup = setup;
    s->on_mail = on_mail;
    s->arg = arg;
    pthread_mutex_init(&s->lock, NULL);
    snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%u", port);
    setup->peer.uri = mem_strdup(uri);
    s->client = (struct mqtt_client){.peer = &setup->peer,
                                     .events = &events,
                                     .context = s,
                                     .timeout_s = MQTT_CONNECT_TIMEOUT_S,
                                     .resume = true};
    int rc = mqtt_client_thread(thread_main, s);
    if (rc == 0)
        return s;
    err_set(err, "cannot start a thread for the MQTT client: %s", strerror(rc));
    return NULL; /* the process exits */
}
