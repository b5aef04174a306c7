/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/sched.h"
#include "bridge/engine/membership.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/deliver.h"
#include "bridge/engine/pace.h"

#include <stdlib.h>

enum {
    RECHECK_US = 10 * 1000 * 1000, /* the head is read again after this */
    RETRY_MS = 100,                /* after a claim without an answer */
    CLAIM_MAX = 1000,              /* jobs of one claim: see lua/scripts.def */
    LIMIT_RETRY_US = 50 * 1000,    /* the limit of all instances is reached */
    STALL_US = 3 * 1000 * 1000,    /* without a tick for this long */
    HEAD_FRESH_US = 100 * 1000,    /* older reports may be out of date */
    ANSWER_US = 1000 * 1000        /* of a claim; Redis is silent, or it was lost */
};

struct claim { /* a claim in flight, until its answer */
    struct sched *sched;
    struct sink *sink; /* whose credit it uses; may differ from the route's */
    unsigned count;    /* jobs requested */
    int64_t sent_us;   /* monotonic */
    bool abandoned;    /* the watchdog has released its credit */
};

enum sched_next sched_next(const struct sched_view *v, int64_t *wait_us)
{
    *wait_us = v->until_due_us;
    if (v->until_due_us < 0 || v->until_due_us > SCHED_SLEEP_MAX_US)
        return SCHED_IDLE;
    if (v->until_due_us > 0)
        return SCHED_SLEEP;
    if (v->credit == 0)
        return SCHED_WAIT_CREDIT;
    *wait_us = v->paced_us;
    if (v->paced_us > 0)
        return SCHED_SLEEP;
    bool enough = v->credit >= SCHED_CREDIT_MIN || 2 * v->credit >= v->credit_max;
    if (v->gap_us == 0 || (enough && v->last_claim_full))
        return v->head_stale ? SCHED_READ_HEAD : SCHED_CLAIM;
    *wait_us = v->gap_us;
    return SCHED_SLEEP;
}

static unsigned room(unsigned used, int64_t most)
{
    return used < most ? (unsigned)most - used : 0;
}

/* Deliveries of sinks that it has replaced (reload) use its credit, too. */
static unsigned sink_credit(const struct sink *sink)
{
    unsigned used = sink->in_flight + sink->reserved;
    for (const struct sink *one = sink->before; one; one = one->before)
        used += one->in_flight + one->reserved;
    return sink->use == PART_USED ? room(used, sink->max_in_flight) : 0;
}

/* Return how many jobs the sink accepts, and the route may have in flight. */
static unsigned credit(const struct route *route)
{
    unsigned sink = sink_credit(route->sink);
    int64_t most = route->conf->max_in_flight;
    unsigned own = most > 0 ? room(route->in_flight + route->reserved, most) : sink;
    unsigned paced = route->pace ? pace_room(route->pace) : sink;
    unsigned least = own < sink ? own : sink;
    return paced < least ? paced : least;
}

int64_t sched_lease_ms(const struct route *route)
{
    int64_t lease_ms = route->conf->lease_ms;
    return lease_ms < SCHED_LEASE_MS ? lease_ms : SCHED_LEASE_MS;
}

static void on_claim(void *arg, const struct store_claim_reply *reply);

static void claim(struct sched *s)
{
    struct sink *sink = s->route->sink;
    unsigned max = (unsigned)s->route->bridge->conf->daemon.batch_max_jobs;
    /* At most half: while one half is in flight, Redis prepares the other. */
    unsigned most = credit(s->route), half = (sink->max_in_flight + 1) / 2;
    most = most < half ? most : half;
    struct claim *claim = mem_alloc(sizeof(*claim));
    *claim = (struct claim){s, sink, most < max ? most : max, loop_mono_us(), false};
    s->claim = claim;
    sink->reserved += claim->count;
    s->route->reserved += claim->count;
    bucket_claim(s->bucket, claim->count, sched_lease_ms(s->route), on_claim, claim);
}

static void note_reaped(struct sched *s, const struct store_reap_reply *r,
                        enum log_level level, const char *why)
{
    s->lease_ms = r->lease_ms;
    s->route->stats.cancelled += (uint64_t)r->dropped; /* while they were in flight */
    if (r->moved > 0)
        log_event(level, &(struct log_about){.route = s->route->conf->name},
                  "%lld jobs are available again: %s", (long long)r->moved, why);
}

