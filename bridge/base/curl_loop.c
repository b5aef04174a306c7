/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * curl_loop.c - curl removes a socket after each transfer and adds it again for the next.
 */
#include "bridge/base/curl_loop.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct curl_loop {
    CURLM *multi;
    struct timer *timer;
    struct curl_socket **sockets; /* indexed by descriptor */
    size_t sockets_room;
    unsigned connections; /* open sockets */
    curl_end_cb *end;
    curl_connected_cb *connected; /* NULL: no watch outlives its transfer */
};

struct curl_socket {
    struct curl_loop *l;
    curl_socket_t fd;
    bool kept;   /* curl will report when it closes the socket */
    bool wanted; /* curl waits for events */
    struct watch *watch;
};

/* Handles finished transfers. Must not be called from curl's callbacks, since it removes
 * handles. */
static void collect(struct curl_loop *l)
{
    CURLMsg *msg;
    int left;
    while ((msg = curl_multi_info_read(l->multi, &left)) != NULL) {
        char *transfer = NULL;
        CURLcode code = msg->data.result; /* msg is invalid once its handle is removed */
        CURL *easy = msg->easy_handle;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
        curl_multi_remove_handle(l->multi, easy);
        l->end(transfer, code);
    }
}

static void on_socket(void *arg, unsigned events)
{
    struct curl_socket *so = arg;
    struct curl_loop *l = so->l; /* curl may close the socket and free so within */
    int flags = (events & WATCH_READ ? CURL_CSELECT_IN : 0) |
                (events & WATCH_WRITE ? CURL_CSELECT_OUT : 0) |
                (events & WATCH_ERROR ? CURL_CSELECT_ERR : 0);
    int running;
    if (!so->wanted) {
        watch_set(so->watch, 0); /* curl detects it before it reuses the connection */
        return;
    }
    curl_multi_socket_action(l->multi, so->fd, flags, &running);
    collect(l);
}

static void on_timer(void *arg)
{
    struct curl_loop *l = arg;
    int running;
    curl_multi_socket_action(l->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect(l);
}

/* Returns the slot for a descriptor; *slot NULL: not watched. */
static struct curl_socket **socket_at(struct curl_loop *l, curl_socket_t fd)
{
    size_t i = (size_t)fd, old = l->sockets_room;
    if (i >= old) {
        l->sockets_room = 2 * i + 64;
        l->sockets = mem_realloc(l->sockets, l->sockets_room * sizeof(*l->sockets));
        memset(l->sockets + old, 0, (l->sockets_room - old) * sizeof(*l->sockets));
    }
    return &l->sockets[i];
}

static struct curl_socket *socket_new(struct curl_loop *l, curl_socket_t fd)
{
    struct curl_socket *so = mem_alloc(sizeof(*so));
    so->l = l;
    so->fd = fd;
    so->watch = watch_add(fd, 0, on_socket, so);
    l->connections++;
    return so;
}

static void socket_free(struct curl_socket **at)
{
    if (*at == NULL)
        return;
    watch_del((*at)->watch);
    (*at)->l->connections--;
    loop_defer_free(*at);
    *at = NULL;
}

static bool is_kept(const struct curl_loop *l, CURL *easy)
{
    char *transfer = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    return transfer && l->connected && l->connected(transfer);
}

static int on_want_socket(CURL *easy, curl_socket_t fd, int what, void *arg,
                          void *socket_arg)
{
    struct curl_loop *l = arg;
    struct curl_socket **at = socket_at(l, fd);
    (void)socket_arg;
    if (what == CURL_POLL_REMOVE) {
        if (*at)
            (*at)->wanted = false;
        if (*at && !(*at)->kept)
            socket_free(at);
        return 0;
    }
    if (*at == NULL)
        *at = socket_new(l, fd);
    (*at)->kept = (*at)->kept || is_kept(l, easy);
    (*at)->wanted = true;
    watch_set((*at)->watch, (what & CURL_POLL_IN ? WATCH_READ : 0u) |
                                (what & CURL_POLL_OUT ? WATCH_WRITE : 0u));
    return 0;
}

static int on_close(void *arg, curl_socket_t fd)
{
    socket_free(socket_at(arg, fd));
    return close(fd);
}

static int on_want_timer(CURLM *multi, long ms, void *arg)
{
    struct curl_loop *l = arg;
    (void)multi;
    if (ms < 0)
        timer_stop(l->timer);
    else
        timer_set(l->timer, ms);
    return 0;
}

void curl_loop_prepare(struct curl_loop *l, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* do not wait for resolver threads */
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, l);
}

CURLM *curl_loop_multi(const struct curl_loop *l)
{
    return l->multi;
}

unsigned curl_loop_connections(const struct curl_loop *l)
{
    return l->connections;
}

struct curl_loop *curl_loop_new(curl_end_cb *end, curl_connected_cb *connected)
{
    struct curl_loop *l = mem_alloc(sizeof(*l));
    l->end = end;
    l->connected = connected;
    l->multi = curl_multi_init();
    must(l->multi != NULL);
    l->timer = timer_new(on_timer, l);
    curl_multi_setopt(l->multi, CURLMOPT_SOCKETFUNCTION, on_want_socket);
    curl_multi_setopt(l->multi, CURLMOPT_SOCKETDATA, l);
    curl_multi_setopt(l->multi, CURLMOPT_TIMERFUNCTION, on_want_timer);
    curl_multi_setopt(l->multi, CURLMOPT_TIMERDATA, l);
    curl_multi_setopt(l->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    return l;
}

void curl_loop_free(struct curl_loop *l)
{
    if (l == NULL)
        return;
    curl_multi_cleanup(l->multi); /* also closes kept connections and removes their
                                   * watches */
    timer_del(l->timer);
    free(l->sockets);
    loop_defer_free(l);
}
