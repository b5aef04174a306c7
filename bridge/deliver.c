/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/deliver.h"
#include "bridge/about.h"
#include "bridge/admin/tap.h"
#include "bridge/base/retry.h"
#include "bridge/bridge.h"
#include "bridge/emit.h"
#include "bridge/job/tries.h"
#include "bridge/pace/pace.h"
#include "bridge/route.h"
#include "bridge/sched.h"
#include "bridge/settle.h"

#include <stdlib.h>

enum {
    DEAD_FIRST_MS =
        1000, /* a failing dead-letter sink is tried again after this, doubling, */
    DEAD_MAX_MS = 60000, /* never less often than this, and without end */
    NO_CREDIT_MS = 250,  /* the dead-letter sink is busy */
    NEWER_MS = 10000,  /* until a job that only a newer tarry can read is claimed again */
    STOPPED_MS = 1000, /* until a job asks again whether its target goes on */
    LEASES_LOST = 3    /* by crashes of ours, not counted by the retry schedule */
};

struct handover {
    struct delivery d; /* what the sink sees; first, so that d is the hand-over */
    struct leased l;
    struct sink *sink; /* the route's own, or its dead-letter sink */
    struct dead_letter letter;
    int64_t started_us;
    int64_t claim_us; /* when the claim was sent: the lease began no earlier */
    int64_t lateness_ms;
};

const struct header *delivery_header(const struct delivery *d, const char *name)
{
    for (unsigned i = 0; i < d->header_count; i++)
        if (slice_is_nocase(d->headers[i].name, name))
            return &d->headers[i];
    return NULL;
}

static struct route *route_of(const struct handover *h)
{
    return h->l.sched->route;
}

/* --- outcomes --- */

/* About an attempt that failed. */
static void complain(const struct handover *h, struct log_limit *limit, const char *why,
                     const char *text)
{
    struct log_about about = about_job(route_of(h), h->l.id, h->l.job);
    about.sink = sink_name(h->sink);
    about.attempt = h->l.tries.attempts;
    about.err = why;
    about.limit = limit;
    log_event(LOG_WARN, &about, "%s", text);
}

static void on_delivered(struct handover *h, const char *why)
{
    (void)why;
    settle_done(&h->l);
}

/* By the job's own number of attempts, which beats the schedule's limit, or by the
 * schedule. */
static int64_t wait_ms(const struct handover *h)
{
    const struct retry_policy *policy = route_retry_policy(route_of(h), h->l.job);
    double random = (double)rand() / ((double)RAND_MAX + 1); /* jitter only */
    int64_t own = h->l.job->tries_max;
    if (own == 0)
        return retry_delay_ms(policy, h->l.tries.attempts, random);
    return h->l.tries.attempts < own ? retry_wait_ms(policy, h->l.tries.attempts, random)
                                     : RETRY_GIVE_UP;
}

static void on_try_again(struct handover *h, const char *why)
{
    tries_set_error(&h->l.tries, why);
    int64_t policy_ms = wait_ms(h);
    if (policy_ms == RETRY_GIVE_UP) {
        settle_give_up(&h->l, REASON_RETRIES);
        return;
    }
    route_of(h)->stats.retried++;
    complain(h, &route_of(h)->complain_retry, why, "delivery failed; it is tried again");
    settle_retry(&h->l,
                 policy_ms > h->d.retry_after_ms ? policy_ms : h->d.retry_after_ms);
}

static void on_rejected(struct handover *h, const char *why)
{
    tries_set_error(&h->l.tries, why);
    settle_give_up(&h->l, REASON_REJECTED);
}

/* The dead-letter sink has it. */
static void on_dead_delivered(struct handover *h, const char *why)
{
    (void)why;
    settle_bury(&h->l);
}

static void on_dead_failed(struct handover *h, const char *why)
{
    unsigned n = h->l.tries.dead_tries++;
    int64_t back_ms = n < 6 ? (int64_t)DEAD_FIRST_MS << n : DEAD_MAX_MS;
    if (back_ms < h->d.retry_after_ms)
        back_ms = h->d.retry_after_ms;
    complain(h, &route_of(h)->complain_dead, why,
             "the dead-letter sink failed; the job stays");
    settle_retry(&h->l, back_ms);
}

