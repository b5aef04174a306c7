/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/route.h"
#include "bridge/base/hash.h"
#include "bridge/engine/tap.h"
#include "bridge/job/tmpl.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/inst.h"
#include "bridge/engine/pace.h"
#include "bridge/engine/sched.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Compile a template. *tmpl is NULL if the sink needs no target. */
static int compile(const char *text, const struct sink *sink, struct tmpl **tmpl,
                   struct err *err)
{
    if (text == NULL)
        text = sink->ops->target;
    if (text == NULL)
        return err_set(err, "sink %s needs a topic: set topic (or dead_topic)",
                       sink->conf->name);
    if (*text == '\0')
        return 0;
    *tmpl = tmpl_compile(text, err);
    if (*tmpl && sink->ops->queue)
        tmpl_names_queue(*tmpl);
    return *tmpl ? 0 : -1;
}

/* Return whether a message could choose the host of its target within this template. Not
 * if the constant prefix contains a '/' after the origin. */
static bool is_open(const struct sink *sink, const struct tmpl *target)
{
    if (sink->ops->origin == NULL || target == NULL || tmpl_is_constant(target))
        return false;
    struct slice prefix = tmpl_prefix(target);
    if (prefix.n == 0)
        return true; /* else origin is a part of prefix */
    struct slice origin = sink->ops->origin(sink->self, prefix);
    const char *end = origin.p + origin.n;
    return memchr(end, '/', (size_t)(prefix.p + prefix.n - end)) == NULL;
}

/* Set what records omit: the only target of the route, and its first source. With a
 * second source the first still counts, because its jobs may already be stored. */
static void set_names(struct route *route, struct err *err)
{
    const struct opt_list *from = &route->conf->from;
    struct job *any = job_new(0);
    if (route->target && tmpl_is_constant(route->target) &&
        tmpl_render(route->target, any, NULL, 0, slice_of(route->conf->name),
                    &route->fixed_target, err) == 0)
        route->names.target = buf_slice(&route->fixed_target);
    if (from->n > 0)
        route->names.source = slice_of(from->v[0]);
    route->names.several = from->n > 1;
    job_free(any);
}

/* Compute everything that depends only on the configuration. */
static int read_conf(struct route *route, struct err *err)
{
    const struct conf_route *conf = route->conf;
    must(route->sink != NULL && (conf->dead == NULL || route->dead != NULL));
    if (compile(conf->topic, route->sink, &route->target, err) < 0)
        return err_in(err, conf->name);
    route->target_open = is_open(route->sink, route->target);
    if (route->dead &&
        compile(conf->dead_topic, route->dead, &route->dead_target, err) < 0)
        return err_in(err, conf->name);
    if (route->sink->rules == NULL) /* records in queues omit no names */
        set_names(route, err);
    else
        route->topic_is_queue = !conf_route_parts_topics(conf, route->target);
    return 0;
}

/* --- buckets: their number is in PREFIX:meta (meta.h) and does not change while the
 * route runs --- */

static struct sched *new_sched(struct route *route, int64_t n)
{
    struct sched *s = mem_alloc(sizeof(*s));
    struct buf name = {0};
    buf_addf(&name, "%s/%" PRId64, route->conf->name, n);
    sched_init(s, route, buf_str(&name));
    buf_free(&name);
    return s;
}

static void make_buckets(struct route *route, int64_t n)
{
    if (n <= route->sched_count)
        return;
    route->scheds = mem_realloc(route->scheds, (size_t)n * sizeof(*route->scheds));
    while (route->sched_count < n) {
        route->scheds[route->sched_count] = new_sched(route, route->sched_count);
        route->sched_count++;
    }
}

static void free_scheds(struct route *route)
{
    while (route->sched_count > 0) {
        struct sched *s = route->scheds[--route->sched_count];
        sched_fini(s);
        free(s);
    }
    free(route->scheds);
}

