/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/submit.h"
#include "bridge/bridge.h"
#include "bridge/judge.h"
#include "bridge/name.h"
#include "bridge/passage.h"
#include "bridge/queue_place.h"
#include "bridge/route.h"
#include "bridge/tries.h"

#include <stdio.h>
#include <stdlib.h>

/* A job on its way into Redis. */
struct submission {
    struct source *src;
    struct route *route;
    struct passage way;
    stored_cb *done;
    void *arg;
    int64_t bytes, due_ms;
    bool counted;        /* in the flow */
    bool named;          /* by its producer, or after its record */
    bool unknown;        /* that name is known to nobody else */
    bool due_now;        /* when it is stored, by Redis' clock */
    bool clamped;        /* its delay was too long */
    enum stored outcome; /* what "stored" means for it */
    const char *reason;
    char why[256];
    char id[JOB_ID_MAX];
    size_t id_n;
};

static void answer(struct submission *sub, enum stored outcome)
{
    struct source *src = sub->src;
    const struct stored_reply reply = {
        .outcome = outcome,
        .id = {sub->id, sub->id_n},
        .due_ms = sub->due_ms,
        .reason = sub->reason ? sub->reason : "",
        .why = sub->why,
    };
    src->open--;
    if (sub->counted)
        flow_gave(&src->bridge->flow, sub->bytes);
    sub->done(sub->arg, &reply);
    free(sub);
}

/* Normal after a crash or a rebalance, for as many records as were not committed. A topic
 * that was deleted and made anew looks the same, and its records are not stored: so it is
 * said. */
static void warn_read_again(struct submission *sub)
{
    log_limited(
        &sub->route->complain_again, LOG_WARN, sub->route->conf->name,
        "record %.*s was stored before and is skipped; if its topic was deleted and "
        "made anew, delete the hash %s",
        (int)sub->id_n, sub->id, bucket_ingest_key(sub->way.bucket));
}

/* The letters of lua/enqueue.lua for a job that was not stored, and what is said then. */
static const struct {
    char code;
    enum duplicate kind;
    const char *reason;
} duplicates[] = {{'d', DUPLICATE_EXISTS, "exists"},
                  {'m', DUPLICATE_REMEMBERED, "remembered"},
                  {'k', DUPLICATE_READ_AGAIN, "read-again"}};

static bool is_duplicate(struct submission *sub, char code)
{
    for (size_t i = 0; i < sizeof(duplicates) / sizeof(duplicates[0]); i++) {
        if (duplicates[i].code != code)
            continue;
        sub->route->stats.duplicates[duplicates[i].kind]++;
        sub->reason = duplicates[i].reason;
        sub->due_ms = -1; /* the stored one's, which was not asked for */
        return true;
    }
    return false;
}

static void on_enqueued(void *arg, char code)
{
    struct submission *sub = arg;
    struct route_stats *stats = &sub->route->stats;
    if (code == 'k')
        warn_read_again(sub);
    if (is_duplicate(sub, code)) {
        answer(sub, STORED_BEFORE);
    } else if (code == 's' || code == 'r' || code == 'i') {
        stats->stored++;
        stats->replaced += code != 's';
        stats->clamped += sub->clamped;
        if (sub->outcome == STORED_DEAD && sub->route->dead == NULL)
            stats->dead[reason_find(sub->reason)]++;
        answer(sub, code == 'r' ? STORED_INSTEAD : sub->outcome);
    } else {
        stats->not_stored++;
        snprintf(sub->why, sizeof(sub->why),
                 "Redis did not answer in time; the job may "
                 "have been stored: send it again with the same id");
        answer(sub, NOT_STORED);
    }
}

static void on_refused(void *arg)
{
    answer(arg, REFUSED);
}

