/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/submit.h"
#include "bridge/bridge.h"
#include "bridge/name.h"
#include "bridge/queue_place.h"
#include "bridge/route.h"
#include "bridge/tries.h"

#include <stdio.h>
#include <stdlib.h>

/* A job on its way into Redis. */
struct submission {
    struct source *src;
    struct route *route;
    struct bucket *bucket;
    stored_cb *done;
    void *arg;
    int64_t bytes, due_ms;
    bool counted;        /* in the flow */
    bool due_now;        /* when it is stored, by Redis' clock */
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
        (int)sub->id_n, sub->id, bucket_ingest_key(sub->bucket));
}

static void on_enqueued(void *arg, char code)
{
    struct submission *sub = arg;
    struct route_stats *stats = &sub->route->stats;
    switch (code) {
    case 's':
        stats->stored++;
        if (sub->outcome == STORED_DEAD && sub->route->dead == NULL)
            stats->dead[reason_find(sub->reason)]++;
        answer(sub, sub->outcome);
        break;
    case 'd':
    case 'k':
        if (code == 'k')
            warn_read_again(sub);
        stats->duplicates++;
        sub->due_ms = -1; /* the stored one's, which was not asked for */
        answer(sub, STORED_BEFORE);
        break;
    default:
        stats->not_stored++;
        snprintf(sub->why, sizeof(sub->why),
                 "Redis did not answer in time; the job may "
                 "have been stored: send it again with the same id");
        answer(sub, NOT_STORED);
        break;
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
        {'f', "in-flight", "the job is being delivered: too late to cancel"},
        {'n', "not-found", "no such job waits: delivered before, or never there"}};
    if (code == 'c' || code == 'e')
        sub->route->stats.cancelled++;
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

/* The headers that were meant for us do not travel on; delay-hops does, to be counted. */
static void strip_headers(struct job *job, const struct delay_rules *rules)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < job->header_count; i++)
        if (!delay_is_control(job->headers[i].name, rules) ||
            slice_is_nocase(job->headers[i].name, "delay-hops"))
            job->headers[kept++] = job->headers[i];
    job->header_count = kept;
}

static void name_job(struct submission *sub, struct job *job, struct slice wanted)
{
    if (wanted.n > 0)
        job->id = job_keep(job, wanted);
    else if (job->id.n == 0 && job->offset >= 0)
        job->id = name_of_record(job);
    if (job->id.n == 0 || job->id.n > JOB_ID_MAX)
        job->id = name_new(sub->src->bridge, job);
    memcpy(sub->id, job->id.p, job->id.n);
    sub->id_n = job->id.n;
}

