/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_worker.c - a worker process: a thread connects paho to the relay and subscribes;
 * the loop runs the relay and exchanges frames with the source.
 *
 * A process for each MQTT client isolates the daemon from paho's mutex and from the
 * broker's packets. The process exits when descriptor 3 is closed, and on any failure;
 * then the source starts another.
 */
#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_client.h"
#include "sources/mqtt/mqtt_frame.h"
#include "sources/mqtt/mqtt_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SOURCE_FD = 3,
    ROOM_BYTES = 4096,
    KEEP_BYTES = 1024 * 1024, /* free an empty buffer larger than this */
    WHY_BYTES = 320,
    URI_BYTES = 64,
    SETUP_TIMEOUT_MS = 10000, /* a healthy source sends SETUP at once */
    /* From the start, or the last stored message, to the subscription. */
    READY_TIMEOUT_MS = (MQTT_CONNECT_TIMEOUT_S + 20) * 1000,
    SUBSCRIBE_TIMEOUT_MS = 24 * 60 * 60 * 1000, /* the worker gives up earlier */
    LAST_FRAME_WAIT_MS = 2000                   /* for the source to read FAILED */
};

static struct mqtt_worker {
    struct mqtt_setup setup;
    struct net_conf broker;
    struct mqtt_relay *relay;  /* NULL: before SETUP */
    struct mqtt_client client; /* used by paho's threads, from on_ready() */
    struct watch *source;
    struct buf in, out; /* from and to the source */
    struct timer *timer;
    bool started; /* the thread of paho, which connects */
    bool subscribed, leaving;
} worker;

/* -------------------------------------------------------------------- the source */

