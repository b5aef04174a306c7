/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_worker.c - a worker process: its main thread reads the source's frames, paho's
 * threads deliver messages.
 *
 * A process for each MQTT client isolates the daemon from paho's mutex, parsers and
 * blocking callbacks. The process exits when descriptor 3 is closed, and on any failure;
 * then the source starts another.
 *
 * paho sends PUBACK when on_message() returns, regardless of the value. So on_message()
 * blocks until the source reports the message as stored. If that fails, the process exits
 * without returning.
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
    SETUP_TIMEOUT_MS = 10000, /* a healthy source sends SETUP at once */
    /* From the start to the subscription, without time spent waiting for the source. */
    READY_TIMEOUT_MS = (PAHO_CONNECT_TIMEOUT_S + 20) * 1000,
    DISCONNECT_WAIT_MS = 1000,
    ACK_WAIT_MS = 300,    /* for a PUBACK to be sent */
    LEAVE_WAIT_MS = 2500, /* for the broker to read the last PUBACKs; less than
                           * STOP_WAIT_MS of mqtt_slot.c */
    LOST_SOON_MS = 5000   /* a connection lost this soon after a late answer was dead
                           * before the answer */
};

struct mqtt_session {
    int source_fd;
    struct mqtt_setup setup;
    struct paho paho;
    char broker_why[PAHO_WHY_MAX]; /* MQTT 5: the broker's reason to disconnect; paho's
                                    * threads only
                                    */
    size_t subscribed;             /* number of filters subscribed; paho's threads only */

    pthread_mutex_t lock; /* guards all below and writes to the source */
    pthread_cond_t changed;
    bool ready;             /* all filters are subscribed */
    bool waiting;           /* the source has a message that it has not answered */
    bool stored;            /* the source answered STORED */
    bool stopping;          /* no further message may be acknowledged */
    int64_t leave_until_ms; /* while stopping: when the process exits, monotonic */
    int64_t started_ms;
    int64_t given_ms, answered_ms; /* the last message: sent to and answered by the
                                    * source, monotonic */
};

/* Sends a frame; the lock must be held. Ignores errors: the source may have exited. */
static void send_locked(const struct mqtt_session *s, const struct buf *frame)
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

static void send_frame_locked(struct mqtt_session *s, struct buf *frame)
{
    pthread_mutex_lock(&s->lock);
    send_locked(s, frame);
    pthread_mutex_unlock(&s->lock);
    buf_free(frame);
}

/* Did the last answer arrive so late that the broker had already closed the connection
 * (after one and a half keepalives)? Then it sends the message again. The lock must be
 * held. */
static bool stored_too_late(const struct mqtt_session *s)
{
    int64_t broker_patience_ms = s->setup.peer.keepalive_s * INT64_C(1500);

    return !s->waiting && s->answered_ms > 0 &&
           s->answered_ms - s->given_ms >= broker_patience_ms &&
           loop_mono_ms() - s->answered_ms <= LOST_SOON_MS;
}

/* Reports why and exits without a further PUBACK. */
static _Noreturn void fail(struct mqtt_session *s, const char *why)
{
    struct buf frame = {0};

    pthread_mutex_lock(&s->lock);
    frame_put_failed(&frame, stored_too_late(s), why);
    send_locked(s, &frame);
    _exit(EXIT_FAILURE);
}

/* -------------------------------------------------------------- messages */

/* leave_until_ms is set once, before any call. */
static _Noreturn void leave(const struct mqtt_session *s, int fd)
{
    paho_exit(fd, (int)(s->leave_until_ms - loop_mono_ms()));
}

