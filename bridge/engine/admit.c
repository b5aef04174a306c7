/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/admit.h"
#include "bridge/engine/bridge.h"
#include "bridge/base/text.h"
#include "bridge/job/cloudevent.h"
#include "bridge/job/delay.h"
#include "bridge/job/rewind.h"
#include "bridge/engine/route.h"
#include "bridge/engine/queue_object.h"

#include <inttypes.h>
#include <stdio.h>

enum { COUNTER_BITS = 14, INSTANCE_BITS = 40, NAME_CHARS = 16 };

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
    size_t n =
        job->payload.n + job->key.n + job->topic.n + job->target.n + job->native.n + 64;
    for (unsigned i = 0; i < job->header_count; i++)
        n += job->headers[i].name.n + job->headers[i].value.n + 6;
    return (int64_t)n;
}

void admit_strip(const struct admission *a)
{
    struct job *job = a->job;
    const struct delay_rules rules = rules_of(a->src, a->route->conf);
    unsigned kept = 0;
    if (job->timed) /* then no header is a control header */
        return;
    for (unsigned i = 0; i < job->header_count; i++)
        if (!delay_is_control(job->headers[i].name, &rules) ||
            slice_is_nocase(job->headers[i].name, "delay-hops"))
            job->headers[kept++] = job->headers[i];
    job->header_count = kept;
}

/* -------------------------------------------------- what a message may ask for */

/* Return whether the list contains the text, or a prefix of it followed by a star. */
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

static int check_target(struct admission *a, struct err *err)
{
    if (a->read->to.p == NULL)
        return 0;
    if (!is_allowed(&a->route->conf->to_allow, a->read->to))
        return err_set(err,
                       "the message sets its target to %.*s, which to_allow of the route "
                       "%s does not permit",
                       a->read->to.n < 100 ? (int)a->read->to.n : 100, a->read->to.p,
                       a->route->conf->name);
    a->job->target = job_copy_slice(a->job, a->read->to);
    a->job->target_asked = true;
    return 0;
}

static int check_schedule(struct admission *a, struct err *err)
{
    const struct conf_route *route = a->route->conf;
    if (a->read->retry.p == NULL)
        return 0;
    for (size_t i = 0; i < route->retry_allow.n; i++)
        if (slice_is(a->read->retry, route->retry_allow.v[i])) {
            a->job->retry = job_copy_slice(a->job, a->read->retry);
            return 0;
        }
    return err_set(err,
                   "delay-retry: \"%.*s\" is not one of the schedules in retry_allow of "
                   "the route %s",
                   SLICE_ARG(a->read->retry), route->name);
}

static int check_attempts(struct admission *a, struct err *err)
{
    const struct retry_policy *p = route_retry_policy(a->route, a->job);
    int64_t most = a->route->conf->attempts_max, n = a->read->attempts;
    if (most == 0)
        most = p->list_ms ? (int64_t)p->list_count + 1
               : p->limit ? (int64_t)p->limit + 1
                          : INT64_MAX;
    if (n > most && a->route->sink->rules == NULL)
        return err_set(
            err,
            "%lld attempts requested; the route %s allows at most %lld (attempts_max)",
            (long long)n, a->route->conf->name, (long long)most);
    if (n > 0)
        a->job->tries_max = n;
    return 0;
}

static int check_repeat(struct admission *a, struct err *err)
{
    const struct delay_read *read = a->read;
    struct repeat repeat;
    if (read->repeat.p == NULL)
        return 0;
    if (a->route->sink->rules)
        return err_set(err,
                       "delay-repeat: the route %s leads to a queue, and jobs of a queue "
                       "cannot repeat",
                       a->route->conf->name);
    if (a->route->conf->repeat_min_ms == 0)
        return err_set(err,
                       "delay-repeat: the route %s does not allow repeated jobs "
                       "(repeat_min is not set)",
                       a->route->conf->name);
    if (repeat_parse(read->repeat, &repeat, err) < 0)
        return err_in(err, "delay-repeat");
    if (repeat_least_ms(&repeat) < a->route->conf->repeat_min_ms)
        return err_set(
            err, "delay-repeat: the interval is shorter than repeat_min of the route %s",
            a->route->conf->name);
    if (read->undelayed)
        a->job->due_ms = repeat_next_ms(&repeat, a->now_ms, a->now_ms);
    if (a->job->due_ms < 0 ||
        (read->repeat_until_ms > 0 && a->job->due_ms > read->repeat_until_ms))
        return err_set(err,
                       "delay-repeat: the first run would be after delay-repeat-until");
    a->job->repeat = job_copy_slice(a->job, read->repeat);
    a->job->repeat_count = read->repeat_count;
    a->job->repeat_until_ms = read->repeat_until_ms;
    a->job->run = 1;
    return 0;
}

static int check_size(struct admission *a, struct err *err)
{
    if (admit_job_bytes(a->job) <= a->route->bridge->conf->daemon.job_max_bytes)
        return 0;
    return err_set(err, "the job is larger than daemon.job_max");
}

