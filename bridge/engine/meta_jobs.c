/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta_jobs.c - counts the jobs of a route or queue sink by the names of its keys. Needed
 * before a route changes its number of buckets, which it may only without jobs, and for
 * orphans: routes and queue sinks that are in PREFIX:meta but not configured. The jobs of
 * an orphan stay in Redis until it is configured again.
 */
#include "bridge/engine/membership.h"
#include "bridge/engine/meta_internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* index of the last queue of a sink whose jobs are counted */
#define QUEUES_COUNTED "999"

struct orphan {
    struct orphan *next;
    struct meta *meta;
    struct job_count count; /* in progress */
    bool known, logged;
    int64_t jobs, queues; /* jobs: of the last count that succeeded */
    char field[];
};

/* --- counting --- */

static void answered(struct job_count *c, bool good)
{
    c->torn = c->torn || !good;
    if (--c->open == 0)
        c->done(c->arg);
}

static bool is_good(const struct redisReply *reply)
{
    return reply && redis_error(reply) == REDIS_NO_ERROR;
}

/* HLEN answers an integer, HGET a text. */
static void on_number(void *arg, const struct redisReply *reply)
{
    struct job_count *c = arg;
    struct slice text = redis_text(reply); /* NUL-terminated */
    c->jobs += text.p ? strtoll(text.p, NULL, 10) : redis_integer(reply);
    answered(c, is_good(reply));
}

static void ask(struct job_count *c, struct store *st, const struct slice *args,
                unsigned n)
{
    c->open++;
    store_command(st, args, n, on_number, c);
}

/* The far jobs first: a job that is moved meanwhile is counted twice, not overlooked. */
static void count_bucket(struct job_count *c, struct store *st, const char *bucket)
{
    struct buf slots = {0}, pool = {0};
    buf_addf(&slots, "%s:slots", bucket);
    buf_addf(&pool, "%s:pool", bucket);
    const struct slice far[] = {SLICE_LIT("HGET"), buf_slice(&slots), SLICE_LIT("#")};
    const struct slice near[] = {SLICE_LIT("HLEN"), buf_slice(&pool)};
    ask(c, st, far, 3);
    ask(c, st, near, 2);
    buf_free(&slots);
    buf_free(&pool);
}

static void count_route(struct job_count *c, struct store *st, const char *route,
                        int64_t buckets)
{
    struct buf bucket = {0};
    for (int64_t i = 0; i < buckets; i++) {
        buf_clear(&bucket);
        buf_addf(&bucket, "%s:{%s/%" PRId64 "}", store_prefix(st), route, i);
        count_bucket(c, st, buf_str(&bucket));
    }
    buf_free(&bucket);
}

/* --- a different number of buckets --- */

static void on_route_counted(void *arg)
{
    struct route *route = arg;
    route->refs--;
}

static void on_route_fenced(void *arg)
{
    struct route *route = arg;
    struct bucket_look *look = &route->look;
    look->count.done = on_route_counted;
    if (look->count.torn)
        on_route_counted(route); /* the next look repeats it */
    else
        count_route(&look->count, route->bridge->store, route->conf->name, look->buckets);
}

static void on_fence(void *arg, const struct redisReply *reply)
{
    answered(arg, is_good(reply));
}

static void fence_route(struct job_count *c, struct store *st, const char *route,
                        int64_t buckets, int64_t epoch)
{
    struct buf sums = {0};
    c->open += (unsigned)buckets;
    for (int64_t i = 0; i < buckets; i++) {
        buf_clear(&sums);
        buf_addf(&sums, "%s:{%s/%" PRId64 "}:sums", store_prefix(st), route, i);
        store_fence(st, buf_slice(&sums), epoch, on_fence, c);
    }
    buf_free(&sums);
}

/* Count the jobs. In an odd epoch no job can be added afterwards. */
static void look(const struct meta *m, struct route *route, int64_t was, int64_t epoch)
{
    struct bucket_look *look = &route->look;
    look->asked = true;
    look->epoch = epoch;
    look->buckets = was;
    if (look->begun_ms == 0)
        look->begun_ms = loop_mono_ms();
    look->count = (struct job_count){.done = on_route_counted, .arg = route};
    route->refs++;
    if (epoch % 2 == 0) {
        count_route(&look->count, m->store, route->conf->name, was);
        return;
    }
    look->count.done = on_route_fenced;
    fence_route(&look->count, m->store, route->conf->name, was, epoch);
}

static int refuse_jobs(const struct route *route, int64_t was, struct err *err)
{
    const char *name = route->conf->name;
    return err_set(err,
                   "routes.%s.buckets: %" PRId64
                   " is configured, but the route has %" PRId64 " jobs in %" PRId64
                   " buckets, and the number cannot change until the route is empty: set "
                   "buckets = %" PRId64 "; then drain the route (tarry drain %s --wait), "
                   "or add a second route with %" PRId64
                   " buckets whose match accepts new messages",
                   name, route->conf->buckets, route->look.count.jobs, was, was, name,
                   route->conf->buckets);
}

static int refuse_others(const struct route *route, int64_t was, struct err *err)
{
    return err_set(err,
                   "routes.%s.buckets: %" PRId64 " is configured, but other instances "
                   "run with %" PRId64 ": stop them first, or set buckets = %" PRId64,
                   route->conf->name, route->conf->buckets, was, was);
}