/* The default is the rate of 10 ms, to compensate a late claim. */
static int64_t burst(const struct conf_route *conf)
{
    int64_t n = conf->burst > 0 ? conf->burst : (int64_t)(conf->rate / 100);
    return n > 0 ? n : 1;
}

/* The share of one bucket, which knows nothing of the others. */
static int64_t share(const struct route *route, int64_t n)
{
    return n > 0 && n < route->bucket_count ? 1 : n / route->bucket_count;
}

static void read_rules(struct route *route)
{
    const struct conf_route *conf = route->conf;
    if (route->bucket_count == 0)
        return;
    const int64_t granted = share(route, burst(conf)) * route->bucket_count;
    /* The gate must pass at once what all buckets may grant at once: else leases would
     * expire behind the gate. */
    route->rate =
        (struct gate_rule){conf->rate, granted > burst(conf) ? granted : burst(conf)};
    route->rules = (struct bucket_rules){
        .remember_ms = conf->dedupe_ms,
        .by_key = conf->order == ORDER_KEY,
        .epoch = route->rules.epoch,
        .rate = conf->rate / (double)route->bucket_count,
        .burst = share(route, burst(conf)),
        .in_flight_max = conf->shared ? share(route, conf->max_in_flight) : 0,
        .shared = conf->shared,
        .names = &route->names,
    };
}

void route_open_buckets(struct route *route, int64_t n)
{
    must(route->bucket_count == 0);
    make_buckets(route, n);
    route->bucket_count = n;
    read_rules(route);
}

bool route_is_open(const struct route *route)
{
    return route->sink->rules || route->bucket_count > 0;
}

static uint32_t hash32(struct slice s)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < s.n; i++)
        hash = (hash ^ (unsigned char)s.p[i]) * 16777619u;
    return hash;
}

/* Remove suffixes "@DUE": a dead run is stored in the bucket of its job, see deliver.h.
 * The job's own id may also end like this. */
static struct slice without_runs(struct slice id)
{
    for (size_t n = id.n; n > 1; n--) {
        char c = id.p[n - 1];
        if (c == '@' && n < id.n)
            id.n = n - 1;
        else if (c < '0' || c > '9')
            break;
    }
    return id;
}

int64_t route_bucket_number(const struct route *route, struct slice id)
{
    return route->bucket_count > 1
               ? hash32(without_runs(id)) % (uint32_t)route->bucket_count
               : 0;
}

struct sched *route_bucket(const struct route *route, struct slice id)
{
    return route->scheds[route_bucket_number(route, id)];
}

/* --- life --- */

struct route *route_new(struct bridge *bridge, struct conf_route *conf, struct sink *sink,
                        struct sink *dead, struct err *err)
{
    struct route *route = mem_alloc(sizeof(*route));
    *route = (struct route){.bridge = bridge, .conf = conf, .sink = sink, .dead = dead};
    route->rules.epoch = route->fenced = EPOCH_UNKNOWN;
    conf->users++;
    TAILQ_INSERT_TAIL(&bridge->routes, route, link);
    if (read_conf(route, err) < 0) {
        route_free(route);
        return NULL;
    }
    if (sink->rules == NULL) {
        make_buckets(route, 1);
        pace_change(route);
    }
    return route;
}

static void forget_conf(struct route *route)
{
    tmpl_free(route->target);
    tmpl_free(route->dead_target);
    buf_free(&route->fixed_target);
    route->target = route->dead_target = NULL;
    route->names = (struct job_names){{NULL, 0}, {NULL, 0}, false};
}

void route_change(struct route *route, struct sink *sink, struct sink *dead)
{
    struct err err;
    must((sink->rules != NULL) == (route->sink->rules != NULL));
    if (sink != route->sink)
        EACH_SCHED (route, s)
            sched_stop_waiting(s);
    forget_conf(route);
    route->sink = sink;
    route->dead = dead;
    must(read_conf(route, &err) == 0); /* compiled before by conf_check.c */
    if (sink->rules)
        return;
    read_rules(route);
    pace_change(route);
    if (route->pace && store_is_up(route->bridge->store))
        pace_start(route->pace);
}

