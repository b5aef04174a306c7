/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop.c - the loop over libuv: turns, posts, deferred calls, descriptors, signals, name
 * resolution. timer.c contains timers, child.c children. Only this file includes uv.h.
 *
 * A turn ends in libuv's prepare phase: after all callbacks, before the next wait.
 */
#include "bridge/base/loop.h"
#include "bridge/base/loop_internal.h"
#include "bridge/base/mem.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include <glib.h>
#include <uv.h>

enum {
    FINI_MAX_MS = 2000, /* loop_fini() waits at most this long for a hanging name
                         * resolution */
    LATE_ROUNDS = 4     /* at the end of a turn: rounds of calls that were deferred in the
                         * previous round. The next turn runs the rest */
};

struct call {
    loop_cb *fn;
    void *arg;
};

struct turn_hook {
    struct turn_hook *next;
    loop_cb *fn; /* NULL: deleted, but the list may be in use */
    void *arg;
};

struct watch {
    uv_poll_t poll; /* must be first: libuv's handle is cast to struct watch */
    unsigned events;
    watch_cb *cb;
    void *arg;
};

struct on_signal {
    uv_signal_t sig;
    signal_cb *cb;
    void *arg;
};

static struct {
    uv_loop_t uv;
    uv_prepare_t turn_end;
    uv_idle_t busy; /* while active, the loop does not wait */
    uv_async_t wake;
    uint64_t turns;
    bool stopping;
    GArray *deferred; /* struct call */
    struct turn_hook *hooks;
    pthread_mutex_t lock; /* guards posted */
    GArray *posted;       /* struct call */
} loop;

static GArray *calls_new(void)
{
    return g_array_new(FALSE, FALSE, sizeof(struct call));
}

static void add_call(GArray *calls, loop_cb *fn, void *arg)
{
    const struct call call = {fn, arg};
    g_array_append_val(calls, call);
}

static GArray *take_calls(GArray **calls)
{
    GArray *taken = *calls;
    *calls = calls_new();
    return taken;
}

static void run_calls(GArray *calls)
{
    for (guint i = 0; i < calls->len; i++) {
        const struct call *c = &g_array_index(calls, struct call, i);
        c->fn(c->arg);
    }
    g_array_unref(calls);
}

static void on_found_at_once(void *arg);

/* Frees the memory of calls that will not run. */
static void drop_calls(GArray *calls)
{
    for (guint i = 0; i < calls->len; i++) {
        const struct call *c = &g_array_index(calls, struct call, i);
        if (c->fn == on_found_at_once)
            resolve_cancel(c->arg);
        if (c->fn == on_found_at_once || c->fn == free)
            c->fn(c->arg);
    }
    g_array_unref(calls);
}

/* ------------------------------------------------------------------- turns */

/* Calls expired timers if the loop does not wait in this turn. */
static void on_busy(uv_idle_t *idle)
{
    (void)idle;
    timers_fire();
}

static void run_hooks(void)
{
    /* A hook deleted during the walk keeps its memory and next pointer until the turn
     * ends. */
    for (struct turn_hook *h = loop.hooks; h; h = h->next)
        if (h->fn)
            h->fn(h->arg);
}

static void end_turn(uv_prepare_t *prepare)
{
    (void)prepare;
    run_calls(take_calls(&loop.deferred));
    run_hooks();
    for (int i = 0; i < LATE_ROUNDS && loop.deferred->len > 0; i++)
        run_calls(take_calls(&loop.deferred));
    loop.turns++;
    if (timers_arm() || loop.deferred->len > 0)
        uv_idle_start(&loop.busy, on_busy);
    else
        uv_idle_stop(&loop.busy);
}

static void on_wake(uv_async_t *async)
{
    (void)async;
    pthread_mutex_lock(&loop.lock);
    GArray *calls = take_calls(&loop.posted);
    pthread_mutex_unlock(&loop.lock);
    run_calls(calls);
}

