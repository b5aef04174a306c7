/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd.c - libmicrohttpd on the loop: its epoll descriptor is watched, it has no thread.
 *
 * A request is suspended while its handler waits for Redis. All times are kept here, by
 * one sweep over the connections, since the library's own timeout is for silence only: a
 * client that sends a header line now and then would never meet it.
 */
#include "bridge/httpd.h"
#include "bridge/httpd_listen.h"
#include "bridge/httpd_parts.h"
#include "bridge/loop.h"
#include "bridge/mem.h"

#include <stdlib.h>
#include <sys/socket.h>

enum {
    HEAD_MAX = 16 * 1024, /* where the owner does not say: escaped names are long */
    RUNS_MAX = 8,         /* of the library in one turn of the loop */
    SWEEP_MIN_MS = 20,
    SWEEP_MAX_MS = 1000,
    STARVED_MS = 100 /* until accept is tried again for want of a descriptor */
};

struct httpd_conn *httpd_conn_of(struct MHD_Connection *mc)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mc, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* 0: none. */
static int64_t limit_ms(const struct httpd_conf *c, enum httpd_conn_state state)
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
        h->conf.deadline_ms < h->conf.idle_ms ? h->conf.deadline_ms : h->conf.idle_ms;
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
}

static void conn_append(struct httpd_conn *conn, enum httpd_conn_state state)
{
    struct httpd *h = conn->h;
    struct httpd_conns *list = &h->conns[state];
    int64_t limit = limit_ms(&h->conf, state);
    conn->state = state;
    conn->next = NULL;
    conn->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = conn;
    list->last = conn;
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

static void on_connection(void *arg, struct MHD_Connection *mc, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct httpd *h = arg;
    h->moved = true;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        struct httpd_conn *conn = mem_alloc(sizeof(*conn));
        *context = conn;
        conn->h = h;
        conn->fd =
            MHD_get_connection_info(mc, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        conn_append(conn, NEW);
        return;
    }
    struct httpd_conn *conn = *context;
    /* At its limit of connections the library takes no more; only a further run makes it
     * look at the listening socket again. */
    h->rerun = true;
    conn_unlink(conn);
    free(conn);
}

/* The library sees the end of the stream and closes: it owns the descriptor. */
static void expire(struct httpd_conn *conn)
{
    if (conn->state == READING)
        httpd_answer_raw(conn->fd, "408 Request Timeout", "timeout",
                         "the request did not arrive whole in time");
    shutdown(conn->fd, SHUT_RDWR);
    httpd_conn_enter(conn, CLOSING);
}

/* Costs nothing for those that wait for their answer: there may be thousands. */
static void on_sweep(void *arg)
{
    struct httpd *h = arg;
    bool more = false;
    h->now_ms = loop_mono_ms();
    for (int state = 0; state < CONN_STATES; state++) {
        if (limit_ms(&h->conf, state) == 0)
            continue;
        while (h->conns[state].first && h->conns[state].first->deadline_ms <= h->now_ms)
            expire(h->conns[state].first);
        more |= h->conns[state].first != NULL;
    }
    if (more)
        timer_set(h->sweep, sweep_period_ms(h));
}

/* Leaves paths and parameters as they came: they are decoded here, per segment. */
static size_t on_unescape(void *arg, struct MHD_Connection *mc, char *s)
{
    (void)arg, (void)mc;
    return strlen(s);
}

static void run(struct httpd *h)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 1;
    h->rerun = false;
    h->running = true;
    for (int i = 0; i < RUNS_MAX; i++) {
        h->now_ms = loop_mono_ms(); /* once for all connections */
        MHD_run(h->mhd);
        if (MHD_get_timeout(h->mhd, &wait_ms) == MHD_NO || wait_ms > 0)
            break;
        wait_ms = 0;
    }
    h->running = false;
    /* It says 0 when a connection has more to do and its epoll will not tell. */
    if (wait_ms == 0)
        timer_set(h->more, 0);
}

static bool has_connections(const struct httpd *h)
{
    for (int state = 0; state < CONN_STATES; state++)
        if (h->conns[state].first)
            return true;
    return false;
}

/* Without a connection only the listening socket can have woken us. If none came of that,
 * there is no descriptor for it, and the library, which otherwise waits until one of its
 * connections ends, would be woken in vain for ever. */
static void on_events(void *arg, unsigned events)
{
    struct httpd *h = arg;
    (void)events;
    h->moved = has_connections(h);
    run(h);
    if (h->moved)
        return;
    log_limited(&h->starved, LOG_WARN, "http",
                "a connection cannot be accepted: no descriptor or memory is left; raise "
                "the limit of open files");
    watch_set(h->watch, 0);
    timer_set(h->more, STARVED_MS);
}

