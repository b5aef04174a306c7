/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/deliver.h"
#include "bridge/bridge.h"
#include "bridge/emit.h"
#include "bridge/sched.h"
#include "bridge/tries.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    DEAD_FIRST_MS =
        1000, /* a failing dead-letter sink is tried again after this, doubling, */
    DEAD_MAX_MS = 60000, /* never less often than this, and without end */
    NO_CREDIT_MS = 250,  /* the dead-letter sink is busy */
    LEASES_LOST = 3      /* by crashes of ours, not counted by the retry schedule */
};

struct handover {
    struct delivery d; /* what the sink sees; first, so that d is the hand-over */
    struct sched *sched;
    struct sink *sink; /* the route's own, or its dead-letter sink */
    struct job *job;
    struct tries tries; /* as they stood at the claim */
    int64_t lease;
    int64_t started_us;
};

const struct header *delivery_header(const struct delivery *d, const char *name)
{
    for (unsigned i = 0; i < d->header_count; i++)
        if (slice_is_nocase(d->headers[i].name, name))
            return &d->headers[i];
    return NULL;
}

static void on_retried(void *arg, char code)
{
    struct route *route = arg;
    if (code == 'x')
        route->stats.stale++;
}

struct burial {
    struct route *route;
    enum reason reason;
};

static void on_buried(void *arg, char code)
{
    struct burial *burial = arg;
    if (code == 'b')
        burial->route->stats.dead[burial->reason]++;
    else if (code == 'x')
        burial->route->stats.stale++;
    free(burial);
}

static void retry(struct sched *s, struct slice id, int64_t lease, int64_t wait_ms,
                  const struct tries *tries)
{
    struct buf text = {0};
    tries_format(tries, &text);
    store_retry(s->bucket, id, lease, store_now_ms(s->route->bridge->store) + wait_ms,
                buf_slice(&text), on_retried, s->route);
    buf_free(&text);
}

static void bury(struct sched *s, struct slice id, int64_t lease,
                 const struct tries *tries)
{
    struct burial *burial = mem_alloc(sizeof(*burial));
    struct buf text = {0};
    *burial = (struct burial){s->route, reason_find(tries->reason)};
    tries_format(tries, &text);
    store_bury(s->bucket, id, lease, buf_slice(&text), on_buried, burial);
    buf_free(&text);
}

/* The job is given up. With a dead-letter sink it goes back with its reason noted, due
 * now, and the next claim hands it to that sink. */
static void give_up(struct sched *s, struct slice id, int64_t lease, struct tries *tries,
                    const char *reason)
{
    tries_set_reason(tries, reason);
    log_limited(&s->route->complain, LOG_WARN, s->route->conf->name,
                "job %.*s given up, %s: %s", SLICE_ARG(id), reason, tries->error);
    if (s->route->dead)
        retry(s, id, lease, 0, tries);
    else
        bury(s, id, lease, tries);
}

static void failed(struct handover *h, const char *why, int64_t wait_ms)
{
    const struct retry_policy *policy = &h->sched->route->conf->retry;
    double random = (double)rand() / ((double)RAND_MAX + 1); /* jitter only */
    int64_t own = h->job->tries_max; /* beats the limit of the route */
    int64_t policy_ms = own == 0 ? retry_delay_ms(policy, h->tries.attempts, random)
                        : h->tries.attempts < own
                            ? retry_wait_ms(policy, h->tries.attempts, random)
                            : RETRY_GIVE_UP;
    tries_set_error(&h->tries, why);
    if (policy_ms == RETRY_GIVE_UP) {
        give_up(h->sched, h->job->id, h->lease, &h->tries, reason_name(REASON_RETRIES));
        return;
    }
    h->sched->route->stats.retried++;
    retry(h->sched, h->job->id, h->lease, policy_ms > wait_ms ? policy_ms : wait_ms,
          &h->tries);
}

static void on_delivered(struct handover *h, const char *why)
{
    (void)why;
    h->sched->route->stats.delivered++;
    store_ack(h->sched->bucket, h->job->id, h->lease, NULL, NULL);
}

static void on_try_again(struct handover *h, const char *why)
{
    failed(h, why, h->d.retry_after_ms);
}

static void on_rejected(struct handover *h, const char *why)
{
    tries_set_error(&h->tries, why);
    give_up(h->sched, h->job->id, h->lease, &h->tries, reason_name(REASON_REJECTED));
}

/* The dead-letter sink has it. */
static void on_dead_delivered(struct handover *h, const char *why)
{
    (void)why;
    bury(h->sched, h->job->id, h->lease, &h->tries);
}

static void on_dead_failed(struct handover *h, const char *why)
{
    unsigned n = h->tries.dead_tries++;
    int64_t wait_ms = n < 6 ? (int64_t)DEAD_FIRST_MS << n : DEAD_MAX_MS;
    if (wait_ms < h->d.retry_after_ms)
        wait_ms = h->d.retry_after_ms;
    log_limited(&h->sched->route->complain_dead, LOG_WARN, h->sched->route->conf->name,
                "dead-letter sink %s failed, the job stays: %s", sink_name(h->sink), why);
    retry(h->sched, h->job->id, h->lease, wait_ms, &h->tries);
}

static void (*const outcomes[2][3])(struct handover *h, const char *why) = {
    {[DELIVERED] = on_delivered, [TRY_AGAIN] = on_try_again, [REJECTED] = on_rejected},
    {[DELIVERED] = on_dead_delivered,
     [TRY_AGAIN] = on_dead_failed,
     [REJECTED] = on_dead_failed},
};

