/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * route_buckets.c - the buckets of a route. Their number is in PREFIX:meta (meta.h) and
 * does not change while the route runs.
 */
#include "bridge/engine/bridge.h"
#include "bridge/engine/route.h"
#include "bridge/engine/sched.h"

#include <inttypes.h>
#include <stdlib.h>

static struct sched *new_sched(struct route *route, int64_t n)
{
    struct sched *s = mem_alloc(sizeof(*s));
    struct buf name = {0};
    buf_addf(&name, "%s/%" PRId64, route->conf->name, n);
    sched_init(s, route, buf_str(&name));
    buf_free(&name);
    return s;
}

void route_make_buckets(struct route *route, int64_t n)
{
    if (n <= route->sched_count)
        return;
    route->scheds = mem_realloc(route->scheds, (size_t)n * sizeof(*route->scheds));
    while (route->sched_count < n) {
        route->scheds[route->sched_count] = new_sched(route, route->sched_count);
        route->sched_count++;
    }
}

void route_fini_buckets(struct route *route)
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

void route_read_rules(struct route *route)
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
    route_make_buckets(route, n);
    route->bucket_count = n;
    route_read_rules(route);
}

bool route_is_open(const struct route *route)
{
    return route->sink->rules || route->bucket_count > 0;
}

bool route_buckets_are_idle(const struct route *route)
{
    for (int64_t i = 0; i < route->sched_count; i++)
        if (!bucket_is_idle(route->scheds[i]->bucket))
            return false;
    return true;
}

void route_free_buckets(struct route *route)
{
    for (int64_t i = 0; i < route->sched_count; i++)
        bucket_free(route->scheds[i]->bucket);
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
