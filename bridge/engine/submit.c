/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/submit.h"
#include "bridge/engine/about.h"
#include "bridge/engine/admit.h"
#include "bridge/engine/tap.h"
#include "bridge/engine/bridge.h"
#include "bridge/job/tries.h"
#include "bridge/engine/name.h"
#include "bridge/queue/queue_place.h"
#include "bridge/engine/route.h"

#include <stdio.h>
#include <stdlib.h>

/* A job on its way into Redis. */
struct submission {
    struct source *src;
    struct route *route;
    stored_cb *done;
    void *arg;
    int64_t bytes, due_ms;
    bool counted;        /* in the flow */
    bool unknown;        /* that name is known to nobody else */
    bool due_now;        /* when it is stored, by Redis' clock */
    bool clamped;        /* its delay was too long */
    bool dead_here;      /* a dead letter that no dead-letter sink gets */
    enum stored outcome; /* what "stored" means for it */
    const char *reason;
    char why[256];
    char id[JOB_ID_MAX];
    size_t id_n;
};

static void tell_tap(const struct submission *sub, enum stored outcome)
{
    static const char *const words[] = {
        [STORED] = "stored",         [STORED_INSTEAD] = "replaced",
        [STORED_BEFORE] = "known",   [STORED_DEAD] = "dead",
        [STORED_NONE] = "cancelled", [REFUSED] = "refused",
        [NOT_STORED] = "not-stored",
    };
    tap_note(sub->route->tap, &(struct tap_event){.what = words[outcome],
                                                  .id = {sub->id, sub->id_n},
                                                  .reason = sub->reason,
                                                  .due_ms = sub->due_ms});
}

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
    src->unstored--;
    sub->route->refs--;
    if (sub->route->tap)
        tell_tap(sub, outcome);
    if (sub->counted)
        flow_gave(&src->bridge->flow, sub->bytes);
    sub->done(sub->arg, &reply);
    free(sub);
}

/* Normal after a crash or a rebalance, for as many records as were not committed. After
 * an operator has set the group back it is not what he wanted. */
static void warn_read_again(struct submission *sub)
{
    const struct log_about about = {.route = sub->route->conf->name,
                                    .source = sub->src->conf->name,
                                    .job = {sub->id, sub->id_n},
                                    .limit = &sub->route->complain_again};
    log_event(LOG_WARN, &about,
              "the record was stored before and is skipped; `tarry kafka rewind %s --to "
              "TIME` delivers records again",
              sub->route->conf->name);
}

/* The answers of lua/enqueue.lua for a job that was not stored, and what is said then. */
static const struct {
    char code;
    enum duplicate kind;
    const char *reason;
} duplicates[] = {{ENQUEUE_EXISTS, DUPLICATE_EXISTS, "exists"},
                  {ENQUEUE_REMEMBERED, DUPLICATE_REMEMBERED, "remembered"},
                  {ENQUEUE_READ_BEFORE, DUPLICATE_READ_AGAIN, "read-again"}};

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

/* The answers of lua/enqueue.lua for a job that was stored, or is as good as that. */
static bool count_stored(struct submission *sub, char code)
{
    struct route *route = sub->route;
    struct route_stats *stats = &route->stats;
    if (code ==
        ENQUEUE_SAME) { /* told as stored: its producer did not hear it the first time */
        stats->duplicates[DUPLICATE_EXISTS]++;
        return true;
    }
    if (code != ENQUEUE_STORED && code != ENQUEUE_REPLACED && code != ENQUEUE_OVERTOOK &&
        code != ENQUEUE_OUTLIVED)
        return false;
    stats->stored++;
    stats->replaced += code == ENQUEUE_REPLACED || code == ENQUEUE_OVERTOOK;
    route->sink->queue_stats.expired += code == ENQUEUE_OUTLIVED;
    stats->clamped += sub->clamped;
    if (sub->outcome == STORED_DEAD && sub->dead_here)
        stats->dead[reason_find(sub->reason)]++;
    return true;
}