void delivery_done(struct delivery *d, enum outcome outcome, const char *why)
{
    struct handover *h = (struct handover *)d;
    struct sink *sink = h->sink;
    bool dead = h->tries.reason[0] != '\0';
    double seconds = (double)(loop_mono_us() - h->started_us) / 1e6;

    sink->stats.outcomes[outcome]++;
    histogram_add(&sink->stats.duration[outcome], seconds);
    sink->in_flight--;
    h->sched->route->in_flight--;
    if (!dead) {
        h->tries.attempts++;
        h->tries.last_ms = store_now_ms(sink->bridge->store);
        if (h->tries.first_ms == 0)
            h->tries.first_ms = h->tries.last_ms;
    }
    outcomes[dead][outcome](h, why ? why : "");
    job_free(h->job);
    free(h);
}

/* When a job that its dead-letter sink has no room for may ask again: each its own time,
 * so that many of them do not keep Redis busy with coming and going. */
static int64_t dead_slot_ms(struct route *route)
{
    int64_t now_ms = loop_mono_ms(), step_ms = NO_CREDIT_MS / route->dead->max_in_flight;
    int64_t slot_ms = route->dead_slot_ms + (step_ms > 0 ? step_ms : 1);
    route->dead_slot_ms =
        slot_ms > now_ms + NO_CREDIT_MS ? slot_ms : now_ms + NO_CREDIT_MS;
    return route->dead_slot_ms - now_ms;
}

/* Leases were lost so often that the job itself may be what ends them. */
static bool is_poison(const struct route *route, const struct job *job,
                      const struct tries *tries)
{
    if (job->tries_max > 0)
        return (int64_t)tries->attempts - LEASES_LOST > job->tries_max;
    return tries->attempts > LEASES_LOST &&
           retry_delay_ms(&route->conf->retry, tries->attempts - LEASES_LOST, 0.5) ==
               RETRY_GIVE_UP;
}

/* What is left to do for a job that can't be handed over. */
static bool turned_away(struct sched *s, const struct claimed *claimed,
                        struct tries *tries, const struct job *job, int64_t lease,
                        int64_t now_ms, const struct err *err)
{
    if (claimed->record.n == 0) {
        log_error(s->route->conf->name, "job %.*s: its body is missing in Redis",
                  SLICE_ARG(claimed->id));
        return true;
    }
    if (job == NULL) {
        tries_set_error(tries, err->text);
        tries_set_reason(tries, reason_name(REASON_UNDECODABLE));
        bury(s, claimed->id, lease, tries);
        return true;
    }
    if (tries->reason[0] == '\0' && job->expires_ms > 0 && job->expires_ms < now_ms) {
        tries_set_error(tries, "deliver-before had passed");
        give_up(s, claimed->id, lease, tries, reason_name(REASON_EXPIRED));
        return true;
    }
    if (tries->reason[0] == '\0' && is_poison(s->route, job, tries)) {
        give_up(s, claimed->id, lease, tries, reason_name(REASON_RETRIES));
        return true;
    }
    struct sink *dead = tries->reason[0] ? s->route->dead : NULL;
    if (tries->reason[0] && dead == NULL) { /* the route lost its dead-letter sink */
        bury(s, claimed->id, lease, tries);
        return true;
    }
    if (dead && dead->in_flight >= dead->max_in_flight) {
        retry(s, claimed->id, lease, dead_slot_ms(s->route), tries);
        return true;
    }
    return false;
}

static void hand_over(struct handover *h, int64_t now_ms)
{
    struct route *route = h->sched->route;
    struct sink *sink = h->sink;
    route->in_flight++;
    sink->in_flight++;
    h->started_us = loop_mono_us();
    if (h->tries.reason[0] != '\0')
        ; /* a dead letter's way is not measured */
    else if (h->tries.attempts > 0)
        route->stats.redelivered++;
    else
        histogram_add(&route->stats.lateness, (double)(now_ms - h->job->due_ms) / 1000);
    sink->ops->deliver(sink, sink->self, &h->d);
}

void deliver(struct sched *s, const struct claimed *claimed, int64_t lease,
             int64_t now_ms)
{
    struct route *route = s->route;
    struct err err = {{0}};
    struct tries tries;
    tries_parse(claimed->tries, &tries);
    struct job *job =
        claimed->record.n ? job_decode(claimed->id, claimed->record, &err) : NULL;
    if (turned_away(s, claimed, &tries, job, lease, now_ms, &err)) {
        job_free(job);
        return;
    }
    struct handover *h = mem_alloc(sizeof(*h));
    bool dead = tries.reason[0] != '\0';
    h->sched = s;
    h->sink = dead ? route->dead : route->sink;
    h->job = job;
    h->tries = tries;
    h->lease = lease;
    h->d.job = job;
    h->d.attempt = dead ? tries.attempts : tries.attempts + 1;
    h->d.timeout_ms = h->sink->timeout_ms;
    h->d.target = job->target;
    if (dead && emit_dead_target(route, job, &h->d, &err) < 0) {
        on_dead_failed(h, err.text);
        job_free(job);
        free(h);
        return;
    }
    emit_headers(route, job, &tries, store_now_ms(route->bridge->store), &h->d);
    hand_over(h, now_ms);
}
