/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_net.c - net.h over the connections of the world. As in bridge/base/net.c, no
 * callback runs inside net_open() or net_write(), and writes are sent together at the end
 * of the turn.
 */
#include "bridge/base/net.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "tests/sim/core/core.h"

#include <stdlib.h>

struct net {
    const struct net_cbs *cbs;
    void *arg;
    struct conn *conn;
    char *host, *port;   /* of the server */
    struct timer *limit; /* connect_timeout_ms */
    struct buf out;
    bool is_open, closed, flushes;
};

static void drop(struct net *n)
{
    HOST->close(n->conn);
    n->conn = NULL;
    timer_stop(n->limit);
    buf_clear(&n->out);
}

static void fail(struct net *n, const char *why)
{
    drop(n);
    n->is_open = false;
    n->cbs->on_closed(n->arg, why);
}

static void on_limit(void *arg)
{
    fail(arg, "no answer in time");
}

static void begin(void *arg)
{
    struct net *n = arg;
    if (!n->closed)
        n->conn = HOST->open(CORE, n, n->host, n->port);
}

struct net *net_open(const struct net_conf *conf, const struct net_cbs *cbs, void *arg)
{
    struct net *n = mem_alloc(sizeof(*n));
    n->cbs = cbs;
    n->arg = arg;
    n->host = mem_strdup(conf->host);
    n->port = mem_strdup(conf->port);
    n->limit = timer_new(on_limit, n);
    timer_set(n->limit, conf->connect_timeout_ms);
    loop_defer(begin, n);
    return n;
}

void net_push(struct net *n)
{
    if (n->out.n == 0 || n->conn == NULL)
        return;
    HOST->send(n->conn, buf_slice(&n->out));
    buf_clear(&n->out);
}

static void flush(void *arg)
{
    struct net *n = arg;
    n->flushes = false;
    net_push(n);
}

void net_write(struct net *n, const void *bytes, size_t count)
{
    must(n->is_open);
    buf_add(&n->out, bytes, count);
    if (!n->flushes)
        loop_defer(flush, n);
    n->flushes = true;
}

void net_set_reading(struct net *n, bool reading)
{
    (void)n;
    must(reading); /* only the HTTP client stops */
}

void net_close(struct net *n)
{
    if (n == NULL)
        return;
    drop(n);
    n->closed = true;
    timer_del(n->limit);
    buf_free(&n->out);
    free(n->host);
    free(n->port);
    loop_defer_free(n); /* behind begin() and flush() */
}

void core_net_event(const struct event *event)
{
    struct net *n = event->of;
    if (event->kind == EVENT_OPEN) {
        timer_stop(n->limit);
        n->is_open = true;
        n->cbs->on_open(n->arg);
    } else if (event->kind == EVENT_DATA) {
        n->cbs->on_data(n->arg, event->bytes);
    } else {
        char *why = mem_strndup(event->bytes.p, event->bytes.n);
        fail(n, why);
        loop_defer_free(why);
    }
}
