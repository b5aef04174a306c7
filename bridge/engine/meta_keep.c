/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/meta_keep.h"
#include "bridge/engine/generation.h"
#include "bridge/engine/meta_parts.h"
#include "bridge/engine/passage.h"
#include "bridge/engine/reread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOOK_MS = 60 * 1000 };

/* --- what was read --- */

static void forget_fields(struct meta *m)
{
    for (unsigned i = 0; i < m->field_count; i++) {
        free(m->fields[i].name);
        free(m->fields[i].value);
    }
    free(m->fields);
    m->fields = NULL;
    m->field_count = 0;
}

static char *text_of(struct slice s)
{
    char *text = mem_alloc(s.n + 1);
    slice_put(text, s);
    return text;
}

static void keep_fields(struct meta *m, const struct slice *pairs, unsigned n)
{
    forget_fields(m);
    m->fields = mem_alloc((n / 2 + 1) * sizeof(*m->fields));
    m->field_count = n / 2;
    for (unsigned i = 0; i < n / 2; i++)
        m->fields[i] =
            (struct meta_field){text_of(pairs[2 * i]), text_of(pairs[2 * i + 1])};
}

const char *meta_value(const struct meta *m, const char *name)
{
    for (unsigned i = 0; i < m->field_count; i++)
        if (strcmp(m->fields[i].name, name) == 0)
            return m->fields[i].value;
    return NULL;
}

static int64_t number_of(const struct meta *m, const char *name)
{
    const char *value = meta_value(m, name);
    return value ? strtoll(value, NULL, 10) : 0;
}

/* The list of a route; where nothing is noted, that of a first generation. */
static int read_route(const struct meta *m, const struct route *route,
                      struct meta_route *list, struct err *err)
{
    struct buf name = {0};
    buf_addf(&name, "route:%s", route->conf->name);
    const char *value = meta_value(m, buf_str(&name));
    buf_free(&name);
    *list = (struct meta_route){.generation = {{1, route->conf->buckets}}, .count = 1};
    if (value == NULL || meta_route_parse(slice_of(value), list) == 0)
        return 0;
    return err_set(err,
                   "the field route:%s of %s:meta in Redis is \"%.60s\", which no tarry "
                   "writes: put back what it was, \"1:%" PRId64 "\" where the route "
                   "never had another number of buckets",
                   route->conf->name, store_prefix(m->store), value,
                   route->conf->buckets);
}

/* --- what is to be noted --- */

struct plan {
    struct meta_change changes[STORE_META_MAX];
    unsigned count;
    struct buf texts[STORE_META_MAX][2]; /* names and values */
};

static bool plan_is_full(const struct plan *plan)
{
    return plan->count == STORE_META_MAX; /* the rest comes with the next one */
}

static void plan_add(struct plan *plan, const char *kind, const char *name,
                     const char *was, const char *now)
{
    if (plan_is_full(plan))
        return;
    struct buf *text = plan->texts[plan->count];
    buf_addf(&text[0], "%s%s", kind, name);
    buf_add_str(&text[1], now);
    plan->changes[plan->count] =
        (struct meta_change){buf_str(&text[0]), was, buf_str(&text[1])};
    plan->count++;
}

static void plan_free(struct plan *plan)
{
    for (unsigned i = 0; i < plan->count; i++) {
        buf_free(&plan->texts[i][0]);
        buf_free(&plan->texts[i][1]);
    }
}

/* Keys without a meta are an older tarry's, or there are none. */
static void plan_layout(const struct meta *m, struct plan *plan)
{
    char layout[16];
    if (m->there.layout > 0)
        return;
    snprintf(layout, sizeof(layout), "%d",
             m->found_old ? META_LAYOUT_FIRST : META_LAYOUT);
    plan_add(plan, "", "layout", NULL, layout);
    plan_add(plan, "", "least_reader", NULL, layout);
    plan_add(plan, "", "least_writer", NULL, layout);
}

/* Begins the generation that the configuration asks for, where it may. */
static void plan_count(const struct route *route, const char *was, struct plan *plan)
{
    struct meta_route list;
    struct buf now = {0};
    if (!route->look.may_change || meta_route_parse(slice_of(was), &list) < 0 ||
        list.generation[0].buckets == route->conf->buckets)
        return;
    const struct log_about about = {.route = route->conf->name};
    if (meta_route_begin(&list, route->conf->buckets)) {
        meta_route_format(&list, &now);
        plan_add(plan, "route:", route->conf->name, was, buf_str(&now));
        log_event(LOG_INFO, &about, "its buckets are now %" PRId64 ", and were %" PRId64,
                  list.generation[0].buckets, list.generation[1].buckets);
    } else {
        log_event(LOG_WARN, &about,
                  "stays with %" PRId64 " buckets: it had %u other numbers within the "
                  "last minutes; start again later",
                  list.generation[0].buckets, list.count - 1);
    }
    buf_free(&now);
}

