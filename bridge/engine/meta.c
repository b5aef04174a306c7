/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/meta.h"
#include "bridge/engine/meta_internal.h"
#include "bridge/engine/route.h"
#include "bridge/base/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LOOK_MS = 60 * 1000,
    SAVED_MS = 2000, /* Redis has written a change to its disk (appendfsync everysec) */
    CHANGES_MAX = 64 /* of one call */
};

/* --- pure --- */

/* The first migration belongs here: a tarry that knows a later layout converts the keys,
 * when no instance with this layout runs any more. */
int meta_layout_fits(const struct meta_layout *there, bool writes, const char *prefix,
                     struct err *err)
{
    int64_t least = writes && there->least_writer > there->least_reader
                        ? there->least_writer
                        : there->least_reader;
    if (least <= META_LAYOUT)
        return 0;
    return err_set(err,
                   "the keys in Redis (%s:meta) have layout %" PRId64
                   ", and tarry must support layout %" PRId64
                   " to %s them. This version, %s, supports layout %d: start the newer "
                   "tarry again. Nothing was changed. (Keys of development versions "
                   "before the first release, layouts 1 to 3, cannot be used)",
                   prefix, there->layout, least, writes ? "change" : "read",
                   TARRY_VERSION, META_LAYOUT);
}

int64_t meta_buckets_of(const char *text)
{
    int64_t n = 0;
    for (; *text >= '0' && *text <= '9' && n <= META_BUCKETS_MAX; text++)
        n = n * 10 + (*text - '0');
    return *text == '\0' && n <= META_BUCKETS_MAX ? n : 0;
}

/* --- the last read --- */

static void forget_fields(struct meta *m)
{
    for (size_t i = 0; i < m->fields.n; i++) {
        free(m->fields.v[i].name);
        free(m->fields.v[i].value);
    }
    free(m->fields.v);
    m->fields = (struct pairs){NULL, 0};
}

static char *text_at(const struct redisReply *r, size_t i)
{
    struct slice s = redis_text(redis_item(r, i));
    return mem_strndup(s.p ? s.p : "", s.n);
}

/* r: changed, field, value, field, value... */
static void keep_fields(struct meta *m, const struct redisReply *r)
{
    forget_fields(m);
    m->fields.n = redis_items(r) / 2;
    m->fields.v = mem_alloc((m->fields.n + 1) * sizeof(*m->fields.v));
    for (size_t i = 0; i < m->fields.n; i++)
        m->fields.v[i] = (struct pair){text_at(r, 2 * i + 1), text_at(r, 2 * i + 2)};
}

const char *meta_value(const struct meta *m, const char *name)
{
    for (size_t i = 0; i < m->fields.n; i++)
        if (strcmp(m->fields.v[i].name, name) == 0)
            return m->fields.v[i].value;
    return NULL;
}

static int64_t number_of(const struct meta *m, const char *name)
{
    const char *value = meta_value(m, name);
    return value ? strtoll(value, NULL, 10) : 0;
}

/* --- changes to write --- */

struct plan {
    unsigned count;
    char *rows[CHANGES_MAX][3]; /* field, old value ("": none), new value */
};

static void plan_add(struct plan *plan, const char *field, const char *was,
                     const char *now)
{
    if (plan->count == CHANGES_MAX)
        return; /* the next call writes the rest */
    char **row = plan->rows[plan->count++];
    row[0] = mem_strdup(field);
    row[1] = mem_strdup(was ? was : "");
    row[2] = mem_strdup(now);
}

static void plan_add_number(struct plan *plan, const char *field, const char *was,
                            int64_t now)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, now);
    plan_add(plan, field, was, text);
}

static void plan_free(struct plan *plan)
{
    for (unsigned i = 0; i < plan->count; i++)
        for (unsigned k = 0; k < 3; k++)
            free(plan->rows[i][k]);
}

static void plan_layout(const struct meta *m, struct plan *plan)
{
    static const char *const fields[] = {"layout", "least_reader", "least_writer"};
    for (size_t i = 0; number_of(m, "layout") == 0 && i < 3; i++)
        plan_add_number(plan, fields[i], meta_value(m, fields[i]), META_LAYOUT);
}