void route_start(struct route *route)
{
    if (!store_is_up(route->bridge->store))
        return;
    EACH_SCHED (route, s)
        sched_start(s);
    if (route->pace)
        pace_start(route->pace);
}

void route_free(struct route *route)
{
    TAILQ_REMOVE(&route->bridge->routes, route, link);
    free(route->refused);
    for (size_t i = 0; i < ROUTE_AHEADS; i++)
        free(route->ahead[i]);
    free(route->history);
    tap_free(route->tap);
    attempts_free(&route->attempts);
    free_scheds(route);
    pace_free(route->pace);
    gate_fini(&route->gate);
    forget_conf(route);
    conf_part_free(CONF_ROUTES, route->conf);
    free(route);
}

static bool is_idle(const struct route *route)
{
    for (int64_t i = 0; i < route->sched_count; i++)
        if (!bucket_is_idle(route->scheds[i]->bucket))
            return false;
    return route->refs == 0 && route->in_flight == 0 && route->reserved == 0 &&
           pace_is_idle(route->pace);
}

bool route_end(struct route *route)
{
    if (!is_idle(route))
        return false;
    for (int64_t i = 0; i < route->sched_count; i++)
        bucket_free(route->scheds[i]->bucket);
    route_free(route);
    return true;
}

bool route_comes_from(const struct route *route, const struct source *src)
{
    for (size_t i = 0; i < route->conf->from.n; i++)
        if (strcmp(route->conf->from.v[i], src->conf->name) == 0)
            return true;
    return false;
}

struct route *route_first(const struct source *src)
{
    struct route *first = NULL;
    EACH_ROUTE (src->bridge, route) {
        if (route_comes_from(route, src))
            return route;
        if (first == NULL)
            first = route;
    }
    return first;
}

struct route *route_of_name(const struct bridge *bridge, struct slice name)
{
    EACH_ROUTE (bridge, route)
        if (slice_is(name, route->conf->name))
            return route;
    return NULL;
}

/* Only a route that accepts jobs from that source. */
static struct route *named(const struct bridge *bridge, const struct source *src,
                           struct slice name)
{
    struct route *route = route_of_name(bridge, name);
    return route && route_comes_from(route, src) ? route : NULL;
}

struct route *route_matching(const struct source *src, const struct slice *topic,
                             bool to_queue, struct slice *captures, unsigned *n)
{
    struct bridge *bridge = src->bridge;
    *n = 0;
    EACH_ROUTE (bridge, route) {
        *n = 0;
        if (route_comes_from(route, src) && (!to_queue || route->sink->rules) &&
            (topic == NULL || route->conf->match == NULL ||
             match_topic(route->conf->match, *topic, captures, n)))
            return route;
    }
    return NULL;
}

/* Limit the length of external text in an error. */
static int shown(struct slice s)
{
    return s.n < 100 ? (int)s.n : 100;
}

/* -1: the target cannot be rendered, and err says why. */
static int set_target(const struct route *route, struct job *job,
                      const struct slice *captures, unsigned n, struct err *err)
{
    struct buf target = {0};
    int bad = tmpl_render(route->target, job, captures, n, slice_of(route->conf->name),
                          &target, err);
    if (bad == 0)
        job->target = job_copy_slice(job, buf_slice(&target));
    buf_free(&target);
    job->target_asked = bad == 0 && route->target_open;
    return bad;
}

