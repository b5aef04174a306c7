/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/sched.h"
#include "bridge/bridge.h"
#include "bridge/deliver.h"

enum {
    RECHECK_US = 10 * 1000 * 1000, /* what other instances left is found within this */
    AGAIN_MS = 100                 /* after a claim that Redis did not answer */
};

enum sched_next sched_next(const struct sched_view *v, int64_t *wait_us)
{
    *wait_us = v->until_due_us;
    if (v->until_due_us < 0 || v->until_due_us > SCHED_SLEEP_MAX_US)
        return SCHED_REST;
    if (v->until_due_us > 0)
        return SCHED_SLEEP;
    if (v->credit == 0)
        return SCHED_WAIT_CREDIT;
    bool worth = v->credit >= SCHED_WORTH || 2 * v->credit >= v->credit_max;
    if (v->gap_us == 0 || (worth && v->more))
        return SCHED_CLAIM;
    *wait_us = v->gap_us;
    return SCHED_SLEEP;
}

static void pump(struct sched *s);

static void on_timer(void *arg)
{
    pump(arg);
}

static unsigned credit(const struct sink *sink)
{
    unsigned used = sink->in_flight + sink->reserved;
    return used < sink->max_in_flight ? sink->max_in_flight - used : 0;
}

static void on_claim(void *arg, const struct claim_reply *reply);

static void claim(struct sched *s)
{
    struct sink *sink = s->route->sink;
    unsigned max = (unsigned)s->route->bridge->conf->daemon.batch_max_jobs;
    s->want = credit(sink) < max ? credit(sink) : max;
    s->claiming = true;
    sink->reserved += s->want;
    store_claim(s->bucket, s->want, s->route->conf->lease_ms, on_claim, s);
}

static void wait_for_credit(struct sched *s)
{
    if (s->listed)
        return;
    s->listed = true;
    TAILQ_INSERT_TAIL(&s->route->sink->waiting, s, link);
}

static void pump(struct sched *s)
{
    struct bridge *bridge = s->route->bridge;
    struct sink *sink = s->route->sink;
    int64_t now_us = loop_mono_us(), wait_us;
    if (!bridge->claiming || s->claiming || !store_is_up(bridge->store))
        return;
    if (bucket_hold_us(s->bucket) > 0) {
        timer_set(s->timer, AGAIN_MS);
        return;
    }
    struct sched_view view = {
        .until_due_us = s->head_ms < 0 ? -1
                                       : clock_until_us(store_clock(bridge->store),
                                                        now_us, s->head_ms),
        .gap_us = pacer_wait_us(&s->pacer, now_us, 1),
        .credit = credit(sink),
        .credit_max = sink->max_in_flight,
        .more = s->more,
    };
    switch (sched_next(&view, &wait_us)) {
    case SCHED_REST:
        timer_rest(s->timer);
        break;
    case SCHED_SLEEP:
        timer_set(s->timer, (wait_us + 999) / 1000);
        break;
    case SCHED_WAIT_CREDIT:
        wait_for_credit(s);
        break;
    case SCHED_CLAIM:
        claim(s);
        break;
    }
}

static void on_claim(void *arg, const struct claim_reply *reply)
{
    struct sched *s = arg;
    s->claiming = false;
    s->route->sink->reserved -= s->want;
    if (reply == NULL) {
        timer_set(s->timer, AGAIN_MS);
        return;
    }
    pacer_sent(&s->pacer, reply->count, loop_mono_us());
    s->more = reply->count == s->want;
    s->head_ms = reply->next_ms;
    if (reply->count > 0 && (s->lease_ms < 0 || reply->lease < s->lease_ms))
        s->lease_ms = reply->lease;
    for (unsigned i = 0; i < reply->count; i++)
        deliver(s, &reply->jobs[i], reply->lease, reply->now_ms);
    pump(s);
}

static void on_count(void *arg, const struct counts *counts)
{
    struct sched *s = arg;
    if (counts == NULL) {
        s->recheck_us = 0; /* at the next tick */
        return;
    }
    s->lease_ms = counts->lease_ms;
    sched_head(s, counts->head_ms);
}

void sched_look(struct sched *s)
{
    s->recheck_us = loop_mono_us() + RECHECK_US;
    store_count(s->bucket, on_count, s);
}

void sched_start(struct sched *s)
{
    sched_look(s);
}

void sched_head(struct sched *s, int64_t head_ms)
{
    s->head_ms = head_ms;
    pump(s);
}

static void reap(struct sched *s);

static void on_reap(void *arg, int64_t moved, int64_t lease_ms)
{
    struct sched *s = arg;
    s->reaping = false;
    if (moved < 0)
        return; /* the next tick asks again */
    s->lease_ms = lease_ms;
    if (moved > 0)
        log_warn(s->route->conf->name, "%lld jobs came back: their lease had ended",
                 (long long)moved);
    if (moved == s->route->bridge->conf->daemon.batch_max_jobs)
        reap(s);
}

static void reap(struct sched *s)
{
    s->reaping = true;
    store_reap(s->bucket, (unsigned)s->route->bridge->conf->daemon.batch_max_jobs,
               on_reap, s);
}

void sched_tick(struct sched *s)
{
    struct store *store = s->route->bridge->store;
    if (!store_is_up(store) || !s->route->bridge->claiming)
        return;
    if (s->lease_ms >= 0 && !s->reaping && s->lease_ms <= store_now_ms(store))
        reap(s);
    if (loop_mono_us() >= s->recheck_us)
        sched_look(s);
    else
        pump(s); /* a clock that was set is noticed within a second */
}

void sched_credit(struct sink *sink)
{
    while (!TAILQ_EMPTY(&sink->waiting) && credit(sink) > 0) {
        struct sched *s = TAILQ_FIRST(&sink->waiting);
        TAILQ_REMOVE(&sink->waiting, s, link);
        s->listed = false;
        pump(s);
    }
}

static void on_head(void *owner, int64_t head_ms)
{
    sched_head(owner, head_ms);
}

static void on_woken(void *owner)
{
    sched_look(owner);
}

static const struct bucket_events events = {on_head, on_woken, NULL};

void sched_init(struct sched *s, struct route *route, unsigned number)
{
    s->route = route;
    s->head_ms = s->lease_ms = -1;
    struct buf name = {0};
    buf_addf(&name, "%s/%u", route->conf->name, number);
    s->bucket = bucket_new(route->bridge->store, buf_str(&name), &events, s);
    buf_free(&name);
    s->timer = timer_new(on_timer, s);
}

void sched_fini(struct sched *s)
{
    timer_del(s->timer);
}