/* What became of a cancel; who waits for the answer hears it, who does not goes on. */
static void on_cancel_done(void *arg, char code)
{
    struct submission *sub = arg;
    static const struct {
        char code;
        const char *reason, *why;
    } rows[] = {
        {'f', "in-flight",
         "too late: the job is being delivered; if that fails, it is not tried again"},
        {'m', "emitted", "too late: the job was delivered"},
        {'n', "not-found", "no such job waits: delivered before, or never there"}};
    if (code == 'c' || code == 'e')
        sub->route->stats.cancelled++;
    if (code == 'k' && is_duplicate(sub, code)) { /* carried out when it was read first */
        answer(sub, STORED_BEFORE);
        return;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].code != code)
            continue;
        sub->route->stats.cancels_missed++;
        sub->reason = rows[i].reason;
        snprintf(sub->why, sizeof(sub->why), "%s", rows[i].why);
        answer(sub, sub->src->ops->answers ? REFUSED : STORED_NONE);
        return;
    }
    answer(sub, code ? STORED_NONE : NOT_STORED);
}

static void name_job(struct submission *sub, struct job *job, struct slice wanted)
{
    if (wanted.n > 0)
        job->id = job_keep(job, wanted);
    else if (job->id.n == 0 && job->offset >= 0) {
        sub->unknown = job->partition >= 0;
        job->id = name_of_record(job);
    }
    sub->named = job->id.n > 0 && job->id.n <= JOB_ID_MAX;
    if (!sub->named)
        job->id = name_new(sub->src->bridge, job);
    memcpy(sub->id, job->id.p, job->id.n);
    sub->id_n = job->id.n;
}

static void count_in(struct submission *sub, int64_t bytes)
{
    sub->bytes = bytes;
    sub->counted = true;
    flow_took(&sub->src->bridge->flow, bytes);
}

/* Of a queue's job: the time at which it vanishes. Elsewhere deliver-before is judged
 * when the job is handed over. */
static int64_t expiry(const struct route *route, const struct job *job)
{
    const struct queue_rules *rules = route->sink->rules;
    if (rules == NULL || job->expires_ms > 0)
        return rules ? job->expires_ms : 0;
    return rules->ttl_ms > 0 && !job->timed ? job->due_ms + rules->ttl_ms : 0;
}

/* Leaves route, source and id for passage.h; on_answer is called once. */
static struct passage *begin(struct submission *sub, const struct job *job,
                             change_cb *on_answer, int64_t bytes)
{
    struct source *src = sub->src;
    bool of_record = job->offset >= 0 && job->partition >= 0;
    sub->way =
        (struct passage){.route = sub->route,
                         .src = of_record ? src : NULL,
                         .how.deadline_ms = src->ops->answers ? SUBMIT_ANSWER_MS : 0,
                         .id = {sub->id, sub->id_n},
                         .cb = on_answer,
                         .arg = sub};
    count_in(sub, bytes);
    return &sub->way;
}

static void enqueue(struct submission *sub, struct job *job, struct slice tries,
                    bool dead)
{
    struct passage *way = begin(sub, job, on_enqueued, judge_job_bytes(job));
    struct enqueue *how = &way->how;
    char group[ROUTE_GROUP_BYTES];
    how->tries = tries;
    how->dead = dead;
    how->replace = job->replace && sub->outcome != STORED_DEAD;
    how->again = job->again && sub->outcome != STORED_DEAD;
    how->unknown = sub->unknown;
    how->now = sub->due_now;
    how->expires_ms = expiry(sub->route, job);
    how->awaited = sub->src->ops->awaits;
    how->group = route_group(sub->route, job, group);
    how->at_ms = dead ? 0 : job->due_ms + route_spread_ms(sub->route, job);
    sub->due_ms = job->due_ms;
    passage_enqueue(way, job, sub->named || way->src);
}

static void cancel(struct submission *sub, const struct job *job)
{
    passage_cancel(begin(sub, job, on_cancel_done, (int64_t)job->id.n), job);
}

/* The producer hears it at once; or, where nobody waits, the job is kept as a dead
 * letter. */