static void plan_sinks(const struct meta *m, struct plan *plan)
{
    const struct bridge *bridge = m->bridge;
    EACH_SINK (bridge, sink) {
        struct buf field = {0};
        if (sink->rules == NULL || sink->store != m->store)
            continue;
        const char *kind = sink->rules->global_ids ? "global" : "queue";
        buf_addf(&field, "sink:%s", sink->conf->name);
        const char *was = meta_value(m, buf_str(&field));
        if (was == NULL || strcmp(was, kind) != 0)
            plan_add(plan, buf_str(&field), was, kind);
        buf_free(&field);
    }
}

/* --- the epochs of the numbers of buckets --- */

static int64_t epoch_of(const struct meta *m, const struct route *route)
{
    struct buf field = {0};
    buf_addf(&field, "epoch:%s", route->conf->name);
    const int64_t epoch = number_of(m, buf_str(&field));
    buf_free(&field);
    return epoch;
}

/* A time is also later than the epochs that buckets may contain if meta was lost. */
static int64_t plan_epoch(const struct meta *m, const struct route *route, bool odd,
                          struct plan *plan)
{
    struct buf field = {0};
    const int64_t was = epoch_of(m, route), now = store_now_ms(m->store);
    int64_t epoch = now > was ? now : was + 1;
    epoch += epoch % 2 != odd;
    buf_addf(&field, "epoch:%s", route->conf->name);
    plan_add_number(plan, buf_str(&field), meta_value(m, buf_str(&field)), epoch);
    buf_free(&field);
    return epoch;
}

/* The route uses the number that is in Redis. End the change of another instance, also if
 * only a bucket knows it. Return false if Redis must be asked first. */
static bool use_epoch(const struct meta *m, struct route *route, struct plan *plan)
{
    const int64_t epoch = epoch_of(m, route);
    const bool good = epoch % 2 == 0 && epoch != route->fenced;
    if (good)
        route->rules.epoch = epoch;
    else if (!m->bridge->read_only)
        plan_epoch(m, route, false, plan);
    return good || m->bridge->read_only;
}

/* --- the buckets of the routes --- */

static void refuse(struct meta *m, const char *why)
{
    if (!m->incompatible)
        m->events->incompatible(m->arg, why);
    m->incompatible = true;
}

/* Reject a different number in the configuration. At the start tarry stops. A reload is
 * rejected; if Redis was unreachable during the reload, the old number remains in use. */
static bool refuse_number(struct meta *m, struct route *route, int64_t was,
                          const struct err *err)
{
    if (route->use == PART_NEW) {
        route->refused = mem_strdup(err->text);
    } else if (!m->bridge->started) {
        refuse(m, err->text);
    } else {
        log_error("redis", "%s. Until then the old number of buckets remains in use",
                  err->text);
        route_open_buckets(route, was);
        return true;
    }
    return false;
}

/* Check that Redis has the number with which the route runs, or none. false: rejected. */
static bool keep_number(struct meta *m, const struct route *route, int64_t was)
{
    struct err err;
    if (was == 0 || was == route->bucket_count)
        return true;
    err_set(&err,
            "routes.%s: another instance changed the number of buckets to %" PRId64
            ", but this instance uses %" PRId64 ": restart it with buckets = %" PRId64,
            route->conf->name, was, route->bucket_count, was);
    refuse(m, err.text);
    return false;
}

static bool has_number(const struct meta *m, const struct route *route)
{
    return !m->of_pool && route->sink->rules == NULL;
}

/* A reload has taken it out, and another instance may have changed the number since. */
static bool has_ended(const struct route *route, int64_t was)
{
    return route->use > PART_NEW &&
           (route->bucket_count == 0 || (was > 0 && was != route->bucket_count));
}

/* Redis may still lose its number in a crash, or another instance is changing it. An
 * instance with another number waits longer than one with the new number. */
static bool is_changing(const struct meta *m, const struct route *route, int64_t was)
{
    const int64_t epoch = epoch_of(m, route);
    const int64_t wait_ms =
        was == route->conf->buckets ? SAVED_MS : SAVED_MS + META_OTHERS_MS;
    return epoch % 2 != 0 && epoch != route->look.fence &&
           llabs(store_now_ms(m->store) - epoch) < wait_ms;
}