enum buckets_answer meta_buckets_check(const struct meta *m, struct route *route,
                                       int64_t was, int64_t epoch, struct err *err)
{
    struct bucket_look *at = &route->look;
    if (at->count.open > 0)
        return BUCKETS_WAIT;
    if (!at->asked || at->count.torn || at->epoch != epoch || at->buckets != was) {
        look(m, route, was, epoch);
        return BUCKETS_WAIT;
    }
    const int others = membership_others(m->bridge->membership, route->conf->name);
    if (at->count.jobs > 0) {
        refuse_jobs(route, was, err);
        return BUCKETS_REFUSED;
    }
    if (others == 0)
        return epoch % 2 == 0 ? BUCKETS_FENCE : BUCKETS_CHANGE;
    at->asked = false; /* others may store jobs meanwhile */
    if (others < 0 || loop_mono_ms() - at->begun_ms < META_OTHERS_MS)
        return BUCKETS_WAIT;
    refuse_others(route, was, err);
    return BUCKETS_REFUSED;
}

/* --- orphans --- */

static const char *after(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

/* A route that a reload has taken out counts as configured until it is freed. */
static bool is_orphan(const struct meta *m, const char *field)
{
    const char *of_route = after(field, "route:"), *of_sink = after(field, "sink:");
    if (of_route && !m->of_pool)
        EVERY_ROUTE (m->bridge, route)
            if (strcmp(route->conf->name, of_route) == 0 && route->sink->rules == NULL)
                return false;
    const struct sink *sink = inst_sink_named(m->bridge, of_sink);
    return of_route ? !m->of_pool
                    : of_sink && !(sink && sink->rules && sink->store == m->store);
}

static void warn(struct orphan *o)
{
    const char *sink = after(o->field, "sink:");
    if (o->logged || o->jobs == 0)
        return;
    o->logged = true;
    if (sink)
        log_warn("daemon",
                 "the sink %s is not configured as a queue: %" PRId64
                 " jobs in its %" PRId64
                 " queues stay in Redis until it is configured again",
                 sink, o->jobs, o->queues);
    else
        log_warn("daemon",
                 "the route %s is not configured (or now leads to a queue): its %" PRId64
                 " jobs stay in Redis and are not delivered until it is configured again",
                 after(o->field, "route:"), o->jobs);
}

static void on_orphan_counted(void *arg)
{
    struct orphan *o = arg;
    if (!o->count.torn) {
        o->known = true;
        o->jobs = o->count.jobs;
    }
    if (is_orphan(o->meta, o->field))
        warn(o);
}

static void on_queues(void *arg, const struct redisReply *reply)
{
    struct orphan *o = arg;
    o->queues = redis_integer(reply);
    answered(&o->count, is_good(reply));
}

static void on_names(void *arg, const struct redisReply *reply)
{
    struct orphan *o = arg;
    const struct meta *m = o->meta;
    const char *sink = after(o->field, "sink:"), *kind = meta_value(m, o->field);
    const bool global = kind && strcmp(kind, "global") == 0;
    for (size_t i = 0; i < redis_items(reply); i++) {
        struct buf bucket = {0};
        buf_addf(&bucket, global ? "%s:{%s}:%.*s" : "%s:{%s:%.*s}",
                 store_prefix(m->store), sink,
                 SLICE_ARG(redis_text(redis_item(reply, i))));
        count_bucket(&o->count, m->store, buf_str(&bucket));
        buf_free(&bucket);
    }
    answered(&o->count, is_good(reply));
}

static void count_sink(struct orphan *o)
{
    struct store *st = o->meta->store;
    struct buf key = {0};
    buf_addf(&key, "%s:{%s}:queues", store_prefix(st), after(o->field, "sink:"));
    const struct slice count[] = {SLICE_LIT("ZCARD"), buf_slice(&key)};
    const struct slice names[] = {SLICE_LIT("ZRANGE"), buf_slice(&key), SLICE_LIT("0"),
                                  SLICE_LIT(QUEUES_COUNTED)};
    o->count.open = 2;
    store_command(st, count, 2, on_queues, o);
    store_command(st, names, 4, on_names, o);
    buf_free(&key);
}

static struct orphan *orphan_new(struct meta *m, const char *field)
{
    struct orphan *o = mem_alloc(sizeof(*o) + strlen(field) + 1);
    o->meta = m;
    o->next = m->orphans;
    m->orphans = o;
    strcpy(o->field, field);
    return o;
}

static void look_at_field(struct meta *m, const struct pair *field)
{
    const char *route = after(field->name, "route:");
    struct orphan *o = m->orphans;
    while (o && strcmp(o->field, field->name) != 0)
        o = o->next;
    if (!is_orphan(m, field->name)) {
        if (o)
            o->known = o->logged = false;
        return;
    }
    if (o == NULL)
        o = orphan_new(m, field->name);
    if (o->count.open > 0)
        return;
    o->count = (struct job_count){.done = on_orphan_counted, .arg = o};
    if (route)
        count_route(&o->count, m->store, route, meta_buckets_of(field->value));
    else
        count_sink(o);
}

void meta_orphan_look(struct meta *m)
{
    for (size_t i = 0; i < m->fields.n; i++)
        look_at_field(m, &m->fields.v[i]);
}

void meta_orphans(const struct meta *m, meta_orphan_cb *each, void *arg)
{
    for (const struct orphan *o = m->orphans; o; o = o->next)
        if (o->known && is_orphan(m, o->field))
            each(arg, o->field, o->jobs, o->queues);
}

void meta_orphan_fini(struct meta *m)
{
    struct orphan *next;
    for (struct orphan *o = m->orphans; o; o = next) {
        next = o->next;
        free(o);
    }
}
