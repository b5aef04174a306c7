/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_session.c - the paho client of a worker, and the wait for the source's answers.
 *
 * paho sends PUBACK when on_message() returns, whatever it returns. So on_message()
 * blocks until the source says that the message is stored, and where that cannot be, the
 * process ends without returning. The callbacks run on paho's threads. Any failure ends
 * the process: the source starts another.
 */
#include "sources/mqtt/mqtt_session.h"

#include "bridge/base/mem.h"
#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_message.h"
#include "sources/mqtt/mqtt_paho.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    /* From the start to the subscription, waiting for the source not counted. */
    READY_TIMEOUT_MS = (PAHO_CONNECT_TIMEOUT_S + 20) * 1000,
    DISCONNECT_WAIT_MS = 1000,
    ACK_WAIT_MS = 300,    /* for a PUBACK to leave */
    LEAVE_WAIT_MS = 2500, /* for the broker to read the last ones; less than STOP_WAIT_MS
                           * of mqtt_slot.c */
    LOST_SOON_MS = 5000   /* a link lost so soon after a late answer was dead before it */
};

struct mqtt_session {
    int source_fd;
    struct mqtt_setup setup;
    MQTTAsync client;
    struct paho_tls_why tls_why;
    char broker_why[PAHO_WHY_MAX]; /* MQTT 5: why the broker hung up; paho's threads only
                                    */
    size_t subscribed;             /* filters done; paho's threads only */

    pthread_mutex_t lock; /* of all below, and of writing to the source */
    pthread_cond_t changed;
    bool ready;             /* subscribed to everything */
    bool waiting;           /* a message is with the source */
    bool stored;            /* the answer to it */
    bool stopping;          /* no message may be acknowledged any more */
    int64_t leave_until_ms; /* since it is stopping: when the process ends */
    bool disconnected;      /* as asked */
    int64_t started_ms;
    int64_t given_ms, answered_ms; /* the last message: to and from the source */
};