void loop_init(void)
{
    signal(SIGPIPE, SIG_IGN);
    must(uv_loop_init(&loop.uv) == 0);
    must(uv_prepare_init(&loop.uv, &loop.turn_end) == 0);
    must(uv_prepare_start(&loop.turn_end, end_turn) == 0);
    must(uv_idle_init(&loop.uv, &loop.busy) == 0);
    must(uv_async_init(&loop.uv, &loop.wake, on_wake) == 0);
    must(pthread_mutex_init(&loop.lock, NULL) == 0);
    loop.deferred = loop.deferred ? loop.deferred : calls_new();
    loop.posted = loop.posted ? loop.posted : calls_new();
    loop.hooks = NULL;
    loop.stopping = false;
    timers_init();
}

void loop_run(void)
{
    while (!loop.stopping)
        uv_run(&loop.uv, UV_RUN_DEFAULT);
    loop.stopping = false;
    end_turn(NULL); /* uv_run() returns before the end of the turn */
}

void loop_stop(void)
{
    loop.stopping = true;
    uv_stop(&loop.uv);
}

/* Every handle except the loop's own is the first member of its struct. */
static void on_closed(uv_handle_t *handle)
{
    if (handle->type == UV_POLL || handle->type == UV_SIGNAL)
        free(handle);
}

/* Closes the handle and ignores its signal. Otherwise a second SIGTERM would kill the
 * process, and change the exit code of a daemon that has already stopped in order. */
