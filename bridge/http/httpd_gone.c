/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_gone.c - detects that a client closed its connection or its sending side.
 *
 * libmicrohttpd does not watch suspended connections. Also, 0.9.75 misses an end of
 * stream that arrives with the last bytes: epoll reports both in one event, and the
 * library reads once. Therefore each connection is also in an epoll set of this file,
 * which reports only the end of the stream; pipelined bytes stay unread.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/http/httpd_internal.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GONE_MAX = 100 /* events per turn of the loop */ };

static int control(struct httpd_conn *conn, int op)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = conn};
    return epoll_ctl(conn->h->gone_fd, op, conn->fd, &event);
}

/* If unread bytes precede the end of the stream, runs the library again. Otherwise calls
 * shutdown(SHUT_RD), which changes nothing on an ended stream but wakes the library's
 * epoll, so that it reads the end and closes. */
static void let_go(struct httpd_conn *conn)
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
static void on_events(void *arg, unsigned events)
{
    struct httpd *h = arg;
    struct epoll_event event;
    (void)events;
    for (int i = 0; i < GONE_MAX && epoll_wait(h->gone_fd, &event, 1, 0) == 1; i++) {
        struct httpd_conn *conn = event.data.ptr;
        struct httpd_req *req = conn->req;
        void (*cb)(void *) = req ? req->on_gone : NULL;
        conn->half_closed = true;
        if (cb) {
            httpd_gone_cancel(req);
            cb(req->gone_arg);
        } else {
            let_go(conn);
        }
    }
}

void httpd_gone_watch(struct httpd_conn *conn)
{
    struct httpd *h = conn->h;
    if (h->gone_fd < 0) {
        h->gone_fd = epoll_create1(EPOLL_CLOEXEC);
        if (h->gone_fd < 0)
            return; /* out of descriptors: only the time limits end abandoned requests */
        h->gone_watch = watch_add(h->gone_fd, WATCH_READ, on_events, h);
    }
    conn->watched = control(conn, EPOLL_CTL_ADD) == 0;
}

void httpd_gone_unwatch(struct httpd_conn *conn)
{
    if (conn->watched)
        must(control(conn, EPOLL_CTL_DEL) == 0);
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

void httpd_gone_cancel(struct httpd_req *req)
{
    req->on_gone = NULL;
}

void httpd_gone_stop(struct httpd *h)
{
    watch_del(h->gone_watch);
    if (h->gone_fd >= 0)
        close(h->gone_fd);
}
