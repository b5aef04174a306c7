/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_multi.c - libcurl's multi interface on the loop: its sockets are watched, its
 * timeout is one timer.
 */
#include "sinks/http_sink.h"

enum { IDLE_CONNECTIONS = 64 }; /* kept beyond max_in_flight */

/* Never within one of curl's own callbacks: handles are removed here. */
static void collect(struct http_sink *s)
{
    CURLMsg *msg;
    int left;
    while ((msg = curl_multi_info_read(s->multi, &left)) != NULL) {
        struct http_call *c = NULL;
        CURLcode code = msg->data.result; /* msg is gone once its handle is removed */
        CURL *easy = msg->easy_handle;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&c);
        curl_multi_remove_handle(s->multi, easy);
        http_call_end(c, code);
    }
}

struct socket_watch {
    struct http_sink *s;
    curl_socket_t fd;
    struct watch *watch;
};

static void on_socket(void *arg, unsigned events)
{
    struct socket_watch *sw = arg;
    struct http_sink *s = sw->s; /* curl may give up the socket, and sw, within */
    int flags = (events & WATCH_READ ? CURL_CSELECT_IN : 0) |
                (events & WATCH_WRITE ? CURL_CSELECT_OUT : 0) |
                (events & WATCH_ERROR ? CURL_CSELECT_ERR : 0);
    int running;
    curl_multi_socket_action(s->multi, sw->fd, flags, &running);
    collect(s);
}

static void on_timer(void *arg)
{
    struct http_sink *s = arg;
    int running;
    curl_multi_socket_action(s->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect(s);
}

static int on_want_socket(CURL *easy, curl_socket_t fd, int what, void *arg,
                          void *socket_arg)
{
    struct http_sink *s = arg;
    struct socket_watch *sw = socket_arg;
    unsigned events = (what & CURL_POLL_IN ? WATCH_READ : 0u) |
                      (what & CURL_POLL_OUT ? WATCH_WRITE : 0u);
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (sw) {
            watch_del(sw->watch);
            loop_defer_free(sw);
            curl_multi_assign(s->multi, fd, NULL);
        }
        return 0;
    }
    if (sw) {
        watch_set(sw->watch, events);
        return 0;
    }
    sw = mem_alloc(sizeof(*sw));
    sw->s = s;
    sw->fd = fd;
    sw->watch = watch_add(fd, events, on_socket, sw);
    curl_multi_assign(s->multi, fd, sw);
    return 0;
}

static int on_want_timer(CURLM *multi, long ms, void *arg)
{
    struct http_sink *s = arg;
    (void)multi;
    if (ms < 0)
        timer_rest(s->timer);
    else
        timer_set(s->timer, ms);
    return 0;
}

void http_multi_start(struct http_sink *s)
{
    CURLM *m = s->multi = curl_multi_init();
    must(m != NULL);
    s->timer = timer_new(on_timer, s);
    curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, on_want_socket);
    curl_multi_setopt(m, CURLMOPT_SOCKETDATA, s);
    curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, on_want_timer);
    curl_multi_setopt(m, CURLMOPT_TIMERDATA, s);
    curl_multi_setopt(m, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(m, CURLMOPT_MAX_HOST_CONNECTIONS, (long)s->o.host_connections);
    /* curl's own rule, four times what is under way, closes them whenever load pauses. */
    curl_multi_setopt(m, CURLMOPT_MAXCONNECTS,
                      (long)sink_max_in_flight(s->sink) + IDLE_CONNECTIONS);
}

void http_multi_stop(struct http_sink *s)
{
    curl_multi_cleanup(s->multi); /* kept connections and their watches go with it */
    timer_del(s->timer);
}
