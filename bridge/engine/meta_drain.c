/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta_drain.c - the end of a generation of buckets: it is sealed when every instance has
 * heard of the next one, and forgotten when nothing is left in it.
 *
 * Any instance does each step, and each step may be done twice.
 */
#include "bridge/engine/meta_parts.h"
#include "bridge/engine/sched.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    HEARD_MS = 1000,         /* so long others take to hear of the next one */
    KEPT_MS = 10 * 60 * 1000 /* after the seal: a record that was read may come again */
};

/* One question to all buckets of a generation. */
struct round {
    struct meta *meta;
    struct route *route;
    struct generation *of;
    enum seal_do what;
    int64_t open, good;
};

static void ask(struct meta *m, struct route *route, struct generation *g,
                enum seal_do what);

static void on_forgotten(void *arg, bool changed, const struct slice *pairs, unsigned n)
{
    (void)pairs;
    (void)n;
    if (changed)
        meta_changed(arg);
}

/* Its buckets are clean: nobody needs to know of it. */
static void forget(struct meta *m, const struct route *route, const struct generation *g)
{
    struct meta_route list;
    struct buf name = {0}, now = {0};
    buf_addf(&name, "route:%s", route->conf->name);
    const char *was = meta_value(m, buf_str(&name));
    if (was && meta_route_parse(slice_of(was), &list) == 0 &&
        list.generation[list.count - 1].number == g->number) {
        meta_route_forget(&list, g->number + 1);
        meta_route_format(&list, &now);
        const struct meta_change change = {buf_str(&name), was, buf_str(&now)};
        store_meta(m->store, &change, 1, on_forgotten, m);
        log_event(LOG_INFO, &(struct log_about){.route = route->conf->name},
                  "its earlier %" PRId64 " buckets are empty, and forgotten",
                  g->bucket_count);
    }
    buf_free(&name);
    buf_free(&now);
}

static void end(struct round *r)
{
    struct generation *g = r->of;
    bool all = r->good == g->bucket_count;
    g->asked = false;
    if (r->what == SEAL_SET)
        g->sealed = all;
    if (all && r->what == SEAL_SET && g == r->route->oldest)
        ask(r->meta, r->route, g, SEAL_LOOK);
    else if (all && r->what == SEAL_LOOK)
        ask(r->meta, r->route, g, SEAL_CLEAN);
    else if (all && r->what == SEAL_CLEAN)
        forget(r->meta, r->route, g);
    free(r);
}

static void on_seal(void *arg, const struct sealed *s)
{
    struct round *r = arg;
    bool spent = s && s->since_ms >= 0 && s->jobs == 0 && s->remembered_ms <= s->now_ms &&
                 s->now_ms - s->since_ms >= KEPT_MS;
    r->good += r->what == SEAL_SET ? s && s->since_ms >= 0 : spent;
    if (--r->open == 0)
        end(r);
}

static void ask(struct meta *m, struct route *route, struct generation *g,
                enum seal_do what)
{
    struct round *r = mem_alloc(sizeof(*r));
    *r = (struct round){m, route, g, what, g->bucket_count, 0};
    g->asked = true;
    for (int64_t i = 0; i < g->bucket_count; i++)
        store_seal(g->scheds[i]->bucket, what, on_seal, r);
}

static bool may_drain(const struct meta *m)
{
    return m->bridge->serves && !m->of_pool && m->there.layout >= META_LAYOUT_SUMS;
}

void meta_drain_tick(struct meta *m)
{
    int64_t heard_us = loop_mono_us() - HEARD_MS * INT64_C(1000);
    for (size_t i = 0; may_drain(m) && i < m->bridge->route_count; i++) {
        struct route *route = m->bridge->routes[i];
        for (struct generation *g = route->oldest; g && g->next; g = g->next)
            if (!g->sealed && !g->asked && g->heard_us <= heard_us)
                ask(m, route, g, SEAL_SET);
    }
}

bool meta_drain_open(struct meta *m)
{
    bool open = false;
    for (size_t i = 0; may_drain(m) && i < m->bridge->route_count; i++) {
        struct route *route = m->bridge->routes[i];
        for (struct generation *g = route->oldest; g && g->next; g = g->next) {
            open = open || !g->sealed;
            if (!g->sealed && !g->asked)
                ask(m, route, g, SEAL_SET);
        }
    }
    return open;
}

void meta_drain_look(struct meta *m)
{
    for (size_t i = 0; may_drain(m) && i < m->bridge->route_count; i++) {
        struct route *route = m->bridge->routes[i];
        struct generation *g = route->oldest;
        if (g && g->next && g->sealed && !g->asked)
            ask(m, route, g, SEAL_LOOK);
    }
}
