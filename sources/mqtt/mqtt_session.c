/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_session.h"

#include "sources/mqtt/mqtt_paho.h"
#include "sources/mqtt/mqtt_window.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { URI_BYTES = 64 };

struct mqtt_session {
    struct mqtt_setup *setup;
    struct paho paho;
    /* Used by paho's threads only: */
    char broker_why[PAHO_WHY_MAX]; /* MQTT 5: the broker's reason to disconnect */
    size_t subscribed;             /* number of filters subscribed */

    loop_cb *on_mail;
    void *arg;

    pthread_mutex_t lock; /* guards all below */
    struct session_mail mail;
    bool posted; /* on_mail() follows */
};

/* -------------------------------------------------------------------- the mailbox */

/* The lock must be held. */
static void post_locked(struct mqtt_session *s)
{
    if (!s->posted)
        loop_post(s->on_mail, s->arg);
    s->posted = true;
}

static void report_frame(struct mqtt_session *s, struct buf *frame, bool subscribed)
{
    pthread_mutex_lock(&s->lock);
    buf_add_slice(&s->mail.frames, buf_slice(frame));
    s->mail.subscribed |= subscribed;
    post_locked(s);
    pthread_mutex_unlock(&s->lock);
    buf_free(frame);
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
    s->posted = false;
    pthread_mutex_unlock(&s->lock);
}

/* -------------------------------------------------------------------- messages */

static int on_message(void *context, char *topic, int topic_len,
                      MQTTAsync_message *message)
{
    struct mqtt_session *s = context;
    /* 0: the topic ends at the NUL; otherwise it contains a NUL. */
    size_t n = topic_len > 0 ? (size_t)topic_len : strlen(topic);
    struct window_message m = {.id = (unsigned)message->msgid & 0xffff,
                               .qos = (unsigned)message->qos};

    pthread_mutex_lock(&s->lock);
    const size_t before = s->mail.frames.n;
    paho_put_message(&s->mail.frames, (struct slice){topic, n}, message,
                     s->setup->message_max);
    m.bytes = s->mail.frames.n - before;
    buf_add(&s->mail.messages, &m, sizeof(m));
    if (m.qos != 1)
        post_locked(s);
    pthread_mutex_unlock(&s->lock);
    MQTTAsync_freeMessage(&message);
    MQTTAsync_free(topic);
    return 1; /* with 0, paho would keep the message in memory */
}

/* ------------------------------------------------------------ connection */

static void on_lost(void *context, char *cause)
{
    struct mqtt_session *s = context;
    const char *why = s->broker_why[0] ? s->broker_why : (cause ? cause : "");
    char text[SESSION_WHY_MAX];

    snprintf(text, sizeof(text), "connection lost%s%s", *why ? ": " : "", why);
    fail(s, s->broker_why[0] != '\0', text);
}

/* MQTT 5: called before on_lost(). */
static void on_disconnect_packet(void *context, MQTTProperties *props,
                                 enum MQTTReasonCodes reason)
{
    struct mqtt_session *s = context;

    (void)props;
    if (reason == MQTTREASONCODE_SESSION_TAKEN_OVER)
        snprintf(s->broker_why, sizeof(s->broker_why),
                 "another client connected as %s; give every daemon its own client_id",
                 s->setup->peer.client_id);
    else
        paho_why(s->broker_why, sizeof(s->broker_why), reason, 0,
                 "the broker closed the connection", NULL);
}

static void subscribe_next(struct mqtt_session *s);

static void subscribed(struct mqtt_session *s, unsigned granted)
{
    const char *filter = s->setup->filters.v[s->subscribed];
    char why[SESSION_WHY_MAX];

    if (granted < s->setup->qos || granted > 2) {
        snprintf(why, sizeof(why),
                 "the broker grants less than QoS %u for topic filter %.96s",
                 s->setup->qos, filter);
        fail(s, true, why);
        return;
    }
    s->subscribed++;
    subscribe_next(s);
}

static void subscribe_failed(struct mqtt_session *s, enum MQTTReasonCodes reason)
{
    char why[SESSION_WHY_MAX];
    const char *text = reason >= MQTTREASONCODE_UNSPECIFIED_ERROR
                           ? MQTTReasonCode_toString(reason)
                           : "refused";

    snprintf(why, sizeof(why),
             "cannot subscribe to %.96s: %s; check whether the broker permits it to this "
             "client",
             s->setup->filters.v[s->subscribed], text ? text : "refused");
    fail(s, true, why);
}