static void (*const outcomes[2][3])(struct handover *h, const char *why) = {
    {[DELIVERED] = on_delivered, [TRY_AGAIN] = on_try_again, [REJECTED] = on_rejected},
    {[DELIVERED] = on_dead_delivered,
     [TRY_AGAIN] = on_dead_failed,
     [REJECTED] = on_dead_failed},
};

static void note_attempt(struct handover *h)
{
    struct tries *t = &h->l.tries;
    t->attempts++;
    t->status = h->d.status;
    t->last_ms = store_now_ms(h->sink->bridge->store);
    if (t->first_ms == 0)
        t->first_ms = t->last_ms;
}

static void free_handover(struct handover *h)
{
    job_free(h->l.job);
    free(h);
}

/* No longer under way. */
static void give_credit(struct handover *h)
{
    h->sink->in_flight--;
    route_of(h)->in_flight--;
}

static void tell_tap(const struct handover *h, enum outcome outcome, const char *why)
{
    static const char *const words[2][3] = {
        {[DELIVERED] = "delivered", [TRY_AGAIN] = "failed", [REJECTED] = "rejected"},
        {[DELIVERED] = "dead-delivered",
         [TRY_AGAIN] = "dead-failed",
         [REJECTED] = "dead-failed"},
    };
    tap_note(route_of(h)->tap,
             &(struct tap_event){.what = words[h->d.dead != NULL][outcome],
                                 .id = h->l.id,
                                 .job = h->l.job,
                                 .reason = why,
                                 .due_ms = h->l.job->due_ms,
                                 .attempt = h->d.attempt});
}

void delivery_done(struct delivery *d, enum outcome outcome, const char *why)
{
    struct handover *h = (struct handover *)d;
    struct sink *sink = h->sink;
    struct route *route = route_of(h);
    bool dead = d->dead != NULL;
    bool stopped = outcome == TRY_AGAIN && d->stops_target && !dead;

    if (outcome == DELIVERED)
        FAULT("K2");
    sink->stats.outcomes[outcome]++;
    sink->outcome_us = loop_mono_us();
    histogram_add(&sink->stats.duration[outcome],
                  (double)(sink->outcome_us - h->started_us) / 1e6);
    if (route->tap)
        tell_tap(h, outcome, why);
    give_credit(h);
    if (!dead && route->pace)
        pace_done(route->pace, d->target, outcome, d->stops_target);
    if (!dead && !stopped)
        note_attempt(h);
    if (stopped)
        settle_park(&h->l, STOPPED_MS);
    else
        outcomes[dead][outcome](h, why ? why : "");
    free_handover(h);
}

/* --- what is not handed over --- */

/* When a job that its dead-letter sink has no room for, or that a reload has ended, may
 * ask again: each its own time, so that many of them do not keep Redis busy with coming
 * and going. */
static int64_t dead_slot_ms(struct route *route)
{
    int64_t now_ms = loop_mono_ms(), step_ms = NO_CREDIT_MS / route->dead->max_in_flight;
    int64_t slot_ms = route->dead_slot_ms + (step_ms > 0 ? step_ms : 1);
    route->dead_slot_ms =
        slot_ms > now_ms + NO_CREDIT_MS ? slot_ms : now_ms + NO_CREDIT_MS;
    return route->dead_slot_ms - now_ms;
}

/* Leases were lost so often that the job itself may be what ends them. */
static bool is_poison(const struct leased *l)
{
    const struct tries *t = &l->tries;
    if (l->job->tries_max > 0)
        return (int64_t)t->attempts - LEASES_LOST > l->job->tries_max;
    return t->attempts > LEASES_LOST &&
           retry_delay_ms(route_retry_policy(l->sched->route, l->job),
                          t->attempts - LEASES_LOST, 0.5) == RETRY_GIVE_UP;
}

