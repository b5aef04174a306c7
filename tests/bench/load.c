/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_MAX = 256, IN_FIRST = 2048 };

static int epoll_fd, listen_fd = -1;
static conn_cb *sink_cb;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "apiload: %s: %s\n", what, strerror(errno));
    exit(1);
}

void load_init(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        die("epoll");
}

static struct conn *conn_new(int fd, conn_cb *cb)
{
    const int on = 1;
    struct conn *c = calloc(1, sizeof(*c));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (c == NULL)
        die("memory");
    c->fd = fd;
    c->cb = cb;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll_ctl");
    return c;
}

static struct sockaddr_in local(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

struct conn *conn_open(int port, conn_cb *cb)
{
    struct sockaddr_in addr = local(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        die("connect");
    return conn_new(fd, cb);
}

void conn_close(struct conn *c)
{
    close(c->fd);
    free(c->in);
    free(c);
}

void conn_send_bytes(struct conn *c, const char *bytes, size_t n)
{
    c->sent_us = now_us();
    while (n > 0) {
        ssize_t sent = send(c->fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = c->fd, .events = POLLOUT}, 1, 1000);
        else if (sent < 0)
            die("send");
        else
            bytes += sent, n -= (size_t)sent;
    }
}

void conn_send(struct conn *c, const char *fmt, ...)
{
    char text[64 * 1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(text))
        die("a request that is too long");
    conn_send_bytes(c, text, (size_t)n);
}

/* ------------------------------------------------------------------------- reading */

/* Return the value of a header; NULL: none. name: with its colon. */
static const char *header(const char *head, const char *end, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = memchr(head, '\n', (size_t)(end - head)); p && p + 1 + n < end;
         p = memchr(p + 1, '\n', (size_t)(end - p - 1))) {
        if (strncasecmp(p + 1, name, n) == 0)
            return p + 1 + n;
    }
    return NULL;
}

/* Handle one message at the start of the received bytes. Returns its length; 0:
 * incomplete. */
static size_t take_one(struct conn *c)
{
    char *end = memmem(c->in, c->in_n, "\r\n\r\n", 4);
    if (end == NULL)
        return 0;
    char *body = end + 4;
    size_t head_n = (size_t)(body - c->in), have = c->in_n - head_n;
    const char *length = header(c->in, body, "content-length:");
    size_t n = length ? strtoul(length, NULL, 10) : 0; /* no chunks: tarry sends none */
    if (have < n)
        return 0;
    int status = memcmp(c->in, "HTTP/", 5) == 0 ? atoi(c->in + 9) : 0;
    char kept = body[n];
    body[n] = 0;
    c->cb(c, status, body, n);
    body[n] = kept;
    return head_n + n;
}

/* Returns false if the other end has closed. */
static bool on_readable(struct conn *c)
{
    if (c->in_cap - c->in_n < IN_FIRST) {
        c->in_cap = c->in_cap ? c->in_cap * 2 : IN_FIRST + 1;
        c->in = realloc(c->in, c->in_cap + 1);
        if (c->in == NULL)
            die("memory");
    }
    ssize_t got = recv(c->fd, c->in + c->in_n, c->in_cap - c->in_n, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return true;
    if (got <= 0)
        return false;
    c->in_n += (size_t)got;
    for (size_t used; c->in_n > 0 && (used = take_one(c)) > 0;) {
        c->in_n -= used;
        memmove(c->in, c->in + used, c->in_n);
    }
    return true;
}

/* ---------------------------------------------------------------------------- sink */

int sink_open(conn_cb *cb)
{
    struct sockaddr_in addr = local(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    socklen_t n = sizeof(addr);
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listen_fd < 0 || bind(listen_fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        listen(listen_fd, 1024) < 0 ||
        getsockname(listen_fd, (struct sockaddr *)&addr, &n) < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &event) < 0)
        die("listen");
    sink_cb = cb;
    return ntohs(addr.sin_port);
}

static void on_event(const struct epoll_event *event)
{
    struct conn *c = event->data.ptr;
    if (c == NULL) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            conn_new(fd, sink_cb);
    } else if (!on_readable(c)) {
        if (c->cb != sink_cb) {
            errno = ECONNRESET;
            die("a connection was closed");
        }
        conn_close(c);
    }
}

void load_run(int64_t limit_us, const bool *stop)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t end_us = now_us() + limit_us, left_us;
    while (!*stop && (left_us = end_us - now_us()) > 0) {
        int n = epoll_wait(epoll_fd, events, EVENTS_MAX, (int)(left_us / 1000 + 1));
        for (int i = 0; i < n; i++)
            on_event(&events[i]);
    }
}
