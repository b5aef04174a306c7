/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta_probe.c - what an older tarry has left, which kept no PREFIX:meta: are there jobs
 * at all, and in which buckets? So an operator who starts a newer one with another number
 * of buckets loses none.
 */
#include "bridge/engine/meta_parts.h"
#include "bridge/queue/queue_place.h"

#include <stdlib.h>

enum { LOOKED_AT = 64 }; /* buckets of a route, or as many as are configured */

struct probe {
    struct meta *meta;
    void (*go_on)(struct meta *m);
    int64_t *count; /* NULL: of a queue sink */
    int64_t number;
};

static void answered(struct meta *m, void (*go_on)(struct meta *m))
{
    if (--m->probes > 0)
        return;
    m->probed = !m->probe_failed;
    if (m->probed)
        go_on(m);
}

static void on_exists(void *arg, int64_t n)
{
    struct probe *p = arg;
    struct meta *m = p->meta;
    void (*go_on)(struct meta * m) = p->go_on;
    m->probe_failed = m->probe_failed || n < 0;
    m->found_old = m->found_old || n > 0;
    if (n > 0 && p->count && *p->count < p->number + 1)
        *p->count = p->number + 1;
    free(p);
    answered(m, go_on);
}

static void ask(struct meta *m, struct slice key, void (*go_on)(struct meta *m),
                int64_t *count, int64_t number)
{
    struct probe *p = mem_alloc(sizeof(*p));
    *p = (struct probe){m, go_on, count, number};
    m->probes++;
    store_figure(m->store, "EXISTS", key, on_exists, p);
}

static void ask_route(struct meta *m, const struct route *route, int64_t *count,
                      void (*go_on)(struct meta *m))
{
    int64_t buckets = route->conf->buckets > LOOKED_AT ? route->conf->buckets : LOOKED_AT;
    for (int64_t n = 0; n < buckets; n++) {
        struct buf key = {0};
        buf_addf(&key, "%s:{", store_prefix(m->store));
        meta_bucket_name(route->conf->name, 1, n, &key);
        buf_add_str(&key, "}:pool");
        ask(m, buf_slice(&key), go_on, count, n);
        buf_free(&key);
    }
}

void meta_probe(struct meta *m, void (*go_on)(struct meta *m))
{
    struct bridge *bridge = m->bridge;
    free(m->counts);
    m->counts = mem_alloc((bridge->route_count + 1) * sizeof(*m->counts));
    m->counted = bridge->route_count;
    m->found_old = m->probe_failed = false;
    m->probes = 1; /* ours */
    for (size_t i = 0; !m->of_pool && i < bridge->route_count; i++)
        if (bridge->routes[i]->sink->rules == NULL)
            ask_route(m, bridge->routes[i], &m->counts[i], go_on);
    for (size_t i = 0; i < bridge->sink_count; i++) {
        struct buf key = {0};
        if (bridge->sinks[i]->rules == NULL || bridge->sinks[i]->store != m->store)
            continue;
        queue_sink_key(bridge->sinks[i], "queues", &key);
        ask(m, buf_slice(&key), go_on, NULL, 0);
        buf_free(&key);
    }
    answered(m, go_on);
}