static void ignore_from_now(uv_handle_t *handle)
{
    int signo = ((uv_signal_t *)handle)->signum;
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, signo);
    pthread_sigmask(SIG_BLOCK, &one, &before);
    uv_close(handle, on_closed);
    signal(signo, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void close_one(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (uv_is_closing(handle))
        return;
    /* Do not ignore SIGCHLD: the kernel would discard the exit codes of children. */
    if (handle->type == UV_SIGNAL && ((uv_signal_t *)handle)->signum != SIGCHLD)
        ignore_from_now(handle);
    else
        uv_close(handle, on_closed);
}

void loop_fini(void)
{
    children_fini();
    timers_fini();
    while (loop.hooks)
        turn_hook_del(loop.hooks);
    uv_prepare_stop(&loop.turn_end);
    uv_walk(&loop.uv, close_one, NULL);
    int64_t limit_ms = loop_mono_ms() + FINI_MAX_MS;
    while (uv_run(&loop.uv, UV_RUN_NOWAIT) != 0 && loop_mono_ms() < limit_ms)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    uv_loop_close(&loop.uv); /* fails and leaks memory only while a name resolution
                              * hangs */
    drop_calls(take_calls(&loop.posted));
    drop_calls(take_calls(&loop.deferred));
    pthread_mutex_destroy(&loop.lock);
}

int64_t loop_mono_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t loop_mono_ms(void)
{
    return loop_mono_us() / 1000;
}

int64_t loop_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t loop_wakeups(void)
{
    return loop.turns;
}

/* ------------------------------------------------------------ posts and deferred */

void loop_post(loop_cb *fn, void *arg)
{
    must(fn != NULL);
    pthread_mutex_lock(&loop.lock);
    add_call(loop.posted, fn, arg);
    /* Inside the lock: otherwise the posted call could end the loop and close the handle
     * first. */
    uv_async_send(&loop.wake);
    pthread_mutex_unlock(&loop.lock);
}

void loop_defer(loop_cb *fn, void *arg)
{
    must(fn != NULL);
    add_call(loop.deferred, fn, arg);
}

void loop_defer_free(void *p)
{
    if (p)
        add_call(loop.deferred, free, p);
}

struct turn_hook *loop_each_turn(loop_cb *fn, void *arg)
{
    struct turn_hook *h = mem_alloc(sizeof(*h));
    h->fn = fn;
    h->arg = arg;
    h->next = loop.hooks;
    loop.hooks = h;
    return h;
}

void turn_hook_del(struct turn_hook *h)
{
    if (h == NULL)
        return;
    struct turn_hook **at = &loop.hooks;
    while (*at != h) {
        must(*at != NULL);
        at = &(*at)->next;
    }
    *at = h->next;
    h->fn = NULL;
    loop_defer_free(h);
}

/* ------------------------------------------------------------------- descriptors */

static void on_poll(uv_poll_t *poll, int status, int uv_events)
{
    struct watch *w = (struct watch *)poll;
    unsigned events = 0;
    if (status < 0) {
        /* libuv has stopped the watch. Start it again: several reads may be needed to
         * receive the bytes before the error. */
        unsigned wanted = w->events;
        w->events = 0;
        watch_set(w, wanted);
        events = WATCH_ERROR | wanted;
    } else {
        events |= uv_events & UV_READABLE ? WATCH_READ : 0;
        events |= uv_events & UV_WRITABLE ? WATCH_WRITE : 0;
    }
    if (events)
        w->cb(w->arg, events);
}

struct watch *watch_add(int fd, unsigned events, watch_cb *cb, void *arg)
{
    struct watch *w = mem_alloc(sizeof(*w));
    w->cb = cb;
    w->arg = arg;
    must(uv_poll_init(&loop.uv, &w->poll, fd) == 0);
    watch_set(w, events);
    return w;
}

void watch_set(struct watch *w, unsigned events)
{
    if (w->events == events)
        return;
    w->events = events;
    int uv_events = (events & WATCH_READ ? UV_READABLE : 0) |
                    (events & WATCH_WRITE ? UV_WRITABLE : 0);
    if (uv_events)
        must(uv_poll_start(&w->poll, uv_events, on_poll) == 0);
    else
        must(uv_poll_stop(&w->poll) == 0);
}

void watch_del(struct watch *w)
{
    if (w)
        uv_close((uv_handle_t *)&w->poll, on_closed);
}

/* ----------------------------------------------------------------------- signals */

static void on_uv_signal(uv_signal_t *sig, int signo)
{
    struct on_signal *s = (struct on_signal *)sig;
    s->cb(s->arg, signo);
}

void loop_on_signal(int signo, signal_cb *cb, void *arg)
{
    struct on_signal *s = mem_alloc(sizeof(*s));
    s->cb = cb;
    s->arg = arg;
    must(uv_signal_init(&loop.uv, &s->sig) == 0);
    must(uv_signal_start(&s->sig, on_uv_signal, signo) == 0);
}

/* --------------------------------------------------------------- name resolution */

struct resolve {
    uv_getaddrinfo_t req; /* must be first */
    struct addrinfo *numeric;
    resolve_cb *cb; /* NULL: cancelled */
    void *arg;
};

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
    struct resolve *r = (struct resolve *)req;
    if (r->cb)
        r->cb(r->arg, list, status < 0 ? uv_strerror(status) : "");
    uv_freeaddrinfo(list);
    free(r);
}

/* Reports the result that needs no name server: a numeric address, or an invalid name. */
static void on_found_at_once(void *arg)
{
    struct resolve *r = arg;
    if (r->cb)
        r->cb(r->arg, r->numeric, "not a valid host name or port");
    uv_freeaddrinfo(r->numeric);
    free(r);
}

struct resolve *resolve_start(const char *host, const char *port, resolve_cb *cb,
                              void *arg)
{
    struct resolve *r = mem_alloc(sizeof(*r));
    r->cb = cb;
    r->arg = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    if (getaddrinfo(host, port, &hints, &r->numeric) == 0) {
        loop_defer(on_found_at_once, r); /* needs no thread, and cannot hang */
        return r;
    }
    hints.ai_flags = 0;
    if (uv_getaddrinfo(&loop.uv, &r->req, on_resolved, host, port, &hints) != 0)
        loop_defer(on_found_at_once, r);
    return r;
}

void resolve_cancel(struct resolve *r)
{
    if (r == NULL)
        return;
    r->cb = NULL; /* on_resolved() or on_found_at_once() frees r later */
    if (r->numeric == NULL && r->req.loop)
        uv_cancel((uv_req_t *)&r->req);
}