static void on_enqueued(void *arg, char code)
{
    struct submission *sub = arg;
    bool instead = code == ENQUEUE_REPLACED && sub->route->sink->rules == NULL;
    if (code == ENQUEUE_READ_BEFORE)
        warn_read_again(sub);
    if (is_duplicate(sub, code)) {
        answer(sub, STORED_BEFORE);
    } else if (count_stored(sub, code)) {
        answer(sub, instead ? STORED_INSTEAD : sub->outcome);
    } else {
        /* Redis may have it, if too few replicas do. */
        sub->route->stats.not_stored += !count_stored(sub, change_was(code));
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

static void note_reason(struct submission *sub, enum reason r, const char *why)
{
    sub->reason = reason_name(r);
    snprintf(sub->why, sizeof(sub->why), "%.*s", (int)sizeof(sub->why) - 1, why);
}

/* What became of a cancel; who waits for the answer hears it, who does not goes on. */
static void on_cancel_done(void *arg, char code)
{
    struct submission *sub = arg;
    static const struct {
        char code;
        const char *reason, *why;
    } rows[] = {
        {CANCEL_IN_FLIGHT, "in-flight",
         "too late: the job is being delivered; if that fails, it is not tried again"},
        {CANCEL_REMEMBERED, "emitted", "too late: the job was delivered"},
        {CANCEL_NOT_THERE, "not-found",
         "no such job waits: delivered before, refused, or never there"}};
    struct route_stats *stats = &sub->route->stats;
    char was = change_was(code); /* if too few replicas know of it */
    stats->cancels += code != 0 && code != CANCEL_READ_BEFORE;
    stats->not_stored += code == 0;
    if (was == CANCEL_CANCELLED || was == CANCEL_CANCELLED_DEAD)
        stats->cancelled++;
    if (code == CANCEL_READ_BEFORE &&
        is_duplicate(sub, code)) { /* carried out when it was read first */
        answer(sub, STORED_BEFORE);
        return;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].code != code)
            continue;
        stats->cancels_missed++;
        sub->reason = rows[i].reason;
        snprintf(sub->why, sizeof(sub->why), "%s", rows[i].why);
        answer(sub, sub->src->ops->answers ? REFUSED : STORED_NONE);
        return;
    }
    answer(sub, code && code == was ? STORED_NONE : NOT_STORED);
}