static bool may_open(const struct meta *m, const struct route *route, int64_t was)
{
    return was == route->conf->buckets || (was > 0 && !m->bridge->serves) ||
           (was == 0 && m->bridge->read_only);
}

/* Return false if the route cannot start yet, or not at all. field: "route:NAME". */
static bool look_at_route(struct meta *m, struct route *route, const char *field,
                          struct plan *plan)
{
    const char *name = route->conf->name, *value = meta_value(m, field);
    const int64_t was = value ? meta_buckets_of(value) : 0, now = route->conf->buckets;
    struct err err;
    if (value && was == 0) {
        err_set(&err,
                "the field route:%s of %s:meta in Redis is \"%.60s\", not a number of "
                "buckets. Development versions before the first release wrote values "
                "such as \"1:4\"; their keys cannot be used: empty this Redis, or set "
                "another redis.prefix",
                name, store_prefix(m->store), value);
        refuse(m, err.text);
        return false;
    }
    if (has_ended(route, was))
        return true;
    if (route->bucket_count > 0 && !keep_number(m, route, was))
        return false;
    if (was == 0 && !m->bridge->read_only) {
        plan_add_number(plan, field, NULL,
                        route->bucket_count > 0 ? route->bucket_count : now);
        plan_epoch(m, route, false, plan);
    }
    if (route->bucket_count == 0 && !m->bridge->read_only && is_changing(m, route, was))
        return false;
    if (route->bucket_count == 0 && may_open(m, route, was))
        route_open_buckets(route, was > 0 ? was : now);
    if (route->bucket_count > 0)
        return was == 0 || use_epoch(m, route, plan);
    if (was == 0 || route->refused)
        return was > 0;
    switch (meta_buckets_check(m, route, was, epoch_of(m, route), &err)) {
    case BUCKETS_WAIT:
        return false;
    case BUCKETS_FENCE:
        route->look.fence = plan_epoch(m, route, true, plan);
        return false;
    case BUCKETS_REFUSED:
        return refuse_number(m, route, was, &err) &&
               (route->bucket_count == 0 || use_epoch(m, route, plan));
    case BUCKETS_CHANGE:
        plan_epoch(m, route, true, plan); /* first: the plan may have no room for both */
        plan_add_number(plan, field, value, now);
        log_event(LOG_INFO, &(struct log_about){.route = name},
                  "the number of buckets is now %" PRId64 "; it was %" PRId64, now, was);
    }
    return false;
}

static bool look_at_routes(struct meta *m, struct plan *plan)
{
    bool good = true;
    EVERY_ROUTE (m->bridge, route) {
        struct buf name = {0};
        if (!has_number(m, route))
            continue;
        buf_addf(&name, "route:%s", route->conf->name);
        good = look_at_route(m, route, buf_str(&name), plan) && good;
        buf_free(&name);
    }
    return good;
}

/* --- reading and writing --- */

static void tell_up(struct meta *m)
{
    if (!m->up_open || !store_is_up(m->store))
        return;
    m->up_open = false;
    if (m->of_pool)
        m->events->pool_up(m->arg);
    else
        m->events->up(m->arg);
}

static void on_read(void *arg, const struct redisReply *reply);

/* Read meta, and make the changes: all of them, or none if a field has not its expected
 * old value. */
static void ask(struct meta *m, const struct plan *plan)
{
    struct store_meta_want changes[CHANGES_MAX];
    struct buf key = {0};
    for (unsigned i = 0; i < plan->count; i++)
        changes[i] = (struct store_meta_want){slice_of(plan->rows[i][0]),
                                              slice_of(plan->rows[i][1]),
                                              slice_of(plan->rows[i][2])};
    buf_addf(&key, "%s:meta", store_prefix(m->store));
    m->asking = true;
    store_meta(m->store, buf_slice(&key), changes, plan->count, on_read, m);
    buf_free(&key);
}

