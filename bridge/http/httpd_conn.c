/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_conn.c - the connections of a listener: their states and time limits, their
 * number, and clients that disconnect.
 *
 * Above connections_max, tarry closes the longest idle connection for each new one. If
 * none is idle, the new connection is marked over_limit: it gets one response, a 503
 * except for health probes (rows open to everybody). At most OVER_LIMIT_MAX connections
 * are over the limit. For a further one, tarry closes the oldest connection that has not
 * sent a complete request.
 *
 * libmicrohttpd does not watch suspended connections. Also, 0.9.75 misses an end of
 * stream that arrives with the last bytes: epoll reports both in one event, and the
 * library reads once. Therefore each connection is also in an epoll set of this file. The
 * set reports only the end of the stream, and pipelined bytes stay unread.
 */
#include "bridge/base/hash.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/http/httpd_internal.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SWEEP_MIN_MS = 20,
    SWEEP_MAX_MS = 1000,
    OVER_LIMIT_MAX = 16,
    CLOSING_MAX = 48, /* in addition: connections that the library is about to close */
    KEY_BYTES = 16,
    NET_BYTES = 8, /* IPv6: a /64 network counts as one client */
    ENDS_MAX = 100 /* ends of streams per turn of the loop */
};

/* ------------------------------------------------------- states and their time limits */

struct httpd_conn *httpd_conn_of(struct MHD_Connection *mc)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mc, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* Returns the time limit of a state; 0: none. */
static int64_t limit_ms(const struct httpd_opts *c, enum httpd_conn_state state)
{
    const int64_t limits_ms[CONN_STATES] = {
        [NEW] = c->deadline_ms,
        [READING] = c->deadline_ms,
        [ANSWERING] = c->idle_ms > c->deadline_ms ? c->idle_ms : c->deadline_ms,
        [IDLE] = c->idle_ms,
    };
    return limits_ms[state];
}

static int64_t sweep_period_ms(const struct httpd *h)
{
    int64_t least =
        h->opts.deadline_ms < h->opts.idle_ms ? h->opts.deadline_ms : h->opts.idle_ms;
    int64_t period = least / 4;
    return period < SWEEP_MIN_MS   ? SWEEP_MIN_MS
           : period > SWEEP_MAX_MS ? SWEEP_MAX_MS
                                   : period;
}

static void conn_unlink(struct httpd_conn *conn)
{
    struct httpd_conns *list = &conn->h->conns[conn->state];
    *(conn->prev ? &conn->prev->next : &list->first) = conn->next;
    *(conn->next ? &conn->next->prev : &list->last) = conn->prev;
    list->n--;
}

static void conn_append(struct httpd_conn *conn, enum httpd_conn_state state)
{
    struct httpd *h = conn->h;
    struct httpd_conns *list = &h->conns[state];
    int64_t limit = limit_ms(&h->opts, state);
    conn->state = state;
    conn->body_received_bytes = 0;
    conn->next = NULL;
    conn->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = conn;
    list->last = conn;
    list->n++;
    if (limit == 0)
        return;
    conn->deadline_ms = h->now_ms + limit;
    if (!timer_is_set(h->sweep))
        timer_set(h->sweep, sweep_period_ms(h));
}

void httpd_conn_enter(struct httpd_conn *conn, enum httpd_conn_state state)
{
    conn_unlink(conn);
    conn_append(conn, state);
}

/* Only shuts the socket down. The library owns the descriptor; it detects the end of the
 * stream and closes the descriptor. */
void httpd_conn_close(struct httpd_conn *conn)
{
    shutdown(conn->fd, SHUT_RDWR);
    httpd_conn_enter(conn, CLOSING);
}

/* Returns whether the deadline must be extended: since it was set, the body has arrived
 * at body_rate. */
static bool is_fast_enough(const struct httpd_conn *conn)
{
    const struct httpd_opts *c = &conn->h->opts;
    return conn->state == READING && c->body_rate_bytes > 0 &&
           conn->body_received_bytes * 1000 / c->body_rate_bytes >= c->deadline_ms;
}

static void expire(struct httpd_conn *conn)
{
    if (is_fast_enough(conn)) {
        httpd_conn_enter(conn, READING);
        return;
    }
    if (conn->state == READING)
        httpd_refuse_raw(conn, TIMED_OUT);
    httpd_conn_close(conn);
}

