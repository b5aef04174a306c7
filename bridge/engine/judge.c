/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/judge.h"
#include "bridge/bridge.h"
#include "bridge/job/cloudevent.h"
#include "bridge/job/repeat.h"
#include "bridge/engine/route.h"

#include <stdio.h>

/* One message on trial. */
struct trial {
    const struct route *route;
    const struct delay_read *read;
    struct job *job;
    int64_t now_ms;
};

static struct delay_rules rules_of(const struct source *src,
                                   const struct conf_route *route)
{
    return (struct delay_rules){
        .bare_unit = src->conf->bare_unit,
        .rename = src->conf->rename.n > 0 ? &src->conf->rename : NULL,
        .compat = src->compat,
        .binary_ints = src->conf->binary_ints,
        .key_is_id = src->conf->key_is_id,
        .default_delay_ms = route->delay_ms,
        .max_delay_ms = route->max_delay_ms,
        .clamp = route->too_long == TOO_LONG_CLAMP,
        .hops_max = src->bridge->conf->daemon.hops_max,
    };
}

int64_t judge_job_bytes(const struct job *job)
{
    size_t n = job->payload.n + job->key.n + job->topic.n + job->target.n + 64;
    for (unsigned i = 0; i < job->header_count; i++)
        n += job->headers[i].name.n + job->headers[i].value.n + 6;
    return (int64_t)n;
}

void judge_strip(const struct source *src, const struct route *route, struct job *job)
{
    const struct delay_rules rules = rules_of(src, route->conf);
    unsigned kept = 0;
    for (unsigned i = 0; i < job->header_count; i++)
        if (!delay_is_control(job->headers[i].name, &rules) ||
            slice_is_nocase(job->headers[i].name, "delay-hops"))
            job->headers[kept++] = job->headers[i];
    job->header_count = kept;
}

/* -------------------------------------------------- what a message may ask for */

/* Exactly that text, or a beginning and a star. */
static bool is_allowed(const struct opt_list *list, struct slice what)
{
    for (size_t i = 0; i < list->n; i++) {
        size_t n = strlen(list->v[i]);
        bool begins = n > 0 && list->v[i][n - 1] == '*';
        if (begins ? what.n >= n - 1 && slice_eq((struct slice){what.p, n - 1},
                                                 (struct slice){list->v[i], n - 1})
                   : slice_is(what, list->v[i]))
            return true;
    }
    return false;
}

static int check_target(struct trial *t, struct err *err)
{
    if (t->read->to.p == NULL)
        return 0;
    if (!is_allowed(&t->route->conf->to_allow, t->read->to))
        return err_set(err,
                       "the message names its target, %.*s, which to_allow of the "
                       "route %s does not list",
                       t->read->to.n < 100 ? (int)t->read->to.n : 100, t->read->to.p,
                       t->route->conf->name);
    t->job->target = job_keep(t->job, t->read->to);
    t->job->target_asked = true;
    return 0;
}

static int check_schedule(struct trial *t, struct err *err)
{
    const struct conf_route *route = t->route->conf;
    if (t->read->retry.p == NULL)
        return 0;
    for (size_t i = 0; i < route->retry_allow.n; i++)
        if (slice_is(t->read->retry, route->retry_allow.v[i])) {
            t->job->retry = job_keep(t->job, t->read->retry);
            return 0;
        }
    return err_set(err,
                   "delay-retry: \"%.*s\" is no schedule that retry_allow of the "
                   "route %s lists",
                   SLICE_ARG(t->read->retry), route->name);
}

static int check_attempts(struct trial *t, struct err *err)
{
    const struct retry_policy *p = route_retry_policy(t->route, t->job);
    int64_t most = t->route->conf->attempts_max, n = t->read->attempts;
    if (most == 0)
        most = p->list_ms ? (int64_t)p->list_count + 1
               : p->limit ? (int64_t)p->limit + 1
                          : INT64_MAX;
    if (n > most && t->route->sink->rules == NULL)
        return err_set(err,
                       "%lld attempts are asked for; the route %s allows at most %lld, "
                       "see its attempts_max",
                       (long long)n, t->route->conf->name, (long long)most);
    if (n > 0)
        t->job->tries_max = n;
    return 0;
}

static int check_repeat(struct trial *t, struct err *err)
{
    const struct delay_read *read = t->read;
    struct repeat repeat;
    if (read->repeat.p == NULL)
        return 0;
    if (t->route->sink->rules)
        return err_set(err,
                       "delay-repeat: the route %s ends at a queue, whose jobs do "
                       "not repeat",
                       t->route->conf->name);
    if (t->route->conf->repeat_min_ms == 0)
        return err_set(err, "delay-repeat: the route %s allows none (repeat_min)",
                       t->route->conf->name);
    if (repeat_parse(read->repeat, &repeat, err) < 0)
        return err_in(err, "delay-repeat");
    if (repeat_least_ms(&repeat) < t->route->conf->repeat_min_ms)
        return err_set(err, "delay-repeat: more often than repeat_min of the route %s",
                       t->route->conf->name);
    if (read->undelayed)
        t->job->due_ms = repeat_next_ms(&repeat, t->now_ms, t->now_ms);
    if (t->job->due_ms < 0 ||
        (read->repeat_until_ms > 0 && t->job->due_ms > read->repeat_until_ms))
        return err_set(err, "delay-repeat ends before its first run");
    t->job->repeat = job_keep(t->job, read->repeat);
    t->job->repeat_count = read->repeat_count;
    t->job->repeat_until_ms = read->repeat_until_ms;
    t->job->run = 1;
    return 0;
}

