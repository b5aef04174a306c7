/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/deliver.h"
#include "bridge/engine/tap.h"
#include "bridge/base/retry.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/pace.h"
#include "bridge/trace/trace.h"

#include <stdlib.h>

enum {
    DEAD_FIRST_MS = 1000, /* first wait before a retry of a dead letter; doubles, */
    DEAD_MAX_MS = 60000,  /* up to this, and tarry never gives up */
    STOPPED_MS = 1000,    /* until a job of a stopped target asks again */
    /* from the start, or the last renewal, to a renewal */
    RENEW_MS = 3000,
    /* least lease left at the start of a delivery */
    LEFT_MS = 6000,
    /* A renewed lease is this much shorter than one of a claim. So no later claim gets
     * the same token, even if the estimate of Redis' clock is wrong
     * (lua/lib/claim.lua). */
    RENEWED_LESS_MS = 1000
};

struct handover {
    struct delivery d; /* what the sink sees; first member */
    struct leased l;
    struct sink *sink;     /* the route's sink, or its dead-letter sink */
    struct target *target; /* of pace.h; NULL: none */
    struct dead_letter letter;
    struct gate_wait gate; /* at the gate of the route's rate */
    struct span *span;     /* NULL: none */
    int64_t started_us;
    int64_t lateness_ms;   /* without the time of a pause */
    int64_t lease_us;      /* monotonic: the lease of its claim expires no earlier */
    int64_t until_ms;      /* Redis' clock: the lease is not renewed beyond this */
    int64_t renew_us;      /* monotonic: time of the next renewal; 0: none */
    int64_t renewed_lease; /* the lease of the renewal in flight; 0: none */
    /* The outcome, if it was reported during a renewal: */
    bool ended;
    enum outcome outcome;
    char *why; /* NULL: none */
    TAILQ_ENTRY(handover) link;
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

/* Log a failed attempt. */
static void complain(const struct handover *h, struct log_limit *limit, const char *why,
                     const char *text)
{
    struct log_about about = route_about(route_of(h), h->l.id, h->l.job);
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

/* Return the time until the next attempt. The job's own number of attempts overrides the
 * schedule's limit. */
static int64_t wait_ms(const struct handover *h)
{
    const struct retry_policy *policy = route_retry_policy(route_of(h), h->l.job);
    double random = (double)rand() / ((double)RAND_MAX + 1); /* jitter only */
    int64_t own = h->l.job->tries_max;
    if (own == 0)
        return retry_delay_ms(policy, h->l.tries.attempts, random);
    return h->l.tries.attempts < own ? retry_wait_ms(policy, h->l.tries.attempts, random)
                                     : RETRY_EXHAUSTED;
}

static void on_try_again(struct handover *h, const char *why)
{
    tries_set_error(&h->l.tries, why);
    int64_t policy_ms = wait_ms(h);
    if (policy_ms == RETRY_EXHAUSTED) {
        settle_dead(&h->l, REASON_RETRIES);
        return;
    }
    route_of(h)->stats.retried++;
    complain(h, &route_of(h)->complain_retry, why,
             "delivery failed; tarry will retry it");
    settle_retry(&h->l,
                 policy_ms > h->d.retry_after_ms ? policy_ms : h->d.retry_after_ms);
}

static void on_rejected(struct handover *h, const char *why)
{
    tries_set_error(&h->l.tries, why);
    settle_dead(&h->l, REASON_REJECTED);
}

/* The dead-letter sink has acknowledged. */
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
             "delivery to the dead-letter sink failed; tarry will retry it");
    settle_retry(&h->l, back_ms);
}

/* Of a job, and of a dead letter. */
static const struct {
    void (*settle)(struct handover *h, const char *why);
    const char *word; /* for tap */
} outcomes[2][3] = {
    {[DELIVERED] = {on_delivered, "delivered"},
     [TRY_AGAIN] = {on_try_again, "failed"},
     [REJECTED] = {on_rejected, "rejected"}},
    {[DELIVERED] = {on_dead_delivered, "dead-delivered"},
     [TRY_AGAIN] = {on_dead_failed, "dead-failed"},
     [REJECTED] = {on_dead_failed, "dead-failed"}},
};

