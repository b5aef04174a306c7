/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_slot.c - manages a worker process: its socket, its messages in flight, its
 * backoff.
 *
 * A run is the time from start to exit of a worker process. The slot remembers messages
 * in flight beyond their run (mqtt_flight.h). If the connection breaks while Redis is
 * unavailable, the broker sends them again, and they must not be stored twice.
 */
#include "sources/mqtt/mqtt_slot.h"

#include "bridge/base/retry.h"
#include "sources/mqtt/mqtt_flight.h"
#include "sources/mqtt/mqtt_job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_BYTES = 128 * 1024, /* maximum in one turn of the loop */
    STOP_WAIT_MS = 3000,     /* then the worker is killed */
    STEADY_MS = 10000        /* a run of this length does not count as a failure */
};

struct mqtt_slot {
    struct source *src;
    struct mqtt_setup setup;
    mqtt_slot_cb *stopped;
    void *stopped_arg;

    struct child *child; /* NULL: not running */
    int fd;              /* our end of the socket; -1: none */
    struct watch *watch;
    struct buf in;
    struct timer *timer;  /* of the next start; while leaving: of the kill */
    int64_t connected_ms; /* monotonic time of the connect in this run; 0: none yet */
    unsigned failures;    /* consecutive runs shorter than STEADY_MS */
    bool connected_before;
    bool leaving;   /* STOP was sent; no further message is accepted */
    bool reporting; /* report_stored() is deferred */
    bool paused, stopping;

    struct mqtt_flight flight;
    struct log_limit lost_limit, store_limit;
};

/* ------------------------------------------------------- stopping the worker */

static void close_socket(struct mqtt_slot *slot)
{
    watch_del(slot->watch);
    slot->watch = NULL;
    if (slot->fd >= 0)
        close(slot->fd);
    slot->fd = -1;
    buf_free(&slot->in);
}

/* Closes the socket of a broken worker and kills it; on_child_exit() continues. */
static void abandon_worker(struct mqtt_slot *slot)
{
    close_socket(slot);
    if (slot->child)
        child_kill(slot->child, SIGKILL);
}

/* Sends a small frame. If the socket has no room for it, the worker is stuck: kills it
 * and returns -1. */
static int send_frame(struct mqtt_slot *slot, const struct buf *frame)
{
    if (slot->fd < 0)
        return -1;
    if (send(slot->fd, frame->p, frame->n, MSG_NOSIGNAL | MSG_DONTWAIT) ==
        (ssize_t)frame->n)
        return 0;
    abandon_worker(slot);
    return -1;
}

static void start_later(struct mqtt_slot *slot)
{
    int64_t now = loop_mono_ms();

    if (slot->connected_ms > 0 && now - slot->connected_ms >= STEADY_MS)
        slot->failures = 0;
    slot->failures++;
    timer_set(slot->timer, retry_broker_ms(slot->failures));
}

/* Asks the worker to acknowledge the stored messages, and to exit. */
static void send_stop(struct mqtt_slot *slot)
{
    struct buf frame = {0};

    if (slot->leaving)
        return;
    slot->leaving = true;
    timer_set(slot->timer, STOP_WAIT_MS);
    frame_put(&frame, FRAME_STOP, SLICE_LIT(""));
    send_frame(slot, &frame);
    buf_free(&frame);
}

/* ------------------------------------------------------------------- messages */

/* Reports the messages that were stored in this turn of the loop. */
static void report_stored(void *arg)
{
    struct mqtt_slot *slot = arg;
    struct buf frame = {0};

    slot->reporting = false;
    unsigned count = slot->fd >= 0 ? flight_take_stored(&slot->flight) : 0;
    if (count == 0)
        return;
    frame_put_number(&frame, FRAME_STORED, count);
    send_frame(slot, &frame);
    buf_free(&frame);
    FAULT("S4");
}

static void report_later(struct mqtt_slot *slot)
{
    if (!slot->reporting)
        loop_defer(report_stored, slot);
    slot->reporting = true;
}

/* MQTT has no negative acknowledgement: the broker sends a message again only after the
 * worker has disconnected. */
static void reconnect(struct mqtt_slot *slot)
{
    if (slot->child == NULL || slot->leaving)
        return;
    log_limited(&slot->store_limit, LOG_WARN, source_name(slot->src),
                "a message could not be stored; tarry reconnects so that the broker "
                "sends it again");
    report_stored(slot);
    send_stop(slot);
}

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct flight_message *m = arg;
    struct mqtt_slot *slot = m->owner;
    const bool stored = reply->outcome != NOT_STORED && reply->outcome != REFUSED;
    const bool in_run = m->in_run;

    flight_settle(m, stored); /* may free m */
    if (in_run && stored)
        report_later(slot);
    else if (in_run)
        reconnect(slot);
}

