/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/deliver.h"
#include "bridge/base/retry.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/tap.h"
#include "bridge/job/delay.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    RUNS_SKIPPED_MAX = 10000, /* per change, so that the loop is not blocked */
    NO_CREDIT_MS = 250,       /* the dead-letter sink is busy */
    NEWER_MS = 10000,         /* before a job of a newer tarry is claimed again */
    LEASES_LOST = 3 /* tolerated in addition to the retry schedule: crashes of tarry */
};

/* --- answers of Redis --- */

static void on_put_back(void *arg, char code)
{
    struct route *route = arg;
    if (code == RETRY_STALE)
        route->stats.stale++;
    else if (code == RETRY_CANCELLED)
        route->stats.cancelled++;
}

/* Count a delivery, except if Redis reports it as stale: another instance has counted it,
 * or the job was replaced. Else the sum of jobs that left would be too large. */
static void on_done(void *arg, char code)
{
    struct route *route = arg;
    if (code == ACK_STALE)
        route->stats.stale++;
    else
        route->stats.delivered++;
}

/* The previous run was delivered. */
static void on_next(void *arg, char code)
{
    struct route *route = arg;
    route->stats.delivered += code != RETRY_STALE;
    /* A cancel during the run applies to the next run. */
    if (code == RETRY_PUT_BACK || code == RETRY_CANCELLED)
        route->stats.repeated++;
    on_put_back(arg, code);
}

/* A job that leaves undelivered, until Redis has answered. */
struct ending {
    struct route *route;
    enum reason reason;
    unsigned runs; /* of a job that repeats: each but the last had a next run */
    bool again;    /* so had the last */
};

static struct ending *ending_new(const struct leased *l, enum reason reason)
{
    struct ending *ending = mem_alloc(sizeof(*ending));
    *ending = (struct ending){l->sched->route, reason, 1, false};
    return ending;
}

static void end(struct ending *ending, char code)
{
    on_put_back(ending->route, code);
    free(ending);
}

static void on_buried(void *arg, char code)
{
    struct ending *burial = arg;
    if (code == RETRY_BURIED)
        burial->route->stats.dead[burial->reason]++;
    end(burial, code);
}

static void on_dropped(void *arg, char code)
{
    struct ending *drop = arg;
    struct route_stats *stats = &drop->route->stats;
    if (code != RETRY_STALE) {
        stats->expired[drop->reason == REASON_LATE] += drop->runs;
        stats->repeated += drop->runs - !drop->again;
    }
    end(drop, code);
}

/* A run is dead. */
static void on_lost(void *arg, char code)
{
    struct ending *lost = arg;
    struct route_stats *stats = &lost->route->stats;
    if (code == RETRY_KEPT)
        stats->dead[lost->reason] += lost->route->dead == NULL;
    if (code == RETRY_PUT_BACK) /* the dead run was stored before */
        stats->dropped_dead++;
    if (code == RETRY_KEPT || code == RETRY_PUT_BACK)
        stats->repeated += lost->again;
    end(lost, code);
}

/* --- the changes --- */

static void put_back(const struct leased *l, int64_t wait_ms, struct slice tries)
{
    struct route *route = l->sched->route;
    store_retry(l->sched->bucket, l->id, l->lease,
                bucket_now_ms(l->sched->bucket) + wait_ms, tries, on_put_back, route);
}

void settle_retry(const struct leased *l, int64_t wait_ms)
{
    struct buf text = {0};
    tries_format(&l->tries, &text);
    put_back(l, wait_ms, buf_slice(&text));
    buf_free(&text);
}

void settle_park(const struct leased *l, int64_t wait_ms)
{
    const struct tries *t = &l->tries;
    l->sched->route->stats.parked++;
    if (t->attempts > 0 || t->replays > 0 || t->reason[0] != '\0' || t->paced)
        settle_retry(l, wait_ms);
    else
        put_back(l, wait_ms, (struct slice){NULL, 0}); /* it never failed */
}

void settle_bury(const struct leased *l)
{
    struct buf text = {0};
    tries_format(&l->tries, &text);
    store_bury(l->sched->bucket, l->id, l->lease, buf_slice(&text), on_buried,
               ending_new(l, reason_find(l->tries.reason)));
    buf_free(&text);
}

/* --- jobs that repeat --- */

static bool repeats(const struct leased *l)
{
    return l->job && l->job->repeat.n > 0 && l->tries.reason[0] == '\0';
}