/* Sends the frames of this turn of the loop. */
static void send_to_source(void *arg)
{
    struct mqtt_worker *w = arg;
    ssize_t n = 0;

    if (w->out.n > 0)
        n = send(SOURCE_FD, w->out.p, w->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        _exit(0); /* the source has exited */
    if (n > 0)
        buf_drop(&w->out, (size_t)n);
    if (w->out.n == 0 && w->out.cap > KEEP_BYTES)
        buf_free(&w->out);
    watch_set(w->source, WATCH_READ | (w->out.n > 0 ? WATCH_WRITE : 0));
}

/* Reports why and exits without a further acknowledgement. */
static _Noreturn void fail(struct mqtt_worker *w, const char *why)
{
    struct pollfd source = {.fd = SOURCE_FD, .events = POLLOUT};

    frame_put(&w->out, FRAME_FAILED, slice_of(why));
    do
        send_to_source(w);
    while (w->out.n > 0 && poll(&source, 1, LAST_FRAME_WAIT_MS) > 0);
    _exit(EXIT_FAILURE);
}

/* -------------------------------------------------------- reports of paho's threads */

struct report {
    bool failed, refused; /* refused: why is the broker's own reason */
    char why[WHY_BYTES];
};

/* Exits with the best reason: the broker's own, else the relay's, else paho's. */
static _Noreturn void fail_client(struct mqtt_worker *w, const struct report *report)
{
    const char *lost = relay_why(w->relay);
    char why[WHY_BYTES];

    if (report->refused || *lost == '\0')
        fail(w, report->why);
    snprintf(why, sizeof(why), "connection lost: %s", lost);
    fail(w, why);
}

static void on_report(void *arg)
{
    struct report *report = arg;

    if (report->failed && !worker.leaving)
        fail_client(&worker, report);
    if (!report->failed)
        frame_put(&worker.out, FRAME_SUBSCRIBED, SLICE_LIT(""));
    worker.subscribed |= !report->failed;
    free(report);
}

static void report_failed(bool refused, const char *why)
{
    struct report *report = mem_alloc(sizeof(*report));

    report->failed = true;
    report->refused = refused;
    snprintf(report->why, sizeof(report->why), "%s", why);
    loop_post(on_report, report);
}

static void on_client_lost(void *context, enum MQTTReasonCodes reason, const char *why)
{
    const struct mqtt_client *c = context;
    char text[WHY_BYTES];

    if (reason == MQTTREASONCODE_SESSION_TAKEN_OVER)
        snprintf(text, sizeof(text),
                 "connection lost: another client connected as %s; give every daemon its "
                 "own client_id",
                 c->peer->client_id);
    else
        snprintf(text, sizeof(text), "connection lost%s%s", why ? ": " : "",
                 why ? why : "");
    report_failed(why != NULL, text);
}

/* -------------------------------------------------------------------- paho's thread */

static bool connect_client(struct mqtt_worker *w)
{
    MQTTProperties props = MQTTProperties_initializer;
    MQTTProperty expiry = {.identifier = MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL,
                           .value.integer4 = w->setup.session_expiry_s};
    MQTTProperty receive_max = {.identifier = MQTTPROPERTY_CODE_RECEIVE_MAXIMUM,
                                .value.integer2 = (unsigned short)w->setup.receive_max};

    MQTTProperties_add(&props, &expiry);
    MQTTProperties_add(&props, &receive_max);
    w->client.props = &props;
    int rc = mqtt_client_connect(&w->client);
    MQTTProperties_free(&props);
    if (rc != 0)
        report_failed(
            w->client.refused,
            w->client.refused
                ? w->client.why
                : "the broker did not answer in time, or sent an invalid packet");
    return rc == 0;
}

static void subscribe_refused(const struct mqtt_setup *setup, const char *filter,
                              int granted)
{
    const char *text = setup->peer.v5 ? MQTTReasonCode_toString(granted) : NULL;
    char why[WHY_BYTES];

    if (granted < MQTTREASONCODE_UNSPECIFIED_ERROR)
        snprintf(why, sizeof(why),
                 "the broker grants less than QoS %u for topic filter %.96s", setup->qos,
                 filter);
    else
        snprintf(why, sizeof(why),
                 "cannot subscribe to %.96s: %s; check whether the broker permits it to "
                 "this client",
                 filter, text ? text : "refused");
    report_failed(true, why);
}

/* Subscribes to one filter, since paho reports only one reason for several. */
static bool subscribe(struct mqtt_worker *w, char *filter)
{
    const struct mqtt_setup *setup = &w->setup;
    MQTTSubscribe_options opts = MQTTSubscribe_options_initializer;
    int granted = (int)setup->qos;

    /* 1: only for a new subscription; otherwise the broker would send retained messages
     * after every connect. A shared subscription never receives any. */
    opts.retainHandling = setup->retained ? 1 : 2;
    opts.retainAsPublished = 1; /* the job contains the flag */
    MQTTResponse answer = MQTTClient_subscribeMany5(
        w->client.handle, 1, &filter, &granted, setup->peer.v5 ? &opts : NULL, NULL);
    const int rc = (int)answer.reasonCode;
    MQTTResponse_free(answer);
    if (rc < 0) {
        report_failed(false, "connection lost while subscribing");
        return false;
    }
    if (setup->peer.v5)
        granted = rc;
    if (granted >= (int)setup->qos && granted <= 2)
        return true;
    subscribe_refused(setup, filter, granted);
    return false;
}

/* On the loop thread. */
static void on_keepalive(void *arg)
{
    const struct mqtt_worker *w = arg;
    relay_ping(w->relay, w->client.limits.keepalive_s);
}

static void *thread_main(void *arg)
{
    struct mqtt_worker *w = arg;

    if (!connect_client(w))
        return NULL;
    if (w->client.limits.keepalive_s > 0)
        loop_post(on_keepalive, w);
    MQTTClient_setCommandTimeout(w->client.handle, SUBSCRIBE_TIMEOUT_MS);
    for (size_t i = 0; i < w->setup.filters.n; i++)
        if (!subscribe(w, w->setup.filters.v[i]))
            return NULL;
    loop_post(on_report, mem_alloc(sizeof(struct report)));
    return NULL;
}

/* -------------------------------------------------------------------- the relay */

static void on_ready(void *arg, unsigned port)
{
    static const struct mqtt_client_events events = {.lost = on_client_lost};
    struct mqtt_worker *w = arg;
    char uri[URI_BYTES], why[WHY_BYTES];

    snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%u", port);
    w->setup.peer.uri = mem_strdup(uri);
    w->client = (struct mqtt_client){.peer = &w->setup.peer,
                                     .events = &events,
                                     .context = &w->client,
                                     .timeout_s = MQTT_CONNECT_TIMEOUT_S,
                                     .resume = true};
    int rc = mqtt_client_thread(thread_main, w);
    w->started = rc == 0;
    snprintf(why, sizeof(why), "cannot start a thread for the MQTT client: %s",
             strerror(rc));
    if (rc != 0)
        fail(w, why);
}

static void on_connected(void *arg, bool session_present)
{
    struct mqtt_worker *w = arg;
    frame_put_number(&w->out, FRAME_CONNECTED, session_present);
}

static void on_message(void *arg, const struct mqtt_message *m)
{
    struct mqtt_worker *w = arg;
    frame_put_message(&w->out, m, w->setup.message_max);
}

static void on_lost(void *arg, const char *lost)
{
    struct mqtt_worker *w = arg;
    const struct mqtt_failure failure = {.message = lost};
    char why[WHY_BYTES - 32], text[WHY_BYTES];

    mqtt_why(why, sizeof(why), &failure);
    snprintf(text, sizeof(text), "%s%s", w->started ? "connection lost: " : "", why);
    fail(w, text);
}

static void on_left(void *arg)
{
    (void)arg;
    _exit(0);
}

static void on_timer(void *arg)
{
    struct mqtt_worker *w = arg;

    if (w->relay == NULL)
        _exit(EXIT_FAILURE);
    if (w->subscribed || w->leaving)
        return;
    if (!relay_waits(w->relay)) /* else Redis delays the broker: wait again */
        fail(
            w,
            "timeout: the broker did not accept the connection and subscription in time");
    timer_set(w->timer, READY_TIMEOUT_MS);
}

/* -------------------------------------------------------------------- frames */

static void start(struct mqtt_worker *w)
{
    static const struct relay_events events = {on_ready, on_connected, on_message,
                                               on_lost, on_left};
    const struct mqtt_peer *peer = &w->setup.peer;

    w->broker =
        (struct net_conf){.host = peer->host,
                          .port = peer->port,
                          .tls = peer->tls,
                          .ca_file = peer->ca_file,
                          .cert_file = peer->cert_file,
                          .key_file = peer->key_file,
                          .key_password = peer->key_password,
                          .alpn = peer->alpn,
                          .connect_timeout_ms = MQTT_CONNECT_TIMEOUT_S * INT64_C(1000),
                          .unacknowledged_timeout_ms = peer->keepalive_s * INT64_C(2500)};
    w->relay = relay_new(&w->broker, w->setup.receive_max, peer->v5, &events, w);
    timer_set(w->timer, READY_TIMEOUT_MS);
}

static int take_stored(struct mqtt_worker *w, struct slice body)
{
    uint32_t count;

    if (frame_get_number(body, &count, NULL) != 0 || relay_stored(w->relay, count) != 0)
        return -1;
    if (!w->subscribed)
        timer_set(w->timer, READY_TIMEOUT_MS);
    return 0;
}

/* Handles a frame. Exits on an invalid frame, so that no message is acknowledged. */
static void take_frame(struct mqtt_worker *w, const struct frame *f)
{
    if (f->type == FRAME_SETUP && w->relay == NULL &&
        frame_get_setup(f->body, &w->setup, NULL) == 0) {
        start(w);
    } else if (f->type == FRAME_STOP && w->relay) {
        w->leaving = true;
        relay_leave(w->relay);
    } else if (f->type != FRAME_STORED || w->relay == NULL ||
               take_stored(w, f->body) != 0) {
        _exit(EXIT_FAILURE);
    }
}

static void take_frames(struct mqtt_worker *w)
{
    struct frame f;
    ssize_t n;

    while ((n = frame_take(buf_slice(&w->in), FRAME_SMALL_MAX, &f, NULL)) > 0) {
        take_frame(w, &f);
        // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): in contains n > 0
        // bytes
        explicit_bzero(w->in.p, (size_t)n); /* SETUP contains the password */
        buf_drop(&w->in, (size_t)n);
    }
    if (n < 0)
        _exit(EXIT_FAILURE);
}

static void on_source(void *arg, unsigned events)
{
    struct mqtt_worker *w = arg;

    if (!(events & (WATCH_READ | WATCH_ERROR)))
        return;
    ssize_t n = read(SOURCE_FD, buf_room(&w->in, ROOM_BYTES), ROOM_BYTES);
    if (n > 0) {
        buf_grew(&w->in, (size_t)n);
        take_frames(w);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        _exit(0); /* the source has exited, or closed the socket */
    }
}

/* Runs the process and returns its exit code. bridge/plugins.c lists it. */
int mqtt_worker_main(int argc, char **argv);

int mqtt_worker_main(int argc, char **argv)
{
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
    loop_init();
    fcntl(SOURCE_FD, F_SETFL, O_NONBLOCK);
    worker.source = watch_add(SOURCE_FD, WATCH_READ, on_source, &worker);
    loop_each_turn(send_to_source, &worker);
    worker.timer = timer_new(on_timer, &worker);
    timer_set(worker.timer, SETUP_TIMEOUT_MS);
    loop_run();
    return 0;
}