/* Returns once the source has stored the message; on failure the process exits. */
static void send_and_wait(struct mqtt_session *s, const struct buf *frame)
{
    pthread_mutex_lock(&s->lock);
    if (s->stopping)
        leave(s, paho_dup_socket());
    s->stored = false;
    s->waiting = true;
    s->given_ms = loop_mono_ms();
    send_locked(s, frame);
    /* Waits for the answer. If the source dies, descriptor 3 closes and the process
     * exits. */
    while (!s->stored) {
        pthread_cond_wait(&s->changed, &s->lock);
        if (s->stopping && !s->stored)
            leave(s, paho_dup_socket());
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
    /* 0: the topic ends at the NUL; otherwise it contains a NUL. */
    size_t n = topic_len > 0 ? (size_t)topic_len : strlen(topic);

    paho_put_message(&frame, (struct slice){topic, n}, message, s->setup.message_max);
    send_and_wait(s, &frame);
    buf_free(&frame);
    MQTTAsync_freeMessage(&message);
    MQTTAsync_free(topic);
    return 1; /* with 0, paho would keep the message in memory and still send PUBACK */
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

/* MQTT 5: called before on_lost(). */
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
        paho_why(s->broker_why, sizeof(s->broker_why), reason, 0,
                 "the broker closed the connection", NULL);
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

    snprintf(why, sizeof(why),
             "cannot subscribe to %.96s: %s; check whether the broker permits it to this "
             "client",
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

/* Subscribes to one filter at a time: with several, paho reports a rejected filter as
 * success. */
static void subscribe_next(struct mqtt_session *s)
{
    MQTTAsync_responseOptions opts = MQTTAsync_responseOptions_initializer;

    if (s->subscribed == s->setup.filters.n) {
        struct buf frame = {0};
        pthread_mutex_lock(&s->lock);
        s->ready = true;
        pthread_mutex_unlock(&s->lock);
        frame_put(&frame, FRAME_SUBSCRIBED);
        send_frame_locked(s, &frame);
        return;
    }
    opts.context = s;
    if (s->setup.peer.v5) {
        opts.onSuccess5 = on_subscribed5;
        opts.onFailure5 = on_subscribe_failure5;
        /* 1: only for a new subscription; otherwise the broker would send retained
         * messages after every connect. A shared subscription never receives any. */
        opts.subscribeOptions.retainHandling = s->setup.retained ? 1 : 2;
        opts.subscribeOptions.retainAsPublished = 1; /* the job contains the flag */
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
    send_frame_locked(s, &frame);
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

/* Connects and subscribes in the background. Takes ownership of setup. */
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

/* Disconnects from the broker, which keeps the session, and exits. */
static _Noreturn void session_stop(struct mqtt_session *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    s->leave_until_ms = loop_mono_ms() + LEAVE_WAIT_MS;
    pthread_cond_broadcast(&s->changed);
    while (s->waiting) /* send_and_wait() exits the process, unless the answer has just
                        * arrived */
        pthread_cond_wait(&s->changed, &s->lock);
    /* paho sends the PUBACK after on_message() has returned, without a callback. Wait for
     * it, or the broker would send a stored message again. */
    bool acknowledging = loop_mono_ms() - s->answered_ms < ACK_WAIT_MS;
    pthread_mutex_unlock(&s->lock);
    if (acknowledging)
        usleep(ACK_WAIT_MS * 1000);
    int fd = paho_dup_socket();
    if (fd >= 0)
        paho_disconnect(&s->paho, DISCONNECT_WAIT_MS);
    leave(s, fd);
}

/* Call when the source has stored the last message: it may now be acknowledged. */
static void session_stored(struct mqtt_session *s)
{
    pthread_mutex_lock(&s->lock);
    s->stored = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Returns the ms until the next call is required; -1: none. Exits if the broker took too
 * long. */
static int session_timeout_ms(struct mqtt_session *s)
{
    pthread_mutex_lock(&s->lock);
    bool ready = s->ready;
    int64_t since_ms = s->answered_ms ? s->answered_ms : s->started_ms;
    /* While the source has a message, the broker's speed is unknown. */
    int64_t left_ms = READY_TIMEOUT_MS - (s->waiting ? 0 : loop_mono_ms() - since_ms);
    pthread_mutex_unlock(&s->lock);
    if (ready)
        return -1;
    if (left_ms <= 0)
        fail(
            s,
            "timeout: the broker did not accept the connection and subscription in time");
    return (int)left_ms;
}

/* Handles a frame. An invalid frame exits the process, so that no message is
 * acknowledged. */
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

/* Reads more from the source. Exits if the source has closed the socket. */
static void read_more(struct mqtt_session *s, struct buf *in)
{
    struct pollfd p = {.fd = SOURCE_FD, .events = POLLIN};
    enum { ROOM = 4096 };

    int ready = poll(&p, 1, s ? session_timeout_ms(s) : SETUP_TIMEOUT_MS);
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
        fprintf(stderr,
                "tarry worker mqtt: internal command, only tarry itself may start it\n");
        return 64;
    }
    prctl(PR_SET_NAME, "tarry-mqtt");
    prctl(PR_SET_DUMPABLE, 0); /* our memory contains the password */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* the source handles Ctrl-C and sends STOP */
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
        explicit_bzero(in.p, (size_t)n); /* SETUP contains the password */
        buf_drop(&in, (size_t)n);
    }
}
