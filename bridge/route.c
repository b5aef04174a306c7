/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/route.h"
#include "bridge/bridge.h"
#include "bridge/match.h"
#include "bridge/sched.h"

#include <stdlib.h>

static struct sink *sink_named(struct bridge *bridge, const char *name)
{
    for (size_t i = 0; name && i < bridge->sink_count; i++)
        if (strcmp(bridge->sinks[i].conf->name, name) == 0)
            return &bridge->sinks[i];
    return NULL;
}

/* NULL in *tmpl when the sink needs no target. */
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
    return *tmpl ? 0 : -1;
}

int route_init(struct route *route, struct bridge *bridge, const struct conf_route *conf,
               struct err *err)
{
    route->bridge = bridge;
    route->conf = conf;
    route->sink = sink_named(bridge, conf->to);
    route->dead = sink_named(bridge, conf->dead);
    must(route->sink != NULL && (conf->dead == NULL || route->dead != NULL));
    if (compile(conf->topic, route->sink, &route->target, err) < 0)
        return err_in(err, conf->name);
    if (route->dead &&
        compile(conf->dead_topic, route->dead, &route->dead_target, err) < 0)
        return err_in(err, conf->name);
    if (route->sink->rules)
        return 0; /* its queues make their own */
    route->bucket_count = conf->buckets;
    route->scheds = mem_alloc((size_t)conf->buckets * sizeof(*route->scheds));
    for (int64_t i = 0; i < conf->buckets; i++)
        sched_init(&route->scheds[i], route, (unsigned)i);
    return 0;
}

void route_fini(struct route *route)
{
    for (int64_t i = 0; i < route->bucket_count; i++)
        sched_fini(&route->scheds[i]);
    free(route->scheds);
    tmpl_free(route->target);
    tmpl_free(route->dead_target);
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
    struct bridge *bridge = src->bridge;
    for (size_t i = 0; i < bridge->route_count; i++)
        if (route_comes_from(&bridge->routes[i], src))
            return &bridge->routes[i];
    return &bridge->routes[0];
}

struct route *route_named(const struct bridge *bridge, const struct source *src,
                          struct slice name)
{
    for (size_t i = 0; i < bridge->route_count; i++)
        if (slice_is(name, bridge->routes[i].conf->name))
            return route_comes_from(&bridge->routes[i], src) ? &bridge->routes[i] : NULL;
    return NULL;
}

struct route *route_matching(const struct source *src, const struct slice *topic,
                             bool to_queue, struct slice *captures, unsigned *n)
{
    struct bridge *bridge = src->bridge;
    *n = 0;
    for (size_t i = 0; i < bridge->route_count; i++) {
        struct route *route = &bridge->routes[i];
        *n = 0;
        if (route_comes_from(route, src) && (!to_queue || route->sink->rules) &&
            (topic == NULL || route->conf->match == NULL ||
             match_topic(route->conf->match, *topic, captures, n)))
            return route;
    }
    return NULL;
}

/* As much of a text from outside as an error should carry. */
static int shown(struct slice s)
{
    return s.n < 100 ? (int)s.n : 100;
}

struct route *route_for(const struct source *src, struct job *job, int *bad,
                        struct err *err)
{
    struct slice captures[MATCH_CAPTURES_MAX];
    unsigned n = 0;
    struct route *route =
        job->route.n > 0 ? route_named(src->bridge, src, job->route)
                         : route_matching(src, &job->topic, job->to_queue, captures, &n);
    *bad = 0;
    if (route == NULL) {
        if (job->route.n > 0)
            err_set(err,
                    "no route \"%.*s\" takes jobs from %s; routes are configured under "
                    "routes: { }",
                    shown(job->route), job->route.p, src->conf->name);
        else
            err_set(err, "no route from %s takes the topic \"%.*s\"", src->conf->name,
                    shown(job->topic), job->topic.p ? job->topic.p : "");
        return NULL;
    }
    /* A source that names the target itself is believed where the route names none. */
    if (route->target && (job->target.n == 0 || route->conf->topic)) {
        struct buf target = {0};
        *bad = tmpl_render(route->target, job, captures, n, slice_of(route->conf->name),
                           &target, err);
        if (*bad == 0)
            job->target = job_keep(job, buf_slice(&target));
        buf_free(&target);
    }
    return route;
}

struct sched *route_bucket(const struct route *route, struct slice id)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < id.n; i++)
        hash = (hash ^ (unsigned char)id.p[i]) * 16777619u;
    return &route->scheds[hash % (uint32_t)route->bucket_count];
}