/* Change the job to its next run. false: there is none. */
static bool next_run(struct job *job)
{
    struct repeat repeat;
    struct err err;
    if (job->repeat_count > 0 && job->run >= job->repeat_count)
        return false;
    if (repeat_parse(job->repeat, &repeat, &err) < 0) {
        log_event(LOG_ERROR, &(struct log_about){.job = job->id, .err = err.text},
                  "the job stops repeating: its schedule \"%.*s\" is invalid",
                  SLICE_ARG(job->repeat));
        return false;
    }
    int64_t due_ms = repeat_next_ms(&repeat, job->due_ms, job->due_ms);
    if (due_ms < 0 || (job->repeat_until_ms > 0 && due_ms > job->repeat_until_ms))
        return false;
    /* deliver-before relative to the due time moves along; an absolute one is also the
     * end of the repetition */
    if (job->expires_ms > 0 && job->expires_ms != job->repeat_until_ms)
        job->expires_ms += due_ms - job->due_ms;
    job->due_ms = due_ms;
    job->run++;
    return true;
}

static int64_t due_ms(const struct leased *l)
{
    return l->job->due_ms + route_spread_ms(l->sched->route, l->job);
}

void settle_done(struct leased *l)
{
    struct sched *s = l->sched;
    if (repeats(l) && next_run(l->job))
        store_repeat(s->bucket, l->job, l->lease, due_ms(l), on_next, s->route);
    else
        store_ack(s->bucket, l->id, l->lease, 0, on_done, s->route);
}

static bool is_missed(const struct leased *l, int64_t now)
{
    int64_t late_ms = l->sched->route->conf->max_lateness_ms;
    return late_ms > 0 && now - due_ms(l) > late_ms;
}

static void tell_tap(const struct leased *l, const char *what, enum reason reason)
{
    tap_note(l->sched->route->tap, &(struct tap_event){.what = what,
                                                       .id = l->id,
                                                       .job = l->job,
                                                       .reason = reason_name(reason),
                                                       .due_ms = l->job->due_ms});
}

/* Drop a job that is too late, with all its missed runs, in one change. */
static void drop(struct leased *l, enum reason reason)
{
    struct sched *s = l->sched;
    struct ending *drop = ending_new(l, reason);
    const int64_t now = bucket_now_ms(s->bucket);
    if (s->route->tap)
        tell_tap(l, "dropped", reason);
    drop->again = repeats(l) && next_run(l->job);
    while (drop->again && drop->runs < RUNS_SKIPPED_MAX && is_missed(l, now)) {
        drop->again = next_run(l->job);
        drop->runs++;
    }
    if (drop->again)
        store_repeat(s->bucket, l->job, l->lease, due_ms(l), on_dropped, drop);
    else
        store_ack(s->bucket, l->id, l->lease, ACK_HOW_LAPSED, on_dropped, drop);
}

static void keep_run(struct leased *l)
{
    struct route *route = l->sched->route;
    struct ending *lost = ending_new(l, reason_find(l->tries.reason));
    struct buf text = {0};
    struct job run = *l->job; /* l->job owns its memory */
    run.id = job_format(l->job, "%.*s@%" PRId64, SLICE_ARG(l->id), run.due_ms);
    run.repeat = (struct slice){NULL, 0};
    tries_format(&l->tries, &text);
    lost->again = next_run(l->job);
    store_fail_run(l->sched->bucket, l->id, l->lease,
                   &(struct failed_run){&run, buf_slice(&text), route->dead == NULL},
                   lost->again ? l->job : NULL, due_ms(l), on_lost, lost);
    buf_free(&text);
}

void settle_dead(struct leased *l, enum reason reason)
{
    struct route *route = l->sched->route;
    bool run = repeats(l);
    tries_set_reason(&l->tries, reason_name(reason));
    l->tries.paced = false;
    if (route->tap)
        tell_tap(l, "dead", reason);
    struct log_about about = route_about(route, l->id, l->job);
    about.attempt = l->tries.attempts;
    about.err = l->tries.error;
    about.limit = &route->complain;
    log_event(LOG_WARN, &about, "the job is a dead letter now: %s", reason_name(reason));
    if (run)
        keep_run(l);
    else if (route->dead)
        settle_retry(l, 0);
    else
        settle_bury(l);
}

/* --- jobs that must not be delivered --- */

/* Return in how many ms a dead letter is due again for which its sink has no credit, or
 * which a reload holds. Each gets a different time, so that many of them do not keep
 * Redis busy. */
