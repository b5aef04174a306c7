/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_relay.h"

#include "bridge/plugin.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TO_PAHO_MAX = 256 * 1024,          /* bytes that wait for paho */
    OPEN_BYTES_MAX = 16 * 1024 * 1024, /* of messages that are not stored */
    KEEP_BYTES = 1024 * 1024,          /* free an empty buffer larger than this */
    READ_BYTES = 16 * 1024,            /* from paho, in one turn of the loop */
    LEAVE_WAIT_MS = 2500,  /* when leaving: for the broker to close the connection; less
                            * than STOP_WAIT_MS of mqtt_slot.c */
    REPORT_WAIT_MS = 2000, /* after a loss: for paho to report it */
    DESCRIPTORS_MAX = 1024,
    BACKLOG = 16
};

/* A message that the source has not stored. */
struct open_message {
    size_t bytes; /* of its packet */
    unsigned id, qos;
};

struct mqtt_relay {
    const struct relay_events *events;
    void *arg;
    bool v5;
    struct net *net; /* to the broker */
    bool broker_open;
    struct sockaddr_in door; /* where paho connects */
    int door_fd, paho_fd;    /* -1: none; door_fd: until paho has connected */
    struct watch *door_watch, *paho_watch;
    struct timer *timer; /* of the loss, or when leaving */
    struct timer *ping;  /* NULL: only paho sends PINGREQ */

    struct buf from_broker, to_paho, from_paho;
    bool full;         /* a message waits in from_broker, because the source has too many;
                        * the broker is not read */
    bool heard;        /* the broker has sent bytes since paho's last PINGREQ */
    bool greeted;      /* paho has sent a packet */
    bool connected;    /* the broker has accepted it */
    struct buf open;   /* a struct open_message for each, in order */
    size_t open_bytes; /* sum of their bytes */
    unsigned open_max;

    bool leaving;
    struct err why; /* of the loss; empty: not lost */
};

static void drop(struct buf *b, size_t n)
{
    buf_drop(b, n);
    if (b->n == 0 && b->cap > KEEP_BYTES)
        buf_free(b);
}

/* -------------------------------------------------------------------- the end */

static void close_door(struct mqtt_relay *r)
{
    watch_del(r->door_watch);
    r->door_watch = NULL;
    if (r->door_fd >= 0)
        close(r->door_fd);
    r->door_fd = -1;
}

static bool is_lost(const struct mqtt_relay *r)
{
    return r->why.text[0] != '\0';
}

/* Lets paho read the broker's last packets and then notice the end of the connection. It
 * knows the broker's reason. */
static void lose(struct mqtt_relay *r)
{
    close_door(r);
    if (r->paho_fd < 0) {
        r->events->lost(r->arg, r->why.text);
        return;
    }
    if (r->to_paho.n == 0)
        shutdown(r->paho_fd, SHUT_WR);
    timer_set(r->timer, REPORT_WAIT_MS);
}

static void fail_broker(struct mqtt_relay *r, const char *why)
{
    err_set(&r->why, "%s", why);
    net_close(r->net);
    r->net = NULL;
    lose(r);
}

/* Closing a socket with unread data resets the connection, and the broker loses the
 * PUBACKs that it has not read. So let the broker close it, and read until then. */
void relay_leave(struct mqtt_relay *r)
{
    if (r->leaving)
        return;
    r->leaving = true;
    if (!r->broker_open || is_lost(r) || !r->greeted) {
        r->events->left(r->arg);
        return;
    }
    net_write(r->net, PACKET_DISCONNECT_BYTES.p, PACKET_DISCONNECT_BYTES.n);
    net_push(r->net);
    net_set_reading(r->net, true);
    timer_set(r->timer, LEAVE_WAIT_MS);
}

static void on_timer(void *arg)
{
    struct mqtt_relay *r = arg;

    if (r->leaving)
        r->events->left(r->arg);
    else
        r->events->lost(r->arg, r->why.text);
}

/* -------------------------------------------------------------------- to the broker */

static void send_to_broker(struct mqtt_relay *r, const void *bytes, size_t n)
{
    if (n > 0 && r->broker_open && !is_lost(r) && !r->leaving)
        net_write(r->net, bytes, n);
}

static void acknowledge(struct mqtt_relay *r, enum packet_type type, unsigned id)
{
    const unsigned char packet[] = {(unsigned char)(type << 4), 2,
                                    (unsigned char)(id >> 8), (unsigned char)id};

    send_to_broker(r, packet, sizeof(packet));
}

