/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_call.c - calls lua/pull.lua for the consumers of a queue: for whom, when, and
 * what happens with its reply.
 *
 * Each queue has at most one call in flight. It asks for the parked waiters first, so
 * they are served in the order of their arrival.
 */
#include "bridge/job/tries.h"
#include "bridge/queue/queue_place.h"
#include "bridge/engine/route_state.h"

#include <stdlib.h>

enum {
    NEWER_MS = 10000,            /* before a job of a newer tarry is pulled again */
    WAITERS_MAX = 256,           /* of one call */
    PARKED_FIRST = 16,           /* initial guess; doubles while all get a job */
    PAUSE_TOLERATED_US = 300000, /* longest pause of Redis that a call waits for */
    RECHECK_US = 10000000, /* interval of reading the queue, in case a wake-up was lost */
    RETRY_MS = 100,        /* after a call without an answer */
    SETTLE_MIN_MS = 50     /* leases that expire within this are settled in one call */
};

static void answer_fresh_waiters(struct queue *q)
{
    struct waiter *waiter, *next;
    for (waiter = TAILQ_FIRST(&q->fresh); waiter; waiter = next) {
        next = TAILQ_NEXT(waiter, link);
        pull_unanswered(waiter);
    }
}

/* --- one call --- */

static void grow_asked(struct queue *q)
{
    if (q->asked_count < q->asked_cap)
        return;
    q->asked_cap = q->asked_cap ? 2 * q->asked_cap : 4;
    q->asked = mem_realloc(q->asked, q->asked_cap * sizeof(struct waiter *));
}

/* Put the first waiters of a list into the call, at most limit; hold those whose route is
 * paused. Returns whether no other waiter is left. */
static bool add_waiters(struct queue *q, struct waiter_list *list, unsigned limit,
                        struct store_pull_want *wants)
{
    struct waiter *waiter, *next;
    unsigned n = 0;
    for (waiter = TAILQ_FIRST(list); waiter; waiter = next) {
        struct pull *p = waiter->pull;
        next = TAILQ_NEXT(waiter, link);
        if (p->asked_at)
            continue;
        if (!route_may_claim(waiter->route)) {
            pull_hold(waiter);
            continue;
        }
        if (n == limit || q->asked_count == WAITERS_MAX)
            return false;
        grow_asked(q);
        wants[q->asked_count] = (struct store_pull_want){p->lease_ms, p->max - p->got};
        q->asked[q->asked_count++] = waiter;
        p->asked_at = q;
        n++;
    }
    return true;
}

static int64_t until_us(const struct queue *q, int64_t at_ms, int64_t now_us)
{
    return at_ms < 0 ? -1 : clock_until_us(bucket_clock(q->bucket), now_us, at_ms);
}

/* Set the timer for the next call that needs no event. */
static void arm(struct queue *q, int64_t now_us)
{
    int64_t wait_us = -1;
    bool waiting = queue_has_waiters(q);
    int64_t lease_us = until_us(q, q->lease_ms, now_us);
    if (lease_us >= 0 && !waiting && lease_us < SETTLE_MIN_MS * 1000)
        lease_us = SETTLE_MIN_MS * 1000;
    const int64_t all[] = {waiting ? until_us(q, q->head_ms, now_us) : -1, lease_us,
                           waiting ? RECHECK_US : -1};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i] >= 0 && (wait_us < 0 || all[i] < wait_us))
            wait_us = all[i];
    if (wait_us < 0)
        timer_stop(q->timer);
    else
        timer_set_us(q->timer, wait_us);
}

/* Return how long Redis must not be asked; -1: it is unreachable; 0: it can be asked. */
static int64_t pause_us(const struct queue *q, int64_t now_us)
{
    if (!bucket_is_up(q->bucket))
        return -1;
    int64_t hold_us = bucket_pause_us(q->bucket);
    int64_t again_us = q->again_us > now_us ? q->again_us - now_us : 0;
    return hold_us > again_us ? hold_us : again_us;
}

static void on_pulled(void *arg, const struct store_pull_reply *reply);

/* Choose the waiters of the call. If a job may be due, parked waiters are first; fresh
 * ones join only if all parked ones fit. Else the call contains the fresh waiters, and
 * before them the first parked ones: a job that becomes due now must not go to newcomers.
 * Returns whether there are any. */
