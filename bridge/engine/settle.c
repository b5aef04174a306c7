/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/settle.h"
#include "bridge/engine/about.h"
#include "bridge/engine/tap.h"
#include "bridge/engine/bridge.h"
#include "bridge/job/repeat.h"
#include "bridge/job/tries.h"
#include "bridge/engine/route.h"

#include <inttypes.h>
#include <stdlib.h>

enum { RUNS_SKIPPED_MAX = 10000 }; /* per change, so that the loop is not blocked */

static int64_t now_ms(const struct route *route)
{
    return store_now_ms(route->bridge->store);
}

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

struct burial {
    struct route *route;
    enum reason reason;
};

static void on_buried(void *arg, char code)
{
    struct burial *burial = arg;
    if (code == RETRY_BURIED)
        burial->route->stats.dead[burial->reason]++;
    on_put_back(burial->route, code);
    free(burial);
}

/* --- the changes --- */

static void put_back(const struct leased *l, int64_t wait_ms, struct slice tries)
{
    struct route *route = l->sched->route;
    store_retry(l->sched->bucket, l->id, l->lease, now_ms(route) + wait_ms, tries,
                on_put_back, route);
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
    struct burial *burial = mem_alloc(sizeof(*burial));
    struct buf text = {0};
    *burial = (struct burial){l->sched->route, reason_find(l->tries.reason)};
    tries_format(&l->tries, &text);
    store_bury(l->sched->bucket, l->id, l->lease, buf_slice(&text), on_buried, burial);
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
        store_ack(s->bucket, l->id, l->lease, on_done, s->route);
}

static bool is_missed(const struct leased *l, int64_t now)
{
    int64_t late_ms = l->sched->route->conf->max_lateness_ms;
    return late_ms > 0 && now - due_ms(l) > late_ms;
}

/* A number of dropped runs. Each but the last had a next run; `again`: so had the
 * last. */
struct drop {
    struct route *route;
    enum reason reason;
    unsigned runs;
    bool again;
};

static void on_dropped(void *arg, char code)
{
    struct drop *drop = arg;
    struct route_stats *stats = &drop->route->stats;
    if (code != RETRY_STALE) {
        stats->expired[drop->reason == REASON_LATE] += drop->runs;
        stats->repeated += drop->runs - !drop->again;
    }
    on_put_back(drop->route, code);
    free(drop);
}

static void tell_tap(const struct leased *l, const char *what, enum reason reason)
{
    tap_note(l->sched->route->tap, &(struct tap_event){.what = what,
                                                       .id = l->id,
                                                       .job = l->job,
                                                       .reason = reason_name(reason),
                                                       .due_ms = l->job->due_ms});
}

/* Drop all missed runs in one change. */
void settle_drop(struct leased *l, enum reason reason)
{
    struct sched *s = l->sched;
    struct drop *drop = mem_alloc(sizeof(*drop));
    const int64_t now = now_ms(s->route);
    if (s->route->tap)
        tell_tap(l, "dropped", reason);
    *drop = (struct drop){s->route, reason, 1, repeats(l) && next_run(l->job)};
    while (drop->again && drop->runs < RUNS_SKIPPED_MAX && is_missed(l, now)) {
        drop->again = next_run(l->job);
        drop->runs++;
    }
    if (drop->again)
        store_repeat(s->bucket, l->job, l->lease, due_ms(l), on_dropped, drop);
    else
        store_expire(s->bucket, l->id, l->lease, on_dropped, drop);
}

/* A run that is dead; again: the job has a next run. */
struct lost {
    struct route *route;
    enum reason reason;
    bool again;
};

static void on_lost(void *arg, char code)
{
    struct lost *lost = arg;
    struct route_stats *stats = &lost->route->stats;
    if (code == RETRY_KEPT)
        stats->dead[lost->reason] += lost->route->dead == NULL;
    if (code == RETRY_PUT_BACK) /* the dead run was stored before */
        stats->dropped_dead++;
    if (code == RETRY_KEPT || code == RETRY_PUT_BACK)
        stats->repeated += lost->again;
    on_put_back(lost->route, code);
    free(lost);
}

static void keep_run(struct leased *l)
{
    struct route *route = l->sched->route;
    struct lost *lost = mem_alloc(sizeof(*lost));
    struct buf text = {0};
    struct job run = *l->job; /* l->job owns its memory */
    run.id = job_format(l->job, "%.*s@%" PRId64, SLICE_ARG(l->id), run.due_ms);
    run.repeat = (struct slice){NULL, 0};
    tries_format(&l->tries, &text);
    *lost = (struct lost){route, reason_find(l->tries.reason), next_run(l->job)};
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
    struct log_about about = about_job(route, l->id, l->job);
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
