/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/submit.h"
#include "bridge/engine/admit.h"
#include "bridge/engine/tap.h"
#include "bridge/engine/bridge.h"
#include "bridge/job/tries.h"
#include "bridge/engine/queue_object.h"
#include "bridge/engine/route.h"
#include "bridge/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>

/* A job until Redis has answered, and the reply for its source. */
struct submission {
    struct change change; /* first member: the store frees it after its callback */
    struct source *src;
    struct route *route;
    stored_cb *done;
    void *arg;
    int64_t bytes;             /* counted in the flow; 0: not counted */
    bool clamped;              /* its delay was reduced to max_delay */
    struct span *span;         /* NULL: none */
    struct stored_reply reply; /* outcome: what success means for this job */
    char why[256];             /* text of the reply, from admission */
};

/* --- back-pressure --- */

void flow_submitted(struct flow *f, int64_t bytes)
{
    f->jobs++;
    f->bytes += bytes;
}

void flow_answered(struct flow *f, int64_t bytes)
{
    f->jobs--;
    f->bytes -= bytes;
    must(f->jobs >= 0 && f->bytes >= 0);
}

bool flow_wants_pause(const struct flow *f, bool store_accepts_jobs)
{
    if (!store_accepts_jobs)
        return true;
    int64_t part = f->paused ? 2 : 1;
    return f->jobs * part >= f->max_jobs || f->bytes * part >= f->max_bytes;
}

/* --- answers --- */

static const char *const words[] = {
    [STORED] = "stored",
    [STORED_REPLACED] = "replaced",
    [STORED_ALREADY] = "known",
    [STORED_DEAD] = "dead",
    [STORED_NOTHING] = "cancelled",
    [REFUSED] = "refused",
    [NOT_STORED] = "not-stored",
};

static void tell_tap(const struct submission *sub, enum stored outcome)
{
    tap_note(sub->route->tap, &(struct tap_event){.what = words[outcome],
                                                  .id = sub->change.id,
                                                  .reason = sub->reply.reason,
                                                  .due_ms = sub->reply.due_ms});
}

static struct span_about span_about(const struct submission *sub, int64_t due_ms)
{
    return (struct span_about){.step = SPAN_RECEIVE,
                               .route = sub->route->conf->name,
                               .part = sub->src->conf->name,
                               .part_type = sub->src->ops->name,
                               .id = sub->change.id,
                               .due_ms = due_ms};
}

/* Frees the span. */
static void end_span(struct submission *sub, enum stored outcome)
{
    struct span_about about = span_about(sub, sub->reply.due_ms);
    bool ok = outcome < STORED_DEAD || outcome == STORED_NOTHING;
    const char *why = sub->reply.why && *sub->reply.why ? sub->reply.why : words[outcome];
    span_end(sub->src->bridge->tracer, sub->span, &about,
             &(struct span_end){.outcome = words[outcome],
                                .error = ok ? NULL : why,
                                .stored = outcome == STORED ||
                                          outcome == STORED_REPLACED ||
                                          outcome == STORED_DEAD});
}

static void answer(struct submission *sub, enum stored outcome)
{
    struct source *src = sub->src;
    src->open--;
    src->unstored--;
    sub->route->refs--;
    if (sub->route->tap)
        tell_tap(sub, outcome);
    if (sub->span)
        end_span(sub, outcome);
    if (sub->bytes > 0)
        flow_answered(&src->bridge->flow, sub->bytes);
    sub->reply.outcome = outcome;
    sub->done(sub->arg, &sub->reply);
}

/* Normal after a crash or a rebalance, for records that were not committed. After an
 * operator has reset the group it is not what he wanted, so tarry warns. */
static void warn_read_again(struct submission *sub)
{
    const struct log_about about = {.route = sub->route->conf->name,
                                    .source = sub->src->conf->name,
                                    .job = sub->change.id,
                                    .limit = &sub->route->complain_again};
    log_event(LOG_WARN, &about,
              "the record is already stored, so tarry skips it; `tarry kafka rewind %s "
              "--to TIME` delivers records again",
              sub->route->conf->name);
}