static void on_recover(void *arg, const struct store_reap_reply *r)
{
    struct sched *s = arg;
    if (r)
        note_reaped(s, r, LOG_INFO, "the reply to their claim was lost");
    else
        s->claim_lost = true; /* the next tick repeats it */
}

/* Recover before the next claim, because Redis stores only the lease of the last
 * claim. */
static void recover(struct sched *s)
{
    s->claim_lost = false;
    bucket_recover(s->bucket, CLAIM_MAX, s->known_lease, on_recover, s);
}

static void wait_for_credit(struct sched *s)
{
    if (s->waits_for_credit)
        return;
    s->waits_for_credit = true;
    TAILQ_INSERT_TAIL(&s->route->sink->waiting, s, link);
}

/* Return how long the rate limit or a paused target forbids a claim. */
static int64_t paced_us(const struct sched *s, int64_t now_us)
{
    int64_t rest_us = s->route->pace ? pace_rest_us(s->route->pace) : 0;
    int64_t rate_us = s->paced_until_us > now_us ? s->paced_until_us - now_us : 0;
    return rest_us > rate_us ? rest_us : rate_us;
}

/* Return how long a due job is left to instances with a lower rank. */
static int64_t owner_first_ms(const struct sched *s)
{
    return s->rank == 0 ? 0 : SCHED_NON_OWNER_MS + (s->rank - 1) * SCHED_RANK_MS;
}

/* Return the time until this instance may claim the first job; -1: there is none. */
static int64_t until_due_us(const struct sched *s, int64_t now_us)
{
    if (s->head_ms < 0)
        return -1;
    return clock_until_us(bucket_clock(s->bucket), now_us,
                          s->head_ms + owner_first_ms(s));
}

/* Return whether nothing holds the bucket on purpose. */
static bool may_claim(const struct sched *s)
{
    const struct route *route = s->route;
    return route->bridge->claiming && bucket_is_up(s->bucket) &&
           route->use == PART_USED && route_may_claim(route);
}

/* Do what is possible now, and set the timer for the rest. */
static void pump(void *arg)
{
    struct sched *s = arg;
    struct sink *sink = s->route->sink;
    int64_t now_us = loop_mono_us(), wait_us;
    if (s->claim || !may_claim(s))
        return;
    if (bucket_pause_us(s->bucket) > 0) {
        timer_set(s->timer, RETRY_MS);
        return;
    }
    if (s->claim_lost)
        recover(s);
    struct sched_view view = {
        .until_due_us = until_due_us(s, now_us),
        .gap_us = pacer_wait_us(&s->pacer, now_us),
        .credit = credit(s->route),
        .credit_max = sink->max_in_flight,
        .last_claim_full = s->last_claim_full,
        .paced_us = paced_us(s, now_us),
        .head_stale = s->rank > 0 && now_us - s->head_read_us > HEAD_FRESH_US,
    };
    switch (sched_next(&view, &wait_us)) {
    case SCHED_IDLE:
        timer_stop(s->timer);
        break;
    case SCHED_SLEEP:
        timer_set_us(s->timer, wait_us);
        if (view.until_due_us == 0 && view.last_claim_full)
            wait_for_credit(s); /* enough credit may justify an earlier claim */
        break;
    case SCHED_WAIT_CREDIT:
        wait_for_credit(s);
        break;
    case SCHED_READ_HEAD:
        if (!s->reading_head)
            sched_read_head(s);
        break;
    case SCHED_CLAIM:
        claim(s);
        break;
    }
}

static void unreserve(struct sched *s, struct sink *sink, unsigned n)
{
    sink->reserved -= n;
    s->route->reserved -= n;
}

