/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_gone.c - sees a client leave while its request waits.
 *
 * The library does not look at a suspended connection. An epoll descriptor of our own
 * does, for those whose handler asked: it wakes for the end of the stream and for nothing
 * else, so that pipelined bytes stay where they are.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/httpd/httpd_parts.h"

#include <sys/epoll.h>
#include <unistd.h>

enum { GONE_MAX = 100 /* told in one turn of the loop */ };

/* One event at a time: a callback may answer other requests, even those of events that
 * would have come along. */
static void on_events(void *arg, unsigned events)
{
    struct httpd *h = arg;
    struct epoll_event event;
    (void)events;
    for (int i = 0; i < GONE_MAX && epoll_wait(h->gone_fd, &event, 1, 0) == 1; i++) {
        struct httpd_req *req = event.data.ptr;
        void (*cb)(void *) = req->on_gone;
        httpd_gone_forget(req);
        cb(req->gone_arg);
    }
}

void httpd_on_gone(struct httpd_req *req, void (*cb)(void *arg), void *arg)
{
    struct httpd *h = req->h;
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = req};
    if (req->mc == NULL) /* the listener is stopped: nobody is told */
        return;
    must(req->on_gone == NULL && req->stage != ANSWERED);
    if (h->gone_fd < 0) {
        h->gone_fd = epoll_create1(EPOLL_CLOEXEC);
        if (h->gone_fd < 0)
            return; /* out of descriptors: the request waits for its answer, no more */
        h->gone_watch = watch_add(h->gone_fd, WATCH_READ, on_events, h);
    }
    if (epoll_ctl(h->gone_fd, EPOLL_CTL_ADD, req->conn->fd, &event) < 0)
        return;
    req->on_gone = cb;
    req->gone_arg = arg;
}

void httpd_gone_forget(struct httpd_req *req)
{
    if (req->on_gone == NULL)
        return;
    must(epoll_ctl(req->h->gone_fd, EPOLL_CTL_DEL, req->conn->fd, NULL) == 0);
    req->on_gone = NULL;
}

void httpd_gone_stop(struct httpd *h)
{
    watch_del(h->gone_watch);
    if (h->gone_fd >= 0)
        close(h->gone_fd);
}