/* In this order: the limit of attempts depends on the schedule that check_schedule()
 * sets. */
static const struct {
    enum reason reason;
    int (*check)(struct admission *a, struct err *err);
} checks[] = {
    {REASON_BAD_TARGET, check_target},  {REASON_BAD_RETRY, check_schedule},
    {REASON_BAD_RETRY, check_attempts}, {REASON_BAD_REPEAT, check_repeat},
    {REASON_OVERSIZE, check_size},
};

static void refuse(struct admission *a, enum reason reason, const char *why)
{
    a->reason = reason_name(reason);
    err_set(&a->why, "%s", why);
}

/* For a cancel only the target matters, if it names the queue of the job. */
static void check(struct admission *a)
{
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        struct err err;
        if (a->op == DELAY_CANCEL &&
            (checks[i].check != check_target || a->route->sink->rules == NULL))
            continue;
        if (checks[i].check(a, &err) == 0)
            continue;
        refuse(a, checks[i].reason, err.text);
        return;
    }
}

/* --------------------------------------------------------------------- reading */

/* Set the times of a job whose source knows them; see struct job. */
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
    snprintf(read->why, sizeof(read->why),
             "the delay is longer than max_delay of the route");
}

static int64_t earlier_of(int64_t a_ms, int64_t b_ms)
{
    return a_ms > 0 && (b_ms == 0 || a_ms < b_ms) ? a_ms : b_ms;
}

/* For a job that repeats: an absolute expiry also ends the repetition. */
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

/* Read the control headers, and write into the job what the route allows. Returns the id
 * that the producer chose, also if the job cannot be accepted; borrowed from the job,
 * empty: none. */
static struct slice read_asked(struct admission *a, struct delay_read *read)
{
    struct job *job = a->job;
    const struct delay_rules rules = rules_of(a->src, a->route->conf);
    if (job->timed)
        read_times(job, a->route, a->now_ms, read);
    else
        delay_read(job, &rules, a->now_ms, read);
    a->read = read;
    a->op = read->op;
    a->clamped = read->clamped;
    job->due_ms = read->due_ms;
    if (read->reason)
        refuse(a, reason_find(read->reason), read->why);
    else
        check(a);
    set_expiry(job, read);
    if (a->reason) { /* a dead letter is due now and does not expire */
        job->due_ms = a->now_ms;
        job->expires_ms = 0;
    } else if (read->key.p) { /* empty: deliver it without a key */
        job->key = read->key.n ? job_copy_slice(job, read->key) : (struct slice){NULL, 0};
    }
    job->replace = job->replace || read->op == DELAY_REPLACE;
    job->again = read->hops > 0;
    /* Order it behind the jobs that are due already. A job with a due time has its own
     * place. */
    a->due_now = a->route->sink->rules && (a->reason || read->undelayed);
    /* A copy of one run is not the repeating job itself: give it its own id. */
    if (job->again && read->op == DELAY_ADD && job_header(job, "delay-run"))
        return (struct slice){NULL, 0};
    return read->id;
}

/* ---------------------------------------------------------------- route and id */

/* Return "source/topic/partition/offset", or "source/topic/partition~incarnation/offset"
 * if the topic was deleted and created again: the same each time the record is read.
 * Empty if longer than JOB_ID_MAX. */
static struct slice id_of_record(struct source *src, struct job *job)
{
    char id[JOB_ID_MAX + 4 * (1 + TEXT_DECIMAL_MAX)], *at = id;
    const struct slice source = slice_of(src->conf->name);
    if (source.n + job->topic.n > JOB_ID_MAX)
        return (struct slice){NULL, 0};
    at = slice_put(at, source);
    *at++ = '/';
    at = slice_put(at, job->topic);
    *at++ = '/';
    at += text_put_decimal(at, job->partition);
    if (job->incarnation > 0) {
        *at++ = '~';
        at += text_put_decimal(at, job->incarnation);
    }
    *at++ = '/';
    at += text_put_decimal(at, job->offset);
    size_t n = (size_t)(at - id);
    return job_copy_slice(job, (struct slice){n <= JOB_ID_MAX ? id : NULL, n});
}

/* Return a new id of 16 letters, digits, - and _, sorted by time: 42 bits of ms, 14 bits
 * of a counter, 40 bits of the instance. */
static struct slice new_id(struct bridge *bridge, struct job *job)
{
    /* Sorted by ASCII code, so that ids sort by time. */
    static const char letters[] =
        "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
    uint64_t now = (uint64_t)loop_wall_ms() << COUNTER_BITS;
    if (bridge->next_id < now)
        bridge->next_id = now;
    /* If the counter overflows within a ms, it runs into the next: the id is still
     * unique. */
    uint64_t high = bridge->next_id++, low = bridge->instance;
    char text[NAME_CHARS];
    unsigned __int128 all = (unsigned __int128)high << INSTANCE_BITS | low;
    for (int i = NAME_CHARS; i-- > 0; all >>= 6)
        text[i] = letters[(unsigned)all & 63];
    return job_copy_slice(job, (struct slice){text, sizeof(text)});
}