/* A first attempt is late against max_lateness; what an operator replays is meant to be.
 */
static bool is_late(const struct route *route, const struct tries *t, int64_t lateness_ms)
{
    return route->conf->max_lateness_ms > 0 && t->attempts == 0 && t->replays == 0 &&
           lateness_ms > route->conf->max_lateness_ms;
}

/* Too late by the job's own word, or the route's. false: it may be delivered. */
static bool ended_by_time(struct leased *l, int64_t lateness_ms, int64_t now_ms)
{
    struct route *route = l->sched->route;
    bool expired = l->job->expires_ms > 0 && l->job->expires_ms < now_ms;
    bool late = !expired && is_late(route, &l->tries, lateness_ms);
    enum reason reason = expired ? REASON_EXPIRED : REASON_LATE;
    if (!expired && !late)
        return false;
    if (late && route->conf->late == LATE_DELIVER) {
        route->stats.late++;
        return false;
    }
    if (route->conf->late == LATE_DROP) {
        settle_drop(l, reason);
        return true;
    }
    tries_set_error(&l->tries, expired ? "deliver-before had passed"
                                       : "later than max_lateness of the route");
    settle_give_up(l, reason);
    return true;
}

/* Still to be delivered to its own target: what stands against it? */
static bool live_turned_away(struct leased *l, int64_t lateness_ms, int64_t now_ms)
{
    if (ended_by_time(l, lateness_ms, now_ms))
        return true;
    if (is_poison(l)) {
        settle_give_up(l, REASON_RETRIES);
        return true;
    }
    struct err err;
    if (route_target(l->sched->route, l->job, &err) == 0)
        return false;
    tries_set_error(&l->tries, err.text);
    settle_give_up(l, REASON_NO_ROUTE);
    return true;
}

/* On its way to the dead-letter sink. */
static bool dead_turned_away(struct leased *l)
{
    struct route *route = l->sched->route;
    if (route->dead == NULL) { /* the route lost its dead-letter sink */
        settle_bury(l);
        return true;
    }
    if (!route->dead->aside && route->dead->in_flight < route->dead->max_in_flight)
        return false;
    settle_retry(l, dead_slot_ms(route));
    return true;
}

/* What can't even be read. */
static bool is_broken(struct leased *l, const struct claimed *claimed,
                      const struct err *err)
{
    if (claimed->record.n == 0) {
        struct log_about about = about_job(l->sched->route, claimed->id, NULL);
        log_event(LOG_ERROR, &about, "its body is missing in Redis");
        return true;
    }
    if (l->job != NULL)
        return false;
    if (job_is_newer(claimed->record)) {
        struct log_about about = about_job(l->sched->route, claimed->id, NULL);
        about.err = err->text;
        about.limit = &l->sched->route->complain_newer;
        l->sched->route->stats.newer++;
        log_event(LOG_ERROR, &about, "it stays, since a newer tarry wrote it");
        settle_park(l, NEWER_MS);
        return true;
    }
    tries_set_error(&l->tries, err->text);
    tries_set_reason(&l->tries, reason_name(REASON_UNDECODABLE));
    settle_bury(l);
    return true;
}

/* --- hand-over --- */

static void hand_over(struct handover *h)
{
    struct route *route = route_of(h);
    h->started_us = loop_mono_us();
    if (h->d.dead)
        ; /* a dead letter's way is not measured */
    else if (h->l.tries.attempts > 0)
        route->stats.redelivered++;
    else
        histogram_add(&route->stats.lateness, (double)h->lateness_ms / 1000);
    emit_headers(route, h->l.job, &h->l.tries, store_now_ms(route->bridge->store), &h->d);
    h->sink->ops->deliver(h->sink, h->sink->self, &h->d);
    FAULT("K1");
}

static void go_back(struct handover *h, int64_t wait_ms)
{
    give_credit(h);
    settle_park(&h->l, wait_ms);
    free_handover(h);
}

/* So that its outcome can come before the lease ends. What is handed over later may be
 * another instance's by then, or cancelled. */
