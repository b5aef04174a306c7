/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_relay.c - two streams of packets: from the broker to paho, which stops at a packet
 * while the source has too much; from paho to the broker, without acknowledgements of
 * messages that are not stored.
 */
#include "sources/mqtt/mqtt_relay.h"

#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_door.h"
#include "sources/mqtt/mqtt_packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TO_PAHO_MAX = 256 * 1024,          /* bytes that wait for paho */
    OPEN_BYTES_MAX = 16 * 1024 * 1024, /* of messages that are not stored */
    KEEP_BYTES = 1024 * 1024,          /* free an empty buffer larger than this */
    PUBACK_BYTES = 4,                  /* at least */
    ACK_BATCH = 16,                    /* PUBACKs that are read together, but at most half
                                        * of the open messages, so that the broker is never idle */
    READ_BYTES = 64 * 1024,            /* from paho, in one turn of the loop */
    ACK_WAIT_MS = 300,    /* when leaving: for paho to acknowledge what is stored */
    LEAVE_WAIT_MS = 2500, /* when leaving: for the broker to close the connection; less
                           * than STOP_WAIT_MS of mqtt_slot.c */
    REPORT_WAIT_MS = 2000 /* after a loss: for paho to report it */
};

struct mqtt_relay {
    const struct relay_events *events;
    void *arg;
    struct net *net; /* to the broker */
    bool broker_open;
    struct door *door; /* NULL: paho is connected, or not yet expected */
    int paho_fd;       /* -1: none */
    struct watch *paho_watch;
    struct timer *timer; /* of the loss, or when leaving */

    struct buf from_broker, to_paho, from_paho, to_broker;
    size_t passing;   /* bytes of the packet from the broker that are not yet passed on */
    bool full;        /* a message waits in from_broker, because the source has too many;
                       * the broker is not read */
    bool greeted;     /* paho has sent a packet */
    bool connected;   /* the broker has accepted it */
    uint64_t unacked; /* messages of QoS 1 that were passed to paho, without its PUBACK */
    int wake_bytes;   /* the loop wakes up when paho has sent this many bytes */
    struct mqtt_window window;
    uint64_t open_max;

    enum { RELAY_RUNS, RELAY_LEAVES, RELAY_SAID_GOODBYE } state;
    struct err why; /* of the loss */
};

static void forget_input(struct buf *b, size_t n)
{
    buf_drop(b, n);
    if (b->n == 0 && b->cap > KEEP_BYTES)
        buf_free(b);
}

/* -------------------------------------------------------------------- the end */

/* Lets paho read the broker's last packets and then notice the end of the connection. It
 * knows the broker's reason. */
static void lose(struct mqtt_relay *r)
{
    door_close(r->door);
    r->door = NULL;
    r->full = false;
    if (r->paho_fd < 0) {
        r->events->lost(r->arg, r->why.text);
        return;
    }
    if (r->to_paho.n == 0)
        shutdown(r->paho_fd, SHUT_WR);
    timer_set(r->timer, REPORT_WAIT_MS);
}

static bool is_lost(const struct mqtt_relay *r)
{
    return r->why.text[0] != '\0';
}

/* Closing a socket with unread data resets the connection, and the broker loses the
 * PUBACKs that it has not read. So let the broker close it, and read until then. */
static void say_goodbye(struct mqtt_relay *r)
{
    r->state = RELAY_SAID_GOODBYE;
    if (!r->broker_open || is_lost(r) || !r->greeted) {
        r->events->left(r->arg);
        return;
    }
    net_write(r->net, PACKET_DISCONNECT_BYTES.p, PACKET_DISCONNECT_BYTES.n);
    net_push(r->net);
    net_set_reading(r->net, true);
    timer_set(r->timer, LEAVE_WAIT_MS);
}

void relay_leave(struct mqtt_relay *r)
{
    if (r->state != RELAY_RUNS)
        return;
    r->state = RELAY_LEAVES;
    if (window_settled(&r->window))
        say_goodbye(r);
    else
        timer_set(r->timer, ACK_WAIT_MS);
}

static void on_timer(void *arg)
{
    struct mqtt_relay *r = arg;

    if (r->state == RELAY_RUNS)
        r->events->lost(r->arg, r->why.text);
    else if (r->state == RELAY_LEAVES)
        say_goodbye(r);
    else
        r->events->left(r->arg);
}

/* --------------------------------------------------------- from the broker to paho */

static void fail_broker(struct mqtt_relay *r, const char *why)
{
    err_set(&r->why, "%s", why);
    net_close(r->net);
    r->net = NULL;
    lose(r);
}

/* Would a further message be too much for the source? */
static bool is_full(const struct mqtt_relay *r)
{
    return window_open(&r->window) >= r->open_max || r->window.bytes >= OPEN_BYTES_MAX;
}

/* Reports the first CONNACK: paho (1.3.12) does not report whether the session is an
 * earlier one with MQTT 5. */
