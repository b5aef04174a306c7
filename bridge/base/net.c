/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net.c - states of one outgoing stream: resolve, connect (address by address), TLS,
 * open. Loop thread.
 *
 * Each turn makes at most one read of READ_BYTES, and one write at its end.
 */
#include "bridge/base/net.h"
#include "bridge/base/buf.h"
#include "bridge/base/fault.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    ADDRESSES_MAX = 16,
    READ_BYTES = 64 * 1024,
    OUT_KEEP_BYTES = 1024 * 1024, /* free an empty write buffer larger than this */
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_PROBE_S = 5,
    KEEPALIVE_PROBES = 3,
    LAST_READ_MS = 500 /* after a failed write, time to read the peer's last bytes */
};

enum state { RESOLVING, CONNECTING, HANDSHAKING, OPEN, FAILED, CLOSED };

struct address {
    struct sockaddr_storage addr;
    socklen_t len;
};

struct net {
    struct net_conf conf;
    const struct net_cbs *cbs;
    void *arg;
    enum state state;
    struct resolve *resolve;
    struct address addresses[ADDRESSES_MAX];
    unsigned address_count, address_next;
    int64_t connect_end_ms;
    struct timer *address_timer; /* limits the time of one address, so that the others
                                  * are tried too */
    struct timer *more_timer;    /* reads bytes that TLS has buffered */
    int fd;
    struct watch *watch;
    struct tls *tls;      /* NULL: no TLS */
    bool tls_wants_write; /* TLS must write before it can read more */
    bool tls_wants_read;  /* TLS must read before it can write more */
    bool paused;          /* by net_set_reading(): do not read */
    struct buf out;
    size_t out_sent;    /* bytes of out that the kernel has accepted */
    bool write_failed;  /* the peer accepts no more bytes; its last bytes may still be
                         * readable */
    bool flush_waiting; /* a deferred flush() references this struct */
    bool flush_late;    /* flush() runs after the hooks of this turn */
    struct err why;
};

static void try_next_address(struct net *n);
static void on_event(void *arg, unsigned events);