static int64_t dead_slot_ms(struct route *route)
{
    int64_t now_ms = loop_mono_ms(), step_ms = NO_CREDIT_MS / route->dead->max_in_flight;
    int64_t slot_ms = route->dead_slot_ms + (step_ms > 0 ? step_ms : 1);
    route->dead_slot_ms =
        slot_ms > now_ms + NO_CREDIT_MS ? slot_ms : now_ms + NO_CREDIT_MS;
    return route->dead_slot_ms - now_ms;
}

/* Return whether the job has lost so many leases that it may itself cause the crashes. */
static bool is_poison(const struct leased *l)
{
    const struct tries *t = &l->tries;
    if (l->job->tries_max > 0)
        return (int64_t)t->attempts - LEASES_LOST > l->job->tries_max;
    return t->attempts > LEASES_LOST &&
           retry_delay_ms(route_retry_policy(l->sched->route, l->job),
                          t->attempts - LEASES_LOST, 0.5) == RETRY_EXHAUSTED;
}

static bool is_late(const struct route *route, const struct tries *t, int64_t lateness_ms)
{
    return route->conf->max_lateness_ms > 0 && tries_is_first(t) &&
           lateness_ms > route->conf->max_lateness_ms;
}

/* Settle a job that is too late by its deliver-before or by max_lateness. false: deliver
 * it. */
static bool settle_if_late(struct leased *l, int64_t lateness_ms, int64_t now_ms)
{
    struct route *route = l->sched->route;
    bool expired = route_job_expired(route, l->job, now_ms);
    bool late = !expired && is_late(route, &l->tries, lateness_ms);
    enum reason reason = expired ? REASON_EXPIRED : REASON_LATE;
    if (!expired && !late)
        return false;
    if (late && route->conf->late == LATE_DELIVER) {
        route->stats.late++;
        return false;
    }
    if (route->conf->late == LATE_DROP) {
        drop(l, reason);
        return true;
    }
    tries_set_error(&l->tries, expired ? "deliver-before had passed"
                                       : "later than max_lateness of the route");
    settle_dead(l, reason);
    return true;
}

/* Check a job that is not dead. */
static bool settle_if_live_undeliverable(struct leased *l, int64_t lateness_ms,
                                         int64_t now_ms)
{
    if (settle_if_late(l, lateness_ms, now_ms))
        return true;
    if (is_poison(l)) {
        settle_dead(l, REASON_RETRIES);
        return true;
    }
    struct err err;
    if (route_target(l->sched->route, l->job, &err) == 0)
        return false;
    tries_set_error(&l->tries, err.text);
    settle_dead(l, REASON_NO_ROUTE);
    return true;
}

/* Check a dead letter on its way to the dead-letter sink. */
static bool settle_if_dead_undeliverable(struct leased *l)
{
    struct route *route = l->sched->route;
    if (route->dead == NULL) { /* a reload has removed the route's dead-letter sink */
        settle_bury(l);
        return true;
    }
    if (route->dead->use == PART_USED &&
        route->dead->in_flight < route->dead->max_in_flight)
        return false;
    settle_retry(l, dead_slot_ms(route));
    return true;
}

bool settle_if_unreadable(struct leased *l, const struct store_claim_item *claimed,
                          const struct err *err)
{
    if (claimed->record.n == 0) {
        struct log_about about = route_about(l->sched->route, claimed->id, NULL);
        log_event(LOG_ERROR, &about, "the record of the job is missing in Redis");
        return true;
    }
    if (l->job != NULL)
        return false;
    if (job_is_newer(claimed->record)) {
        struct log_about about = route_about(l->sched->route, claimed->id, NULL);
        about.err = err->text;
        about.limit = &l->sched->route->complain_newer;
        l->sched->route->stats.newer++;
        log_event(LOG_ERROR, &about,
                  "a newer version of tarry wrote this job; it stays in Redis until that "
                  "version runs");
        settle_park(l, NEWER_MS);
        return true;
    }
    tries_set_error(&l->tries, err->text);
    tries_set_reason(&l->tries, reason_name(REASON_UNDECODABLE));
    settle_bury(l);
    return true;
}

bool settle_if_undeliverable(struct leased *l, int64_t lateness_ms, int64_t now_ms)
{
    return l->tries.reason[0] != '\0'
               ? settle_if_dead_undeliverable(l)
               : settle_if_live_undeliverable(l, lateness_ms, now_ms);
}
