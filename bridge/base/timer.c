/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timer.c - the timers of loop.h: a heap of deadlines in microseconds and one timerfd.
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

enum { AT_REST = -1 };
#define DELAY_MAX_US (INT64_C(1000000) * 86400 * 365 * 100)

struct timer {
    int64_t deadline_us;
    uint64_t order; /* sequence of setting; equal deadlines fire in this order */
    uint64_t turn;  /* turn in which it was set; it fires in a later turn */
    int64_t period_us;
    int index; /* position in the heap, or AT_REST */
    loop_cb *cb;
    void *arg;
};

static struct {
    struct timer **heap;
    int n, cap;
    uint64_t order;
    int fd;
    struct watch *watch;
    int64_t armed_us; /* deadline of the timerfd; INT64_MAX: disarmed */
} timers;

static bool earlier(const struct timer *a, const struct timer *b)
{
    if (a->deadline_us != b->deadline_us)
        return a->deadline_us < b->deadline_us;
    return a->order < b->order;
}

static void place(struct timer *t, int index)
{
    timers.heap[index] = t;
    t->index = index;
}

static void sift_up(struct timer *t, int i)
{
    while (i > 0 && earlier(t, timers.heap[(i - 1) / 2])) {
        place(timers.heap[(i - 1) / 2], i);
        i = (i - 1) / 2;
    }
    place(t, i);
}

static void sift_down(struct timer *t, int i)
{
    for (;;) {
        int child = 2 * i + 1;
        if (child >= timers.n)
            break;
        if (child + 1 < timers.n && earlier(timers.heap[child + 1], timers.heap[child]))
            child++;
        if (!earlier(timers.heap[child], t))
            break;
        place(timers.heap[child], i);
        i = child;
    }
    place(t, i);
}

static void heap_add(struct timer *t)
{
    if (timers.n == timers.cap) {
        timers.cap = timers.cap ? timers.cap * 2 : 64;
        timers.heap = mem_realloc(timers.heap, (size_t)timers.cap * sizeof(*timers.heap));
    }
    t->order = timers.order++;
    t->turn = loop_wakeups();
    sift_up(t, timers.n++);
}

static void heap_remove(struct timer *t)
{
    int i = t->index;
    t->index = AT_REST;
    struct timer *last = timers.heap[--timers.n];
    if (last == t)
        return;
    if (i > 0 && earlier(last, timers.heap[(i - 1) / 2]))
        sift_up(last, i);
    else
        sift_down(last, i);
}

/* Sets the next deadline of a periodic timer: keeps the phase, skips missed periods. */
static void next_beat(struct timer *t, int64_t now_us)
{
    t->deadline_us += t->period_us;
    if (t->deadline_us <= now_us)
        t->deadline_us +=
            (now_us - t->deadline_us) / t->period_us * t->period_us + t->period_us;
    heap_add(t);
}

/* Timers set in this turn fire in the next turn at the earliest, so that they cannot
 * block other timers or descriptors. */
void timers_fire(void)
{
    int64_t now_us = loop_mono_us();
    uint64_t turn = loop_wakeups();
    while (timers.n > 0) {
        struct timer *t = timers.heap[0];
        if (t->deadline_us > now_us || t->turn == turn)
            break;
        heap_remove(t);
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
    timers.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    must(timers.fd >= 0);
    timers.watch = watch_add(timers.fd, WATCH_READ, on_expiry, NULL);
    timers.armed_us = INT64_MAX;
}

bool timers_arm(void)
{
    if (timers.n == 0)
        return false;
    if (timers.heap[0]->deadline_us <= loop_mono_us())
        return true;
    /* If a deadline was postponed, keep the timerfd: one idle wake-up is cheaper than a
     * system call per change. */
    if (timers.heap[0]->deadline_us >= timers.armed_us)
        return false;
    timers.armed_us = timers.heap[0]->deadline_us;
    struct itimerspec when = {.it_value = {.tv_sec = timers.armed_us / 1000000,
                                           .tv_nsec = timers.armed_us % 1000000 * 1000}};
    must(timerfd_settime(timers.fd, TFD_TIMER_ABSTIME, &when, NULL) == 0);
    return false;
}

void timers_fini(void)
{
    for (int i = 0; i < timers.n; i++)
        free(timers.heap[i]);
    free(timers.heap);
    watch_del(timers.watch);
    close(timers.fd);
    timers.heap = NULL;
    timers.n = timers.cap = 0;
}

struct timer *timer_new(loop_cb *cb, void *arg)
{
    struct timer *t = mem_alloc(sizeof(*t));
    t->index = AT_REST;
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
    heap_add(t);
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
    heap_add(t);
    return t;
}

void timer_stop(struct timer *t)
{
    if (t->index != AT_REST)
        heap_remove(t);
    t->period_us = 0;
}

bool timer_is_set(const struct timer *t)
{
    return t->index != AT_REST;
}

void timer_del(struct timer *t)
{
    if (t == NULL)
        return;
    timer_stop(t);
    loop_defer_free(t);
}