static void flush_to_paho(struct mqtt_relay *r)
{
    if (r->paho_fd < 0 || r->to_paho.n == 0)
        return;
    ssize_t n = send(r->paho_fd, r->to_paho.p, r->to_paho.n, MSG_NOSIGNAL);
    if (n > 0)
        drop(&r->to_paho, (size_t)n);
    else if (errno != EAGAIN && errno != EINTR)
        buf_clear(&r->to_paho); /* paho closed its end, and will report why */
    if (r->to_paho.n == 0 && is_lost(r))
        shutdown(r->paho_fd, SHUT_WR);
    watch_set(r->paho_watch, WATCH_READ | (r->to_paho.n > 0 ? WATCH_WRITE : 0));
}

/* If the broker's PINGRESP would come behind a message that waits or is long, answers for
 * the broker. Otherwise paho would close the connection. */
static void on_ping(struct mqtt_relay *r)
{
    if (r->full || (r->heard && r->from_broker.n > 0)) {
        buf_add_slice(&r->to_paho, PACKET_PINGRESP_BYTES);
        flush_to_paho(r);
    }
    r->heard = false;
}

/* paho ignores the PINGRESP to a PINGREQ that is not its own. */
static void on_ping_due(void *arg)
{
    send_to_broker(arg, PACKET_PINGREQ_BYTES.p, PACKET_PINGREQ_BYTES.n);
}

void relay_ping(struct mqtt_relay *r, unsigned keepalive_s)
{
    timer_del(r->ping);
    r->ping = timer_every(keepalive_s * INT64_C(1000), on_ping_due, r);
}

static void pass_to_broker(struct mqtt_relay *r)
{
    const struct slice in = buf_slice(&r->from_paho);
    struct packet_head h;
    size_t at = 0;

    while (packet_head((struct slice){in.p + at, in.n - at}, &h) > 0 &&
           h.size <= in.n - at) {
        if (h.type == PACKET_PINGREQ)
            on_ping(r);
        at += h.size;
    }
    send_to_broker(r, in.p, at);
    r->greeted |= at > 0;
    drop(&r->from_paho, at);
}

static void close_paho(struct mqtt_relay *r)
{
    watch_del(r->paho_watch);
    r->paho_watch = NULL;
    close(r->paho_fd);
    r->paho_fd = -1;
    if (r->leaving || is_lost(r))
        return;
    err_set(&r->why, "the broker did not answer in time, or sent an invalid packet");
    timer_set(r->timer, REPORT_WAIT_MS);
}

/* -------------------------------------------------------------------- from the broker */

static size_t open_count(const struct mqtt_relay *r)
{
    return r->open.n / sizeof(struct open_message);
}

/* Would a further message be too much for the source? */
static bool is_full(const struct mqtt_relay *r)
{
    return open_count(r) >= r->open_max || r->open_bytes >= OPEN_BYTES_MAX;
}

static void take_message(struct mqtt_relay *r, struct slice packet,
                         const struct packet_head *h)
{
    struct mqtt_message m;

    if (packet_publish(packet, h, r->v5, &m) != 0) {
        fail_broker(r, "the broker sent an invalid message");
        return;
    }
    const struct open_message o = {.bytes = packet.n, .id = m.msgid, .qos = h->qos};
    buf_add(&r->open, &o, sizeof(o));
    r->open_bytes += o.bytes;
    r->events->message(r->arg, &m);
}

/* Reports the first CONNACK: paho (1.3.12) does not report whether the session is an
 * earlier one with MQTT 5. */
static void read_connack(struct mqtt_relay *r, struct slice packet,
                         const struct packet_head *h)
{
    const int session_present = packet_connack(packet, h);

    if (session_present < 0 || r->connected)
        return;
    r->connected = true;
    r->events->connected(r->arg, session_present);
}

static void take_packet(struct mqtt_relay *r, struct slice packet,
                        const struct packet_head *h)
{
    if (h->type == PACKET_PUBLISH) {
        take_message(r, packet, h);
        return;
    }
    if (h->type == PACKET_PUBREL) { /* the message is stored: see relay_stored() */
        acknowledge(r, PACKET_PUBCOMP, packet_id(packet, h));
        return;
    }
    if (h->type == PACKET_CONNACK)
        read_connack(r, packet, h);
    buf_add_slice(&r->to_paho, packet);
}

/* Takes the packets up to the first that is too much for the source. */
static void take_packets(struct mqtt_relay *r)
{
    const struct slice in = buf_slice(&r->from_broker);
    struct packet_head h;
    size_t at = 0;

    r->full = false;
    while (!r->leaving && !is_lost(r)) {
        const struct slice rest = {in.p + at, in.n - at};
        const int n = packet_head(rest, &h);
        if (n < 0)
            fail_broker(r, "the broker sent a packet with an invalid length");
        if (n <= 0)
            break;
        r->full = h.type == PACKET_PUBLISH && is_full(r);
        if (r->full || rest.n < h.size)
            break;
        take_packet(r, (struct slice){rest.p, h.size}, &h);
        at += h.size;
    }
    drop(&r->from_broker, at);
    flush_to_paho(r);
    if (!r->leaving && !is_lost(r))
        net_set_reading(r->net, !r->full && r->to_paho.n < TO_PAHO_MAX);
}