static void note_admission(struct submission *sub, const struct job *job,
                           const struct admission *a)
{
    sub->route = a->route;
    sub->route->refs++;
    sub->due_now = a->due_now;
    sub->clamped = a->clamped;
    sub->unknown = a->unknown;
    slice_put(sub->id, job->id);
    sub->id_n = job->id.n;
    if (a->route->tap)
        tap_note(a->route->tap, &(struct tap_event){.what = "received",
                                                    .id = job->id,
                                                    .job = job,
                                                    .due_ms = job->due_ms});
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

static void on_not_open(void *arg)
{
    on_enqueued(arg, 0);
}

/* Where a Kafka record has been read; no other job comes from a partition. */
static struct origin origin_of(const struct submission *sub, const struct job *job,
                               const struct bucket *b)
{
    struct origin origin = {NULL, -1, -1, 0};
    if (job->offset >= 0 && job->partition >= 0)
        name_partition(sub->src, sub->route, b, job, &origin);
    return origin;
}

static int64_t answer_ms(const struct submission *sub)
{
    return sub->src->ops->answers ? SUBMIT_ANSWER_MS : 0;
}

static void enqueue(struct submission *sub, struct job *job, struct slice tries)
{
    struct route *route = sub->route;
    const bool lives = sub->outcome != STORED_DEAD;
    char group[ROUTE_GROUP_BYTES];
    sub->due_ms = job->due_ms;
    count_in(sub, admit_job_bytes(job));
    if (!route_is_open(route)) {
        loop_defer(on_not_open, sub);
        return;
    }
    struct bucket *b = route_bucket_of(route, job->id, job->target);
    const struct enqueue how = {
        .tries = tries,
        .origin = origin_of(sub, job, b),
        .deadline_ms = answer_ms(sub),
        .dead = sub->dead_here,
        .at_ms = sub->dead_here ? 0 : job->due_ms + route_spread_ms(route, job),
        .replace = job->replace && lives,
        .again = job->again && lives,
        .unknown = sub->unknown,
        .group = route_group(route, job, group),
        .now = sub->due_now,
        .expires_ms = expiry(route, job),
        .awaited = sub->src->ops->awaits,
    };
    store_enqueue(b, job, &how, on_enqueued, sub);
}

static void on_cancel_not_open(void *arg)
{
    on_cancel_done(arg, 0);
}

static void cancel(struct submission *sub, const struct job *job)
{
    count_in(sub, (int64_t)job->id.n);
    if (!route_is_open(sub->route)) {
        loop_defer(on_cancel_not_open, sub);
        return;
    }
    struct bucket *b = route_bucket_to_cancel(sub->route, job->id, job->target);
    const struct origin origin = origin_of(sub, job, b);
    store_cancel(b, job->id, origin.partition ? &origin : NULL, answer_ms(sub),
                 on_cancel_done, sub);
}

/* The producer hears it at once; or, where nobody waits, the job is kept as a dead
 * letter. */
static void refuse_or_bury(struct submission *sub, struct job *job, const char *reason,
                           const char *why)
{
    enum reason r = reason_find(reason);
    note_reason(sub, r, why);
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
    struct log_about about = about_job(sub->route, job->id, job);
    about.source = sub->src->conf->name;
    about.err = why;
    about.limit = &sub->route->complain;
    log_event(LOG_WARN, &about, "given up: %s", sub->reason);
    sub->outcome = STORED_DEAD;
    /* With a dead-letter sink it waits in the bucket, due now, to be sent there first. A
     * dead letter that comes back from there would go round for ever. */
    sub->dead_here = sub->route->dead == NULL || job_header(job, "delay-dead-reason");
    enqueue(sub, job, buf_slice(&text));
    buf_free(&text);
}

static struct submission *submission_new(struct source *src, stored_cb *done, void *arg)
{
    struct submission *sub = mem_alloc(sizeof(*sub));
    sub->src = src;
    sub->done = done;
    sub->arg = arg;
    sub->outcome = STORED;
    src->received++;
    src->open++;
    src->unstored++;
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

static void answer_later(struct submission *sub, const char *why)
{
    sub->route->stats.not_stored++;
    snprintf(sub->why, sizeof(sub->why), "%s", why);
    answer(sub, NOT_STORED);
}

static void on_pool_away(void *arg)
{
    answer_later(arg, "the Redis of this pool is away; send it again");
}

/* Who would not hear it is held back instead, or feeds other routes too (route_state.h).
 */
static bool is_turned_away(const struct submission *sub)
{
    return sub->route->state == ROUTE_DRAINING && sub->src->ops->answers;
}

static void on_draining(void *arg)
{
    answer_later(arg, "the route drains: it takes no jobs until an operator lets it");
}

static void refuse_unrouted(struct submission *sub, const struct admission *a)
{
    sub->src->unrouted++;
    note_reason(sub, REASON_NO_ROUTE, a->why.text);
    loop_defer(on_refused, sub);
}

void source_submit(struct source *src, struct job *job, stored_cb *done, void *arg)
{
    struct submission *sub = submission_new(src, done, arg);
    struct admission a;
    FAULT("S1");
    admit(src, job, &a);
    note_admission(sub, job, &a);
    bool routed = a.found || !src->ops->answers; /* else it concerns no route */
    sub->route->stats.received += routed;
    if (!routed) {
        refuse_unrouted(sub, &a);
    } else if (pool_is_away(sub)) {
        loop_defer(on_pool_away, sub);
    } else if (a.reason) {
        refuse_or_bury(sub, job, a.reason, a.why.text);
    } else if (a.op == DELAY_CANCEL) {
        cancel(sub, job);
    } else if (is_turned_away(sub)) {
        loop_defer(on_draining, sub);
    } else {
        if (!job->timed)
            admit_strip(src, sub->route, job);
        enqueue(sub, job, (struct slice){NULL, 0});
    }
    job_free(job);
}

void source_quarantine(struct source *src, struct job *job, const char *reason,
                       const char *why, stored_cb *done, void *arg)
{
    struct submission *sub = submission_new(src, done, arg);
    struct admission a;
    admit_unread(src, job, &a); /* its own route, so that it can be replayed */
    note_admission(sub, job, &a);
    sub->route->stats.received++;
    refuse_or_bury(sub, job, reason, why);
    job_free(job);
}
