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

/* A job on its way into Redis, and what its source is told then. */
struct submission {
    struct change change; /* first: the store frees it after its callback */
    struct source *src;
    struct route *route;
    stored_cb *done;
    void *arg;
    int64_t bytes;             /* in the flow; 0: it is not in it */
    bool clamped;              /* its delay was too long */
    struct stored_reply reply; /* outcome: what "stored" means for it */
    char why[256];             /* of the reply, where admission gives one */
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
                                                  .id = sub->change.id,
                                                  .reason = sub->reply.reason,
                                                  .due_ms = sub->reply.due_ms});
}

static void answer(struct submission *sub, enum stored outcome)
{
    struct source *src = sub->src;
    src->open--;
    src->unstored--;
    sub->route->refs--;
    if (sub->route->tap)
        tell_tap(sub, outcome);
    if (sub->bytes > 0)
        flow_gave(&src->bridge->flow, sub->bytes);
    sub->reply.outcome = outcome;
    sub->done(sub->arg, &sub->reply);
}

/* Normal after a crash or a rebalance, for as many records as were not committed. After
 * an operator has set the group back it is not what he wanted. */
static void warn_read_again(struct submission *sub)
{
    const struct log_about about = {.route = sub->route->conf->name,
                                    .source = sub->src->conf->name,
                                    .job = sub->change.id,
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
        sub->reply.reason = duplicates[i].reason;
        sub->reply.due_ms = -1; /* the stored one's, which was not asked for */
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
    if (sub->change.how == ENQUEUE_HOW_DEAD)
        stats->dead[reason_find(sub->reply.reason)]++;
    return true;
}

static const char no_answer[] = "Redis did not answer in time; the job may have been "
                                "stored: send it again with the same id";

static void on_enqueued(void *arg, char code)
{
    struct submission *sub = arg;
    bool instead = code == ENQUEUE_REPLACED && sub->route->sink->rules == NULL;
    if (code == ENQUEUE_READ_BEFORE)
        warn_read_again(sub);
    if (is_duplicate(sub, code)) {
        answer(sub, STORED_BEFORE);
    } else if (count_stored(sub, code)) {
        answer(sub, instead ? STORED_INSTEAD : sub->reply.outcome);
    } else {
        /* Redis may have it, if too few replicas do. */
        sub->route->stats.not_stored += !count_stored(sub, change_was(code));
        sub->reply.why = no_answer;
        answer(sub, NOT_STORED);
    }
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
        sub->reply.reason = rows[i].reason;
        sub->reply.why = rows[i].why;
        answer(sub, sub->src->ops->answers ? REFUSED : STORED_NONE);
        return;
    }
    answer(sub, code && code == was ? STORED_NONE : NOT_STORED);
}

/* Answers a submission that never went to a bucket. */
static void on_decided(void *arg)
{
    struct submission *sub = arg;
    answer(sub, sub->reply.outcome);
    free(sub);
}

/* --- what is to be done --- */

/* The Redis of a pool is not there: by whose clock the job would be due is not known, or
 * nobody knows when it could be stored. The main one holds back the sources instead. */
static bool pool_is_away(const struct admission *a)
{
    const struct store *st = route_store(a->route);
    if (st == a->src->bridge->store)
        return false;
    return !store_knows_time(st) || (a->src->ops->answers && !store_is_up(st));
}

static enum stored put_off(struct admission *a, const char *why)
{
    a->route->stats.not_stored++;
    a->reason = NULL;
    err_set(&a->why, "%s", why);
    return NOT_STORED;
}

/* Keeps it as a dead letter: its producer gets no answer, or the route says so. */
static bool is_kept(const struct admission *a)
{
    return !a->src->ops->answers || (reason_find(a->reason) == REASON_TOO_LONG &&
                                     a->route->conf->too_long == TOO_LONG_DEAD);
}

/* Returns what success means to the source. REFUSED or NOT_STORED: Redis is not asked,
 * and a says why. */
static enum stored decide(struct admission *a)
{
    struct source *src = a->src;
    struct route *route = a->route;
    if (!a->found && src->ops->answers) { /* it concerns no route */
        src->unrouted++;
        return REFUSED;
    }
    route->stats.received++;
    if (pool_is_away(a))
        return put_off(a, "the Redis of this pool is away; send it again");
    if (a->reason && !is_kept(a)) {
        route->stats.refused[reason_find(a->reason)]++;
        return REFUSED;
    }
    bool cancels = a->reason == NULL && a->op == DELAY_CANCEL;
    /* A source that would not hear it is held back instead, or feeds other routes too
     * (route_state.h). */
    if (a->reason == NULL && !cancels && route->state == ROUTE_DRAINING &&
        src->ops->answers)
        return put_off(a, "the route drains: it takes no jobs until an operator lets it");
    if (!route_is_open(route))
        return put_off(a, cancels ? "" : no_answer);
    return a->reason ? STORED_DEAD : cancels ? STORED_NONE : STORED;
}

/* --- what Redis is asked --- */

/* Of a queue's job: the time at which it vanishes. Elsewhere deliver-before is judged
 * when the job is handed over. */