static void drop_socket(struct net *n)
{
    if (n->tls && n->state == OPEN)
        tls_shutdown(n->tls);
    tls_free(n->tls);
    n->tls = NULL;
    watch_del(n->watch);
    n->watch = NULL;
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

static void drop_all(struct net *n)
{
    drop_socket(n);
    resolve_cancel(n->resolve);
    n->resolve = NULL;
    timer_del(n->address_timer);
    timer_del(n->more_timer);
    n->address_timer = n->more_timer = NULL;
    buf_free(&n->out);
    n->out_sent = 0;
}

static void report_closed(void *arg)
{
    struct net *n = arg;
    if (n->state == FAILED)
        n->cbs->on_closed(n->arg, n->why.text);
}

/* Reports the failure at the end of the turn, so that a stream never disappears inside a
 * caller's call. */
static void fail(struct net *n)
{
    drop_all(n);
    n->state = FAILED;
    loop_defer(report_closed, n);
}

/* ------------------------------------------------------------- reading and writing */

static enum io plain_result(ssize_t result, size_t *count, struct err *err)
{
    *count = result > 0 ? (size_t)result : 0;
    if (result > 0)
        return IO_DONE;
    if (result == 0)
        return IO_CLOSED;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return IO_WANT_READ;
    err_set(err, "connection lost: %s", strerror(errno));
    return IO_FAILED;
}

static enum io read_some(struct net *n, char *bytes, size_t room, size_t *count)
{
    if (n->tls)
        return tls_read(n->tls, bytes, room, count, &n->why);
    return plain_result(recv(n->fd, bytes, room, 0), count, &n->why);
}

static enum io write_some(struct net *n, const char *bytes, size_t size, size_t *count)
{
    if (n->tls)
        return tls_write(n->tls, bytes, size, count, &n->why);
    return plain_result(send(n->fd, bytes, size, MSG_NOSIGNAL), count, &n->why);
}

static void set_watch(struct net *n)
{
    bool write = (n->out_sent < n->out.n && !n->tls_wants_read) || n->tls_wants_write;
    bool read = !n->paused || n->tls_wants_read;
    watch_set(n->watch, (read ? WATCH_READ : 0) | (write ? WATCH_WRITE : 0));
}

static void out_done(struct net *n)
{
    if (n->out.cap > OUT_KEEP_BYTES)
        buf_free(&n->out);
    else
        buf_clear(&n->out);
    n->out_sent = 0;
}

static void send_out(struct net *n)
{
    enum io io = IO_DONE;
    while (n->out_sent < n->out.n && io == IO_DONE) {
        size_t count;
        io = write_some(n, n->out.p + n->out_sent, n->out.n - n->out_sent, &count);
        n->out_sent += count;
    }
    n->tls_wants_read = n->tls && io == IO_WANT_READ;
    if (io == IO_FAILED || io == IO_CLOSED) {
        n->write_failed = true; /* read the peer's error, such as "too many clients",
                                 * before closing */
        n->out_sent = n->out.n;
        timer_set(n->address_timer, LAST_READ_MS); /* the peer may stay open without
                                                    * sending anything */
    }
    if (n->out_sent == n->out.n)
        out_done(n);
    else if (n->out_sent > n->out.n / 2) { /* on average each byte is moved at most
                                            * once */
        buf_drop(&n->out, n->out_sent);
        n->out_sent = 0;
    }
    set_watch(n);
}

/* Defers itself once, so that it runs after the hooks of this turn. */
static void flush(void *arg)
{
    struct net *n = arg;
    if (!n->flush_late && n->state == OPEN) {
        n->flush_late = true;
        loop_defer(flush, n);
        return;
    }
    n->flush_waiting = n->flush_late = false;
    if (n->state == OPEN)
        send_out(n);
    FAULT_WRITTEN();
}

void net_write(struct net *n, const void *bytes, size_t count)
{
    if (n->state == FAILED || n->write_failed) /* on_closed follows */
        return;
    must(n->state == OPEN);
    buf_add(&n->out, bytes, count);
    if (!n->flush_waiting)
        loop_defer(flush, n);
    n->flush_waiting = true;
}

void net_push(struct net *n)
{
    if (n->state == OPEN && !n->write_failed)
        send_out(n);
}

static void receive(struct net *n)
{
    static char bytes[READ_BYTES]; /* static is safe: one thread, and no callback reads */
    size_t got = 0, count = 0;
    enum io io;
    do {
        io = read_some(n, bytes + got, sizeof(bytes) - got, &count);
        got += count;
    } while (n->tls && io == IO_DONE && got < sizeof(bytes));
    n->tls_wants_write = n->tls && io == IO_WANT_WRITE;
    if (got > 0)
        n->cbs->on_data(n->arg, (struct slice){bytes, got});
    if (n->state != OPEN)
        return;
    if (io == IO_CLOSED || io == IO_FAILED) {
        if (io == IO_CLOSED)
            err_set(&n->why, "the server closed the connection");
        fail(n);
        return;
    }
    if (n->tls && !n->paused && tls_has_more(n->tls))
        timer_set(n->more_timer, 0);
}

static void on_more(void *arg)
{
    on_event(arg, WATCH_READ);
}

void net_set_reading(struct net *n, bool reading)
{
    if (n->state != OPEN || n->paused != reading)
        return;
    n->paused = !reading;
    set_watch(n);
    if (reading && n->tls) /* TLS may have buffered bytes: the socket reports no event */
        timer_set(n->more_timer, 0);
}

/* ------------------------------------------------------------------------ opening */

static void opened(struct net *n)
{
    n->state = OPEN;
    timer_stop(n->address_timer);
    n->why.text[0] = '\0';
    watch_set(n->watch, WATCH_READ);
    n->cbs->on_open(n->arg);
    /* Reads bytes that arrived with the end of the handshake. */
    if (n->state == OPEN && n->tls)
        timer_set(n->more_timer, 0);
}

static void handshake(struct net *n)
{
    switch (tls_handshake(n->tls, &n->why)) {
    case IO_DONE:
        opened(n);
        return;
    case IO_WANT_READ:
        watch_set(n->watch, WATCH_READ);
        return;
    case IO_WANT_WRITE:
        watch_set(n->watch, WATCH_READ | WATCH_WRITE);
        return;
    case IO_CLOSED:
        err_set(&n->why, "the server closed the connection during the TLS handshake");
        break;
    case IO_FAILED:
        break;
    }
    fail(n); /* do not try other addresses: they would have the same certificate */
}

static void connected(struct net *n)
{
    int code = 0;
    socklen_t len = sizeof(code);
    getsockopt(n->fd, SOL_SOCKET, SO_ERROR, &code, &len);
    if (code != 0) {
        err_set(&n->why, "connect: %s", strerror(code));
        try_next_address(n);
        return;
    }
    if (!n->conf.tls) {
        opened(n);
        return;
    }
    n->tls = tls_new(&n->conf, n->fd, &n->why);
    if (n->tls == NULL) {
        fail(n);
        return;
    }
    n->state = HANDSHAKING;
    handshake(n);
}

static void on_event(void *arg, unsigned events)
{
    struct net *n = arg;
    if (n->state == CONNECTING) {
        connected(n);
    } else if (n->state == HANDSHAKING) {
        handshake(n);
    } else if (n->state == OPEN) {
        bool crossed = n->tls != NULL; /* TLS may need to read in order to write, and
                                        * vice versa */
        if (!n->paused && (crossed || events & (WATCH_READ | WATCH_ERROR)))
            receive(n);
        if (n->state == OPEN && (crossed || events & WATCH_WRITE))
            send_out(n);
    }
}

static void set_options(const struct net *n)
{
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_PROBE_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, (int)n->conf.unacknowledged_timeout_ms},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(n->fd, options[i].level, options[i].name, &options[i].value,
                   sizeof(int));
}