static void refuse_or_bury(struct submission *sub, struct job *job, const char *reason,
                           const char *why)
{
    enum reason r = reason_find(reason);
    sub->reason = reason_name(r);
    snprintf(sub->why, sizeof(sub->why), "%s", why);
    bool kept = r == REASON_TOO_LONG && sub->route->conf->too_long == TOO_LONG_DEAD;
    if (sub->src->ops->answers && !kept) {
        sub->route->stats.refused[r]++;
        loop_defer(on_refused, sub);
        return;
    }
    struct tries tries = {0};
    struct buf text = {0};
    tries.first_ms = tries.last_ms = job->due_ms;
    tries_set_reason(&tries, sub->reason);
    tries_set_error(&tries, why);
    tries_format(&tries, &text);
    log_limited(&sub->route->complain, LOG_WARN, sub->route->conf->name,
                "job %.*s given up, %s: %s", SLICE_ARG(job->id), sub->reason,
                tries.error);
    sub->outcome = STORED_DEAD;
    /* With a dead-letter sink it waits in the bucket, due now, to be sent there first. */
    enqueue(sub, job, buf_slice(&text), sub->route->dead == NULL);
    buf_free(&text);
}

static struct submission *submission_new(struct source *src, stored_cb *done, void *arg)
{
    struct submission *sub = mem_alloc(sizeof(*sub));
    sub->src = src;
    sub->done = done;
    sub->arg = arg;
    sub->outcome = STORED;
    src->open++;
    return sub;
}

/* The Redis of a pool is not there: by whose clock the job would be due is not known, or
 * nobody knows when it could be stored. The main one holds back the sources instead. */
static bool pool_is_away(const struct submission *sub)
{
    const struct store *st = route_store(sub->route);
    if (st == sub->src->bridge->store)
        return false;
    return !store_knows_time(st) || (sub->src->ops->answers && !store_is_up(st));
}

static void on_pool_away(void *arg)
{
    struct submission *sub = arg;
    sub->route->stats.not_stored++;
    snprintf(sub->why, sizeof(sub->why), "the Redis of this pool is away; send it again");
    answer(sub, NOT_STORED);
}

void source_submit(struct source *src, struct job *job, stored_cb *done, void *arg)
{
    struct submission *sub = submission_new(src, done, arg);
    struct judgement j;
    struct err err = {{0}};
    int bad;
    FAULT("S1");
    struct route *found = route_for(src, job, &bad, &err);
    sub->route = found ? found : route_first(src);
    sub->route->stats.received++;
    job->source = job_keep(job, slice_of(src->conf->name));
    judge_job(src, sub->route, job, store_now_ms(route_store(sub->route)), &j);
    sub->due_now = j.due_now;
    sub->clamped = j.clamped;
    if (j.target_given)
        bad = 0;
    if (found && bad == 0 && found->sink->rules && !queue_name_is_good(job->target))
        bad = err_set(&err, "the route %s names no queue for it", found->conf->name);
    const char *reason = j.reason, *why = j.why;
    if (found == NULL || (bad < 0 && j.op != DELAY_CANCEL)) {
        reason = reason_name(REASON_NO_ROUTE);
        why = err.text;
    }
    /* What is refused does not take the id of a job that is there, or yet to come. */
    name_job(sub, job, reason ? (struct slice){NULL, 0} : j.id);
    if (pool_is_away(sub)) {
        loop_defer(on_pool_away, sub);
    } else if (reason) {
        refuse_or_bury(sub, job, reason, why);
    } else if (j.op == DELAY_CANCEL) {
        cancel(sub, job);
    } else {
        if (!job->timed)
            judge_strip(src, sub->route, job);
        enqueue(sub, job, (struct slice){NULL, 0}, false);
    }
    job_free(job);
}

void source_quarantine(struct source *src, struct job *job, const char *reason,
                       const char *why, stored_cb *done, void *arg)
{
    struct submission *sub = submission_new(src, done, arg);
    struct err err;
    int bad;
    /* Its own, so that it can be replayed. */
    struct route *found = route_for(src, job, &bad, &err);
    sub->route = found ? found : route_first(src);
    sub->route->stats.received++;
    job->source = job_keep(job, slice_of(src->conf->name));
    job->due_ms = store_now_ms(route_store(sub->route));
    name_job(sub, job, (struct slice){NULL, 0});
    refuse_or_bury(sub, job, reason, why);
    job_free(job);
}