static void on_claim(void *arg, const struct store_claim_reply *reply)
{
    struct claim claim = *(struct claim *)arg;
    struct sched *s = claim.sched;
    if (FAULT_LOSES("C2"))
        return;
    free(arg);
    if (reply == NULL)
        s->claim_lost = true;
    else if (reply->count > 0)
        s->known_lease = reply->lease;
    if (claim.abandoned) { /* a late answer: others may have used its credit */
        if (reply)
            deliver(s, reply, credit(s->route), claim.sent_us);
        return;
    }
    s->claim = NULL;
    unreserve(s, claim.sink, claim.count - (reply ? reply->count : 0));
    if (reply == NULL) {
        timer_set(s->timer, RETRY_MS);
        return;
    }
    int64_t now_us = loop_mono_us();
    if (reply->count > 0 || reply->wait_us != 0)
        s->moved_us = now_us;
    pacer_sent(&s->pacer, reply->count, pacer_claims_us(now_us - claim.sent_us),
               claim.sent_us);
    s->last_claim_full = reply->count == claim.count;
    if (reply->wait_us != 0)
        s->paced_until_us = now_us +
                            (reply->wait_us > 0 ? reply->wait_us : LIMIT_RETRY_US) +
                            (reply->count == 0 ? owner_first_ms(s) * 1000 : 0);
    s->head_ms = reply->next_ms;
    s->head_read_us = now_us;
    if (reply->count == 0)
        s->route->stats.claims_empty++;
    else if (s->rank > 0)
        s->route->stats.claims_late++;
    if (reply->count > 0 && (s->lease_ms < 0 || reply->lease < s->lease_ms))
        s->lease_ms = reply->lease;
    if (reply->count > 0)
        FAULT("C1");
    pump(s); /* Redis executes the next claim while these jobs are delivered */
    if (s->claim && reply->count >= SCHED_CREDIT_MIN)
        bucket_push(s->bucket);
    deliver(s, reply, reply->count, claim.sent_us);
    unreserve(s, claim.sink, reply->count);
    pump(s);
}

static void on_head_read(void *arg, const struct store_count_reply *counts)
{
    struct sched *s = arg;
    bool again = s->read_again;
    s->reading_head = s->read_again = false;
    if (counts == NULL) {
        s->recheck_us = 0; /* at the next tick */
        return;
    }
    s->lease_ms = counts->lease_ms;
    sched_set_head(s, counts->head_ms);
    if (again)
        sched_read_head(s);
}

void sched_read_head(struct sched *s)
{
    s->read_again = s->reading_head;
    if (s->reading_head)
        return;
    s->reading_head = true;
    s->recheck_us = loop_mono_us() + RECHECK_US;
    store_count(s->bucket, on_head_read, s);
}

void sched_start(struct sched *s)
{
    s->moved_us = loop_mono_us();
    sched_read_head(s);
}

void sched_set_head(struct sched *s, int64_t head_ms)
{
    s->head_ms = head_ms;
    s->head_read_us = loop_mono_us();
    pump(s);
}

void sched_members_changed(struct sched *s)
{
    unsigned rank = membership_rank(s->route->bridge->membership, s->route->conf->name,
                                    bucket_name(s->bucket));
    bool took_over = rank == 0 && s->rank > 0; /* head_ms may be a guess */
    s->rank = rank;
    bucket_set_owner_first(s->bucket, rank > 0);
    if (took_over)
        sched_read_head(s);
    else
        pump(s);
}

static void reap(struct sched *s);

static void on_reap(void *arg, const struct store_reap_reply *r)
{
    struct sched *s = arg;
    s->reaping = false;
    if (r == NULL)
        return; /* the next tick repeats it */
    note_reaped(s, r, LOG_WARN, "their leases expired");
    if (r->moved + r->dropped == s->route->bridge->conf->daemon.batch_max_jobs)
        reap(s);
}

static void reap(struct sched *s)
{
    s->reaping = true;
    bucket_reap(s->bucket, (unsigned)s->route->bridge->conf->daemon.batch_max_jobs,
                on_reap, s);
}

/* --- the watchdog --- */

/* Return why due jobs do not leave although nothing holds them; NULL: no such jobs. */
static const char *stall(const struct sched *s, int64_t now_us)
{
    if (!may_claim(s) || bucket_is_silent(s->bucket) || bucket_pause_us(s->bucket) > 0 ||
        until_due_us(s, now_us) != 0 || paced_us(s, now_us) > 0)
        return NULL;
    return s->claim                ? "the answer to a claim was lost"
           : credit(s->route) == 0 ? "the sink reports no outcomes"
                                   : "claims return no jobs";
}