/* Answers of lua/enqueue.lua for a job that was not stored, with the reason for the
 * source. */
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
        sub->reply.due_ms = -1; /* the due time of the stored job is not known */
        return true;
    }
    return false;
}

/* Count a job that Redis has stored, or had stored already. false: code is another
 * answer. */
static bool count_stored(struct submission *sub, char code)
{
    struct route *route = sub->route;
    struct route_stats *stats = &route->stats;
    if (code == ENQUEUE_SAME) { /* the first answer was lost */
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

static const char no_answer[] =
    "Redis did not answer in time; the job may be stored: send it again with the same id";

static void on_enqueued(void *arg, char code)
{
    struct submission *sub = arg;
    bool instead = code == ENQUEUE_REPLACED && sub->route->sink->rules == NULL;
    if (code == ENQUEUE_READ_BEFORE)
        warn_read_again(sub);
    if (is_duplicate(sub, code)) {
        answer(sub, STORED_ALREADY);
    } else if (count_stored(sub, code)) {
        answer(sub, instead ? STORED_REPLACED : sub->reply.outcome);
    } else {
        /* Redis may have stored the job, but on too few replicas. */
        sub->route->stats.not_stored += !count_stored(sub, change_safe(code));
        sub->reply.why = no_answer;
        if (code == ENQUEUE_ANEW)
            sub->reply.reason = STORED_REASON_ANEW;
        answer(sub, NOT_STORED);
    }
}

enum cancelled submit_note_cancel(struct route_stats *stats, char code)
{
    static const struct {
        char code;
        enum cancelled answer;
    } rows[] = {{CANCEL_CANCELLED, CANCELLED},
                {CANCEL_CANCELLED_DEAD, CANCELLED},
                {CANCEL_IN_FLIGHT, CANCEL_TOO_LATE},
                {CANCEL_REMEMBERED, CANCEL_EMITTED},
                {CANCEL_NOT_THERE, CANCEL_NOT_FOUND}};
    enum cancelled said = CANCEL_UNKNOWN;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].code == code)
            said = rows[i].answer;
        if (rows[i].code == change_safe(code)) /* also if too few replicas have it */
            stats->cancelled += rows[i].answer == CANCELLED;
    }
    stats->cancels_missed += said != CANCELLED && said != CANCEL_UNKNOWN;
    return said;
}

/* Handle the answer to a cancel. A producer that waits for an answer gets the reason;
 * others only continue. */
static void on_cancel_done(void *arg, char code)
{
    static const struct {
        const char *reason, *why;
    } late[] = {
        [CANCEL_TOO_LATE] = {"in-flight", "too late: the job is being delivered; if that "
                                          "fails, tarry does not retry it"},
        [CANCEL_EMITTED] = {"emitted", "too late: the job was delivered"},
        [CANCEL_NOT_FOUND] = {"not-found", "no pending job has this id: it was delivered "
                                           "or rejected, or never existed"}};
    struct submission *sub = arg;
    struct route_stats *stats = &sub->route->stats;
    enum cancelled said = submit_note_cancel(stats, code);
    stats->cancels += code != 0 && code != CANCEL_READ_BEFORE && code != CANCEL_ANEW;
    stats->not_stored += code == 0 || code == CANCEL_ANEW;
    if (code == CANCEL_ANEW)
        sub->reply.reason = STORED_REASON_ANEW;
    if (code == CANCEL_READ_BEFORE && is_duplicate(sub, code)) {
        answer(sub, STORED_ALREADY); /* executed when it was read first */
    } else if (said == CANCELLED || said == CANCEL_UNKNOWN) {
        answer(sub, said == CANCELLED ? STORED_NOTHING : NOT_STORED);
    } else {
        sub->reply.reason = late[said].reason;
        sub->reply.why = late[said].why;
        answer(sub, sub->src->ops->answers ? REFUSED : STORED_NOTHING);
    }
}

/* Answer a submission that needed no call to Redis. */
static void on_decided(void *arg)
{
    struct submission *sub = arg;
    answer(sub, sub->reply.outcome);
    free(sub);
}

