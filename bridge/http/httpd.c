/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd.c - runs libmicrohttpd without threads on the loop, which watches its epoll
 * descriptor.
 *
 * A request is suspended while its handler waits for Redis. One sweep over the
 * connections enforces all time limits (httpd_conn.c). The library's own timeout covers
 * only silence: a client that slowly sends header lines would never reach it.
 */
#include "bridge/http/httpd.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/http/httpd_internal.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    RUNS_MAX = 8,  /* runs of the library per turn of the loop */
    VAIN_MS = 100, /* wait before repeating a run that transferred nothing */
    NEVER = -1,
    STARVED_MS = 100, /* wait before the next accept() after running out of descriptors */
    CLOSE_LOOK_MS = 10,
    CLOSE_POLLS_MAX = 10 /* polls while responses are sent */
};

/* Disables the library's decoding; httpd_url.c decodes each segment. */
static size_t on_unescape(void *arg, struct MHD_Connection *mc, char *s)
{
    (void)arg, (void)mc;
    return strlen(s);
}

/* Returns the wait before the next run, or NEVER. The library reports pending work that
 * its epoll does not signal. It (0.9.75) also does so during a TLS handshake, where epoll
 * does signal; immediate repetition would then use a whole CPU. */
static int64_t run_again_ms(struct httpd *h, bool moved)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    if (MHD_get_timeout(h->mhd, &wait_ms) == MHD_NO || wait_ms > 0)
        return NEVER;
    return h->tls && !moved ? VAIN_MS : 0;
}

static void run(struct httpd *h)
{
    int64_t again_ms = 0;
    h->run_again = false;
    h->running = true;
    for (int i = 0; i < RUNS_MAX && again_ms == 0; i++) {
        uint64_t before = h->progress;
        h->now_ms = loop_mono_ms(); /* once for all connections */
        MHD_run(h->mhd);
        again_ms = run_again_ms(h, h->progress != before);
    }
    h->running = false;
    if (again_ms != NEVER)
        timer_set(h->more, again_ms);
}

/* Without connections only the listening socket can have caused the event. If no
 * connection results, descriptors are exhausted. The library waits until one of its
 * connections ends, so that the event would repeat endlessly. */
static void on_events(void *arg, unsigned events)
{
    struct httpd *h = arg;
    (void)events;
    h->active = httpd_conns_n(h) > 0;
    run(h);
    if (h->active)
        return;
    log_limited(&h->starved, LOG_WARN, "http",
                "cannot accept a connection: no file descriptor or memory is left; raise "
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
    if (h->run_again)
        run(h);
}

static struct MHD_Daemon *mhd_start(struct httpd *h)
{
    static const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(
        /* TURBO omits shutdown() before close(), so that httpd_mhd.c can still respond.
         * With TLS it would also omit close_notify. */
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (h->tls ? MHD_USE_TLS : MHD_USE_TURBO),
        0, NULL, NULL, httpd_on_request, h, MHD_OPTION_LISTEN_SOCKET, h->fd,
        MHD_OPTION_CONNECTION_LIMIT, httpd_slots_max(&h->opts),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)h->opts.head_max_bytes,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION,
        httpd_on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, httpd_on_completed, h,
        MHD_OPTION_URI_LOG_CALLBACK, httpd_on_line, h, MHD_OPTION_UNESCAPE_CALLBACK,
        on_unescape, h, MHD_OPTION_ARRAY, h->tls ? httpd_tls_options : plain,
        MHD_OPTION_END);
}

/* Opens the socket and starts the library. -1: err contains the reason. */
static int begin(struct httpd *h, const struct httpd_opts *opts, struct err *err)
{
    h->fd = httpd_listen(opts->listen, err);
    if (h->fd < 0)
        return -1;
    httpd_listen_name(h->fd, &h->port, &h->loopback);
    h->mhd = mhd_start(h);
    if (h->mhd == NULL)
        return err_set(
            err,
            "listen: %s: the HTTP server cannot start; check the limit of open files",
            opts->listen);
    h->watch = watch_add(MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
                         WATCH_READ, on_events, h);
    h->hook = loop_each_turn(on_turn, h);
    return 0;
}