static void set_answer(struct tries *t, const struct delivery *d)
{
    free(t->answer);
    t->answer = tries_answer_new(d->answer_type, d->answer);
}

static void note_attempt(struct handover *h)
{
    struct tries *t = &h->l.tries;
    t->attempts++;
    t->status = h->d.status;
    if (!h->ended) /* else delivery_done() has stored it */
        set_answer(t, &h->d);
    t->last_ms = store_now_ms(h->sink->bridge->store);
    if (t->first_ms == 0)
        t->first_ms = t->last_ms;
}

/* --- its span --- */

static struct span_about span_about(const struct handover *h)
{
    return (struct span_about){.step = h->d.dead ? SPAN_SEND_DEAD : SPAN_SEND,
                               .route = route_of(h)->conf->name,
                               .part = sink_name(h->sink),
                               .part_type = h->sink->ops->name,
                               .id = h->l.id,
                               .due_ms = h->l.job->due_ms,
                               /* the targets of these sinks are URLs */
                               .calls = h->sink->ops->origin != NULL,
                               .attempt = h->d.attempt};
}

/* The message that is sent names this attempt as its parent. */
static void begin_span(struct handover *h)
{
    struct span_about about = span_about(h);
    h->span = span_begin(h->sink->bridge->tracer, &about, h->l.job);
    const char *traceparent = h->span ? span_traceparent(h->span) : NULL;
    for (unsigned i = 0; traceparent && i < h->d.header_count; i++)
        if (slice_is_nocase(h->d.headers[i].name, "traceparent"))
            h->d.headers[i].value = job_copy_slice(h->l.job, slice_of(traceparent));
}

/* Frees the span. */
static void end_span(struct handover *h, enum outcome outcome, const char *why)
{
    struct span_about about = span_about(h);
    span_end(h->sink->bridge->tracer, h->span, &about,
             &(struct span_end){.outcome = outcomes[h->d.dead != NULL][outcome].word,
                                .error = outcome == DELIVERED ? NULL
                                         : why && *why        ? why
                                                              : "failed",
                                .status = h->d.status});
    h->span = NULL;
}

static void free_handover(struct handover *h)
{
    job_free(h->l.job);
    free(h->l.tries.answer);
    free(h->span);
    free(h->why);
    free(h);
}

static void await_renewal(struct handover *h, int64_t now_us)
{
    if (h->l.lease >= h->until_ms)
        return; /* the sink must report before it expires */
    h->renew_us = now_us + RENEW_MS * 1000;
    TAILQ_INSERT_TAIL(&h->sink->bridge->under_way, h, link);
}

static void no_renewal(struct handover *h)
{
    if (h->renew_us > 0)
        TAILQ_REMOVE(&h->sink->bridge->under_way, h, link);
    h->renew_us = 0;
}

/* The job is no longer in flight. */
static void give_credit(struct handover *h)
{
    h->sink->in_flight--;
    route_of(h)->in_flight--;
}

static void tell_tap(const struct handover *h, enum outcome outcome, const char *why)
{
    tap_note(route_of(h)->tap,
             &(struct tap_event){.what = outcomes[h->d.dead != NULL][outcome].word,
                                 .id = h->l.id,
                                 .job = h->l.job,
                                 .reason = why,
                                 .due_ms = h->l.job->due_ms,
                                 .attempt = h->d.attempt});
}