static bool choose_waiters(struct queue *q, bool due, struct store_pull_want *wants)
{
    if (q->guess < PARKED_FIRST)
        q->guess = PARKED_FIRST;
    q->asked_count = 0;
    bool all = true;
    if (due || !TAILQ_EMPTY(&q->fresh))
        all = add_waiters(q, &q->parked, due ? q->guess : PARKED_FIRST, wants);
    bool fresh = all || !due || q->passed_over;
    if (fresh)
        add_waiters(q, &q->fresh, WAITERS_MAX, wants);
    q->passed_over = !fresh;
    return q->asked_count > 0;
}

void queue_pump(struct queue *q)
{
    static struct store_pull_want wants[WAITERS_MAX]; /* one thread, one call at a time */
    int64_t now_us = loop_mono_us();
    if (q->pulling)
        return;
    int64_t pause = pause_us(q, now_us);
    if (pause < 0 || pause > PAUSE_TOLERATED_US)
        answer_fresh_waiters(q);
    if (pause != 0) {
        if (pause > 0)
            timer_set_us(q->timer, pause);
        else
            timer_stop(q->timer); /* until queue_look_all() */
        queue_leave(q);
        return;
    }
    bool due = q->stale || until_us(q, q->head_ms, now_us) == 0 ||
               now_us - q->looked_us >= RECHECK_US;
    bool settle = until_us(q, q->lease_ms, now_us) == 0;
    if (!choose_waiters(q, due, wants) && !settle) {
        arm(q, now_us);
        queue_leave(q);
        return;
    }
    q->pulling = true;
    q->stale = false;
    store_pull(q->bucket, q->sink->rules->lease_ms, wants, q->asked_count, on_pulled, q);
}

/* --- its reply --- */

static void complain(const struct queue *q, struct slice id, const char *err)
{
    const struct log_about about = {.sink = q->sink->conf->name, .job = id, .err = err};
    log_event(LOG_ERROR, &about, "the job cannot be read, queue %.*s", (int)q->name_n,
              q->name);
}

static void bury_unreadable(const struct queue *q, const struct store_pull_item *pulled)
{
    struct err err;
    struct tries tries;
    struct buf text = {0};
    tries_parse(pulled->tries, &tries);
    tries_set_reason(&tries, reason_name(REASON_UNDECODABLE));
    job_free(job_decode(pulled->id, pulled->record, NULL, &err));
    tries_set_error(&tries, err.text);
    tries_format(&tries, &text);
    complain(q, pulled->id, err.text);
    store_bury(q->bucket, pulled->id, pulled->lease, buf_slice(&text), NULL, NULL);
    buf_free(&text);
}

/* Return a job to its place; it does not count as a delivery. */
static void return_job(const struct queue *q, const struct store_pull_item *pulled)
{
    store_release(q->bucket, pulled->id, pulled->lease, pulled->due_us, false, 0, NULL,
                  NULL);
}

static void postpone_newer_job(const struct waiter *waiter,
                               const struct store_pull_item *pulled, int64_t now_ms)
{
    waiter->route->stats.newer++;
    const struct log_about about = {.route = waiter->route->conf->name,
                                    .job = pulled->id,
                                    .limit = &waiter->route->complain_newer};
    log_event(LOG_ERROR, &about,
              "a newer version of tarry wrote this job; it stays in Redis until that "
              "version runs");
    struct store_pull_item later = *pulled;
    later.due_us = (now_ms + NEWER_MS) * 1000;
    return_job(waiter->queue, &later);
}

/* Give the consumer n jobs; handles those that cannot be read. Returns how many it
 * got. */
