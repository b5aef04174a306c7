/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop.h - the event loop: file descriptors, timers, other threads, signals, children.
 *
 * One loop in one thread owns all state of the daemon. Every function here is called on
 * that thread, but for loop_post(), which any thread may call. Callbacks run on the loop
 * thread and return at once. A thing deleted in a callback gets no further callback, and
 * its memory is released only when the turn of the loop has ended.
 *
 * A turn: wait for events, run their callbacks and those of timers and posts, run what
 * was deferred, call the hooks of loop_each_turn(), wait again.
 */
#ifndef BRIDGE_LOOP_H
#define BRIDGE_LOOP_H

#include "bridge/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

typedef void loop_cb(void *arg);

void loop_init(void);
void loop_run(void);  /* until loop_stop() */
void loop_stop(void); /* loop_run() returns at the end of this turn */
void loop_fini(void); /* after loop_run(); whatever is still open is closed */

/* CLOCK_MONOTONIC, taken afresh at each call; any thread. */
int64_t loop_mono_ms(void);
int64_t loop_mono_us(void);
/* This host's wall clock, ms since 1970; any thread. Due times are judged by Redis' clock
 * instead. */
int64_t loop_wall_ms(void);

/* Turns so far that were begun by an event; an idle daemon makes less than five a second.
 */
uint64_t loop_wakeups(void);

/* --- other threads, and later --- */
/* Any thread. Calls fn(arg) on the loop thread, in the order of posting. */
void loop_post(loop_cb *fn, void *arg);
/* Calls fn(arg) at the end of this turn. */
void loop_defer(loop_cb *fn, void *arg);
/* free(p) at the end of this turn; NULL is fine. */
void loop_defer_free(void *p);

/* Calls fn(arg) once at the end of every turn: where batched work is sent off. The newest
 * hook is called first: what was set up early (the store) sends off what the hooks of
 * later ones (listeners) still bring. */
struct turn_hook;
struct turn_hook *loop_each_turn(loop_cb *fn, void *arg);
void turn_hook_del(struct turn_hook *h); /* NULL is fine */

/* --- file descriptors --- */
enum { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_ERROR = 4 };
/* events: which of the above are there; WATCH_ERROR comes unasked, with the others set so
 * that the next read or write tells the error. */
typedef void watch_cb(void *arg, unsigned events);
struct watch;
/* The descriptor stays the caller's, and must stay open until watch_del(). */
struct watch *watch_add(int fd, unsigned events, watch_cb *cb, void *arg);
void watch_set(struct watch *w, unsigned events); /* 0: rest */
void watch_del(struct watch *w);                  /* NULL is fine */

/* --- timers, monotonic, never early --- */
struct timer;
struct timer *timer_new(loop_cb *cb, void *arg); /* at rest until timer_set() */
/* Calls back once in delay_ms (0: in the next turn); replaces an earlier setting. */
void timer_set(struct timer *t, int64_t delay_ms);
void timer_set_us(struct timer *t, int64_t delay_us);
/* Calls back every period_ms; timers of whole seconds fire in one common turn. */
struct timer *timer_every(int64_t period_ms, loop_cb *cb, void *arg);
void timer_rest(struct timer *t); /* until timer_set() */
bool timer_is_set(const struct timer *t);
void timer_del(struct timer *t); /* NULL is fine */

/* --- signals --- */
/* Calls back for each arrival; kept until loop_fini(), after which these signals are
 * ignored, but for SIGCHLD. */
typedef void signal_cb(void *arg, int signo);
void loop_on_signal(int signo, signal_cb *cb, void *arg);

/* --- children --- */
struct child_spec {
    const char *const *argv; /* ends with NULL; argv[0] is searched in PATH */
    const char *const *env;  /* "NAME=value", added to ours; NULL: none */
    const char *dir;         /* where to start; NULL: here */
    int pass_fd; /* becomes descriptor 3 of the child; -1: none. Stays ours. */
    bool quiet;  /* its stdout and stderr go to /dev/null, else to our stderr */
};
/* status: the exit code, or 128 + signal number. The child object is gone afterwards. */
typedef void child_cb(void *arg, int status);
struct child;
/* The child gets SIGTERM when the daemon dies, however it dies (PR_SET_PDEATHSIG). */
struct child *child_start(const struct child_spec *spec, child_cb *cb, void *arg,
                          struct err *err);
int child_pid(const struct child *c);
void child_kill(struct child *c, int signo);
/* Forgets the callback; the child is still reaped. NULL is fine. */
void child_forget(struct child *c);

/* --- names to addresses --- */
struct resolve;
struct resolved {
    const struct sockaddr *addr;
    unsigned addr_len;
    const struct resolved *next;
};
/* list: in the order to try, borrowed until the callback returns; NULL with a reason. */
typedef void resolve_cb(void *arg, const struct resolved *list, const char *why);
struct resolve *resolve_start(const char *host, const char *port, resolve_cb *cb,
                              void *arg);
void resolve_cancel(struct resolve *r); /* no callback after this; NULL is fine */

#endif
