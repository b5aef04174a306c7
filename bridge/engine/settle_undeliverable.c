/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/settle.h"
#include "bridge/engine/about.h"
#include "bridge/base/retry.h"
#include "bridge/engine/bridge.h"
#include "bridge/job/tries.h"
#include "bridge/engine/route.h"

enum {
    NO_CREDIT_MS = 250, /* the dead-letter sink is busy */
    NEWER_MS = 10000,   /* before a job of a newer tarry is claimed again */
    LEASES_LOST = 3 /* tolerated in addition to the retry schedule: crashes of tarry */
};

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

/* max_lateness applies only to the first attempt, and not to replayed jobs. */
static bool is_late(const struct route *route, const struct tries *t, int64_t lateness_ms)
{
    return route->conf->max_lateness_ms > 0 && t->attempts == 0 && t->replays == 0 &&
           lateness_ms > route->conf->max_lateness_ms;
}

/* Settle a job that is too late by its deliver-before or by max_lateness. false: deliver
 * it. */
static bool settle_if_late(struct leased *l, int64_t lateness_ms, int64_t now_ms)
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
        struct log_about about = about_job(l->sched->route, claimed->id, NULL);
        log_event(LOG_ERROR, &about, "the record of the job is missing in Redis");
        return true;
    }
    if (l->job != NULL)
        return false;
    if (job_is_newer(claimed->record)) {
        struct log_about about = about_job(l->sched->route, claimed->id, NULL);
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