/* Write what is missing in Redis. When nothing is, meta is ready. */
static void settle(struct meta *m)
{
    struct plan plan = {.count = 0};
    if (!m->bridge->read_only) {
        plan_layout(m, &plan);
        plan_sinks(m, &plan);
    }
    const bool good = look_at_routes(m, &plan) && !m->incompatible;
    if (plan.count > 0 && !m->incompatible)
        ask(m, &plan);
    plan_free(&plan);
    if (m->asking || m->incompatible)
        return;
    store_move_far(m->store, m->bridge->serves);
    m->look_ms = good ? loop_mono_ms() + LOOK_MS : 0; /* 0: at the next tick */
    if (!good)
        return;
    m->ready = true;
    tell_up(m);
    meta_orphan_look(m);
    if (m->again)
        meta_look(m);
}

static void on_read(void *arg, const struct redisReply *reply)
{
    struct meta *m = arg;
    struct err err;
    const bool good = redis_items(reply) % 2 == 1;
    m->asking = false;
    snprintf(m->trouble, sizeof(m->trouble), "%s", good ? "" : store_trouble(m->store));
    if (!good)
        m->look_ms = 0; /* at the next tick, or with the next connection */
    if (!good || m->incompatible)
        return;
    keep_fields(m, reply);
    const struct meta_layout there = {number_of(m, "layout"),
                                      number_of(m, "least_reader"),
                                      number_of(m, "least_writer")};
    if (redis_integer(redis_item(reply, 0)) == 1) /* changed */
        store_notify(m->store, "=#meta");
    if (meta_layout_fits(&there, !m->bridge->read_only, store_prefix(m->store), &err) < 0)
        refuse(m, err.text);
    else
        settle(m);
}

void meta_look(struct meta *m)
{
    m->again = m->asking;
    if (!m->asking)
        ask(m, &(const struct plan){.count = 0});
}

void meta_routes_changed(struct meta *m)
{
    EACH_ROUTE (m->bridge, route)
        m->ready = m->ready && (m->of_pool || route_is_open(route));
    if (store_is_up(m->store))
        meta_look(m);
}

void meta_tick(struct meta *m)
{
    if (!store_is_up(m->store) || m->incompatible)
        return;
    if (m->up_open || loop_mono_ms() >= m->look_ms)
        meta_look(m);
}

const char *meta_trouble(const struct meta *m)
{
    return m->trouble;
}

bool meta_is_ready(const struct meta *m)
{
    return m->ready;
}

/* --- the store's events --- */

/* Redis may have lost data. So sources read again before the store sends queued changes,
 * and new jobs wait until the number of buckets was read again. */
static void on_up(void *arg)
{
    struct meta *m = arg;
    inst_rewind_sources(m->bridge);
    EVERY_ROUTE (m->bridge, route)
        if (has_number(m, route))
            route->rules.epoch = EPOCH_UNKNOWN;
    m->up_open = true;
    meta_look(m);
}

/* A further Redis contains only queues, so it has no other notifications. */
static void on_notified(void *arg, struct slice name)
{
    struct meta *m = arg;
    if (name.p == NULL || slice_is(name, "#meta"))
        meta_look(m);
    if (!m->of_pool && m->events->notified)
        m->events->notified(m->arg, name);
}

static void on_incompatible(void *arg, const char *why)
{
    refuse(arg, why);
}

/* Of several batches the first one counts. */
static void on_fenced(void *arg, const struct bucket_rules *rules)
{
    struct meta *m = arg;
    EVERY_ROUTE (m->bridge, route) {
        if (&route->rules != rules || rules->epoch == EPOCH_UNKNOWN)
            continue;
        route->fenced = rules->epoch;
        route->rules.epoch = EPOCH_UNKNOWN;
        meta_look(m);
    }
}

const struct store_events meta_events = {on_up, NULL, on_notified, on_incompatible,
                                         on_fenced};

struct meta *meta_new(struct bridge *bridge, bool of_pool,
                      const struct core_events *events, void *arg)
{
    struct meta *m = mem_alloc(sizeof(*m));
    m->bridge = bridge;
    m->of_pool = of_pool;
    m->events = events;
    m->arg = arg;
    return m;
}

void meta_set_store(struct meta *m, struct store *st)
{
    m->store = st;
}

void meta_free(struct meta *m)
{
    if (m == NULL)
        return;
    meta_orphan_fini(m);
    forget_fields(m);
    free(m);
}