static void plan_routes(const struct meta *m, struct plan *plan)
{
    const struct bridge *bridge = m->bridge;
    for (size_t i = 0; !m->of_pool && i < bridge->route_count; i++) {
        const struct route *route = bridge->routes[i];
        struct buf name = {0}, first = {0};
        if (route->sink->rules)
            continue;
        buf_addf(&name, "route:%s", route->conf->name);
        const char *was = meta_value(m, buf_str(&name));
        int64_t found = i < m->counted ? m->counts[i] : 0;
        buf_addf(&first, "1:%" PRId64,
                 found > route->conf->buckets ? found : route->conf->buckets);
        if (was)
            plan_count(route, was, plan);
        else
            plan_add(plan, "route:", route->conf->name, NULL, buf_str(&first));
        buf_free(&name);
        buf_free(&first);
    }
}

static void plan_sinks(const struct meta *m, struct plan *plan)
{
    const struct bridge *bridge = m->bridge;
    for (size_t i = 0; i < bridge->sink_count; i++) {
        const struct sink *sink = bridge->sinks[i];
        struct buf name = {0};
        if (sink->rules == NULL || sink->store != m->store)
            continue;
        const char *kind = sink->rules->global_ids ? "global" : "queue";
        buf_addf(&name, "sink:%s", sink->conf->name);
        const char *was = meta_value(m, buf_str(&name));
        if (was == NULL || strcmp(was, kind) != 0)
            plan_add(plan, "sink:", sink->conf->name, was, kind);
        buf_free(&name);
    }
}

/* --- what follows from it --- */

static void leave_alone(struct meta *m, const struct err *err)
{
    if (!m->unfit)
        m->events->unfit(m->arg, err->text);
    m->unfit = true;
}

/* What waits for a next generation goes on. */
static int follow(struct meta *m, struct err *err)
{
    for (size_t i = 0; !m->of_pool && i < m->bridge->route_count; i++) {
        struct route *route = m->bridge->routes[i];
        struct meta_route list;
        if (route->sink->rules)
            continue;
        if (read_route(m, route, &list, err) < 0)
            return -1;
        generations_follow(route, &list);
        for (struct generation *g = route->oldest; g->next; g = g->next)
            passage_go_on(g);
    }
    return 0;
}

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

static void on_read(void *arg, bool changed, const struct slice *pairs, unsigned n);

/* What to do about buckets = n of a route; it is asked once, when the route starts. */
static enum buckets_answer look_at_count(struct meta *m, struct route *route,
                                         struct err *err)
{
    struct meta_route list;
    if (route->sink->rules || route->buckets_noted ||
        read_route(m, route, &list, err) < 0)
        return BUCKETS_KEEP;
    const int64_t was = list.generation[0].buckets;
    enum buckets_answer answer = BUCKETS_KEEP;
    if (was != route->conf->buckets && !route->look.may_change)
        answer = meta_buckets_check(m, route, was, err);
    /* An older tarry may come back to a layout that has no generations. */
    if (answer == BUCKETS_CHANGE && m->there.layout < META_LAYOUT_SUMS) {
        log_event(LOG_WARN, &(struct log_about){.route = route->conf->name},
                  "stays with %" PRId64 " buckets until the keys have layout %d; start "
                  "again then",
                  was, META_LAYOUT_SUMS);
        route->look.may_change = false;
        answer = BUCKETS_KEEP;
    }
    route->buckets_noted = answer == BUCKETS_KEEP;
    return answer;
}

/* At a start, or in a reload; or the reload was while Redis was away, and is over. */
static void refuse_count(struct meta *m, struct route *route, const struct err *err)
{
    if (route->coming) {
        route->refused = mem_strdup(err->text);
    } else if (!m->bridge->started) {
        leave_alone(m, err);
    } else {
        log_error("redis", "%s; until then the old number counts", err->text);
        route->buckets_noted = true;
    }
}

/* false: the routes can't start yet, or not at all. */
static bool look_at_counts(struct meta *m, bool *changes)
{
    bool good = true;
    for (size_t i = 0; !m->of_pool && m->bridge->serves && i < m->bridge->route_count;
         i++) {
        struct route *route = m->bridge->routes[i];
        struct err err;
        const enum buckets_answer answer =
            route->refused ? BUCKETS_KEEP : look_at_count(m, route, &err);
        good = good && (answer == BUCKETS_KEEP || answer == BUCKETS_CHANGE);
        *changes = *changes || answer == BUCKETS_CHANGE;
        if (answer == BUCKETS_REFUSED)
            refuse_count(m, route, &err);
    }
    return good;
}

