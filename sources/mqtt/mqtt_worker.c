/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_worker.c - a worker process: its loop exchanges frames with the source and runs
 * the relay; paho's threads deliver messages (mqtt_session.c).
 *
 * A process for each MQTT client isolates the daemon from paho's mutex and parsers. The
 * process exits when descriptor 3 is closed, and on any failure; then the source starts
 * another.
 */
#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_client.h"
#include "sources/mqtt/mqtt_relay.h"
#include "sources/mqtt/mqtt_session.h"

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
    SETUP_TIMEOUT_MS = 10000, /* a healthy source sends SETUP at once */
    /* From the start, or the last stored message, to the subscription. */
    READY_TIMEOUT_MS = (MQTT_CONNECT_TIMEOUT_S + 20) * 1000,
    LAST_FRAME_WAIT_MS = 2000 /* for the source to read FAILED */
};

struct mqtt_worker {
    struct mqtt_setup setup;
    struct net_conf broker;
    struct mqtt_relay *relay;     /* NULL: before SETUP */
    struct mqtt_session *session; /* NULL: not connected to the broker */
    struct session_mail mail;     /* empty between two calls */
    struct watch *source;
    struct buf in, out; /* from and to the source */
    struct timer *timer;
    bool subscribed, leaving;
};

/* -------------------------------------------------------------------- the source */

static void send_to_source(struct mqtt_worker *w)
{
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

    frame_put_failed(&w->out, why);
    do
        send_to_source(w);
    while (w->out.n > 0 && poll(&source, 1, LAST_FRAME_WAIT_MS) > 0);
    _exit(EXIT_FAILURE);
}

/* -------------------------------------------------------------------- the session */

/* Combines the reports of paho and of the relay. The broker's own reason is best. */
static _Noreturn void fail_session(struct mqtt_worker *w)
{
    const char *lost = relay_why(w->relay);
    char why[SESSION_WHY_MAX];

    if (w->mail.refused || *lost == '\0')
        fail(w, w->mail.why);
    snprintf(why, sizeof(why), "connection lost: %s", lost);
    fail(w, why);
}

/* Takes the reports of paho's threads. */
static void collect(void *arg)
{
    struct mqtt_worker *w = arg;
    struct window_message m;

    if (w->session == NULL)
        return;
    session_take(w->session, &w->mail);
    for (size_t at = 0; at < w->mail.messages.n; at += sizeof(m)) {
        memcpy(&m, w->mail.messages.p + at, sizeof(m));
        relay_message(w->relay, m);
    }
    w->subscribed |= w->mail.subscribed;
    if (w->mail.frames.n > 0 && !w->leaving) {
        buf_add_slice(&w->out, buf_slice(&w->mail.frames));
        send_to_source(w);
    }
    if (w->mail.failed && !w->leaving)
        fail_session(w);
    if (relay_expects(w->relay))
        session_expect(w->session);
    buf_clear(&w->mail.messages);
    buf_clear(&w->mail.frames);
    if (w->mail.frames.cap > KEEP_BYTES)
        buf_free(&w->mail.frames);
}

static void on_ready(void *arg, unsigned port)
{
    struct mqtt_worker *w = arg;
    struct err err;

    w->session = session_new(&w->setup, port, collect, w, &err);
    if (w->session == NULL)
        fail(w, err.text);
}

static void on_connected(void *arg, bool session_present)
{
    struct mqtt_worker *w = arg;

    frame_put_connected(&w->out, session_present);
    send_to_source(w);
}

/* Adds what to do about errors of TLS. */
static const char *hint_of(const char *why)
{
    static const struct {
        const char *words, *hint;
    } hints[] = {
        {"mismatch", "; check that its certificate contains the host name of the url"},
        {"server's certificate",
         ": certificate verify failed; check that ca_file contains the CA of the "
         "broker's certificate, and that the certificate has not expired"},
        {"alert", "; check whether the broker requires a client certificate"}};

    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (strstr(why, hints[i].words))
            return hints[i].hint;
    return "";
}

static void on_lost(void *arg, const char *why)
{
    struct mqtt_worker *w = arg;
    char text[SESSION_WHY_MAX];

    snprintf(text, sizeof(text), "%s%s%s", w->session ? "connection lost: " : "", why,
             hint_of(why));
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
    if (!relay_waits(w->relay)) /* otherwise the broker's speed is unknown */
        fail(
            w,
            "timeout: the broker did not accept the connection and subscription in time");
    timer_set(w->timer, READY_TIMEOUT_MS);
}

/* -------------------------------------------------------------------- frames */

static void start(struct mqtt_worker *w)
{
    static const struct relay_events events = {on_ready, on_connected, collect, on_lost,
                                               on_left};
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
    unsigned count;

    if (frame_get_stored(body, &count, NULL) != 0 || relay_stored(w->relay, count) != 0)
        return -1;
    if (!w->subscribed)
        timer_set(w->timer, READY_TIMEOUT_MS);
    return 0;
}

/* Handles a frame. An invalid frame exits the process, so that no message is
 * acknowledged. */
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
        // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): n > 0 bytes are there
        explicit_bzero(w->in.p, (size_t)n); /* SETUP contains the password */
        buf_drop(&w->in, (size_t)n);
    }
    if (n < 0)
        _exit(EXIT_FAILURE);
}

static void on_source(void *arg, unsigned events)
{
    struct mqtt_worker *w = arg;

    if (events & WATCH_WRITE)
        send_to_source(w);
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
    static struct mqtt_worker worker;

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
    worker.timer = timer_new(on_timer, &worker);
    timer_set(worker.timer, SETUP_TIMEOUT_MS);
    loop_run();
    return 0;
}