/* Skips connections that wait for their response: there may be thousands. */
void httpd_on_sweep(void *arg)
{
    struct httpd *h = arg;
    bool more = false;
    h->now_ms = loop_mono_ms();
    for (int state = 0; state < CONN_STATES; state++) {
        if (limit_ms(&h->opts, state) == 0)
            continue;
        while (h->conns[state].first && h->conns[state].first->deadline_ms <= h->now_ms)
            expire(h->conns[state].first);
        more |= h->conns[state].first != NULL;
    }
    if (more)
        timer_set(h->sweep, sweep_period_ms(h));
}

/* -------------------------------------------------------------- number of connections */

struct httpd_address {
    unsigned char key[KEY_BYTES];
    unsigned n;
    UT_hash_handle hh;
};

unsigned httpd_slots_max(const struct httpd_opts *opts)
{
    return (unsigned)opts->connections_max + OVER_LIMIT_MAX + CLOSING_MAX;
}

/* Returns false for a connection without address (Unix socket). */
static bool key_of(const struct sockaddr *addr, unsigned char key[KEY_BYTES])
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    memset(key, 0, KEY_BYTES);
    if (addr && addr->sa_family == AF_INET) {
        memcpy(key, mapped, sizeof(mapped));
        memcpy(key + sizeof(mapped), &((const struct sockaddr_in *)addr)->sin_addr, 4);
        return true;
    }
    if (addr == NULL || addr->sa_family != AF_INET6)
        return false;
    const struct in6_addr *a = &((const struct sockaddr_in6 *)addr)->sin6_addr;
    memcpy(key, a, IN6_IS_ADDR_V4MAPPED(a) ? KEY_BYTES : NET_BYTES);
    return true;
}

static struct httpd_address *enter_address(struct httpd *h, struct MHD_Connection *mc)
{
    unsigned char key[KEY_BYTES];
    struct httpd_address *address;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mc, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!key_of(info ? info->client_addr : NULL, key))
        return NULL;
    HASH_FIND(hh, h->addresses, key, KEY_BYTES, address);
    if (address == NULL) {
        address = mem_alloc(sizeof(*address));
        memcpy(address->key, key, KEY_BYTES);
        HASH_ADD(hh, h->addresses, key, KEY_BYTES, address);
    }
    address->n++;
    return address;
}

static void log_crowded(struct httpd *h, const struct httpd_address *address)
{
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, address->key, text, sizeof(text));
    log_limited(&h->too_many, LOG_WARN, h->name,
                "%s has %lld connections, the limit connections_per_address: tarry "
                "refuses further connections from it",
                text, (long long)h->opts.connections_per_address);
}

unsigned httpd_conns_n(const struct httpd *h)
{
    unsigned n = 0;
    for (int state = 0; state < CONN_STATES; state++)
        n += h->conns[state].n;
    return n;
}

static unsigned in_use(const struct httpd *h)
{
    return httpd_conns_n(h) - h->conns[CLOSING].n;
}

bool httpd_slots_full(const struct httpd *h)
{
    return in_use(h) > (unsigned)h->opts.connections_max;
}

static void reject_and_close(struct httpd_conn *conn, enum httpd_refusal what)
{
    httpd_refuse_raw(conn, what);
    httpd_conn_close(conn);
}

static void make_room(struct httpd_conn *conn)
{
    struct httpd *h = conn->h;
    struct httpd_conn *idle = h->conns[IDLE].first;
    if (!httpd_slots_full(h))
        return;
    log_limited(&h->full, LOG_WARN, h->name,
                "all %lld connections of connections_max are in use: %s",
                (long long)h->opts.connections_max,
                idle ? "tarry closes idle connections to accept new ones"
                     : "tarry answers only probes, and other requests with 503");
    if (idle) {
        httpd_count(IDLE_CLOSED);
        httpd_conn_close(idle);
        return;
    }
    conn->over_limit = true;
    if (in_use(h) <= (unsigned)h->opts.connections_max + OVER_LIMIT_MAX)
        return;
    /* Close the oldest connection that has not sent a complete request. */
    struct httpd_conn *oldest = h->conns[NEW].first;
    if (oldest == conn)
        oldest = h->conns[READING].first;
    if (oldest)
        reject_and_close(oldest, CONNECTIONS_FULL);
}

static void enter_slot(struct httpd_conn *conn, struct MHD_Connection *mc)
{
    struct httpd *h = conn->h;
    int64_t most = h->opts.connections_per_address;
    conn->address = enter_address(h, mc);
    if (most > 0 && conn->address && conn->address->n > most) {
        log_crowded(h, conn->address);
        reject_and_close(conn, TOO_MANY_CONNECTIONS);
    } else {
        make_room(conn);
    }
}