/* Notes what is missing; when nothing is, the rest follows. */
static void settle(struct meta *m)
{
    struct plan plan = {.count = 0};
    struct err err;
    if (!m->bridge->only_looks) {
        plan_layout(m, &plan);
        plan_routes(m, &plan);
        plan_sinks(m, &plan);
    }
    if (plan.count > 0) {
        m->asking = true;
        store_meta(m->store, plan.changes, plan.count, on_read, m);
        plan_free(&plan);
        return;
    }
    store_set_layout(m->store, m->there.layout, m->bridge->serves);
    m->look_ms = loop_mono_ms() + LOOK_MS;
    if (follow(m, &err) < 0) {
        leave_alone(m, &err);
        return;
    }
    bool changes = false;
    const bool good = look_at_counts(m, &changes);
    if (good && changes) {
        settle(m);
        return;
    }
    /* Older buckets are sealed before the first job comes. */
    if (!good || (!m->ready && meta_drain_open(m))) {
        m->look_ms = 0; /* at the next tick */
        return;
    }
    m->ready = true;
    tell_up(m);
    meta_drain_look(m);
    meta_orphan_look(m);
    if (m->again)
        meta_look(m);
}

static void on_read(void *arg, bool changed, const struct slice *pairs, unsigned n)
{
    struct meta *m = arg;
    struct err err;
    m->asking = false;
    snprintf(m->trouble, sizeof(m->trouble), "%s", pairs ? "" : store_trouble(m->store));
    if (pairs == NULL)
        m->look_ms = 0; /* at the next tick, or with the next connection */
    if (pairs == NULL || m->unfit)
        return;
    keep_fields(m, pairs, n);
    m->there = (struct meta_layout){number_of(m, "layout"), number_of(m, "least_reader"),
                                    number_of(m, "least_writer")};
    if (changed)
        store_tell(m->store, "=#meta");
    if (meta_layout_fits(&m->there, !m->bridge->only_looks, store_prefix(m->store),
                         &err) < 0)
        leave_alone(m, &err);
    else if (m->there.layout == 0 && !m->probed && !m->bridge->only_looks)
        meta_probe(m, settle);
    else
        settle(m);
}

void meta_look(struct meta *m)
{
    m->again = m->asking || m->probes > 0;
    if (m->again)
        return;
    m->asking = true;
    store_meta(m->store, NULL, 0, on_read, m);
}

bool meta_is_busy(const struct meta *m)
{
    return m->step != NULL || m->probes > 0;
}

/* The counts of the probe are by the places of the routes, and have served. */
void meta_routes_changed(struct meta *m)
{
    m->counted = 0;
    for (size_t i = 0; !m->of_pool && i < m->bridge->route_count; i++) {
        const struct route *route = m->bridge->routes[i];
        m->ready = m->ready && (route->sink->rules || route->newest);
    }
    if (store_is_up(m->store))
        meta_look(m);
}

void meta_changed(struct meta *m)
{
    store_tell(m->store, "=#meta");
    meta_look(m);
}

void meta_tick(struct meta *m)
{
    if (!store_is_up(m->store) || m->unfit)
        return;
    if (m->up_open || loop_mono_ms() >= m->look_ms)
        meta_look(m);
    meta_drain_tick(m);
    meta_step_tick(m);
}

const char *meta_trouble(const struct meta *m)
{
    return m->trouble;
}

bool meta_is_ready(const struct meta *m)
{
    return m->ready;
}

int64_t meta_layout(const struct meta *m)
{
    return m->there.layout;
}

/* --- the store's events --- */

/* What may have been lost is looked after before anything that waited is sent. */
static void on_up(void *arg)
{
    struct meta *m = arg;
    reread_all(m->bridge);
    m->up_open = true;
    meta_look(m);
}

static void on_down(void *arg, const char *why)
{
    struct meta *m = arg;
    m->events->down(m->arg, why);
}

/* A further Redis holds queues only: it tells of nothing else. */
static void on_told(void *arg, struct slice name)
{
    struct meta *m = arg;
    if (name.p == NULL || slice_is(name, "#meta"))
        meta_look(m);
    if (!m->of_pool)
        m->events->told(m->arg, name);
}

static void on_unfit(void *arg, const char *why)
{
    struct meta *m = arg;
    if (!m->unfit && m->events->unfit)
        m->events->unfit(m->arg, why);
    m->unfit = true;
}

const struct store_events meta_events = {on_up, on_down, on_told, on_unfit};

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
    meta_step_fini(m);
    meta_orphan_fini(m);
    forget_fields(m);
    free(m->counts);
    free(m);
}