/* Settle the job; no renewal of its lease is in flight. */
static void end(struct handover *h, enum outcome outcome, const char *why)
{
    const struct delivery *d = &h->d;
    struct route *route = route_of(h);
    bool dead = d->dead != NULL;
    bool stopped = outcome == TRY_AGAIN && d->stops_target && !dead;

    give_credit(h);
    if (!dead && route->pace)
        pace_done(route->pace, h->target, d->target, outcome, d->stops_target);
    if (!dead && !stopped)
        note_attempt(h);
    if (stopped)
        settle_park(&h->l, STOPPED_MS);
    else
        outcomes[dead][outcome].settle(h, why ? why : "");
    free_handover(h);
}

void delivery_done(struct delivery *d, enum outcome outcome, const char *why)
{
    struct handover *h = (struct handover *)d;
    struct sink *sink = h->sink;

    if (outcome == DELIVERED)
        FAULT("K2");
    sink->stats.outcomes[outcome]++;
    sink->outcome_us = loop_mono_us();
    histogram_add(&sink->stats.duration[outcome],
                  (double)(sink->outcome_us - h->started_us) / 1e6);
    if (d->dead == NULL)
        health_note(route_of(h), d, outcome, why, sink->outcome_us / 1000);
    if (route_of(h)->tap)
        tell_tap(h, outcome, why);
    if (h->span)
        end_span(h, outcome, why);
    no_renewal(h);
    if (h->renewed_lease) {
        h->ended = true;
        h->outcome = outcome;
        h->why = why ? mem_strdup(why) : NULL;
        if (d->dead == NULL)
            set_answer(&h->l.tries, d);
    } else {
        end(h, outcome, why);
    }
}

/* --- leases of deliveries under way --- */

static void on_renewed(void *arg, char code)
{
    struct handover *h = arg;
    int64_t lease = h->renewed_lease;
    h->renewed_lease = 0;
    if (code == 'r')
        h->l.lease = lease;
    if (code == 0 && h->ended) /* the store was closed */
        free_handover(h);
    else if (h->ended)
        end(h, h->outcome, h->why);
    else if (code == 'r')
        await_renewal(h, loop_mono_us());
}

static void renew(struct handover *h)
{
    int64_t lease = bucket_now_ms(h->l.sched->bucket) + SCHED_LEASE_MS - RENEWED_LESS_MS;
    no_renewal(h);
    if (lease > h->until_ms)
        lease = h->until_ms;
    if (lease <= h->l.lease) { /* Redis' clock was set back */
        await_renewal(h, loop_mono_us());
        return;
    }
    h->renewed_lease = lease;
    store_renew(h->l.sched->bucket, h->l.id, h->l.lease, lease, on_renewed, h);
}

void deliver_tick(struct bridge *bridge)
{
    int64_t now_us = loop_mono_us();
    struct handover *h;
    while ((h = TAILQ_FIRST(&bridge->under_way)) && h->renew_us <= now_us)
        renew(h);
}

/* --- hand-over --- */

static void hand_over(struct handover *h)
{
    struct route *route = route_of(h);
    h->started_us = loop_mono_us();
    if (h->d.dead)
        ; /* attempts of dead letters are not measured */
    else if (h->l.tries.attempts > 0)
        route->stats.redelivered++;
    else if (tries_is_first(&h->l.tries))
        histogram_add(&route->stats.lateness, (double)h->lateness_ms / 1000);
    emit_headers(route, h->l.job, &h->l.tries, store_now_ms(route->bridge->store), &h->d);
    if (route->bridge->tracer)
        begin_span(h);
    await_renewal(h, h->started_us);
    h->sink->ops->deliver(h->sink, h->sink->self, &h->d);
    FAULT("K1");
}

static void go_back(struct handover *h, int64_t wait_ms)
{
    give_credit(h);
    settle_park(&h->l, wait_ms);
    free_handover(h);
}

/* Return whether the remaining lease is long enough to renew it until the outcome. A
 * later delivery could be of a job that another instance has claimed, or that was
 * cancelled. */