static bool is_in_time(const struct handover *h)
{
    int64_t spare_ms = route_of(h)->conf->lease_ms - h->d.timeout_ms;
    return loop_mono_us() - h->claim_us <= spare_ms * 1000;
}

static void on_paced(void *arg, const struct pace_answer *answer)
{
    struct handover *h = arg;
    h->l.tries.paced = answer->slot;
    if (!answer->go) {
        go_back(h, answer->wait_ms);
    } else if (is_in_time(h)) {
        hand_over(h);
    } else {
        pace_not_gone(route_of(h)->pace, h->d.target);
        go_back(h, 0);
    }
}

static struct handover *handover_new(const struct leased *l)
{
    struct handover *h = mem_alloc(sizeof(*h));
    struct route *route = l->sched->route;
    const struct tries *t = &l->tries;
    bool dead = t->reason[0] != '\0';
    h->l = *l;
    h->l.id = l->job->id;
    h->sink = dead ? route->dead : route->sink;
    h->d.job = l->job;
    h->d.attempt = dead ? t->attempts : t->attempts + 1;
    h->d.timeout_ms = h->sink->timeout_ms;
    h->d.target = l->job->target;
    h->d.target_asked = l->job->target_asked && !dead;
    h->letter = (struct dead_letter){.reason = h->l.tries.reason,
                                     .error = h->l.tries.error,
                                     .status = t->status,
                                     .attempts = t->attempts,
                                     .replays = t->replays,
                                     .first_ms = t->first_ms,
                                     .last_ms = t->last_ms};
    h->d.dead = dead ? &h->letter : NULL;
    route->in_flight++;
    h->sink->in_flight++;
    return h;
}

static void begin(const struct leased *l, int64_t lateness_ms, int64_t claim_us)
{
    struct route *route = l->sched->route;
    struct handover *h = handover_new(l);
    struct err err = {{0}};
    h->lateness_ms = lateness_ms;
    h->claim_us = claim_us;
    if (h->d.dead && emit_dead_target(route, l->job, &h->d, &err) < 0) {
        give_credit(h);
        on_dead_failed(h, err.text);
        free_handover(h);
    } else if (route->pace && !h->d.dead) {
        pace_ask(route->pace, h->d.target, h->l.tries.paced, on_paced, h);
    } else if (is_in_time(h)) {
        hand_over(h);
    } else {
        go_back(h, 0);
    }
}

static void deliver_one(struct sched *s, const struct claimed *claimed,
                        const struct claim_reply *reply, int64_t sent_us)
{
    struct err err = {{0}};
    struct leased l = {.sched = s, .id = claimed->id, .lease = reply->lease};
    tries_parse(claimed->tries, &l.tries);
    if (claimed->record.n > 0)
        l.job = job_decode(claimed->id, claimed->record, &s->route->names, &err);
    if (!is_broken(&l, claimed, &err)) {
        int64_t due_ms = l.job->due_ms + route_spread_ms(s->route, l.job);
        int64_t lateness_ms = reply->now_ms - due_ms;
        bool dead = l.tries.reason[0] != '\0';
        if (!(dead ? dead_turned_away(&l)
                   : live_turned_away(&l, lateness_ms, reply->now_ms))) {
            begin(&l, lateness_ms, sent_us); /* takes the job */
            return;
        }
    }
    job_free(l.job);
}

/* Untried, and due at once. */
static void send_back(struct sched *s, const struct claimed *claimed, int64_t lease)
{
    struct leased l = {.sched = s, .id = claimed->id, .lease = lease};
    tries_parse(claimed->tries, &l.tries);
    settle_park(&l, 0);
}

void deliver(struct sched *s, const struct claim_reply *reply, unsigned room,
             int64_t sent_us)
{
    for (unsigned i = 0; i < reply->count; i++)
        if (i < room)
            deliver_one(s, &reply->jobs[i], reply, sent_us);
        else
            send_back(s, &reply->jobs[i], reply->lease);
}