struct httpd *httpd_open(const char *name, const struct httpd_opts *opts, struct err *err)
{
    struct httpd *h = mem_alloc(sizeof(*h));
    snprintf(h->name, sizeof(h->name), "%s", name);
    h->roles = ~0U;
    h->fd = h->gone_fd = -1;
    h->sweep = timer_new(httpd_on_sweep, h);
    h->more = timer_new(on_more, h);
    LIST_INSERT_HEAD(&httpd_all, h, link);
    httpd_set(h, opts);
    if (httpd_tls_load(opts, &h->tls, err) == 0 && begin(h, opts, err) == 0)
        return h;
    httpd_stop(h);
    return NULL;
}

/* Returns a new row, or that of a stopped source that starts again. */
static struct httpd_row *row_for(struct httpd *h, const struct httpd_route *route)
{
    for (size_t i = 0; i < h->rows_n; i++)
        if (h->rows[i].route == route && h->rows[i].removed)
            return &h->rows[i];
    h->rows = mem_realloc(h->rows, (h->rows_n + 1) * sizeof(*h->rows));
    struct httpd_row *row = &h->rows[h->rows_n++];
    row->route = route;
    httpd_pattern_init(&row->pattern, route->path);
    return row;
}

void httpd_serve(struct httpd *h, const struct httpd_route *rows, void *arg)
{
    if (h->twin)
        httpd_serve(h->twin, rows, arg);
    for (; rows->method; rows++) {
        struct httpd_row *row = row_for(h, rows);
        row->arg = arg;
        row->removed = false;
    }
}

void httpd_unserve(struct httpd *h, const void *arg)
{
    if (h->twin)
        httpd_unserve(h->twin, arg);
    for (size_t i = 0; i < h->rows_n; i++)
        h->rows[i].removed |= h->rows[i].arg == arg;
}

unsigned httpd_port(const struct httpd *h)
{
    return h->port;
}

static void on_closing(void *arg)
{
    struct httpd *h = arg;
    loop_cb *closed = h->closed;
    void *closed_arg = h->closed_arg;
    if (h->conns[WAITING].n > 0) {
        h->idle_polls = 0;
        return;
    }
    if (h->conns[ANSWERING].n > 0 && ++h->idle_polls < CLOSE_POLLS_MAX)
        return;
    httpd_stop(h);
    closed(closed_arg);
}

void httpd_close(struct httpd *h, loop_cb *closed, void *arg)
{
    h->closed = closed;
    h->closed_arg = arg;
    h->closing = timer_every(CLOSE_LOOK_MS, on_closing, h);
}

void httpd_stop(struct httpd *h)
{
    if (h == NULL)
        return;
    must(!h->running);
    LIST_REMOVE(h, link);
    watch_del(h->watch); /* before the library closes the descriptor */
    turn_hook_del(h->hook);
    if (h->mhd) {
        /* Closed by httpd_unlisten(), which also removes the file of a Unix socket. */
        int fd = MHD_quiesce_daemon(h->mhd);
        must(fd == h->fd || fd == MHD_INVALID_SOCKET);
        /* The library aborts if it is stopped with a suspended connection. */
        for (struct httpd_conn *conn = h->conns[WAITING].first; conn; conn = conn->next)
            if (conn->req && conn->req->stage == SUSPENDED)
                MHD_resume_connection(conn->req->mc);
        MHD_stop_daemon(h->mhd);
    }
    httpd_gone_stop(h);
    if (h->fd >= 0)
        httpd_unlisten(h->fd);
    httpd_tls_drop(h->tls);
    timer_del(h->sweep);
    timer_del(h->more);
    timer_del(h->closing);
    while (h->idle) {
        struct httpd_req *next = h->idle->next_idle;
        httpd_req_free(h->idle);
        h->idle = next;
    }
    httpd_set(h, NULL);
    free(h->rows);
    free(h);
}