static bool is_in_time(const struct handover *h)
{
    int64_t left_us = h->lease_us - loop_mono_us(), timeout_ms = h->d.timeout_ms;
    int64_t least_ms = timeout_ms < LEFT_MS ? timeout_ms : LEFT_MS;
    int64_t renewals_ms = h->until_ms - h->l.lease;
    return left_us >= least_ms * 1000 && left_us >= (timeout_ms - renewals_ms) * 1000;
}

static void on_gate(void *arg)
{
    struct handover *h = arg;
    if (is_in_time(h)) {
        hand_over(h);
        return;
    }
    if (route_of(h)->pace)
        pace_not_delivered(route_of(h)->pace, h->target);
    go_back(h, 0);
}

static void pass_gate(struct handover *h)
{
    struct route *route = route_of(h);
    h->gate = (struct gate_wait){.cb = on_gate, .arg = h};
    gate_pass(&route->gate, &route->rate, &h->gate);
}

static void on_paced(void *arg, const struct pace_answer *answer)
{
    struct handover *h = arg;
    h->l.tries.paced = answer->slot;
    h->target = answer->target;
    if (answer->go)
        pass_gate(h);
    else
        go_back(h, answer->wait_ms);
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
    h->until_ms = l->lease + route->conf->lease_ms - sched_lease_ms(route);
    route->in_flight++;
    h->sink->in_flight++;
    return h;
}

static void begin(const struct leased *l, int64_t lateness_ms, int64_t lease_us)
{
    struct route *route = l->sched->route;
    struct handover *h = handover_new(l);
    struct err err = {{0}};
    h->lateness_ms = lateness_ms;
    h->lease_us = lease_us;
    if (h->d.dead && emit_dead_target(route, l->job, &h->d, &err) < 0) {
        give_credit(h);
        on_dead_failed(h, err.text);
        free_handover(h);
    } else if (route->pace && !h->d.dead) {
        pace_ask(route->pace, h->d.target, h->l.tries.paced, on_paced, h);
    } else if (!h->d.dead) {
        pass_gate(h);
    } else if (is_in_time(h)) {
        hand_over(h);
    } else {
        go_back(h, 0);
    }
}

static void deliver_one(struct sched *s, const struct store_claim_item *claimed,
                        const struct store_claim_reply *reply, int64_t lease_us)
{
    struct err err = {{0}};
    struct leased l = {.sched = s, .id = claimed->id, .lease = reply->lease};
    tries_parse(claimed->tries, &l.tries);
    l.tries.answer = tries_parse_answer(claimed->tries);
    if (claimed->record.n > 0)
        l.job = job_decode(claimed->id, claimed->record, &s->route->names, &err);
    if (!settle_if_unreadable(&l, claimed, &err)) {
        int64_t due_ms = l.job->due_ms + route_spread_ms(s->route, l.job);
        int64_t lateness_ms = reply->now_ms - due_ms;
        if (!settle_if_undeliverable(&l, lateness_ms, reply->now_ms)) {
            begin(&l, route_state_lateness_ms(s->route, due_ms, reply->now_ms),
                  lease_us); /* takes ownership of l.job and l.tries.answer */
            return;
        }
    }
    job_free(l.job);
    free(l.tries.answer);
}

/* Return a job without an attempt, due at once. */
static void send_back(struct sched *s, const struct store_claim_item *claimed,
                      int64_t lease)
{
    struct leased l = {.sched = s, .id = claimed->id, .lease = lease};
    tries_parse(claimed->tries, &l.tries);
    l.tries.answer = tries_parse_answer(claimed->tries);
    settle_park(&l, 0);
    free(l.tries.answer);
}

void deliver(struct sched *s, const struct store_claim_reply *reply, unsigned room,
             int64_t sent_us)
{
    int64_t lease_us = sent_us + (reply->lease - reply->now_ms) * 1000;
    for (unsigned i = 0; i < reply->count; i++)
        if (i < room)
            deliver_one(s, &reply->items[i], reply, lease_us);
        else
            send_back(s, &reply->items[i], reply->lease);
}