static unsigned collect(const struct queue *q, const struct waiter *waiter,
                        const struct store_pull_item *pulled, unsigned n, int64_t now_ms)
{
    struct pull *p = waiter->pull;
    unsigned before = p->got;
    p->jobs = mem_realloc(p->jobs, (before + n) * sizeof(*p->jobs));
    for (unsigned i = 0; i < n; i++) {
        struct queue_job *job = &p->jobs[p->got];
        *job = (struct queue_job){.state = QUEUE_IN_FLIGHT,
                                  .at_ms = pulled[i].lease,
                                  .lease = pulled[i].lease,
                                  .ready_ms = pulled[i].due_us / 1000,
                                  .expires_ms = pulled[i].expires_ms,
                                  .now_ms = now_ms,
                                  .topic = waiter->topic,
                                  .due_us = pulled[i].due_us};
        if (pulled[i].record.n == 0) {
            complain(q, pulled[i].id, "the record of the job is missing in Redis");
        } else if (job_is_newer(pulled[i].record)) {
            postpone_newer_job(waiter, &pulled[i], now_ms);
        } else if (queue_read(q->sink->rules, NULL, pulled[i].id, pulled[i].record,
                              pulled[i].tries, job) == NULL) {
            bury_unreadable(q, &pulled[i]);
        } else {
            job->id = job->job->id; /* pulled's memory is freed earlier */
            p->got++;
        }
    }
    return p->got - before;
}

/* Hand out n jobs to a consumer. A fresh one that gathers also asks its other queues. */
static void hand_out(struct queue *q, struct waiter *waiter,
                     const struct store_pull_item *pulled, unsigned n, int64_t now_ms)
{
    struct pull *p = waiter->pull;
    bool parked = waiter->where == WAITER_PARKED;
    if (collect(q, waiter, pulled, n, now_ms) == 0) {
        if (p->timer == NULL && parked)
            pull_give_up(p);
        return; /* else the next call asks again */
    }
    if (parked || !p->gather || p->got >= p->max) {
        pull_answer(p);
        return;
    }
    p->answered = true;
    pull_ask_elsewhere(waiter);
}

/* No job for the waiter. reached: false if the call handed out its maximum before this
 * waiter. */
static void got_none(struct waiter *waiter, bool answered, bool reached)
{
    struct pull *p = waiter->pull;
    if (!answered) {
        pull_unanswered(waiter);
    } else if (waiter->where == WAITER_PARKED) {
        if (p->timer == NULL)
            pull_give_up(p);
    } else if (reached) {
        p->answered = true;
        pull_ask_elsewhere(waiter);
    } /* else the waiter stays where it is */
}

/* The consumer is no longer part of a call, so its other queues can ask for it. */
static void list_other_queues(const struct pull *p)
{
    for (unsigned i = 0; p->waiter_count > 1 && i < p->waiter_count; i++)
        if (p->waiters[i].where == WAITER_PARKED)
            queue_list_due(p->waiters[i].queue);
}

static void on_pulled(void *arg, const struct store_pull_reply *reply)
{
    struct queue *q = arg;
    unsigned at = 0, parked = 0, served = 0;
    bool reached = reply == NULL || reply->count < QUEUE_PULL_MAX;
    q->pulling = false;
    if (reply) {
        q->head_ms = reply->head_ms;
        q->lease_ms = reply->lease_ms;
        q->known |= reply->count > 0;
        q->looked_us = loop_mono_us();
    } else {
        q->stale = true; /* the wake-up still counts */
        q->again_us = loop_mono_us() + RETRY_MS * 1000;
    }
    for (unsigned i = 0; i < q->asked_count; i++) {
        struct waiter *waiter = q->asked[i];
        struct pull *p = waiter->pull;
        unsigned n = 0;
        while (reply && at + n < reply->count && reply->items[at + n].consumer == i + 1)
            n++;
        p->asked_at = NULL;
        parked += waiter->where == WAITER_PARKED;
        served += n > 0 && waiter->where == WAITER_PARKED;
        for (unsigned k = 0; p->gone && k < n; k++)
            return_job(q, &reply->items[at + k]);
        list_other_queues(p);
        if (p->gone)
            pull_free(p);
        else if (n > 0)
            hand_out(q, waiter, reply->items + at, n, reply->now_ms);
        else
            got_none(waiter, reply != NULL, reached);
        at += n;
    }
    if (parked > 0)
        q->guess = served == parked ? 2 * q->guess : PARKED_FIRST;
    if (q->guess > WAITERS_MAX)
        q->guess = WAITERS_MAX;
    queue_list_due(q); /* other jobs may be due by now */
}
