/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop.h - the event loop: file descriptors, timers, other threads, signals, children.
 *
 * One loop in one thread owns all state of the daemon. Every function here must be called
 * on that thread, except loop_post(). Callbacks run on the loop thread and must return at
 * once. An object deleted in a callback receives no further callback; its memory is
 * released at the end of the turn.
 *
 * A turn: wait for events, call the callbacks of events, timers and posts, run deferred
 * calls, call the hooks of loop_each_turn().
 */
#ifndef BRIDGE_LOOP_H
#define BRIDGE_LOOP_H

#include "bridge/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addrinfo;

typedef void loop_cb(void *arg);

void loop_init(void);
void loop_run(void);  /* until loop_stop() */
void loop_stop(void); /* loop_run() returns at the end of this turn */
void loop_fini(void); /* after loop_run(); closes everything still open */

/* CLOCK_MONOTONIC, read at each call; any thread. */
int64_t loop_mono_ms(void);
int64_t loop_mono_us(void);
/* This host's wall clock, ms since 1970; any thread. Due times use the clock of Redis
 * instead. */
int64_t loop_wall_ms(void);

/* Returns the number of turns that an event started. An idle daemon makes fewer than five
 * per second. */
uint64_t loop_wakeups(void);

/* --- other threads, deferred calls --- */
/* Any thread. Calls fn(arg) on the loop thread, in the order of posting. */
void loop_post(loop_cb *fn, void *arg);
/* Calls fn(arg) at the end of this turn. */
void loop_defer(loop_cb *fn, void *arg);
/* Calls free(p) at the end of this turn. NULL is allowed. */
void loop_defer_free(void *p);

/* Calls fn(arg) once at the end of every turn, to send batched work. The newest hook runs
 * first: listeners, created late, can still submit work that the store, created early,
 * sends in the same turn. */
struct turn_hook;
struct turn_hook *loop_each_turn(loop_cb *fn, void *arg);
void turn_hook_del(struct turn_hook *h); /* NULL is allowed */

/* --- file descriptors --- */
enum { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_ERROR = 4 };
/* events: the events that occurred. WATCH_ERROR is always reported, together with the
 * requested events, so that the next read or write returns the error. */
typedef void watch_cb(void *arg, unsigned events);
struct watch;
/* The caller keeps ownership of fd, which must stay open until watch_del(). */
struct watch *watch_add(int fd, unsigned events, watch_cb *cb, void *arg);
void watch_set(struct watch *w, unsigned events); /* 0: no events */
void watch_del(struct watch *w);                  /* NULL is allowed */

/* --- timers, monotonic, never early --- */
struct timer;
struct timer *timer_new(loop_cb *cb, void *arg); /* not running until timer_set() */
/* Calls the callback once after delay_ms (0: in the next turn). Replaces the earlier
 * setting. */
void timer_set(struct timer *t, int64_t delay_ms);
void timer_set_us(struct timer *t, int64_t delay_us);
/* Calls cb every period_ms. Timers with a period of whole seconds share one turn. */
struct timer *timer_every(int64_t period_ms, loop_cb *cb, void *arg);
void timer_stop(struct timer *t); /* stops it until timer_set() */
bool timer_is_set(const struct timer *t);
void timer_del(struct timer *t); /* NULL is allowed */

/* --- signals --- */
/* Calls cb for each received signal until loop_fini(). loop_fini() makes the process
 * ignore these signals, except SIGCHLD. */
typedef void signal_cb(void *arg, int signo);
void loop_on_signal(int signo, signal_cb *cb, void *arg);

/* --- children --- */
struct child_spec {
    const char *const *argv; /* ends with NULL; argv[0] is looked up in PATH */
    const char *const *env;  /* "NAME=value", added to our environment; NULL: none */
    const char *dir;         /* working directory; NULL: ours */
    int pass_fd; /* becomes descriptor 3 of the child; -1: none. Stays the caller's. */
    bool quiet;  /* true: stdout and stderr to /dev/null; false: to our stderr */
};
/* status: the exit code, 128 + signal number, or CHILD_STATUS_UNKNOWN if other code has
 * reaped the child. The child object is freed afterwards. */
enum { CHILD_STATUS_UNKNOWN = -1 };
typedef void child_cb(void *arg, int status);
struct child;
/* Starts a child. It receives SIGTERM if the daemon dies for any reason
 * (PR_SET_PDEATHSIG). */
struct child *child_start(const struct child_spec *spec, child_cb *cb, void *arg,
                          struct err *err);
int child_pid(const struct child *c);
void child_kill(struct child *c, int signo);
/* Drops the callback; the loop still reaps the child. NULL is allowed. */
void child_forget(struct child *c);

/* --- name resolution --- */
struct resolve;
/* list: addresses in the order to try, borrowed until the callback returns. NULL: why
 * contains the reason. */
typedef void resolve_cb(void *arg, const struct addrinfo *list, const char *why);
struct resolve *resolve_start(const char *host, const char *port, resolve_cb *cb,
                              void *arg);
void resolve_cancel(struct resolve *r); /* no callback after this; NULL is allowed */

#endif