static void read_connack(struct mqtt_relay *r, struct slice in,
                         const struct packet_head *h)
{
    const int session_present = packet_connack(in, h);

    if (session_present < 0 || r->connected)
        return;
    r->connected = true;
    r->events->connected(r->arg, session_present);
}

/* Starts to pass the first packet of in. Returns false if it must wait, because it is
 * incomplete or too much. */
static bool begin_packet(struct mqtt_relay *r, struct slice in)
{
    struct packet_head h;
    int n = packet_head(in, &h);

    if (n < 0)
        fail_broker(r, "the broker sent a packet with an invalid length");
    if (n <= 0)
        return false;
    r->full = h.type == PACKET_PUBLISH && is_full(r);
    if (r->full)
        return false;
    if (h.type == PACKET_CONNACK) {
        if (in.n < h.size && in.n < h.head_bytes + PACKET_CONNACK_BYTES)
            return false;
        read_connack(r, in, &h);
    }
    r->passing = h.size;
    if (h.type == PACKET_PUBLISH)
        window_pass(&r->window, h.qos);
    r->unacked += h.type == PACKET_PUBLISH && h.qos == 1;
    return true;
}

static void watch_paho(const struct mqtt_relay *r)
{
    watch_set(r->paho_watch, WATCH_READ | (r->to_paho.n > 0 ? WATCH_WRITE : 0));
}

static void flush_to_paho(struct mqtt_relay *r)
{
    if (r->paho_fd < 0 || r->to_paho.n == 0)
        return;
    ssize_t n = send(r->paho_fd, r->to_paho.p, r->to_paho.n, MSG_NOSIGNAL);
    if (n > 0)
        forget_input(&r->to_paho, (size_t)n);
    else if (errno != EAGAIN && errno != EINTR)
        buf_clear(&r->to_paho); /* paho closed its end, and will report why */
    if (r->to_paho.n == 0 && is_lost(r))
        shutdown(r->paho_fd, SHUT_WR);
    watch_paho(r);
}

/* Lets the kernel collect the PUBACKs that paho is about to send, each in a write of its
 * own, instead of waking the loop for each. */
