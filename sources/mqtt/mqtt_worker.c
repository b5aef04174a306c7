/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_worker.c - a worker process: its main thread reads the source's frames, paho's
 * threads bring messages.
 *
 * One MQTT client per process keeps paho's mutex, its parsers and its blocking callbacks
 * out of the daemon. The process ends with descriptor 3, and with any failure; the source
 * starts another.
 *
 * paho sends PUBACK when on_message() returns, whatever it returns. So on_message()
 * blocks until the source says that the message is stored. Where that cannot be, the
 * process ends without returning.
 */
#include "sources/mqtt/mqtt_worker.h"

#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_paho.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SOURCE_FD = 3,
    SETUP_TIMEOUT_MS = 10000, /* SETUP comes at once, or the source is ill */
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
    struct paho paho;
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

    paho_put_message(&frame, (struct slice){topic, n}, message, s->setup.message_max);
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
    if (MQTTAsync_subscribe(s->paho.client, s->setup.filters.v[s->subscribed],
                            (int)s->setup.qos, &opts) != MQTTASYNC_SUCCESS)
        fail(s, "connection lost while subscribing");
}

static void on_connected(void *context, bool session_present, MQTTProperties *props)
{
    struct mqtt_session *s = context;
    struct buf frame = {0};

    (void)props;
    frame_put_connected(&frame, session_present);
    say_frame(s, &frame);
    subscribe_next(s);
}

static void on_not_connected(void *context, const char *why)
{
    fail(context, why);
}

static void connect_client(struct mqtt_session *s)
{
    static const struct paho_events events = {on_connected, on_not_connected};
    MQTTProperties props = MQTTProperties_initializer;
    MQTTProperty expiry = {.identifier = MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL,
                           .value.integer4 = s->setup.session_expiry_s};
    MQTTProperty receive_max = {.identifier = MQTTPROPERTY_CODE_RECEIVE_MAXIMUM,
                                .value.integer2 = (unsigned short)s->setup.receive_max};
    struct err err;

    if (paho_open(&s->paho, &s->setup.peer, 100, &events, s, &err) != 0)
        fail(s, err.text);
    MQTTAsync_setCallbacks(s->paho.client, s, on_lost, on_message, NULL);
    MQTTAsync_setDisconnected(s->paho.client, s, on_disconnect_packet);
    MQTTProperties_add(&props, &expiry);
    MQTTProperties_add(&props, &receive_max);
    paho_connect(&s->paho, false, 0, &props);
    MQTTProperties_free(&props);
}

/* ------------------------------------------------------------------ main thread */

/* Connects and subscribes, in the background. Takes setup. */
static struct mqtt_session *session_start(int source_fd, struct mqtt_setup *setup)
{
    struct mqtt_session *s = mem_alloc(sizeof(*s));

    s->source_fd = source_fd;
    s->setup = *setup;
    memset(setup, 0, sizeof(*setup));
    paho_lock_init(&s->lock, &s->changed);
    s->started_ms = loop_mono_ms();
    connect_client(s);
    return s;
}

/* Says goodbye to the broker, which keeps the session, and ends the process. */
static _Noreturn void session_stop(struct mqtt_session *s)
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
        paho_disconnect(&s->paho, DISCONNECT_WAIT_MS);
    leave(s, held);
}

/* The message that was sent to the source last is stored: it may be acknowledged. */
static void session_stored(struct mqtt_session *s)
{
    pthread_mutex_lock(&s->lock);
    s->stored = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Call again after so many ms at the latest; -1: no need. Ends the process when the
 * broker took too long. */
static int session_patience_ms(struct mqtt_session *s)
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

/* Whatever is not as agreed ends the process, and with it no message is acknowledged. */
static void take_frame(struct mqtt_session **s, const struct frame *f)
{
    struct mqtt_setup setup;

    if (f->type == FRAME_SETUP && *s == NULL &&
        frame_get_setup(f->body, &setup, NULL) == 0)
        *s = session_start(SOURCE_FD, &setup);
    else if (f->type == FRAME_STORED && *s)
        session_stored(*s);
    else if (f->type == FRAME_STOP && *s)
        session_stop(*s);
    else
        _exit(EXIT_FAILURE);
}

/* Reads more from the source. Ends the process when the source has gone. */
static void read_more(struct mqtt_session *s, struct buf *in)
{
    struct pollfd p = {.fd = SOURCE_FD, .events = POLLIN};
    enum { ROOM = 4096 };

    int ready = poll(&p, 1, s ? session_patience_ms(s) : SETUP_TIMEOUT_MS);
    if (ready == 0 && s == NULL)
        _exit(EXIT_FAILURE);
    if (ready <= 0)
        return;
    ssize_t n = read(SOURCE_FD, buf_room(in, ROOM), ROOM);
    if (n > 0)
        buf_grew(in, (size_t)n);
    else if (n == 0 || errno != EINTR)
        _exit(0);
}

int mqtt_worker_main(int argc, char **argv)
{
    struct mqtt_session *s = NULL;
    struct buf in = {0};
    struct frame f;

    (void)argc;
    (void)argv;
    if (getsockopt(SOURCE_FD, SOL_SOCKET, SO_TYPE, &(int){0},
                   &(socklen_t){sizeof(int)}) != 0) {
        fprintf(stderr, "tarry worker mqtt: started by tarry itself only, not by hand\n");
        return 64;
    }
    prctl(PR_SET_NAME, "tarry-mqtt");
    prctl(PR_SET_DUMPABLE, 0); /* the password is in our memory */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* Ctrl-C is the source's to handle: it tells us to stop */
    for (;;) {
        ssize_t n = frame_take(buf_slice(&in), FRAME_SMALL_MAX, &f, NULL);
        if (n < 0)
            _exit(EXIT_FAILURE);
        if (n == 0) {
            read_more(s, &in);
            continue;
        }
        take_frame(&s, &f);
        // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): n > 0 bytes are there
        explicit_bzero(in.p, (size_t)n); /* SETUP holds the password */
        buf_drop(&in, (size_t)n);
    }
}