/* Set the id: the one asked for (empty: none), the one of the record, or a new one. */
static void name_it(struct admission *a, struct slice asked)
{
    struct job *job = a->job;
    if (asked.n > 0) {
        job->id = job_copy_slice(job, asked);
    } else if (job->id.n == 0 && job->offset >= 0) {
        a->unknown = job->partition >= 0;
        job->id = id_of_record(a->src, job);
    }
    a->named = job->id.n > 0 && job->id.n <= JOB_ID_MAX;
    if (!a->named)
        job->id = new_id(a->src->bridge, job);
}

/* A rejected message must not use the id of another job. Operators find it by the prefix
 * of its own id: ASKED@ID. */
static void name_refused(struct admission *a, struct slice asked)
{
    struct job *job = a->job;
    name_it(a, (struct slice){NULL, 0});
    if (asked.n == 0 || slice_eq(asked, job->id) || asked.n + 1 + job->id.n > JOB_ID_MAX)
        return;
    job->id = job_format(job, "%.*s@%.*s", SLICE_ARG(asked), SLICE_ARG(job->id));
    a->unknown = false;
}

/* Reject a job without a route or a queue. bad: -1 if the target cannot be rendered; then
 * err says why. */
static void check_place(struct admission *a, int bad, struct err *err)
{
    struct sink *queues = a->found && a->route->sink->rules ? a->route->sink : NULL;
    const struct slice target = a->job->target;
    if (queues && bad == 0 && !queue_name_is_good(target))
        bad = err_set(err, "the route %s does not yield a queue name for this job",
                      a->route->conf->name);
    if (bad == 0 && a->reason == NULL && queues && a->op != DELAY_CANCEL &&
        !queue_has_room(queues, target)) {
        err_set(err,
                "the sink %s already has names_max queues; raise names_max or remove "
                "unused queues",
                queues->conf->name);
        refuse(a, REASON_TOO_MANY, err->text);
    }
    if (!a->found || (bad < 0 && a->op != DELAY_CANCEL))
        refuse(a, REASON_NO_ROUTE, err->text);
}

void admit(struct source *src, struct job *job, struct admission *a)
{
    struct err err;
    struct delay_read read;
    int bad;
    err.text[0] = '\0';
    struct route *found = route_for(src, job, &bad, &err);
    a->src = src;
    a->job = job;
    a->route = found ? found : route_first(src);
    a->found = found != NULL;
    a->now_ms = store_now_ms(route_store(a->route));
    a->op = DELAY_ADD;
    a->reason = NULL;
    a->why.text[0] = '\0'; /* the texts are large, so they are not zeroed */
    a->due_now = a->clamped = a->named = a->unknown = false;
    job->source = job_copy_slice(job, slice_of(src->conf->name));
    if (job->unreadable) { /* stored with its own route, so that it can be replayed */
        job->due_ms = a->now_ms;
        refuse(a, reason_find(job->unreadable), job->unreadable_why.p);
        name_it(a, (struct slice){NULL, 0});
        return;
    }
    const struct slice asked = read_asked(a, &read);
    check_place(a, read.to.p ? 0 : bad, &err);
    if (a->reason)
        name_refused(a, asked);
    else
        name_it(a, asked);
}

/* ---------------------------------------------------------- names of partitions */

int64_t admit_rewind_number(struct slice rewinds, struct slice route, int64_t offset)
{
    struct rewind_word r;
    while (rewind_take(&rewinds, &r))
        if (slice_eq(r.route, route) && r.offset <= offset)
            return r.number;
    return 0;
}

int64_t job_rewind_number(struct slice rewinds, struct slice route)
{
    return admit_rewind_number(rewinds, route, INT64_MAX);
}

void admit_set_origin(const struct admission *a, struct bucket *b, struct origin *origin)
{
    struct source *src = a->src;
    const struct route *route = a->route;
    const struct job *job = a->job;
    struct buf *name = &src->partition_name;
    const int64_t rewind =
        admit_rewind_number(job->rewinds, slice_of(route->conf->name), job->offset);
    buf_clear(name);
    buf_add_str(name, src->conf->name);
    buf_add_str(name, "/");
    buf_add_slice(name, job->topic);
    buf_add_str(name, "/");
    text_add_decimal(name, job->partition);
    if (job->incarnation > 0)
        buf_addf(name, "~%u", job->incarnation);
    /* The number of buckets decides the bucket of a record. With a different number each
     * bucket starts a new chain, because records in its old chain may belong to other
     * buckets now. */
    if (route->bucket_count > 1)
        buf_addf(name, "*%" PRId64, route->bucket_count);
    if (rewind > 0)
        buf_addf(name, "+%" PRId64, rewind);
    bucket_set_origin(b, buf_slice(name), job->offset,
                      job->timestamp_ms > 0 ? job->timestamp_ms : 0, origin);
}