static void on_broker_bytes(void *arg, struct slice bytes)
{
    struct mqtt_relay *r = arg;

    if (r->leaving)
        return;
    r->heard = true;
    buf_add_slice(&r->from_broker, bytes);
    take_packets(r);
}

int relay_stored(struct mqtt_relay *r, uint64_t count)
{
    static const enum packet_type acks[] = {0, PACKET_PUBACK, PACKET_PUBREC};
    struct open_message o;

    if (count > open_count(r))
        return -1;
    for (size_t at = 0; at < count * sizeof(o); at += sizeof(o)) {
        memcpy(&o, r->open.p + at, sizeof(o));
        r->open_bytes -= o.bytes;
        if (o.qos > 0)
            acknowledge(r, acks[o.qos], o.id);
    }
    drop(&r->open, count * sizeof(o));
    if (r->full)
        take_packets(r);
    return 0;
}

bool relay_waits(const struct mqtt_relay *r)
{
    return r->open.n > 0;
}

const char *relay_why(const struct mqtt_relay *r)
{
    return r->why.text;
}

/* -------------------------------------------------------------------- paho's connection
 */

static void on_paho(void *arg, unsigned events)
{
    struct mqtt_relay *r = arg;

    if (events & WATCH_WRITE)
        take_packets(r);
    if (!(events & (WATCH_READ | WATCH_ERROR)))
        return;
    ssize_t n = recv(r->paho_fd, buf_room(&r->from_paho, READ_BYTES), READ_BYTES, 0);
    if (n > 0) {
        buf_grew(&r->from_paho, (size_t)n);
        pass_to_broker(r);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_paho(r);
    }
}

static bool same_address(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
    return a->sin_family == b->sin_family && a->sin_port == b->sin_port &&
           a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* Does this process have the socket that is connected from here to the door? A pair of
 * addresses has one socket at each end. */
static bool is_own(const struct mqtt_relay *r, const struct sockaddr_in *from)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        struct sockaddr_in local = {0}, remote = {0};
        socklen_t n = sizeof(local), m = sizeof(remote);
        if (getsockname(fd, (struct sockaddr *)&local, &n) == 0 &&
            getpeername(fd, (struct sockaddr *)&remote, &m) == 0 &&
            same_address(&local, from) && same_address(&remote, &r->door))
            return true;
    }
    return false;
}

/* Resets the connection of any other process: nobody else on this machine may read or
 * write the broker's packets. */
static void on_door(void *arg, unsigned events)
{
    struct mqtt_relay *r = arg;
    struct sockaddr_in peer = {0};
    socklen_t n = sizeof(peer);

    (void)events;
    int fd =
        accept4(r->door_fd, (struct sockaddr *)&peer, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (!is_own(r, &peer)) {
        const struct linger reset = {.l_onoff = 1};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    close_door(r);
    r->paho_fd = fd;
    r->paho_watch = watch_add(fd, WATCH_READ, on_paho, r);
    flush_to_paho(r);
}

static void on_broker_open(void *arg)
{
    struct mqtt_relay *r = arg;
    struct sockaddr *at = (struct sockaddr *)&r->door;
    socklen_t n = sizeof(r->door);

    r->broker_open = true;
    r->door = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    r->door_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->door_fd < 0 || bind(r->door_fd, at, n) != 0 ||
        listen(r->door_fd, BACKLOG) != 0 || getsockname(r->door_fd, at, &n) != 0) {
        err_set(&r->why, "a port on 127.0.0.1: %s", strerror(errno));
        lose(r);
        return;
    }
    r->door_watch = watch_add(r->door_fd, WATCH_READ, on_door, r);
    r->events->ready(r->arg, ntohs(r->door.sin_port));
}

/* -------------------------------------------------------------------- the beginning */

static void on_broker_closed(void *arg, const char *why)
{
    struct mqtt_relay *r = arg;

    if (r->leaving) {
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
    r->v5 = v5;
    r->door_fd = r->paho_fd = -1;
    r->timer = timer_new(on_timer, r);
    r->net = net_open(broker, &cbs, r);
    return r;
}

void relay_free(struct mqtt_relay *r)
{
    net_close(r->net);
    close_door(r);
    watch_del(r->paho_watch);
    if (r->paho_fd >= 0)
        close(r->paho_fd);
    timer_del(r->timer);
    timer_del(r->ping);
    buf_free(&r->from_broker);
    buf_free(&r->to_paho);
    buf_free(&r->from_paho);
    buf_free(&r->open);
    loop_defer_free(r);
}