struct route *route_for(const struct source *src, struct job *job, int *bad,
                        struct err *err)
{
    struct slice captures[MATCH_CAPTURES_MAX];
    unsigned n = 0;
    struct route *route =
        job->route.n > 0 ? named(src->bridge, src, job->route)
                         : route_matching(src, &job->topic, job->to_queue, captures, &n);
    *bad = 0;
    if (route == NULL) {
        if (job->route.n > 0)
            err_set(
                err,
                "no route \"%.*s\" accepts jobs from %s; check the routes in routes: { }",
                shown(job->route), job->route.p, src->conf->name);
        else
            err_set(err, "no route from %s accepts the topic \"%.*s\"", src->conf->name,
                    shown(job->topic), job->topic.p ? job->topic.p : "");
        return NULL;
    }
    /* If the route sets no target, use the one that the source has set. */
    if (job->to_queue && route->topic_is_queue) {
        job->target = job->topic;
    } else if (route->target && (job->target.n == 0 || route->conf->topic)) {
        *bad = set_target(route, job, captures, n, err);
    } else if (job->target.n > 0) {
        job->target_asked = route->sink->ops->origin != NULL;
    }
    return route;
}

unsigned route_captures(const struct route *route, const struct job *job,
                        struct slice *captures)
{
    unsigned n = 0;
    if (route->conf->match)
        match_topic(route->conf->match, job->topic, captures, &n);
    return n;
}

int route_target(const struct route *route, struct job *job, struct err *err)
{
    struct slice captures[MATCH_CAPTURES_MAX];
    if (route->target == NULL || job->target.n > 0)
        return 0;
    return set_target(route, job, captures, route_captures(route, job, captures), err);
}

const struct retry_policy *route_retry_policy(const struct route *route,
                                              const struct job *job)
{
    const struct conf_schedule *asked = NULL;
    if (job && job->retry.n > 0) /* may be removed by a reload */
        asked = conf_find(route->bridge->conf, CONF_RETRIES, job->retry);
    return asked ? &asked->policy : &route->conf->retry;
}

/* Two keys with the same hash wait for each other, which is harmless. */
struct slice route_group(const struct route *route, const struct job *job,
                         char room[ROUTE_GROUP_BYTES])
{
    if (!route->rules.by_key || job->key.p == NULL)
        return (struct slice){NULL, 0};
    snprintf(room, ROUTE_GROUP_BYTES, "%016" PRIx64, hash_fnv1a(HASH_FNV1A, job->key));
    return (struct slice){room, ROUTE_GROUP_BYTES - 1};
}

void routes_changed(struct bridge *bridge)
{
    EVERY_SINK (bridge, sink)
        sink->first_route = NULL;
    EACH_ROUTE (bridge, route)
        if (route->sink->first_route == NULL)
            route->sink->first_route = route;
}

bool route_job_expired(const struct route *route, const struct job *job, int64_t at_ms)
{
    bool at_once = route->sink->rules != NULL;
    return job->expires_ms > 0 && job->expires_ms < at_ms + at_once;
}

/* FNV-1a differs too little between ids with the same suffix: multiply, and use the upper
 * half of the product. */
int64_t route_spread_ms(const struct route *route, const struct job *job)
{
    int64_t within_ms = route->conf->spread_ms;
    int64_t left_ms = job->expires_ms > job->due_ms ? job->expires_ms - job->due_ms : 0;
    if (job->expires_ms > 0 && left_ms / 2 < within_ms)
        within_ms = left_ms / 2;
    if (within_ms == 0)
        return 0;
    uint64_t mixed = hash_fnv1a(HASH_FNV1A, job->id) * 0x9E3779B97F4A7C15u;
    return (int64_t)((unsigned __int128)mixed * (uint64_t)within_ms >> 64);
}

struct store *route_store(const struct route *route)
{
    return route->sink->rules ? route->sink->store : route->bridge->store;
}

struct log_about route_about(const struct route *route, struct slice id,
                             const struct job *job)
{
    const struct header *trace = job ? job_header(job, "traceparent") : NULL;
    return (struct log_about){.route = route->conf->name,
                              .job = id,
                              .traceparent =
                                  trace ? trace->value : (struct slice){NULL, 0}};
}
