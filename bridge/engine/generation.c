/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/generation.h"
#include "bridge/bridge.h"
#include "bridge/engine/sched.h"

#include <stdlib.h>

static struct sched *new_sched(struct route *route, unsigned generation, int64_t n)
{
    struct sched *s = mem_alloc(sizeof(*s));
    struct buf name = {0};
    meta_bucket_name(route->conf->name, generation, n, &name);
    sched_init(s, route, buf_str(&name));
    buf_free(&name);
    return s;
}

void generations_init(struct route *route)
{
    route->home = new_sched(route, 1, 0);
}

static struct generation *new_generation(struct route *route,
                                         const struct meta_generation *of)
{
    struct generation *g = mem_alloc(sizeof(*g));
    g->number = of->number;
    g->bucket_count = of->buckets;
    g->scheds = mem_alloc((size_t)of->buckets * sizeof(*g->scheds));
    TAILQ_INIT(&g->under_way);
    for (int64_t i = 0; i < of->buckets; i++)
        g->scheds[i] =
            of->number == 1 && i == 0 ? route->home : new_sched(route, of->number, i);
    return g;
}

static void free_list(const struct route *route, struct generation *g)
{
    struct generation *next;
    for (; g; g = next) {
        next = g->next;
        for (int64_t i = 0; i < g->bucket_count; i++) {
            if (g->scheds[i] == route->home)
                continue;
            sched_fini(g->scheds[i]);
            free(g->scheds[i]);
        }
        free(g->scheds);
        free(g);
    }
}

void generations_fini(struct route *route)
{
    free_list(route, route->retired ? route->retired : route->oldest);
    if (route->home)
        sched_fini(route->home);
    free(route->home);
    free(route->scheds);
}

/* By default a hundredth of a second's worth: what a claim is late by may be made up. */
static int64_t burst(const struct conf_route *conf)
{
    int64_t n = conf->burst > 0 ? conf->burst : (int64_t)(conf->rate / 100);
    return n > 0 ? n : 1;
}

/* Of a bucket, which knows nothing of the others. */
static int64_t share(const struct route *route, int64_t n)
{
    must(route->bucket_count > 0);
    return n > 0 && n < route->bucket_count ? 1 : n / route->bucket_count;
}

/* They all read the same rules, the older ones too. */
static void set_rules(struct route *route)
{
    const struct conf_route *conf = route->conf;
    const int64_t granted = share(route, burst(conf)) * route->bucket_count;
    /* What the buckets grant at once must pass at once: behind the gate its lease would
     * end. */
    route->rate =
        (struct gate_rule){conf->rate, granted > burst(conf) ? granted : burst(conf)};
    route->rules = (struct bucket_rules){
        .remember_ms = conf->dedupe_ms,
        .by_key = conf->order == ORDER_KEY,
        .rate = conf->rate / (double)route->bucket_count,
        .burst = share(route, burst(conf)),
        .in_flight_max = conf->shared ? share(route, conf->max_in_flight) : 0,
        .shared = conf->shared,
        .names = &route->names,
    };
}

/* One list of the buckets of all that count. */
static void list_scheds(struct route *route)
{
    const struct generation *g;
    route->bucket_count = 0;
    for (g = route->oldest; g; g = g->next)
        route->bucket_count += g->bucket_count;
    route->scheds =
        mem_realloc(route->scheds, (size_t)route->bucket_count * sizeof(*route->scheds));
    int64_t at = 0;
    for (g = route->oldest; g; g = g->next)
        for (int64_t i = 0; i < g->bucket_count; i++)
            route->scheds[at++] = g->scheds[i];
    set_rules(route);
}

/* A retired one stays in memory: a delivery may still point to its buckets. While a
 * change is under way through it, a later one must not overtake that: it is retired
 * later. */
static void retire(struct route *route, unsigned oldest)
{
    while (route->oldest && route->oldest != route->newest &&
           route->oldest->number < oldest && TAILQ_EMPTY(&route->oldest->under_way)) {
        if (route->retired == NULL)
            route->retired = route->oldest;
        route->oldest = route->oldest->next;
    }
}

void generations_follow(struct route *route, const struct meta_route *list)
{
    unsigned newest = route->newest ? route->newest->number : 0;
    struct generation *first_new = NULL;
    if (newest == list->generation[0].number &&
        route->oldest->number == list->generation[list->count - 1].number)
        return;
    for (unsigned i = list->count; i-- > 0;) {
        if (list->generation[i].number <= newest)
            continue;
        struct generation *g = new_generation(route, &list->generation[i]);
        if (first_new == NULL)
            first_new = g;
        if (route->newest) {
            route->newest->next = g;
            route->newest->heard_us = loop_mono_us();
        } else {
            route->oldest = g;
        }
        route->newest = g;
    }
    retire(route, list->generation[list->count - 1].number);
    list_scheds(route);
    for (; first_new && store_is_up(route->bridge->store); first_new = first_new->next)
        for (int64_t i = 0; i < first_new->bucket_count; i++)
            sched_start(first_new->scheds[i]);
}

void generations_read_rules(struct route *route)
{
    if (route->bucket_count > 0)
        set_rules(route);
}

bool generations_are_idle(const struct route *route)
{
    const struct generation *g = route->retired ? route->retired : route->oldest;
    for (; g; g = g->next)
        for (int64_t i = 0; i < g->bucket_count; i++)
            if (!bucket_is_idle(g->scheds[i]->bucket))
                return false;
    return route->home == NULL || bucket_is_idle(route->home->bucket);
}

void generations_free_buckets(struct route *route)
{
    const struct generation *g = route->retired ? route->retired : route->oldest;
    for (; g; g = g->next)
        for (int64_t i = 0; i < g->bucket_count; i++)
            if (g->scheds[i] != route->home)
                bucket_free(g->scheds[i]->bucket);
    if (route->home)
        bucket_free(route->home->bucket);
}

static uint32_t hash32(struct slice s)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < s.n; i++)
        hash = (hash ^ (unsigned char)s.p[i]) * 16777619u;
    return hash;
}

/* A run that was given up, ID@DUE, is kept where its job is: see settle.h. That job may
 * end like this itself. */
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

struct sched *generation_bucket(const struct generation *g, struct slice id)
{
    return g->scheds[hash32(without_runs(id)) % (uint32_t)g->bucket_count];
}