static void submit(struct mqtt_slot *slot, const struct mqtt_message *m,
                   struct flight_message *in_flight)
{
    struct job *job = mqtt_job_new(m);

    if (m->expiry_s >= 0)
        job->expires_ms =
            source_now_ms(slot->src, job->topic) + m->expiry_s * INT64_C(1000);
    source_submit(slot->src, job, on_stored, in_flight);
}

/* Returns whether the broker sent a retained message that was not requested. With MQTT 5
 * the subscription excludes these messages, and the flag is the publisher's. */
static bool is_unwanted(const struct mqtt_slot *slot, const struct mqtt_message *m)
{
    return m->retained && !slot->setup.retained && !slot->setup.peer.v5;
}

static int take_message(struct mqtt_slot *slot, struct slice body, struct err *err)
{
    struct mqtt_message m;
    bool again;

    if (frame_get_message(body, &m, err) != 0)
        return -1;
    struct flight_message *in_flight = flight_add(&slot->flight, &m, &again);
    in_flight->owner = slot;
    if (again) {
        log_debug(source_name(slot->src),
                  "the broker sent message %u again; it is not stored twice", m.msgid);
    } else if (is_unwanted(slot, &m)) {
        log_debug(source_name(slot->src), "a retained message was ignored");
        flight_settle(in_flight, true);
    } else {
        submit(slot, &m, in_flight);
    }
    if (in_flight->state != FLIGHT_OPEN)
        report_later(slot);
    return 0;
}

/* --------------------------------------------------------------------- frames */

static int take_connected(struct mqtt_slot *slot, struct slice body, struct err *err)
{
    const char *client_id = slot->setup.peer.client_id;
    uint32_t present;

    if (frame_get_number(body, &present, err) != 0)
        return -1;
    slot->connected_ms = loop_mono_ms();
    if (!present)
        flight_forget(&slot->flight); /* a new session reuses message ids */
    if (slot->connected_before && !present) {
        source_session_lost(slot->src);
        log_warn(source_name(slot->src),
                 "possible loss: the broker no longer has the session of %s, and "
                 "messages stored in it are lost; increase session_expiry, and configure "
                 "the broker to store sessions on disk",
                 client_id);
    }
    log_info(source_name(slot->src), "connected as %s, %s session", client_id,
             present ? "earlier" : "new");
    slot->connected_before = true;
    return 0;
}

static void take_failed(struct mqtt_slot *slot, struct slice why)
{
    const size_t longest = 300;

    if (why.n > longest)
        why.n = longest;
    /* Log every lost connection, but failed attempts at a limited rate. */
    if (slot->connected_ms > 0)
        slot->lost_limit = (struct log_limit){0};
    if (!slot->stopping)
        log_limited(&slot->lost_limit, LOG_WARN, source_name(slot->src),
                    "client %s: %.*s; trying again", slot->setup.peer.client_id,
                    SLICE_ARG(why));
}

static int take_frame(struct mqtt_slot *slot, const struct frame *f, struct err *err)
{
    switch (f->type) {
    case FRAME_CONNECTED:
        return take_connected(slot, f->body, err);
    case FRAME_SUBSCRIBED:
        log_debug(source_name(slot->src), "subscribed as %s", slot->setup.peer.client_id);
        return 0;
    case FRAME_FAILED:
        take_failed(slot, f->body);
        return 0;
    case FRAME_MESSAGE:
        /* A worker that leaves or has exited does not acknowledge it; the broker sends
         * the message again. */
        return slot->leaving || slot->child == NULL ? 0
                                                    : take_message(slot, f->body, err);
    default:
        return err_set(
            err, "the worker sent a frame of type %d, which only the source may send",
            (int)f->type);
    }
}

static void take_frames(struct mqtt_slot *slot)
{
    const size_t max_bytes = frame_message_max(slot->setup.message_max);
    struct frame f;
    struct err err;
    size_t at = 0;
    ssize_t n = 0;

    /* If a reply cannot be sent, send_frame() closes the socket and frees slot->in. */
    while (slot->fd >= 0 && at < slot->in.n) {
        struct slice rest = {slot->in.p + at, slot->in.n - at};
        n = frame_take(rest, max_bytes, &f, &err);
        if (n == 0)
            break;
        if (n < 0 || take_frame(slot, &f, &err) != 0) {
            log_error(source_name(slot->src), "worker: %s; starting another", err.text);
            abandon_worker(slot);
            return;
        }
        at += (size_t)n;
    }
    if (slot->fd >= 0)
        buf_drop(&slot->in, at);
}

/* Reads once. Returns false at the end of the input. */
static bool read_once(struct mqtt_slot *slot)
{
    ssize_t n = read(slot->fd, buf_room(&slot->in, READ_BYTES), READ_BYTES);

    if (n > 0)
        buf_grew(&slot->in, (size_t)n);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return false;
    return true;
}