/* Starts to connect to one address. -1: it failed at once; n->why contains the reason. */
static int try_address(struct net *n, const struct address *a)
{
    n->fd = socket(a->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (n->fd < 0)
        return err_set(&n->why, "socket: %s", strerror(errno));
    if (a->addr.ss_family != AF_UNIX)
        set_options(n);
    if (connect(n->fd, (const struct sockaddr *)&a->addr, a->len) != 0 &&
        errno != EINPROGRESS)
        return err_set(&n->why, "connect: %s", strerror(errno));
    n->watch = watch_add(n->fd, WATCH_WRITE, on_event, n);
    return 0;
}

static void try_next_address(struct net *n)
{
    while (n->address_next < n->address_count) {
        drop_socket(n);
        n->state = CONNECTING;
        unsigned left = n->address_count - n->address_next;
        int64_t rest_ms = n->connect_end_ms - loop_mono_ms();
        if (rest_ms <= 0)
            break;
        if (try_address(n, &n->addresses[n->address_next++]) == 0) {
            timer_set(n->address_timer, rest_ms / left + 1);
            return;
        }
    }
    fail(n);
}

static void on_address_silent(void *arg)
{
    struct net *n = arg;
    if (n->state == OPEN) { /* the peer accepts no more bytes: see send_out() */
        fail(n);
        return;
    }
    err_set(&n->why, n->state == RESOLVING ? "the name server did not answer in time"
                     : n->state == HANDSHAKING
                         ? "the server did not finish the TLS handshake in time"
                         : "no answer in time");
    try_next_address(n);
}

static void on_resolved(void *arg, const struct addrinfo *list, const char *why)
{
    struct net *n = arg;
    n->resolve = NULL;
    for (; list && n->address_count < ADDRESSES_MAX; list = list->ai_next) {
        struct address *a = &n->addresses[n->address_count++];
        memcpy(&a->addr, list->ai_addr, list->ai_addrlen);
        a->len = list->ai_addrlen;
    }
    if (n->address_count > 0)
        err_set(&n->why, "no address of host %s answered in time", n->conf.host);
    else
        err_set(&n->why, "host %s: %s", n->conf.host, why);
    try_next_address(n);
}

static void begin(void *arg)
{
    struct net *n = arg;
    if (n->state != RESOLVING)
        return;
    timer_set(n->address_timer, n->conf.connect_timeout_ms);
    if (n->conf.unix_path == NULL) {
        n->resolve = resolve_start(n->conf.host, n->conf.port, on_resolved, n);
        return;
    }
    struct sockaddr_un *un = (struct sockaddr_un *)&n->addresses[0].addr;
    if (strlen(n->conf.unix_path) >= sizeof(un->sun_path)) {
        err_set(&n->why, "the socket's path has more than %zu bytes",
                sizeof(un->sun_path) - 1);
        fail(n);
        return;
    }
    un->sun_family = AF_UNIX;
    strcpy(un->sun_path, n->conf.unix_path);
    n->addresses[0].len = sizeof(*un);
    n->address_count = 1;
    try_next_address(n);
}

struct net *net_open(const struct net_conf *conf, const struct net_cbs *cbs, void *arg)
{
    struct net *n = mem_alloc(sizeof(*n));
    n->conf = *conf;
    n->cbs = cbs;
    n->arg = arg;
    n->fd = -1;
    n->state = RESOLVING;
    n->connect_end_ms = loop_mono_ms() + conf->connect_timeout_ms;
    n->address_timer = timer_new(on_address_silent, n);
    n->more_timer = timer_new(on_more, n);
    loop_defer(begin, n);
    return n;
}

void net_close(struct net *n)
{
    if (n == NULL)
        return;
    drop_all(n);
    n->state = CLOSED;
    /* A flush() may be deferred: free n after it. */
    loop_defer_free(n);
}