static size_t job_bytes(const struct job *job)
{
    size_t n = job->payload.n + job->key.n + job->topic.n + job->target.n + 64;
    for (unsigned i = 0; i < job->header_count; i++)
        n += job->headers[i].name.n + job->headers[i].value.n + 6;
    return n;
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

static void enqueue(struct submission *sub, const struct job *job, struct slice tries,
                    bool dead)
{
    struct source *src = sub->src;
    struct enqueue how = {.tries = tries,
                          .origin = {NULL, -1, -1},
                          .deadline_ms = src->ops->answers ? SUBMIT_ANSWER_MS : 0,
                          .dead = dead,
                          .replace = job->replace,
                          .now = sub->due_now,
                          .expires_ms = expiry(sub->route, job),
                          .awaited = src->ops->awaits};
    sub->bucket = route_bucket_of(sub->route, job->id, job->target);
    if (job->offset >= 0 && job->partition >= 0)
        name_partition(src, sub->bucket, job, &how.origin);
    sub->due_ms = job->due_ms;
    count_in(sub, (int64_t)job_bytes(job));
    store_enqueue(sub->bucket, job, &how, on_enqueued, sub);
}

static void cancel(struct submission *sub, const struct job *job)
{
    int64_t deadline_ms = sub->src->ops->answers ? SUBMIT_ANSWER_MS : 0;
    struct bucket *b = route_bucket_of(sub->route, job->id, job->target);
    count_in(sub, (int64_t)job->id.n);
    store_cancel(b, job->id, deadline_ms, on_cancel_done, sub);
}

/* The producer hears it at once; or, where nobody waits, the job is kept as a dead
 * letter. */
static void refuse_or_bury(struct submission *sub, const struct job *job,
                           const char *reason, const char *why)
{
    sub->reason = reason_name(reason_find(reason));
    snprintf(sub->why, sizeof(sub->why), "%s", why);
    if (sub->src->ops->answers) {
        sub->route->stats.refused[reason_find(reason)]++;
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

/* What of a job's header contract this version can't do; NULL: nothing. */
static const char *impossible(const struct delay_read *read, const char **why)
{
    static const struct {
        const char *reason, *why;
    } rows[] = {
        {"bad-op", "delay-op: replace is not possible yet: cancel and add"},
        {"bad-target", "delay-to: this route allows no target of the message's own"},
        {"bad-retry", "delay-retry: no schedule of that name is configured"}};
    bool hit[] = {read->op == DELAY_REPLACE, read->to.p != NULL, read->retry.p != NULL};
    for (unsigned i = 0; i < 3; i++) {
        if (hit[i]) {
            *why = rows[i].why;
            return rows[i].reason;
        }
    }
    return NULL;
}

/* The reason why the job can't be accepted, or NULL. Sets its due time either way. */
static const char *judge(struct submission *sub, struct job *job,
                         const struct delay_read *read, const char **why)
{
    const struct bridge *bridge = sub->src->bridge;
    int64_t now_ms = store_now_ms(route_store(sub->route));
    const char *reason = read->reason;
    *why = read->why;
    if (reason == NULL)
        reason = impossible(read, why);
    if (reason == NULL && job_bytes(job) > (size_t)bridge->conf->daemon.job_max_bytes) {
        reason = reason_name(REASON_OVERSIZE);
        *why = "larger than daemon.job_max";
    }
    job->due_ms = reason ? now_ms : read->due_ms;
    job->expires_ms = reason ? 0 : read->expires_ms;
    /* Behind those that are due already; what was asked for a time has its own place. */
    sub->due_now = sub->route->sink->rules && (reason || read->undelayed);
    return reason;
}

/* The times of a job whose source knows them; see struct job. */
static void read_times(const struct job *job, const struct route *route, int64_t now_ms,
                       struct delay_read *read)
{
    *read = (struct delay_read){.due_ms = job->due_ms > 0 ? job->due_ms : now_ms,
                                .undelayed = job->at_once || job->due_ms == 0,
                                .expires_ms = job->expires_ms};
    if (job->due_ms - now_ms <= route->conf->max_delay_ms)
        return;
    read->reason = reason_name(REASON_TOO_LONG);
    snprintf(read->why, sizeof(read->why), "longer than max_delay of the route");
}

/* The Redis of a pool is not there: by whose clock the job would be due is not known, or
 * nobody knows when it could be stored. The main one holds back the sources instead. */
static bool pool_is_away(const struct submission *sub)
{
    const struct store *st = route_store(sub->route);
    if (st == sub->src->bridge->store)
        return false;
    return !clock_is_set(store_clock(st)) || (sub->src->ops->answers && !store_is_up(st));
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
    struct bridge *bridge = src->bridge;
    struct submission *sub = submission_new(src, done, arg);
    struct delay_read read;
    struct err err = {{0}};
    int bad;
    struct route *found = route_for(src, job, &bad, &err);
    sub->route = found ? found : route_first(src);
    sub->route->stats.received++;
    job->source = job_keep(job, slice_of(src->conf->name));

    int64_t now_ms = store_now_ms(route_store(sub->route));
    const struct delay_rules rules = {
        .bare_unit = src->conf->bare_unit,
        .rename = src->conf->rename.n > 0 ? &src->conf->rename : NULL,
        .default_delay_ms = sub->route->conf->delay_ms,
        .max_delay_ms = sub->route->conf->max_delay_ms,
        .hops_max = bridge->conf->daemon.hops_max,
    };
    if (job->timed)
        read_times(job, sub->route, now_ms, &read);
    else
        delay_read(job, &rules, now_ms, &read);
    const char *why, *reason = judge(sub, job, &read, &why);
    name_job(sub, job, read.reason ? (struct slice){NULL, 0} : read.id);
    if (found && bad == 0 && found->sink->rules && !queue_name_is_good(job->target))
        bad = err_set(&err, "the route %s names no queue for it", found->conf->name);
    if (pool_is_away(sub)) {
        loop_defer(on_pool_away, sub);
    } else if (found == NULL || bad < 0) {
        refuse_or_bury(sub, job, reason_name(REASON_NO_ROUTE), err.text);
    } else if (reason) {
        refuse_or_bury(sub, job, reason, why);
    } else if (read.op == DELAY_CANCEL) {
        cancel(sub, job);
    } else {
        if (!job->timed)
            strip_headers(job, &rules);
        enqueue(sub, job, (struct slice){NULL, 0}, false);
    }
    job_free(job);
}

void source_quarantine(struct source *src, struct job *job, const char *reason,
                       const char *why, stored_cb *done, void *arg)
{
    struct submission *sub = submission_new(src, done, arg);
    sub->route = route_first(src);
    sub->route->stats.received++;
    job->source = job_keep(job, slice_of(src->conf->name));
    job->due_ms = store_now_ms(route_store(sub->route));
    name_job(sub, job, (struct slice){NULL, 0});
    refuse_or_bury(sub, job, reason, why);
    job_free(job);
}