static int64_t expiry(const struct route *route, const struct job *job)
{
    const struct queue_rules *rules = route->sink->rules;
    if (rules == NULL || job->expires_ms > 0)
        return rules ? job->expires_ms : 0;
    return rules->ttl_ms > 0 && !job->timed ? job->due_ms + rules->ttl_ms : 0;
}

/* With a dead-letter sink it waits in the bucket, due now, to be sent there first. A dead
 * letter that comes back from there would go round for ever. */
static bool is_dead_here(const struct route *route, const struct job *job)
{
    return route->dead == NULL || job_header(job, "delay-dead-reason");
}

static char how_to_enqueue(const struct admission *a)
{
    if (a->reason && is_dead_here(a->route, a->job))
        return ENQUEUE_HOW_DEAD;
    if (a->reason == NULL && a->job->replace)
        return ENQUEUE_HOW_REPLACE;
    if (a->reason == NULL && a->job->again)
        return ENQUEUE_HOW_BACK;
    return a->unknown ? ENQUEUE_HOW_UNNAMED : 0;
}

static struct submission *new_enqueue(const struct bucket *b, const struct admission *a,
                                      struct slice tries)
{
    const struct route *route = a->route;
    const struct job *job = a->job;
    char group[ROUTE_GROUP_BYTES];
    struct submission *sub =
        change_of_job(sizeof(*sub), b, job, tries, route_group(route, job, group));
    struct change *c = &sub->change;
    c->how = how_to_enqueue(a);
    c->now = a->due_now || c->how == ENQUEUE_HOW_DEAD;
    c->due_ms += route_spread_ms(route, job);
    c->expires_ms = expiry(route, job);
    c->awaited = a->src->ops->awaits;
    c->cb = on_enqueued;
    sub->bytes = admit_job_bytes(job);
    sub->reply.due_ms = job->due_ms;
    return sub;
}

static struct submission *new_dead_letter(const struct bucket *b,
                                          const struct admission *a)
{
    const int64_t now_ms = a->job->due_ms;
    struct tries tries = {.first_ms = now_ms, .last_ms = now_ms};
    struct buf text = {0};
    tries_set_reason(&tries, a->reason);
    tries_set_error(&tries, a->why.text);
    tries_format(&tries, &text);
    struct log_about about = about_job(a->route, a->job->id, a->job);
    about.source = a->src->conf->name;
    about.err = a->why.text;
    about.limit = &a->route->complain;
    log_event(LOG_WARN, &about, "given up: %s", a->reason);
    struct submission *sub = new_enqueue(b, a, buf_slice(&text));
    buf_free(&text);
    return sub;
}

/* Makes the submission of a job that goes to b; NULL: Redis is not asked. */
static struct submission *submission_new(const struct bucket *b,
                                         const struct admission *a, enum stored outcome)
{
    static const struct slice none = {NULL, 0};
    struct submission *sub;
    if (outcome == STORED) {
        admit_strip(a);
        sub = new_enqueue(b, a, none);
    } else if (outcome == STORED_DEAD) {
        sub = new_dead_letter(b, a);
    } else {
        sub = change_new(sizeof(*sub), a->job->id, none, none, none);
        sub->bytes = b ? (int64_t)a->job->id.n : 0;
        sub->change.awaited = true;
        sub->change.cb = on_cancel_done;
    }
    sub->src = a->src;
    sub->route = a->route;
    sub->reply.outcome = outcome;
    sub->clamped = a->clamped;
    sub->reply.id = sub->change.id;
    sub->reply.reason = a->reason ? a->reason : "";
    sub->reply.why = sub->why;
    if (a->why.text[0] != '\0')
        snprintf(sub->why, sizeof(sub->why), "%.*s", (int)sizeof(sub->why) - 1,
                 a->why.text);
    return sub;
}

static void hand_over(struct submission *sub, struct bucket *b, const struct job *job)
{
    struct change *c = &sub->change;
    c->arg = sub;
    if (sub->src->ops->answers)
        c->deadline_us = loop_mono_us() + SUBMIT_ANSWER_MS * 1000;
    if (job->offset >= 0 && job->partition >= 0)
        name_partition(sub->src, sub->route, b, job, &c->origin);
    flow_took(&sub->src->bridge->flow, sub->bytes);
    bucket_add(b, sub->reply.outcome == STORED_NONE ? BATCHER_CANCEL : BATCHER_ENQUEUE,
               c);
}

void source_submit(struct source *src, struct job *job, stored_cb *done, void *arg)
{
    struct admission a;
    struct bucket *b = NULL;
    FAULT("S1");
    admit(src, job, &a);
    if (a.route->tap)
        tap_note(a.route->tap, &(struct tap_event){.what = "received",
                                                   .id = job->id,
                                                   .job = job,
                                                   .due_ms = job->due_ms});
    const enum stored outcome = decide(&a);
    if (outcome != REFUSED && outcome != NOT_STORED)
        b = route_bucket_of(a.route, job->id, job->target, outcome != STORED_NONE);
    struct submission *sub = submission_new(b, &a, outcome);
    sub->done = done;
    sub->arg = arg;
    src->received++;
    src->open++;
    src->unstored++;
    a.route->refs++;
    if (b)
        hand_over(sub, b, job);
    else
        loop_defer(on_decided, sub);
    job_free(job);
}
