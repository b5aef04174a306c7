/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_pull.c - consumers that pull: which consumer waits for which queue.
 *
 * A new consumer is a fresh waiter of its first queue: the next call asks for it,
 * whatever is known of the queue. If none of its queues had a job, it is parked at each
 * of them, and asked for when a job is due there (queue_call.c). While its route is
 * paused the waiter is held: no call asks for it.
 */
#include "bridge/queue/queue_place.h"
#include "bridge/engine/route_state.h"

#include <stdlib.h>

static void leave_waiter(struct waiter *waiter)
{
    if (waiter->where != WAITER_AWAY)
        waiter->queue->waiters--;
    if (waiter->where == WAITER_FRESH)
        TAILQ_REMOVE(&waiter->queue->fresh, waiter, link);
    else if (waiter->where == WAITER_PARKED)
        TAILQ_REMOVE(&waiter->queue->parked, waiter, link);
    waiter->where = WAITER_AWAY;
}

static void take_waiter(struct waiter *waiter, bool parked)
{
    struct queue *q = waiter->queue;
    q->waiters++;
    waiter->where = parked ? WAITER_PARKED : WAITER_FRESH;
    if (parked)
        TAILQ_INSERT_TAIL(&q->parked, waiter, link);
    else
        TAILQ_INSERT_TAIL(&q->fresh, waiter, link);
    queue_list_due(q);
}

/* Return the jobs of a consumer that has disconnected to their places; they do not count
 * as deliveries. */
static void free_jobs(struct pull *p)
{
    for (unsigned i = 0; i < p->got; i++) {
        const struct queue_job *job = &p->jobs[i];
        if (p->gone)
            store_release(p->waiters[job->topic].queue->bucket, job->id, job->lease,
                          job->due_us, false, 0, NULL, NULL);
        job_free((struct job *)job->job);
    }
    free(p->jobs);
}

void pull_free(struct pull *p)
{
    free_jobs(p);
    for (unsigned i = 0; i < p->waiter_count; i++) {
        leave_waiter(&p->waiters[i]);
        if (p->waiters[i].queue == NULL)
            continue;
        p->waiters[i].queue->refs--;
        queue_leave(p->waiters[i].queue);
        p->waiters[i].route->refs--;
    }
    timer_del(p->timer);
    TAILQ_REMOVE(&p->src->bridge->pulls, p, link);
    p->src->open--;
    free(p);
}

static void answer_empty(struct pull *p, enum queue_code code)
{
    p->cb(p->arg, code, NULL, 0);
    pull_free(p);
}

static void measure_delivery(const struct waiter *waiter, const struct queue_job *job)
{
    struct route_stats *stats = &waiter->route->stats;
    int64_t due_ms = (job->due_us + 999) / 1000;
    waiter->queue->sink->queue_stats.handed++;
    if (job->attempts > 1)
        stats->redelivered++;
    else
        histogram_add(
            &stats->lateness,
            (double)route_state_lateness_ms(waiter->route, due_ms, job->now_ms) / 1000);
}

void pull_answer(struct pull *p)
{
    for (unsigned i = 0; i < p->got; i++)
        measure_delivery(&p->waiters[p->jobs[i].topic], &p->jobs[i]);
    p->cb(p->arg, QUEUE_OK, p->jobs, p->got);
    pull_free(p);
}

void pull_give_up(struct pull *p)
{
    if (p->got > 0)
        pull_answer(p);
    else
        answer_empty(p, p->answered ? QUEUE_NONE : QUEUE_AWAY);
}

/* Add the consumer as fresh waiter of its next queue. After the last queue, park it at
 * all queues, or call its callback. */
static void ask_next(struct pull *p)
{
    while (p->turn < p->waiter_count && p->waiters[p->turn].queue == NULL)
        p->turn++;
    if (p->turn < p->waiter_count) {
        take_waiter(&p->waiters[p->turn], false);
        return;
    }
    p->answered |= p->queueless;
    if (p->got > 0 || p->timer == NULL || p->src->bridge->draining ||
        p->src->use != PART_USED) {
        pull_give_up(p);
        return;
    }
    for (unsigned i = 0; i < p->waiter_count; i++)
        if (p->waiters[i].queue)
            take_waiter(&p->waiters[i], true);
}

void pull_ask_elsewhere(struct waiter *waiter)
{
    leave_waiter(waiter);
    waiter->pull->turn++;
    ask_next(waiter->pull);
}