static void on_readable(void *arg, unsigned events)
{
    struct mqtt_slot *slot = arg;

    (void)events;
    if (!read_once(slot)) {
        abandon_worker(slot); /* it is exiting anyway */
        return;
    }
    take_frames(slot);
    if (slot->fd >= 0 && slot->in.n == 0)
        buf_free(&slot->in); /* release the memory of a large message */
}

/* -------------------------------------------------------------- start and exit */

static void finish_stop(struct mqtt_slot *slot)
{
    close_socket(slot);
    timer_stop(slot->timer);
    slot->stopped(slot->stopped_arg);
}

static void on_child_exit(void *arg, int status)
{
    struct mqtt_slot *slot = arg;

    slot->child = NULL;
    /* The socket may still contain messages, which are ignored now, and a FAILED frame.
     */
    while (slot->fd >= 0) {
        size_t before = slot->in.n;
        bool open = read_once(slot);
        bool more = open && slot->in.n > before;
        take_frames(slot);
        if (!more)
            break;
    }
    close_socket(slot);
    if (slot->stopping) {
        finish_stop(slot);
        return;
    }
    flight_end_run(&slot->flight);
    log_debug(source_name(slot->src), "worker exited, status %d", status);
    start_later(slot);
}

static int send_setup(struct mqtt_slot *slot)
{
    struct buf frame = {0};
    const size_t plenty = 256 * 1024;

    buf_room(&frame, plenty); /* full size at once: a reallocation would leave copies of
                               * the password */
    frame_put_setup(&frame, &slot->setup);
    int rc = send_frame(slot, &frame);
    explicit_bzero(frame.p, frame.n);
    buf_free(&frame);
    return rc;
}

static int try_start(struct mqtt_slot *slot, struct err *err)
{
    /* The running program, even if its file was replaced meanwhile. */
    const char *const argv[] = {"/proc/self/exe", "worker", "mqtt", NULL};
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return err_set(err, "socketpair: %s", strerror(errno));
    const struct child_spec spec = {.argv = argv, .pass_fd = fds[1]};
    slot->fd = fds[0];
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    slot->child = child_start(&spec, on_child_exit, slot, err);
    close(fds[1]);
    if (slot->child == NULL) {
        close_socket(slot);
        return -1;
    }
    slot->watch = watch_add(slot->fd, slot->paused ? 0 : WATCH_READ, on_readable, slot);
    send_setup(slot); /* on failure the worker is killed and on_child_exit() continues */
    return 0;
}

static void start_worker(struct mqtt_slot *slot)
{
    struct err err;

    slot->leaving = false;
    slot->connected_ms = 0;
    if (try_start(slot, &err) == 0)
        return;
    log_limited(&slot->lost_limit, LOG_ERROR, source_name(slot->src),
                "cannot start the worker process: %s; trying again", err.text);
    start_later(slot);
}

static void on_timer(void *arg)
{
    struct mqtt_slot *slot = arg;

    if (slot->child == NULL) {
        start_worker(slot);
        return;
    }
    log_warn(source_name(slot->src), "the worker did not stop in time; tarry kills it");
    abandon_worker(slot); /* on_child_exit() continues */
}

struct mqtt_slot *mqtt_slot_new(struct source *src, struct mqtt_setup *setup)
{
    struct mqtt_slot *slot = mem_alloc(sizeof(*slot));

    slot->src = src;
    slot->setup = *setup;
    memset(setup, 0, sizeof(*setup));
    slot->fd = -1;
    slot->timer = timer_new(on_timer, slot);
    start_worker(slot);
    return slot;
}

void mqtt_slot_pause(struct mqtt_slot *slot, bool paused)
{
    slot->paused = paused;
    if (slot->watch)
        watch_set(slot->watch, paused ? 0 : WATCH_READ);
}

void mqtt_slot_stop(struct mqtt_slot *slot, mqtt_slot_cb *stopped, void *arg)
{
    slot->stopping = true;
    slot->stopped = stopped;
    slot->stopped_arg = arg;
    if (slot->child == NULL) {
        finish_stop(slot);
        return;
    }
    mqtt_slot_pause(slot, false); /* a worker whose socket is full would not read STOP */
    report_stored(slot);
    send_stop(slot);
}

bool mqtt_slot_is_connected(const struct mqtt_slot *slot)
{
    return slot && slot->fd >= 0 && slot->connected_ms > 0;
}

void mqtt_slot_free(struct mqtt_slot *slot)
{
    if (slot == NULL)
        return;
    close_socket(slot);
    timer_del(slot->timer);
    child_forget(slot->child);
    flight_forget(&slot->flight);
    mqtt_setup_free(&slot->setup);
    loop_defer_free(slot); /* report_stored() may be deferred */
}