/* --- decision --- */

/* The Redis of a pool is unreachable: its clock is unknown, or a producer would wait too
 * long. If the main Redis is unreachable, the sources are paused instead. */
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

/* Return whether to store it as a dead letter: the producer waits for no answer, or the
 * route requires it. */
static bool is_kept(const struct admission *a)
{
    return !a->src->ops->answers || (reason_find(a->reason) == REASON_TOO_LONG &&
                                     a->route->conf->too_long == TOO_LONG_DEAD);
}

/* Return what success means to the source. REFUSED or NOT_STORED: do not ask Redis; a
 * says why. */
static enum stored decide(struct admission *a)
{
    struct source *src = a->src;
    struct route *route = a->route;
    if (!a->found && src->ops->answers) { /* it belongs to no route */
        src->unrouted++;
        return REFUSED;
    }
    route->stats.received++;
    if (pool_is_away(a))
        return put_off(a, "the Redis of this pool is unreachable; send the job again");
    if (a->reason && !is_kept(a)) {
        route->stats.refused[reason_find(a->reason)]++;
        return REFUSED;
    }
    bool cancels = a->reason == NULL && a->op == DELAY_CANCEL;
    /* A source without answers is paused instead, or feeds other routes too
     * (route_state.h). */
    if (a->reason == NULL && !cancels && route->state == ROUTE_DRAINING &&
        src->ops->answers)
        return put_off(
            a, "the route is draining and accepts no jobs until an operator resumes it");
    if (!route_is_open(route))
        return put_off(a, cancels ? "" : no_answer);
    return a->reason ? STORED_DEAD : cancels ? STORED_NOTHING : STORED;
}

/* --- calls to Redis --- */

/* Return when a job of a queue expires. For other jobs tarry checks deliver-before at the
 * delivery. */
static int64_t expiry(const struct route *route, const struct job *job)
{
    const struct queue_rules *rules = route->sink->rules;
    if (rules == NULL || job->expires_ms > 0)
        return rules ? job->expires_ms : 0;
    return rules->ttl_ms > 0 && !job->timed ? job->due_ms + rules->ttl_ms : 0;
}

/* Return whether to store a dead letter as such at once. With a dead-letter sink the job
 * is stored as pending, due now, to be delivered there first. But a dead letter that
 * comes from such a sink would loop for ever. */
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
    struct log_about about = route_about(a->route, a->job->id, a->job);
    about.source = a->src->conf->name;
    about.err = a->why.text;
    about.limit = &a->route->complain;
    log_event(LOG_WARN, &about, "the job is a dead letter now: %s", a->reason);
    struct submission *sub = new_enqueue(b, a, buf_slice(&text));
    buf_free(&text);
    return sub;
}

/* Create the submission. b NULL: Redis is not asked. */
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

static void hand_over(struct submission *sub, struct bucket *b, const struct admission *a)
{
    struct change *c = &sub->change;
    c->arg = sub;
    if (sub->src->ops->answers)
        c->deadline_us = loop_mono_us() + SUBMIT_ANSWER_MS * 1000;
    if (a->job->offset >= 0 && a->job->partition >= 0)
        admit_set_origin(a, b, &c->origin);
    flow_submitted(&sub->src->bridge->flow, sub->bytes);
    bucket_add(b, sub->reply.outcome == STORED_NOTHING ? BATCHER_CANCEL : BATCHER_ENQUEUE,
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
        b = route_bucket_of(a.route, job->id, job->target, outcome != STORED_NOTHING);
    struct submission *sub = submission_new(b, &a, outcome);
    sub->done = done;
    sub->arg = arg;
    src->received++;
    src->open++;
    src->unstored++;
    a.route->refs++;
    if (src->bridge->tracer) {
        struct span_about about = span_about(sub, job->due_ms);
        sub->span = span_begin(src->bridge->tracer, &about, job);
    }
    if (b)
        hand_over(sub, b, &a);
    else
        loop_defer(on_decided, sub);
    job_free(job);
}