/* Call with the lock held. A source that is gone is no one to report to. */
static void say(const struct mqtt_session *s, const struct buf *frame)
{
    for (size_t done = 0; done < frame->n;) {
        ssize_t n = send(s->source_fd, frame->p + done, frame->n - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(0);
        done += (size_t)n;
    }
}

static void say_frame(struct mqtt_session *s, struct buf *frame)
{
    pthread_mutex_lock(&s->lock);
    say(s, frame);
    pthread_mutex_unlock(&s->lock);
    buf_free(frame);
}

/* The last answer came so late that the broker, by the rule of one and a half keepalives,
 * had hung up before: it will send the message again. Call with the lock held. */
static bool unheard(const struct mqtt_session *s)
{
    int64_t broker_patience_ms = s->setup.peer.keepalive_s * INT64_C(1500);

    return !s->waiting && s->answered_ms > 0 &&
           s->answered_ms - s->given_ms >= broker_patience_ms &&
           loop_mono_ms() - s->answered_ms <= LOST_SOON_MS;
}

/* Ends the process without a further PUBACK. */
static _Noreturn void fail(struct mqtt_session *s, const char *why)
{
    struct buf frame = {0};

    pthread_mutex_lock(&s->lock);
    frame_put_failed(&frame, unheard(s), why);
    say(s, &frame);
    _exit(EXIT_FAILURE);
}

/* -------------------------------------------------------------- messages */

/* leave_until_ms is set once, before anybody can come here. */
static _Noreturn void leave(const struct mqtt_session *s, int held)
{
    paho_leave(held, (int)(s->leave_until_ms - loop_mono_ms()));
}

/* Returns when the source has stored the message; else not at all. */
static void hand_over(struct mqtt_session *s, const struct buf *frame)
{
    pthread_mutex_lock(&s->lock);
    if (s->stopping)
        leave(s, paho_hold());
    s->stored = false;
    s->waiting = true;
    s->given_ms = loop_mono_ms();
    say(s, frame);
    /* Ends with the answer, or with the process: descriptor 3 closes when the source
     * dies. */
    while (!s->stored) {
        pthread_cond_wait(&s->changed, &s->lock);
        if (s->stopping && !s->stored)
            leave(s, paho_hold());
    }
    s->waiting = false;
    s->answered_ms = loop_mono_ms();
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static int on_message(void *context, char *topic, int topic_len,
                      MQTTAsync_message *message)
{
    struct mqtt_session *s = context;
    struct buf frame = {0};
    /* 0 means "up to the NUL"; a topic with a NUL inside has its length here. */
    size_t n = topic_len > 0 ? (size_t)topic_len : strlen(topic);

    mqtt_message_put(&frame, (struct slice){topic, n}, message, s->setup.message_max);
    hand_over(s, &frame);
    buf_free(&frame);
    MQTTAsync_freeMessage(&message);
    MQTTAsync_free(topic);
    return 1; /* 0 would only keep the message in memory, and send PUBACK all the same */
}

/* ------------------------------------------------------------ connection */

static void on_lost(void *context, char *cause)
{
    struct mqtt_session *s = context;
    char why[PAHO_WHY_MAX + 64];

    pthread_mutex_lock(&s->lock);
    bool asked = s->stopping;
    pthread_mutex_unlock(&s->lock);
    if (asked)
        return;
    snprintf(why, sizeof(why), "connection lost%s%s",
             s->broker_why[0] || cause ? ": " : "",
             s->broker_why[0] ? s->broker_why : (cause ? cause : ""));
    fail(s, why);
}

/* MQTT 5: comes before on_lost(). */
static void on_disconnect_packet(void *context, MQTTProperties *props,
                                 enum MQTTReasonCodes reason)
{
    struct mqtt_session *s = context;

    (void)props;
    if (reason == MQTTREASONCODE_SESSION_TAKEN_OVER)
        snprintf(s->broker_why, sizeof(s->broker_why),
                 "another client connected as %s; give every daemon its own client_id",
                 s->setup.peer.client_id);
    else
        paho_why(s->broker_why, sizeof(s->broker_why), reason, 0, "the broker hung up",
                 NULL);
}

static _Noreturn void connect_failed(struct mqtt_session *s, enum MQTTReasonCodes reason,
                                     int code, const char *message)
{
    char why[PAHO_WHY_MAX];

    paho_why(why, sizeof(why), reason, code, message, &s->tls_why);
    fail(s, why);
}

static void on_connect_failure(void *context, MQTTAsync_failureData *d)
{
    connect_failed(context, MQTTREASONCODE_SUCCESS, d ? d->code : 0,
                   d ? d->message : NULL);
}

static void on_connect_failure5(void *context, MQTTAsync_failureData5 *d)
{
    connect_failed(context, d ? d->reasonCode : MQTTREASONCODE_SUCCESS, d ? d->code : 0,
                   d ? d->message : NULL);
}

static void subscribe_next(struct mqtt_session *s);

static void subscribed(struct mqtt_session *s, unsigned granted)
{
    const char *filter = s->setup.filters.v[s->subscribed];
    char why[PAHO_WHY_MAX + 64];

    if (granted < s->setup.qos || granted > 2) {
        snprintf(why, sizeof(why),
                 "the broker grants less than QoS %u for topic filter %.96s",
                 s->setup.qos, filter);
        fail(s, why);
    }
    s->subscribed++;
    subscribe_next(s);
}

static _Noreturn void subscribe_failed(struct mqtt_session *s,
                                       enum MQTTReasonCodes reason)
{
    char why[PAHO_WHY_MAX + 64];
    const char *text = reason >= MQTTREASONCODE_UNSPECIFIED_ERROR
                           ? MQTTReasonCode_toString(reason)
                           : "refused";

    snprintf(why, sizeof(why), "subscribing to %.96s: %s; is it allowed to this client?",
             s->setup.filters.v[s->subscribed], text ? text : "refused");
    fail(s, why);
}

static void on_subscribed(void *context, MQTTAsync_successData *d)
{
    struct mqtt_session *s = context;

    subscribed(s, d ? (unsigned)d->alt.qos : s->setup.qos);
}

static void on_subscribed5(void *context, MQTTAsync_successData5 *d)
{
    struct mqtt_session *s = context;

    subscribed(s, d ? (unsigned)d->reasonCode : s->setup.qos);
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

/* One filter at a time: for several paho calls a refusal a success. */
static void subscribe_next(struct mqtt_session *s)
{
    MQTTAsync_responseOptions opts = MQTTAsync_responseOptions_initializer;

    if (s->subscribed == s->setup.filters.n) {
        struct buf frame = {0};
        pthread_mutex_lock(&s->lock);
        s->ready = true;
        pthread_mutex_unlock(&s->lock);
        frame_put(&frame, FRAME_SUBSCRIBED);
        say_frame(s, &frame);
        return;
    }
    opts.context = s;
    if (s->setup.peer.v5) {
        opts.onSuccess5 = on_subscribed5;
        opts.onFailure5 = on_subscribe_failure5;
        /* 1: only for a new subscription, else each connection would bring them again. A
         * shared subscription never gets any. */
        opts.subscribeOptions.retainHandling = s->setup.retained ? 1 : 2;
        opts.subscribeOptions.retainAsPublished = 1; /* the job keeps the flag */
    } else {
        opts.onSuccess = on_subscribed;
        opts.onFailure = on_subscribe_failure;
    }
    if (MQTTAsync_subscribe(s->client, s->setup.filters.v[s->subscribed],
                            (int)s->setup.qos, &opts) != MQTTASYNC_SUCCESS)
        fail(s, "connection lost while subscribing");
}

static void connected(struct mqtt_session *s, bool session_present)
{
    struct buf frame = {0};

    frame_put_connected(&frame, session_present);
    say_frame(s, &frame);
    subscribe_next(s);
}

static void on_connected(void *context, MQTTAsync_successData *d)
{
    connected(context, d && d->alt.connect.sessionPresent);
}

static void on_connected5(void *context, MQTTAsync_successData5 *d)
{
    connected(context, d && d->alt.connect.sessionPresent);
}

static void connect_client(struct mqtt_session *s)
{
    MQTTAsync_connectOptions opts;
    MQTTAsync_SSLOptions tls;
    MQTTProperties props = MQTTProperties_initializer;
    MQTTProperty expiry = {.identifier = MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL,
                           .value.integer4 = s->setup.session_expiry_s};
    MQTTProperty receive_max = {.identifier = MQTTPROPERTY_CODE_RECEIVE_MAXIMUM,
                                .value.integer2 = (unsigned short)s->setup.receive_max};
    struct err err;

    if (paho_create(&s->client, &s->setup.peer, 100, &err) != 0)
        fail(s, err.text);
    MQTTAsync_setCallbacks(s->client, s, on_lost, on_message, NULL);
    MQTTAsync_setDisconnected(s->client, s, on_disconnect_packet);
    paho_connect_options(&opts, &tls, &s->setup.peer, &s->tls_why);
    opts.context = s;
    opts.cleansession = 0;
    if (s->setup.peer.v5) {
        opts.cleanstart = 0;
        opts.onSuccess5 = on_connected5;
        opts.onFailure5 = on_connect_failure5;
        MQTTProperties_add(&props, &expiry);
        MQTTProperties_add(&props, &receive_max);
        opts.connectProperties = &props;
    } else {
        opts.onSuccess = on_connected;
        opts.onFailure = on_connect_failure;
    }
    int rc = MQTTAsync_connect(s->client, &opts);
    MQTTProperties_free(&props);
    if (rc != MQTTASYNC_SUCCESS)
        connect_failed(s, MQTTREASONCODE_SUCCESS, rc, NULL);
}

/* --------------------------------------------------- for the main thread */

static void disconnected(struct mqtt_session *s)
{
    pthread_mutex_lock(&s->lock);
    s->disconnected = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void on_disconnected(void *context, MQTTAsync_successData *d)
{
    (void)d;
    disconnected(context);
}

static void on_disconnected5(void *context, MQTTAsync_successData5 *d)
{
    (void)d;
    disconnected(context);
}

struct mqtt_session *mqtt_session_start(int source_fd, struct mqtt_setup *setup)
{
    struct mqtt_session *s = mem_alloc(sizeof(*s));
    pthread_condattr_t attr;

    s->source_fd = source_fd;
    s->setup = *setup;
    memset(setup, 0, sizeof(*setup));
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* of mqtt_session_stop()'s wait */
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    s->started_ms = loop_mono_ms();
    connect_client(s);
    return s;
}

/* Tells the broker, and waits until paho has done so. Without the lock: paho may hold its
 * own while hand_over() waits for ours. */
static void disconnect(struct mqtt_session *s)
{
    int64_t until_ms = loop_mono_ms() + DISCONNECT_WAIT_MS;
    const struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};

    if (!paho_disconnect(s->client, s->setup.peer.v5, on_disconnected, on_disconnected5,
                         s))
        return;
    pthread_mutex_lock(&s->lock);
    while (!s->disconnected && loop_mono_ms() < until_ms)
        pthread_cond_timedwait(&s->changed, &s->lock, &until);
    pthread_mutex_unlock(&s->lock);
}

_Noreturn void mqtt_session_stop(struct mqtt_session *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    s->leave_until_ms = loop_mono_ms() + LEAVE_WAIT_MS;
    pthread_cond_broadcast(&s->changed);
    while (s->waiting) /* hand_over() ends the process, unless the answer has just come */
        pthread_cond_wait(&s->changed, &s->lock);
    /* paho sends the PUBACK when on_message() has returned, and tells nobody: without it
     * a message that is stored would come again. */
    bool acknowledging = loop_mono_ms() - s->answered_ms < ACK_WAIT_MS;
    pthread_mutex_unlock(&s->lock);
    if (acknowledging)
        usleep(ACK_WAIT_MS * 1000);
    int held = paho_hold();
    if (held >= 0)
        disconnect(s);
    leave(s, held);
}

void mqtt_session_stored(struct mqtt_session *s)
{
    pthread_mutex_lock(&s->lock);
    s->stored = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

int mqtt_session_patience_ms(struct mqtt_session *s)
{
    pthread_mutex_lock(&s->lock);
    bool ready = s->ready;
    int64_t since_ms = s->answered_ms ? s->answered_ms : s->started_ms;
    /* While the source has a message nobody can tell whether the broker is slow. */
    int64_t left_ms = READY_TIMEOUT_MS - (s->waiting ? 0 : loop_mono_ms() - since_ms);
    pthread_mutex_unlock(&s->lock);
    if (ready)
        return -1;
    if (left_ms <= 0)
        fail(s, "the broker let us wait too long for a connection and subscription");
    return (int)left_ms;
}