/* Restart the scheduler, whatever it waits for. */
static void restart(struct sched *s)
{
    if (s->claim) {
        unreserve(s, s->claim->sink, s->claim->count);
        s->claim->abandoned = true;
        s->claim = NULL;
    }
    sched_stop_waiting(s);
    s->reading_head = s->read_again = s->last_claim_full = false;
    s->paced_until_us = 0;
    sched_read_head(s);
    pump(s);
}

/* A sink without credit that reports outcomes is slow, not stuck. */
static void watch(struct sched *s)
{
    int64_t now_us = loop_mono_us(), since_us = s->moved_us;
    int64_t alarm_us = s->route->bridge->conf->daemon.overdue_alarm_ms * 1000;
    const char *why = stall(s, now_us);
    const struct sink *sink = s->route->sink;
    if (why == NULL)
        s->moved_us = now_us;
    if (s->moved_us > s->stalled_us)
        s->stalled_us = 0;
    if (why == NULL || alarm_us == 0)
        return;
    if (s->claim == NULL && credit(s->route) == 0) {
        alarm_us += sink->timeout_ms * 1000;
        since_us = sink->outcome_us > since_us ? sink->outcome_us : since_us;
    }
    since_us = s->stalled_us > since_us ? s->stalled_us : since_us;
    if (now_us - since_us < alarm_us)
        return;
    if (s->claim && now_us - s->claim->sent_us < ANSWER_US)
        return; /* a later tick knows whether Redis hangs */
    log_event(LOG_ERROR, &(struct log_about){.route = s->route->conf->name},
              "bucket %s has due jobs but has delivered none for %lld ms: %s; tarry "
              "restarts its scheduler",
              bucket_name(s->bucket), (long long)((now_us - s->moved_us) / 1000), why);
    s->stalled_us = now_us;
    s->route->stats.rearms++;
    restart(s);
}

void sched_tick(struct sched *s)
{
    struct store *store = s->route->bridge->store;
    int64_t now_us = loop_mono_us();
    /* After this instance was stalled, it first renews its own leases (deliver.h). */
    bool stalled = now_us - s->ticked_us > STALL_US;
    s->ticked_us = now_us;
    watch(s);
    if (!bucket_is_up(s->bucket) || !s->route->bridge->claiming)
        return;
    if (s->lease_ms >= 0 && !s->reaping && !stalled && s->lease_ms <= store_now_ms(store))
        reap(s);
    if (now_us >= s->recheck_us)
        sched_read_head(s);
    else
        pump(s); /* notices within a second if a clock was set */
}

void sched_credit(struct sink *sink)
{
    unsigned n = 0; /* visit each once: a bucket of a full route is appended again */
    struct sched *s;
    TAILQ_FOREACH (s, &sink->waiting, link)
        n++;
    for (; n > 0 && sink_credit(sink) > 0; n--) {
        s = TAILQ_FIRST(&sink->waiting);
        TAILQ_REMOVE(&sink->waiting, s, link);
        s->waits_for_credit = false;
        pump(s);
    }
}

static void on_head(void *owner, int64_t head_ms)
{
    sched_set_head(owner, head_ms);
}

/* A non-owner treats the head as due and asks once for all wake-ups. */
static void on_woken(void *owner)
{
    struct sched *s = owner;
    int64_t now_ms = bucket_now_ms(s->bucket);
    if (s->rank == 0) {
        sched_read_head(s);
    } else if (s->head_ms < 0 || s->head_ms > now_ms) {
        s->head_ms = now_ms;
        pump(s);
    }
}

static const struct bucket_events events = {on_head, on_woken, NULL, NULL};

void sched_init(struct sched *s, struct route *route, const char *name)
{
    s->route = route;
    s->head_ms = s->lease_ms = -1;
    s->moved_us = s->ticked_us = loop_mono_us();
    s->bucket = bucket_new(route->bridge->store, name, &route->rules, &events, s);
    s->rank = membership_rank(route->bridge->membership, route->conf->name, name);
    bucket_set_owner_first(s->bucket, s->rank > 0);
    s->timer = timer_new(pump, s);
}

void sched_stop_waiting(struct sched *s)
{
    if (s->waits_for_credit)
        TAILQ_REMOVE(&s->route->sink->waiting, s, link);
    s->waits_for_credit = false;
}

void sched_fini(struct sched *s)
{
    sched_stop_waiting(s);
    timer_del(s->timer);
}
