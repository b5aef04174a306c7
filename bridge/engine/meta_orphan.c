/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta_orphan.c - routes and queue sinks that are in PREFIX:meta, but not configured.
 * Their jobs stay in Redis; tarry counts them, but does not deliver them. When the route
 * or sink is configured again, it continues with these jobs.
 */
#include "bridge/engine/meta_internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* index of the last queue of a sink whose jobs are counted */
#define QUEUES_COUNTED "999"

struct orphan {
    struct orphan *next;
    struct meta *meta;
    char *field, *value;
    struct bucket **buckets; /* of a route */
    int64_t bucket_count;
    unsigned open;            /* calls without an answer */
    bool torn;                /* an answer failed: keep the old counts */
    bool known, logged, gone; /* gone: it is configured, or its value has changed */
    int64_t jobs, queues;
    int64_t new_jobs, new_queues; /* of the count in progress */
};

static void no_head(void *owner, int64_t head_ms)
{
    (void)owner;
    (void)head_ms;
}

static void no_wake(void *owner)
{
    (void)owner;
}

static const struct bucket_events no_events = {no_head, no_wake, NULL, NULL};
static const struct bucket_rules no_rules = {.kept = true};

static const char *after(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

/* A route that a reload has taken out counts as configured until its buckets are
 * freed. */
static bool is_configured(const struct meta *m, const char *field)
{
    const char *of_route = after(field, "route:"), *of_sink = after(field, "sink:");
    if (of_route)
        EVERY_ROUTE (m->bridge, route)
            if (strcmp(route->conf->name, of_route) == 0 && route->sink->rules == NULL)
                return true;
    const struct sink *sink = inst_sink_named(m->bridge, of_sink);
    if (sink)
        return sink->rules && sink->store == m->store;
    return !of_route && !of_sink;
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

static void answered(struct orphan *o)
{
    if (--o->open > 0)
        return;
    if (!o->torn) {
        o->jobs = o->new_jobs;
        o->queues = o->new_queues;
        o->known = true;
    }
    warn(o);
}

static void on_counts(void *arg, const struct counts *counts)
{
    struct orphan *o = arg;
    if (counts)
        o->new_jobs += counts->waiting + counts->in_flight + counts->dead;
    else
        o->torn = true;
    answered(o);
}

/* A key that the ACL of Redis denies belongs to somebody else; that counts as an
 * answer. */
static bool is_answer(const struct redisReply *reply)
{
    enum redis_error e = reply ? redis_error(reply) : REDIS_WAIT;
    return e == REDIS_NO_ERROR || e == REDIS_DENIED;
}

static void on_jobs(void *arg, const struct redisReply *reply)
{
    struct orphan *o = arg;
    o->new_jobs += redis_integer(reply);
    o->torn = o->torn || !is_answer(reply);
    answered(o);
}

static void on_queues(void *arg, const struct redisReply *reply)
{
    struct orphan *o = arg;
    o->new_queues = redis_integer(reply);
    o->torn = o->torn || !is_answer(reply);
    answered(o);
}

static void ask(struct orphan *o, const char *command, const struct buf *key,
                redis_reply_cb *cb)
{
    const struct slice args[] = {slice_of(command), buf_slice(key)};
    o->open++;
    store_command(o->meta->store, args, 2, cb, o);
}

static void on_names(void *arg, const struct redisReply *reply)
{
    struct orphan *o = arg;
    const char *sink = after(o->field, "sink:");
    const char *end = strcmp(o->value, "global") == 0 ? "}:" : ":";
    o->torn = o->torn || reply == NULL || redis_error(reply) != REDIS_NO_ERROR;
    for (size_t i = 0; i < redis_items(reply); i++) {
        struct buf key = {0};
        buf_addf(&key, "%s:{%s%s", store_prefix(o->meta->store), sink, end);
        buf_add_slice(&key, redis_text(redis_item(reply, i)));
        buf_add_str(&key, *end == ':' ? "}:pool" : ":pool");
        ask(o, "HLEN", &key, on_jobs);
        buf_free(&key);
    }
    answered(o);
}

static void count_sink(struct orphan *o)
{
    struct buf key = {0};
    buf_addf(&key, "%s:{%s}:queues", store_prefix(o->meta->store),
             after(o->field, "sink:"));
    ask(o, "ZCARD", &key, on_queues);
    o->open++;
    store_command(o->meta->store,
                  (const struct slice[]){SLICE_LIT("ZRANGE"), buf_slice(&key),
                                         SLICE_LIT("0"), SLICE_LIT(QUEUES_COUNTED)},
                  4, on_names, o);
    buf_free(&key);
}

static void count(struct orphan *o)
{
    if (o->open > 0)
        return;
    o->new_jobs = o->new_queues = 0;
    o->torn = false;
    if (after(o->field, "sink:")) {
        count_sink(o);
        return;
    }
    o->open = (unsigned)o->bucket_count;
    for (int64_t i = 0; i < o->bucket_count; i++)
        store_count(o->buckets[i], on_counts, o);
}

static void make_buckets(struct orphan *o, int64_t count)
{
    o->bucket_count = count;
    o->buckets = mem_alloc((size_t)count * sizeof(*o->buckets));
    for (int64_t n = 0; n < count; n++) {
        struct buf name = {0};
        buf_addf(&name, "%s/%" PRId64, after(o->field, "route:"), n);
        o->buckets[n] =
            bucket_new(o->meta->store, buf_str(&name), &no_rules, &no_events, o);
        buf_free(&name);
    }
}

static void orphan_free(struct orphan *o)
{
    free(o->field);
    free(o->value);
    free(o->buckets); /* the store owns the buckets */
    free(o);
}

static void take_in(struct meta *m, const struct meta_field *field)
{
    const bool of_route = after(field->name, "route:") != NULL;
    const int64_t buckets = of_route ? meta_buckets_of(field->value) : 0;
    if (of_route && (m->of_pool || buckets == 0))
        return;
    struct orphan *o = mem_alloc(sizeof(*o));
    o->meta = m;
    o->field = mem_strdup(field->name);
    o->value = mem_strdup(field->value);
    o->next = m->orphans;
    m->orphans = o;
    if (of_route)
        make_buckets(o, buckets);
}

static struct orphan *find(const struct meta *m, const struct meta_field *field)
{
    struct orphan *o = m->orphans;
    while (o && (o->gone || strcmp(o->field, field->name) != 0))
        o = o->next;
    return o;
}

static void forget(struct orphan *o)
{
    o->gone = true;
    for (int64_t i = 0; i < o->bucket_count; i++)
        bucket_free(o->buckets[i]); /* idle: no other code uses them */
    o->bucket_count = 0;
}

/* Forget orphans whose number of buckets another instance has changed, or that a reload
 * has configured again. */
static void forget_changed(struct meta *m)
{
    struct orphan **at = &m->orphans, *o;
    while ((o = *at) != NULL) {
        const char *value = meta_value(m, o->field);
        bool changed = value && strcmp(value, o->value) != 0;
        if (!o->gone && o->open == 0 && (changed || is_configured(m, o->field)))
            forget(o);
        if (o->gone) {
            *at = o->next;
            orphan_free(o);
        } else {
            at = &o->next;
        }
    }
}

bool meta_orphan_release(struct meta *m, const char *route)
{
    for (struct orphan *o = m->orphans; o; o = o->next) {
        const char *name = after(o->field, "route:");
        if (o->gone || name == NULL || strcmp(name, route) != 0)
            continue;
        if (o->open > 0)
            return false;
        forget(o);
    }
    return true;
}

void meta_orphan_look(struct meta *m)
{
    if (m->of_pool && m->field_count == 0)
        return;
    forget_changed(m);
    for (unsigned i = 0; i < m->field_count; i++)
        if (!is_configured(m, m->fields[i].name) && find(m, &m->fields[i]) == NULL)
            take_in(m, &m->fields[i]);
    for (struct orphan *o = m->orphans; o; o = o->next)
        if (!o->gone)
            count(o);
}

void meta_orphans(const struct meta *m, meta_orphan_cb *each, void *arg)
{
    for (const struct orphan *o = m->orphans; o; o = o->next)
        if (!o->gone && o->known)
            each(arg, o->field, o->jobs, o->queues);
}

void meta_orphan_fini(struct meta *m)
{
    struct orphan *next;
    for (struct orphan *o = m->orphans; o; o = next) {
        next = o->next;
        orphan_free(o);
    }
}