static int check_size(struct trial *t, struct err *err)
{
    if (judge_job_bytes(t->job) <= t->route->bridge->conf->daemon.job_max_bytes)
        return 0;
    return err_set(err, "larger than daemon.job_max");
}

/* In this order: attempts are held against the schedule that was asked for. */
static const struct {
    enum reason reason;
    int (*check)(struct trial *t, struct err *err);
} checks[] = {
    {REASON_BAD_TARGET, check_target},  {REASON_BAD_RETRY, check_schedule},
    {REASON_BAD_RETRY, check_attempts}, {REASON_BAD_REPEAT, check_repeat},
    {REASON_OVERSIZE, check_size},
};

static void refuse(struct judgement *out, const char *reason, const char *why)
{
    out->reason = reason;
    snprintf(out->why, sizeof(out->why), "%.*s", JUDGE_WHY - 1, why);
}

/* Of a cancel only the target matters, where that is the queue of the job. */
static bool matters(size_t i, const struct trial *t)
{
    return t->read->op != DELAY_CANCEL ||
           (checks[i].check == check_target && t->route->sink->rules);
}

static void check(struct trial *t, struct judgement *out)
{
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        struct err err;
        if (!matters(i, t) || checks[i].check(t, &err) == 0)
            continue;
        refuse(out, reason_name(checks[i].reason), err.text);
        return;
    }
}

/* --------------------------------------------------------------------- reading */

/* The times of a job whose source knows them; see struct job. */
static void read_times(const struct job *job, const struct route *route, int64_t now_ms,
                       struct delay_read *read)
{
    *read = (struct delay_read){.due_ms = job->due_ms > 0 ? job->due_ms : now_ms,
                                .undelayed = job->at_once || job->due_ms == 0,
                                .expires_ms = job->expires_ms};
    if (job->due_ms - now_ms <= route->conf->max_delay_ms)
        return;
    if (route->conf->too_long == TOO_LONG_CLAMP) {
        read->clamped = true;
        read->due_ms = now_ms + route->conf->max_delay_ms;
        return;
    }
    read->reason = reason_name(REASON_TOO_LONG);
    snprintf(read->why, sizeof(read->why), "longer than max_delay of the route");
}

static int64_t earlier_of(int64_t a_ms, int64_t b_ms)
{
    return a_ms > 0 && (b_ms == 0 || a_ms < b_ms) ? a_ms : b_ms;
}

/* Of a job that repeats: an instant after which nothing is delivered ends it, too. */
static void end_by_expiry(struct job *job, int64_t expires_ms)
{
    job->repeat_until_ms = earlier_of(expires_ms, job->repeat_until_ms);
}

void judge_job(const struct source *src, const struct route *route, struct job *job,
               int64_t now_ms, struct judgement *out)
{
    const struct delay_rules rules = rules_of(src, route->conf);
    struct delay_read read;
    *out = (struct judgement){.op = DELAY_ADD};
    if (job->timed)
        read_times(job, route, now_ms, &read);
    else
        delay_read(job, &rules, now_ms, &read);
    out->op = read.op;
    out->id = read.id;
    out->clamped = read.clamped;
    out->target_given = read.to.p != NULL;
    job->due_ms = read.due_ms;
    if (read.reason)
        refuse(out, read.reason, read.why);
    else
        check(&(struct trial){route, &read, job, now_ms}, out);
    const int64_t by_source_ms = job->expires_ms;
    const int64_t by_headers_ms =
        read.expires_ms ? read.expires_ms : cloudevent_expires_ms(job);
    job->expires_ms = earlier_of(by_headers_ms, by_source_ms);
    if (job->run > 0 && !read.expires_from_due)
        end_by_expiry(job, by_headers_ms);
    if (job->run > 0)
        end_by_expiry(job, by_source_ms);
    if (out->reason) { /* a dead letter is due now, and does not expire */
        job->due_ms = now_ms;
        job->expires_ms = 0;
    } else if (read.key.p) { /* empty: it goes out without one */
        job->key = read.key.n ? job_keep(job, read.key) : (struct slice){NULL, 0};
    }
    job->replace = job->replace || read.op == DELAY_REPLACE;
    job->again = read.hops > 0;
    /* A copy of one run is not the job that repeats: it gets a name of its own. */
    if (job->again && read.op == DELAY_ADD && job_header(job, "delay-run"))
        out->id = (struct slice){NULL, 0};
    /* Behind those that are due already; what was asked for a time has its own place. */
    out->due_now = route->sink->rules && (out->reason || read.undelayed);
}