static void on_more(void *arg)
{
    struct httpd *h = arg;
    watch_set(h->watch, WATCH_READ);
    run(h);
}

static void on_turn(void *arg)
{
    struct httpd *h = arg;
    if (h->rerun)
        run(h);
}

static struct MHD_Daemon *mhd_start(struct httpd *h)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, httpd_on_request, h,
        MHD_OPTION_LISTEN_SOCKET, h->fd, MHD_OPTION_CONNECTION_LIMIT,
        h->conf.connections_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)h->conf.head_max, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_NOTIFY_COMPLETED,
        httpd_on_completed, h, MHD_OPTION_URI_LOG_CALLBACK, httpd_on_line, h,
        MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, h, MHD_OPTION_END);
}

struct httpd *httpd_start(const struct httpd_conf *conf, struct err *err)
{
    struct httpd *h = mem_alloc(sizeof(*h));
    h->conf = *conf;
    h->conf.listen = NULL; /* borrowed for this call only */
    if (h->conf.head_max == 0)
        h->conf.head_max = HEAD_MAX;
    h->gone_fd = -1;
    h->fd = httpd_listen(conf->listen, err);
    if (h->fd < 0) {
        free(h);
        return NULL;
    }
    h->sweep = timer_new(on_sweep, h);
    h->more = timer_new(on_more, h);
    h->mhd = mhd_start(h);
    if (h->mhd == NULL) {
        err_set(err,
                "listen: %s: the HTTP server does not start; are there descriptors left?",
                conf->listen);
        httpd_stop(h);
        return NULL;
    }
    h->watch = watch_add(MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
                         WATCH_READ, on_events, h);
    h->hook = loop_each_turn(on_turn, h);
    return h;
}

static int64_t bodies_max = 64LL * 1024 * 1024; /* of httpd_open() */

void httpd_set_bodies_max(int64_t bytes)
{
    bodies_max = bytes;
}

struct httpd *httpd_open(const struct httpd_opts *opts, struct err *err)
{
    const struct httpd_conf conf = {.listen = opts->listen,
                                    .head_max = opts->head_max_bytes,
                                    .body_max = opts->body_max_bytes,
                                    .bodies_max = bodies_max,
                                    .deadline_ms = opts->deadline_ms,
                                    .idle_ms = opts->idle_ms,
                                    .connections_max = (unsigned)opts->connections_max};
    return httpd_start(&conf, err);
}

void httpd_serve(struct httpd *h, const struct httpd_route *rows, void *arg)
{
    for (; rows->method; rows++) {
        h->rows = mem_realloc(h->rows, (h->rows_n + 1) * sizeof(*h->rows));
        struct httpd_row *row = &h->rows[h->rows_n++];
        *row = (struct httpd_row){.route = rows, .arg = arg};
        httpd_pattern_init(&row->pattern, rows->path);
    }
}

void httpd_unserve(struct httpd *h, const void *arg)
{
    for (size_t i = 0; i < h->rows_n; i++)
        h->rows[i].gone |= h->rows[i].arg == arg;
    h->rest.gone |= h->rest.arg == arg;
}

void httpd_serve_rest(struct httpd *h, void (*handle)(void *arg, struct httpd_req *req),
                      void *arg)
{
    h->rest = (struct httpd_rest){.handle = handle, .arg = arg};
}

void httpd_shape(struct httpd *h, httpd_refuse_cb *cb, void *arg)
{
    h->shape = cb;
    h->shape_arg = arg;
}

unsigned httpd_port(const struct httpd *h)
{
    return httpd_listen_port(h->fd);
}

void httpd_drain(struct httpd *h)
{
    h->draining = true;
}

/* The library aborts when it is stopped with a suspended connection. */
static void resume_all(struct httpd *h)
{
    for (struct httpd_conn *conn = h->conns[WAITING].first; conn; conn = conn->next) {
        if (conn->req && conn->req->stage == SUSPENDED)
            MHD_resume_connection(conn->req->mc);
    }
}

void httpd_stop(struct httpd *h)
{
    if (h == NULL)
        return;
    must(!h->running);
    watch_del(h->watch); /* before the library closes the descriptor */
    turn_hook_del(h->hook);
    if (h->mhd) {
        /* Ours to close: the file of a Unix socket goes with it. */
        int fd = MHD_quiesce_daemon(h->mhd);
        must(fd == h->fd || fd == MHD_INVALID_SOCKET);
        resume_all(h);
        MHD_stop_daemon(h->mhd);
    }
    httpd_gone_stop(h);
    httpd_unlisten(h->fd);
    timer_del(h->sweep);
    timer_del(h->more);
    while (h->idle) {
        struct httpd_req *next = h->idle->next_idle;
        httpd_req_free(h->idle);
        h->idle = next;
    }
    free(h->rows);
    free(h);
}
