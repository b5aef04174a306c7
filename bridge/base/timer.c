/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timer.c - the timers of loop.h: a sequence by deadline in microseconds and one timerfd.
 *
 * libuv's own timers use a cached clock in whole milliseconds, and so may fire up to a
 * millisecond and a turn early. These timers use the current time and never fire early.
 */
#include "bridge/base/loop.h"
#include "bridge/base/loop_internal.h"
#include "bridge/base/mem.h"

#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <glib.h>

#define DELAY_MAX_US (INT64_C(1000000) * 86400 * 365 * 100)

struct timer {
    int64_t deadline_us;
    uint64_t turn; /* turn in which it was set; it fires in a later turn */
    int64_t period_us;
    GSequenceIter *at; /* NULL: not set */
    loop_cb *cb;
    void *arg;
};

static struct {
    GSequence *set; /* equal deadlines: in the order of setting */
    int fd;
    struct watch *watch;
    int64_t armed_us; /* deadline of the timerfd; INT64_MAX: disarmed */
} timers;

static int by_deadline(const void *a, const void *b, void *arg)
{
    const struct timer *x = a, *y = b;
    (void)arg;
    return (x->deadline_us > y->deadline_us) - (x->deadline_us < y->deadline_us);
}

static void add(struct timer *t)
{
    t->turn = loop_wakeups();
    t->at = g_sequence_insert_sorted(timers.set, t, by_deadline, NULL);
}

static void take_out(struct timer *t)
{
    g_sequence_remove(t->at);
    t->at = NULL;
}

/* Returns the timer with the earliest deadline, or NULL. */
static struct timer *first(void)
{
    GSequenceIter *at = g_sequence_get_begin_iter(timers.set);
    return g_sequence_iter_is_end(at) ? NULL : g_sequence_get(at);
}

/* Sets the next deadline of a periodic timer: keeps the phase, skips missed periods. */
static void next_beat(struct timer *t, int64_t now_us)
{
    t->deadline_us += t->period_us;
    if (t->deadline_us <= now_us)
        t->deadline_us +=
            (now_us - t->deadline_us) / t->period_us * t->period_us + t->period_us;
    add(t);
}

/* Timers set in this turn fire in the next turn at the earliest, so that they cannot
 * block other timers or descriptors. */
void timers_fire(void)
{
    int64_t now_us = loop_mono_us();
    uint64_t turn = loop_wakeups();
    for (struct timer *t; (t = first()) && t->deadline_us <= now_us && t->turn != turn;) {
        take_out(t);
        if (t->period_us)
            next_beat(t, now_us);
        t->cb(t->arg);
    }
}

static void on_expiry(void *arg, unsigned events)
{
    (void)arg;
    (void)events;
    uint64_t expirations;
    while (read(timers.fd, &expirations, sizeof(expirations)) > 0)
        ;
    timers.armed_us = INT64_MAX;
    timers_fire();
}

void timers_init(void)
{
    timers.set = g_sequence_new(NULL);
    timers.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    must(timers.fd >= 0);
    timers.watch = watch_add(timers.fd, WATCH_READ, on_expiry, NULL);
    timers.armed_us = INT64_MAX;
}

bool timers_arm(void)
{
    const struct timer *t = first();
    if (t == NULL)
        return false;
    if (t->deadline_us <= loop_mono_us())
        return true;
    /* If a deadline was postponed, keep the timerfd: one idle wake-up is cheaper than a
     * system call per change. */
    if (t->deadline_us >= timers.armed_us)
        return false;
    timers.armed_us = t->deadline_us;
    struct itimerspec when = {.it_value = {.tv_sec = timers.armed_us / 1000000,
                                           .tv_nsec = timers.armed_us % 1000000 * 1000}};
    must(timerfd_settime(timers.fd, TFD_TIMER_ABSTIME, &when, NULL) == 0);
    return false;
}

void timers_fini(void)
{
    for (struct timer *t; (t = first());) {
        take_out(t);
        free(t);
    }
    g_sequence_free(timers.set);
    watch_del(timers.watch);
    close(timers.fd);
}

struct timer *timer_new(loop_cb *cb, void *arg)
{
    struct timer *t = mem_alloc(sizeof(*t));
    t->cb = cb;
    t->arg = arg;
    return t;
}

void timer_set_us(struct timer *t, int64_t delay_us)
{
    timer_stop(t);
    delay_us = delay_us < 0 ? 0 : delay_us > DELAY_MAX_US ? DELAY_MAX_US : delay_us;
    /* Adds 1, because the clock is truncated to microseconds. */
    t->deadline_us = loop_mono_us() + delay_us + (delay_us > 0);
    add(t);
}

void timer_set(struct timer *t, int64_t delay_ms)
{
    timer_set_us(t, delay_ms > DELAY_MAX_US / 1000 ? DELAY_MAX_US : delay_ms * 1000);
}

struct timer *timer_every(int64_t period_ms, loop_cb *cb, void *arg)
{
    must(period_ms > 0);
    struct timer *t = timer_new(cb, arg);
    t->period_us = period_ms * 1000;
    t->deadline_us = loop_mono_us() + t->period_us;
    if (period_ms % 1000 == 0)
        t->deadline_us = (t->deadline_us + 999999) / 1000000 * 1000000;
    add(t);
    return t;
}

void timer_stop(struct timer *t)
{
    if (t->at != NULL)
        take_out(t);
    t->period_us = 0;
}

bool timer_is_set(const struct timer *t)
{
    return t->at != NULL;
}

void timer_del(struct timer *t)
{
    if (t == NULL)
        return;
    timer_stop(t);
    loop_defer_free(t);
}
