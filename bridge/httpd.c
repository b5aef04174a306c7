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
    CONNECTION_MEMORY = 16 * 1024, /* of one connection: its request line and headers */
    RUNS_MAX = 8,                  /* of the library in one turn of the loop */
    SWEEP_MIN_MS = 20,
    SWEEP_MAX_MS = 1000
};

struct httpd_conn *httpd_conn_of(struct MHD_Connection *mc)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mc, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void httpd_conn_enter(struct httpd_conn *conn, enum httpd_conn_state state)
{
    const struct httpd_conf *c = &conn->h->conf;
    const int64_t limit_ms[] = {
        [NEW] = c->deadline_ms,
        [READING] = c->deadline_ms,
        [WAITING] = 0,
        [ANSWERING] = c->idle_ms > c->deadline_ms ? c->idle_ms : c->deadline_ms,
        [IDLE] = c->idle_ms,
    };
    conn->state = state;
    conn->deadline_ms = limit_ms[state] ? loop_mono_ms() + limit_ms[state] : 0;
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

static void on_connection(void *arg, struct MHD_Connection *mc, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct httpd *h = arg;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        struct httpd_conn *conn = mem_alloc(sizeof(*conn));
        *context = conn;
        conn->h = h;
        conn->fd =
            MHD_get_connection_info(mc, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        httpd_conn_enter(conn, NEW);
        conn->next = h->conns;
        if (h->conns)
            h->conns->prev = conn;
        h->conns = conn;
        if (!timer_is_set(h->sweep))
            timer_set(h->sweep, sweep_period_ms(h));
        return;
    }
    struct httpd_conn *conn = *context;
    /* At its limit of connections the library takes no more; only a further run makes it
     * look at the listening socket again. */
    h->rerun = true;
    if (conn->next)
        conn->next->prev = conn->prev;
    *(conn->prev ? &conn->prev->next : &h->conns) = conn->next;
    free(conn);
}

static void on_sweep(void *arg)
{
    struct httpd *h = arg;
    int64_t now_ms = loop_mono_ms();
    for (struct httpd_conn *conn = h->conns; conn; conn = conn->next) {
        if (conn->deadline_ms == 0 || now_ms < conn->deadline_ms)
            continue;
        if (conn->state == READING)
            httpd_answer_raw(conn->fd, "408 Request Timeout", "timeout",
                             "the request did not arrive whole in time");
        /* The library sees the end of the stream and closes: it owns the descriptor. */
        shutdown(conn->fd, SHUT_RDWR);
        conn->deadline_ms = 0;
    }
    if (h->conns)
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

static void on_events(void *arg, unsigned events)
{
    (void)events;
    run(arg);
}

static void on_more(void *arg)
{
    run(arg);
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
        (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_NOTIFY_COMPLETED,
        httpd_on_completed, h, MHD_OPTION_URI_LOG_CALLBACK, httpd_on_line, h,
        MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, h, MHD_OPTION_END);
}

struct httpd *httpd_start(const struct httpd_conf *conf, struct err *err)
{
    struct httpd *h = mem_alloc(sizeof(*h));
    h->conf = *conf;
    h->conf.listen = NULL; /* borrowed for this call only */
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
    for (struct httpd_conn *conn = h->conns; conn; conn = conn->next) {
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
