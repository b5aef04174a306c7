/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/admit.h"
#include "bridge/engine/bridge.h"
#include "bridge/job/cloudevent.h"
#include "bridge/job/repeat.h"
#include "bridge/engine/name.h"
#include "bridge/engine/route.h"
#include "bridge/queue/queue_place.h"

#include <stdio.h>

/* One message, as the checks see it. */
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

int64_t admit_job_bytes(const struct job *job)
{
    size_t n = job->payload.n + job->key.n + job->topic.n + job->target.n + 64;
    for (unsigned i = 0; i < job->header_count; i++)
        n += job->headers[i].name.n + job->headers[i].value.n + 6;
    return (int64_t)n;
}

void admit_strip(const struct source *src, const struct route *route, struct job *job)
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
    if (admit_job_bytes(t->job) <= t->route->bridge->conf->daemon.job_max_bytes)
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

static void refuse(struct admission *out, enum reason reason, const char *why)
{
    out->reason = reason_name(reason);
    err_set(&out->why, "%s", why);
}

/* Of a cancel only the target matters, where that is the queue of the job. */
static bool matters(size_t i, const struct trial *t)
{
    return t->read->op != DELAY_CANCEL ||
           (checks[i].check == check_target && t->route->sink->rules);
}

static void check(struct trial *t, struct admission *out)
{
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        struct err err;
        if (!matters(i, t) || checks[i].check(t, &err) == 0)
            continue;
        refuse(out, checks[i].reason, err.text);
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

static void set_expiry(struct job *job, const struct delay_read *read)
{
    const int64_t by_source_ms = job->expires_ms;
    const int64_t by_headers_ms =
        read->expires_ms ? read->expires_ms : cloudevent_expires_ms(job);
    job->expires_ms = earlier_of(by_headers_ms, by_source_ms);
    if (job->run > 0 && !read->expires_from_due)
        end_by_expiry(job, by_headers_ms);
    if (job->run > 0)
        end_by_expiry(job, by_source_ms);
}

/* Reads the control headers, and writes into the job what the route allows of them. Gives
 * the id that the producer gave it, also where it can't be accepted; borrowed from the
 * job, empty: none. target_given: by the message. */
static struct slice read_asked(const struct source *src, struct job *job, int64_t now_ms,
                               struct admission *out, bool *target_given)
{
    const struct route *route = out->route;
    const struct delay_rules rules = rules_of(src, route->conf);
    struct delay_read read;
    if (job->timed)
        read_times(job, route, now_ms, &read);
    else
        delay_read(job, &rules, now_ms, &read);
    out->op = read.op;
    out->clamped = read.clamped;
    *target_given = read.to.p != NULL;
    job->due_ms = read.due_ms;
    if (read.reason)
        refuse(out, reason_find(read.reason), read.why);
    else
        check(&(struct trial){route, &read, job, now_ms}, out);
    set_expiry(job, &read);
    if (out->reason) { /* a dead letter is due now, and does not expire */
        job->due_ms = now_ms;
        job->expires_ms = 0;
    } else if (read.key.p) { /* empty: it goes out without one */
        job->key = read.key.n ? job_keep(job, read.key) : (struct slice){NULL, 0};
    }
    job->replace = job->replace || read.op == DELAY_REPLACE;
    job->again = read.hops > 0;
    /* Behind those that are due already; what was asked for a time has its own place. */
    out->due_now = route->sink->rules && (out->reason || read.undelayed);
    /* A copy of one run is not the job that repeats: it gets a name of its own. */
    if (job->again && read.op == DELAY_ADD && job_header(job, "delay-run"))
        return (struct slice){NULL, 0};
    return read.id;
}

/* ---------------------------------------------------------------- route and id */

/* Names a job after what it asked for (empty: nothing), after its record, or anew. */
static void name_it(struct source *src, struct job *job, struct slice asked,
                    struct admission *out)
{
    if (asked.n > 0) {
        job->id = job_keep(job, asked);
    } else if (job->id.n == 0 && job->offset >= 0) {
        out->unknown = job->partition >= 0;
        job->id = name_of_record(src, job);
    }
    out->named = job->id.n > 0 && job->id.n <= JOB_ID_MAX;
    if (!out->named)
        job->id = name_new(src->bridge, job);
}

/* What is refused does not take the id of a job that is there, or yet to come; but it is
 * found by the beginning of its own: ID@NAME. */
static void name_refused(struct source *src, struct job *job, struct slice asked,
                         struct admission *out)
{
    name_it(src, job, (struct slice){NULL, 0}, out);
    if (asked.n == 0 || slice_eq(asked, job->id) || asked.n + 1 + job->id.n > JOB_ID_MAX)
        return;
    job->id = job_keepf(job, "%.*s@%.*s", SLICE_ARG(asked), SLICE_ARG(job->id));
    out->unknown = false;
}

/* bad: as route_for() says, with the reason in err. */
static int find_route(struct source *src, struct job *job, struct admission *out,
                      struct err *err)
{
    int bad;
    struct route *found = route_for(src, job, &bad, err);
    out->route = found ? found : route_first(src);
    out->found = found != NULL;
    out->op = DELAY_ADD;
    out->reason = NULL;
    out->why.text[0] = '\0'; /* the rest of it is written below; the texts are large */
    out->due_now = out->clamped = out->named = out->unknown = false;
    job->source = job_keep(job, slice_of(src->conf->name));
    return bad;
}

/* Refuses what has no route or no queue to go to. bad: its target can't be told, and err
 * says why. */
static void check_place(const struct job *job, int bad, struct err *err,
                        struct admission *out)
{
    struct sink *queues = out->found && out->route->sink->rules ? out->route->sink : NULL;
    if (queues && bad == 0 && !queue_name_is_good(job->target))
        bad = err_set(err, "the route %s names no queue for it", out->route->conf->name);
    if (bad == 0 && out->reason == NULL && queues && out->op != DELAY_CANCEL &&
        !queue_has_room(queues, job->target)) {
        err_set(err, "the sink %s has as many queues as its names_max allows",
                queues->conf->name);
        refuse(out, REASON_TOO_MANY, err->text);
    }
    if (!out->found || (bad < 0 && out->op != DELAY_CANCEL))
        refuse(out, REASON_NO_ROUTE, err->text);
}

void admit(struct source *src, struct job *job, struct admission *out)
{
    struct err err;
    bool target_given;
    err.text[0] = '\0';
    const int bad = find_route(src, job, out, &err);
    const struct slice asked =
        read_asked(src, job, store_now_ms(route_store(out->route)), out, &target_given);
    check_place(job, target_given ? 0 : bad, &err, out);
    if (out->reason)
        name_refused(src, job, asked, out);
    else
        name_it(src, job, asked, out);
}

void admit_unread(struct source *src, struct job *job, struct admission *out)
{
    struct err err;
    find_route(src, job, out, &err);
    job->due_ms = store_now_ms(route_store(out->route));
    name_it(src, job, (struct slice){NULL, 0}, out);
}