static void on_subscribed(void *context, MQTTAsync_successData *d)
{
    struct mqtt_session *s = context;

    subscribed(s, d ? (unsigned)d->alt.qos : s->setup->qos);
}

static void on_subscribed5(void *context, MQTTAsync_successData5 *d)
{
    struct mqtt_session *s = context;

    subscribed(s, d ? (unsigned)d->reasonCode : s->setup->qos);
}

static void on_subscribe_failure(void *context, MQTTAsync_failureData *d)
{
    (void)d;
    subscribe_failed(context, MQTTREASONCODE_SUCCESS);
}

static void on_subscribe_failure5(void *context, MQTTAsync_failureData5 *d)
{
    subscribe_failed(context, d ? d->reasonCode : MQTTREASONCODE_SUCCESS);
}

/* Subscribes to one filter at a time: with several, paho reports a rejected filter as
 * success. */
static void subscribe_next(struct mqtt_session *s)
{
    MQTTAsync_responseOptions opts = MQTTAsync_responseOptions_initializer;

    if (s->subscribed == s->setup->filters.n) {
        struct buf frame = {0};
        frame_put(&frame, FRAME_SUBSCRIBED);
        report_frame(s, &frame, true);
        return;
    }
    opts.context = s;
    if (s->setup->peer.v5) {
        opts.onSuccess5 = on_subscribed5;
        opts.onFailure5 = on_subscribe_failure5;
        /* 1: only for a new subscription; otherwise the broker would send retained
         * messages after every connect. A shared subscription never receives any. */
        opts.subscribeOptions.retainHandling = s->setup->retained ? 1 : 2;
        opts.subscribeOptions.retainAsPublished = 1; /* the job contains the flag */
    } else {
        opts.onSuccess = on_subscribed;
        opts.onFailure = on_subscribe_failure;
    }
    if (MQTTAsync_subscribe(s->paho.client, s->setup->filters.v[s->subscribed],
                            (int)s->setup->qos, &opts) != MQTTASYNC_SUCCESS)
        fail(s, false, "connection lost while subscribing");
}

static void on_connected(void *context, bool session_present, MQTTProperties *props)
{
    struct mqtt_session *s = context;
    struct buf frame = {0};

    (void)props;
    frame_put_connected(&frame, session_present);
    report_frame(s, &frame, false);
    subscribe_next(s);
}

static void on_not_connected(void *context, const char *why)
{
    struct mqtt_session *s = context;
    fail(s, s->paho.refused, why);
}

static void connect_client(struct mqtt_session *s)
{
    MQTTProperties props = MQTTProperties_initializer;
    MQTTProperty expiry = {.identifier = MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL,
                           .value.integer4 = s->setup->session_expiry_s};
    MQTTProperty receive_max = {.identifier = MQTTPROPERTY_CODE_RECEIVE_MAXIMUM,
                                .value.integer2 = (unsigned short)s->setup->receive_max};

    MQTTProperties_add(&props, &expiry);
    MQTTProperties_add(&props, &receive_max);
    paho_connect(&s->paho, false, 0, &props);
    MQTTProperties_free(&props);
}

struct mqtt_session *session_new(struct mqtt_setup *setup, unsigned port,
                                 loop_cb *on_mail, void *arg, struct err *err)
{
    static const struct paho_events events = {on_connected, on_not_connected};
    struct mqtt_session *s = mem_alloc(sizeof(*s));
    char uri[URI_BYTES];

    s->setup = setup;
    s->on_mail = on_mail;
    s->arg = arg;
    pthread_mutex_init(&s->lock, NULL);
    snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%u", port);
    setup->peer.uri = mem_strdup(uri);
    if (paho_open(&s->paho, &setup->peer, 100, &events, s, err) != 0)
        return NULL; /* the process exits */
    MQTTAsync_setCallbacks(s->paho.client, s, on_lost, on_message, NULL);
    MQTTAsync_setDisconnected(s->paho.client, s, on_disconnect_packet);
    connect_client(s);
    return s;
}