static void await_acks(struct mqtt_relay *r)
{
    const uint64_t sure = r->unacked - (r->passing > 0 && r->unacked > 0);
    const uint64_t most = r->open_max / 2 < ACK_BATCH ? r->open_max / 2 : ACK_BATCH;
    const uint64_t batch = sure < most ? sure : most;
    const int bytes = batch > 1 ? (int)batch * PUBACK_BYTES : 1;

    if (r->paho_fd < 0 || bytes == r->wake_bytes)
        return;
    setsockopt(r->paho_fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
    r->wake_bytes = bytes;
}

/* Passes on what the source can store, and stops reading at the first packet that is too
 * much. */
static void pass_to_paho(struct mqtt_relay *r)
{
    const struct slice in = buf_slice(&r->from_broker);
    size_t at = 0;

    r->full = false;
    while (at < in.n && r->state == RELAY_RUNS && !is_lost(r)) {
        struct slice rest = {in.p + at, in.n - at};
        if (r->passing == 0 && !begin_packet(r, rest))
            break;
        size_t n = r->passing < rest.n ? r->passing : rest.n;
        buf_add(&r->to_paho, rest.p, n);
        r->passing -= n;
        at += n;
    }
    forget_input(&r->from_broker, at);
    await_acks(r);
    flush_to_paho(r);
    if (is_lost(r) || r->state != RELAY_RUNS)
        return;
    net_set_reading(r->net, !r->full && r->to_paho.n < TO_PAHO_MAX);
}

static void on_broker_bytes(void *arg, struct slice bytes)
{
    struct mqtt_relay *r = arg;

    if (r->state != RELAY_RUNS)
        return;
    buf_add_slice(&r->from_broker, bytes);
    pass_to_paho(r);
}

/* --------------------------------------------------------- from paho to the broker */

static void send_to_broker(struct mqtt_relay *r)
{
    if (r->to_broker.n > 0 && r->broker_open && !is_lost(r) &&
        r->state != RELAY_SAID_GOODBYE)
        net_write(r->net, r->to_broker.p, r->to_broker.n);
    buf_clear(&r->to_broker);
}

static void release_acks(struct mqtt_relay *r)
{
    window_release(&r->window, &r->to_broker);
    send_to_broker(r);
    if (r->state == RELAY_LEAVES && window_settled(&r->window))
        say_goodbye(r);
}

/* The broker's PINGRESP cannot be read now, and paho would close the connection. */
static void answer_ping(struct mqtt_relay *r)
{
    buf_add_slice(&r->to_paho, PACKET_PINGRESP_BYTES);
    flush_to_paho(r);
}

/* Takes one packet of paho. -1: an acknowledgement that must not be sent. */
static int take_packet(struct mqtt_relay *r, struct slice packet,
                       const struct packet_head *h)
{
    const bool held =
        h->type == PACKET_PUBACK || (h->type == PACKET_PUBREC && r->window.holds_qos_2);
    const int id = held ? packet_acknowledged(packet, h) : -1;

    if (h->type == PACKET_PINGREQ && r->full)
        answer_ping(r);
    r->unacked -= h->type == PACKET_PUBACK && r->unacked > 0;
    if (id >= 0)
        return window_ack(&r->window, packet, (unsigned)id);
    buf_add_slice(&r->to_broker, packet);
    return 0;
}

static const char not_passed_on[] = "paho acknowledged a message without passing it on";

static void take_packets(struct mqtt_relay *r)
{
    const struct slice in = buf_slice(&r->from_paho);
    struct packet_head h;
    size_t at = 0;

    while (packet_head((struct slice){in.p + at, in.n - at}, &h) > 0 &&
           h.size <= in.n - at) {
        if (take_packet(r, (struct slice){in.p + at, h.size}, &h) != 0) {
            fail_broker(r, not_passed_on);
            break;
        }
        r->greeted = true;
        at += h.size;
    }
    forget_input(&r->from_paho, at);
}

static void close_paho(struct mqtt_relay *r)
{
    watch_del(r->paho_watch);
    r->paho_watch = NULL;
    close(r->paho_fd);
    r->paho_fd = -1;
    if (r->state == RELAY_RUNS && !is_lost(r)) {
        err_set(&r->why, "the broker did not answer in time, or sent an invalid packet");
        timer_set(r->timer, REPORT_WAIT_MS);
    }
}

static void on_paho(void *arg, unsigned events)
{
    struct mqtt_relay *r = arg;

    if (events & WATCH_WRITE) {
        flush_to_paho(r);
        pass_to_paho(r);
    }
    if (!(events & (WATCH_READ | WATCH_ERROR)))
        return;
    ssize_t n = recv(r->paho_fd, buf_room(&r->from_paho, READ_BYTES), READ_BYTES, 0);
    if (n > 0) {
        buf_grew(&r->from_paho, (size_t)n);
        r->events->collect(r->arg); /* all messages that were acknowledged but the last */
        take_packets(r);
        if (relay_expects(r))
            r->events->collect(r->arg);
        await_acks(r);
        release_acks(r);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_paho(r);
    }
}

void relay_message(struct mqtt_relay *r, struct window_message m)
{
    if (window_add(&r->window, m) != 0 && !is_lost(r))
        fail_broker(r, not_passed_on);
}

bool relay_expects(const struct mqtt_relay *r)
{
    return r->window.early_bytes > 0;
}

int relay_stored(struct mqtt_relay *r, uint64_t count)
{
    if (window_store(&r->window, count) != 0)
        return -1;
    release_acks(r);
    if (r->full)
        pass_to_paho(r);
    return 0;
}

bool relay_waits(const struct mqtt_relay *r)
{
    return r->window.stored < r->window.added;
}

const char *relay_why(const struct mqtt_relay *r)
{
    return r->why.text;
}

/* -------------------------------------------------------------------- the beginning */

static void on_paho_accepted(void *arg, int fd)
{
    struct mqtt_relay *r = arg;

    r->door = NULL;
    r->paho_fd = fd;
    r->paho_watch = watch_add(fd, WATCH_READ, on_paho, r);
    flush_to_paho(r);
}

static void on_broker_open(void *arg)
{
    struct mqtt_relay *r = arg;

    r->broker_open = true;
    r->door = door_open(on_paho_accepted, r, &r->why);
    if (r->door)
        r->events->ready(r->arg, door_port(r->door));
    else
        lose(r);
}

static void on_broker_closed(void *arg, const char *why)
{
    struct mqtt_relay *r = arg;

    if (r->state == RELAY_SAID_GOODBYE) {
        r->events->left(r->arg);
        return;
    }
    if (is_lost(r))
        return;
    err_set(&r->why, "%s", why);
    lose(r);
}

struct mqtt_relay *relay_new(const struct net_conf *broker, unsigned open_max, bool v5,
                             const struct relay_events *events, void *arg)
{
    static const struct net_cbs cbs = {on_broker_open, on_broker_bytes, on_broker_closed};
    struct mqtt_relay *r = mem_alloc(sizeof(*r));

    r->events = events;
    r->arg = arg;
    r->open_max = open_max;
    r->window.holds_qos_2 = v5;
    r->paho_fd = -1;
    r->timer = timer_new(on_timer, r);
    r->net = net_open(broker, &cbs, r);
    return r;
}

void relay_free(struct mqtt_relay *r)
{
    struct buf *const bufs[] = {&r->from_broker, &r->to_paho, &r->from_paho,
                                &r->to_broker};

    net_close(r->net);
    door_close(r->door);
    watch_del(r->paho_watch);
    if (r->paho_fd >= 0)
        close(r->paho_fd);
    timer_del(r->timer);
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
        buf_free(bufs[i]);
    window_free(&r->window);
    loop_defer_free(r);
}