/* Continue from the loop: no topic has a queue or a route, or the waiter was held. */
static void on_deferred(void *arg)
{
    struct pull *p = arg;
    p->deferred = false;
    if (p->gone)
        pull_free(p);
    else if (p->turn > p->waiter_count)
        answer_empty(p, QUEUE_NO_ROUTE);
    else
        ask_next(p);
}

void pull_hold(struct waiter *waiter)
{
    struct pull *p = waiter->pull;
    bool fresh = waiter->where == WAITER_FRESH;
    p->answered |= waiter->route->state == ROUTE_PAUSED; /* as if no job were due */
    leave_waiter(waiter);
    if (fresh) {
        p->turn++;
        p->deferred = true;
        loop_defer(on_deferred, p);
    } else {
        waiter->where = WAITER_HELD;
        waiter->queue->waiters++;
    }
}

void pull_resume_held(struct bridge *bridge)
{
    struct pull *p;
    TAILQ_FOREACH (p, &bridge->pulls, link)
        for (unsigned i = 0; i < p->waiter_count; i++)
            if (p->waiters[i].where == WAITER_HELD &&
                route_may_claim(p->waiters[i].route)) {
                leave_waiter(&p->waiters[i]);
                take_waiter(&p->waiters[i], true);
            }
}

void pull_unanswered(struct waiter *waiter)
{
    struct pull *p = waiter->pull;
    if (waiter->where == WAITER_FRESH && p->turn + 1 < p->waiter_count) {
        pull_ask_elsewhere(waiter);
    } else if (p->timer == NULL || p->got > 0) {
        pull_give_up(p);
    }
}

/* --- the plugin's interface --- */

/* The wait is over: like a consumer that does not wait, it is asked for once if it was
 * not yet. */
static void on_late(void *arg)
{
    struct pull *p = arg;
    timer_del(p->timer);
    p->timer = NULL;
    if (p->asked_at || p->deferred)
        return;
    const struct waiter *waiter = p->turn < p->waiter_count ? &p->waiters[p->turn] : NULL;
    if (waiter && waiter->where == WAITER_FRESH)
        queue_list_due(waiter->queue);
    else
        pull_give_up(p);
}

struct pull *queue_pull(struct source *src, const struct queue_ask *ask,
                        queue_pull_cb *cb, void *arg)
{
    struct pull *p = mem_alloc(sizeof(*p) + ask->topic_count * sizeof(p->waiters[0]));
    bool placed = false, queued = false;
    p->src = src;
    p->cb = cb;
    p->arg = arg;
    p->max = ask->max < QUEUE_PULL_MAX ? ask->max : QUEUE_PULL_MAX;
    p->lease_ms = ask->lease_ms;
    p->gather = ask->gather;
    p->waiter_count = ask->topic_count;
    for (unsigned i = 0; i < ask->topic_count; i++) {
        struct place place;
        place_find(src, ask->topics[i], (struct slice){NULL, 0}, &place);
        p->waiters[i] = (struct waiter){
            .pull = p, .queue = place.queue, .route = place.route, .topic = i};
        placed |= place.code == QUEUE_OK;
        queued |= place.queue != NULL;
        if (place.queue == NULL)
            continue;
        place.queue->refs++;
        place.route->refs++;
    }
    TAILQ_INSERT_TAIL(&src->bridge->pulls, p, link);
    src->open++;
    if (ask->wait_ms > 0 && placed && src->use == PART_USED) {
        p->timer = timer_new(on_late, p);
        timer_set(p->timer, ask->wait_ms);
    }
    p->queueless = !queued;
    if (queued) {
        ask_next(p);
    } else {
        p->deferred = true;
        p->turn = placed ? 0 : p->waiter_count + 1;
        loop_defer(on_deferred, p);
    }
    return p;
}

void queue_pull_end(struct pull *p)
{
    p->gone = true;
    if (p->asked_at == NULL && !p->deferred)
        pull_free(p);
}

static void end_wait(struct pull *p)
{
    p->answered = true;
    if (p->timer && !p->gone)
        timer_set(p->timer, 0);
}

void queue_end_waits(struct bridge *bridge, const struct source *src)
{
    struct pull *p;
    TAILQ_FOREACH (p, &bridge->pulls, link)
        if (src == NULL || p->src == src)
            end_wait(p);
}

static bool waits_at(const struct pull *p, const struct route *route)
{
    for (unsigned i = 0; i < p->waiter_count; i++)
        if (p->waiters[i].queue && p->waiters[i].route == route)
            return true;
    return false;
}

void queue_end_waits_at(struct route *route)
{
    struct pull *p;
    TAILQ_FOREACH (p, &route->bridge->pulls, link)
        if (waits_at(p, route))
            end_wait(p);
}