static void leave_slot(struct httpd_conn *conn)
{
    struct httpd_address *address = conn->address;
    if (address == NULL || --address->n > 0)
        return;
    HASH_DELETE(hh, conn->h->addresses, address);
    free(address);
}

/* ------------------------------------------------------------ clients that disconnect */

static int control(struct httpd_conn *conn, int op)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = conn};
    return epoll_ctl(conn->h->gone_fd, op, conn->fd, &event);
}

/* If unread bytes precede the end of the stream, runs the library again. Otherwise calls
 * shutdown(SHUT_RD), which changes nothing on an ended stream but wakes the library's
 * epoll, so that it reads the end and closes. */
static void handle_end(struct httpd_conn *conn)
{
    char c;
    if (conn->state == WAITING || conn->state == ANSWERING || conn->state == CLOSING)
        return; /* httpd_gone_check() is called after the response is sent */
    if (recv(conn->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
        conn->h->run_again = true;
        httpd_gone_check(conn);
    } else {
        shutdown(conn->fd, SHUT_RD);
    }
}

/* Fetches one event at a time, because a callback may answer other requests, including
 * those of further events. */
static void on_ends(void *arg, unsigned events)
{
    struct httpd *h = arg;
    struct epoll_event event;
    (void)events;
    for (int i = 0; i < ENDS_MAX && epoll_wait(h->gone_fd, &event, 1, 0) == 1; i++) {
        struct httpd_conn *conn = event.data.ptr;
        struct httpd_req *req = conn->req;
        void (*cb)(void *) = req ? req->on_gone : NULL;
        conn->half_closed = true;
        if (cb) {
            req->on_gone = NULL;
            cb(req->gone_arg);
        } else {
            handle_end(conn);
        }
    }
}

static void watch_end(struct httpd_conn *conn)
{
    struct httpd *h = conn->h;
    if (h->gone_fd < 0) {
        h->gone_fd = epoll_create1(EPOLL_CLOEXEC);
        if (h->gone_fd < 0)
            return; /* out of descriptors: only the time limits end abandoned requests */
        h->gone_watch = watch_add(h->gone_fd, WATCH_READ, on_ends, h);
    }
    conn->watched = control(conn, EPOLL_CTL_ADD) == 0;
}

void httpd_gone_check(struct httpd_conn *conn)
{
    if (conn->watched && conn->half_closed)
        must(control(conn, EPOLL_CTL_MOD) == 0);
}

void httpd_on_gone(struct httpd_req *req, void (*cb)(void *arg), void *arg)
{
    if (req->mc == NULL) /* the listener is stopped: no callback */
        return;
    must(req->on_gone == NULL && req->stage != ANSWERED);
    req->on_gone = cb;
    req->gone_arg = arg;
    httpd_gone_check(req->conn);
}

void httpd_gone_stop(struct httpd *h)
{
    watch_del(h->gone_watch);
    if (h->gone_fd >= 0)
        close(h->gone_fd);
}

/* ------------------------------------------------------------------ start and end */

void httpd_on_connection(void *arg, struct MHD_Connection *mc, void **context,
                         enum MHD_ConnectionNotificationCode code)
{
    struct httpd *h = arg;
    h->active = true;
    h->progress++;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        struct httpd_conn *conn = mem_alloc(sizeof(*conn));
        *context = conn;
        conn->h = h;
        conn->fd =
            MHD_get_connection_info(mc, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        if (h->tls) {
            conn->tls = httpd_tls_use(h->tls);
            conn->session =
                MHD_get_connection_info(mc, MHD_CONNECTION_INFO_GNUTLS_SESSION)
                    ->tls_session;
            conn->wire = (struct httpd_tls_wire){conn->fd, &h->progress};
            httpd_tls_begin(conn->tls, conn->session, &conn->wire);
        }
        conn_append(conn, NEW);
        watch_end(conn);
        enter_slot(conn, mc);
        return;
    }
    struct httpd_conn *conn = *context;
    /* At its connection limit the library stops accepting. Only another run makes it
     * accept again. */
    h->run_again = true;
    if (h->running)
        httpd_answer_closed(conn);
    if (conn->watched)
        must(control(conn, EPOLL_CTL_DEL) == 0);
    leave_slot(conn);
    conn_unlink(conn);
    if (conn->requests == 0)
        httpd_count(NO_REQUEST);
    httpd_tls_drop(conn->tls);
    buf_free(&conn->names);
    free(conn);
}
