/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta_step.c - the step to the newest layout: from layout 1 each bucket first gets the
 * base line of its sums; then meta says which layout it is, and an older tarry stays away
 * from then on.
 *
 * Until then both work beside each other, and the older one may take over again. What a
 * tarry of layout 1 does meanwhile spoils the sums: so the base lines come last, and
 * again if the step was not finished. Any instance makes the step, and several may.
 */
#include "bridge/engine/alive.h"
#include "bridge/engine/meta_parts.h"
#include "bridge/queue/queue_place.h"
#include "bridge/store/store_audit.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 200 }; /* names of queues */

/* Where it is with the base lines: first all buckets of routes, then the queues of each
 * sink. */
struct step {
    struct meta *meta;
    size_t route, sink;
    int64_t bucket, page;
    char **names; /* of the page, from at on */
    size_t *sizes;
    unsigned at, count;
};

static void go_on(struct step *step);

static void forget_names(struct step *step)
{
    for (unsigned i = 0; i < step->count; i++)
        free(step->names[i]);
    free(step->names);
    free(step->sizes);
    step->names = NULL;
    step->sizes = NULL;
    step->at = step->count = 0;
}

/* For now, or for good: a second later it begins anew. */
static void end(struct step *step)
{
    step->meta->step = NULL;
    forget_names(step);
    free(step);
}

static void on_stepped(void *arg, bool changed, const struct slice *pairs, unsigned n)
{
    struct step *step = arg;
    struct meta *m = step->meta;
    (void)n;
    if (pairs && changed)
        log_info("redis",
                 "the keys of %s have layout %d now: an older tarry refuses them",
                 store_prefix(m->store), META_LAYOUT);
    end(step);
    if (pairs)
        meta_changed(m);
}

static void note(struct step *step)
{
    struct meta *m = step->meta;
    char now[16];
    snprintf(now, sizeof(now), "%d", META_LAYOUT);
    const struct meta_change changes[] = {
        {"layout", meta_value(m, "layout"), now},
        {"least_reader", meta_value(m, "least_reader"), now},
        {"least_writer", meta_value(m, "least_writer"), now}};
    store_meta(m->store, changes, 3, on_stepped, step);
}

static void on_baseline(void *arg, int64_t n)
{
    struct step *step = arg;
    if (n < 0)
        end(step);
    else
        go_on(step);
}

/* The next bucket of a route. NULL: that was all. */
static struct bucket *next_of_routes(struct step *step)
{
    const struct bridge *bridge = step->meta->bridge;
    for (; !step->meta->of_pool && step->route < bridge->route_count; step->route++) {
        const struct route *route = bridge->routes[step->route];
        if (step->bucket < route->bucket_count)
            return route->scheds[step->bucket++]->bucket;
        step->bucket = 0;
    }
    return NULL;
}

static void on_names(void *arg, const struct slice *names, unsigned n)
{
    struct step *step = arg;
    if (names == NULL) {
        end(step);
        return;
    }
    forget_names(step);
    step->names = mem_alloc((n + 1) * sizeof(*step->names));
    step->sizes = mem_alloc((n + 1) * sizeof(*step->sizes));
    step->count = n;
    for (unsigned i = 0; i < n; i++) {
        step->names[i] = mem_alloc(names[i].n + 1);
        slice_put(step->names[i], names[i]);
        step->sizes[i] = names[i].n;
    }
    step->page += n;
    if (n == 0) {
        step->sink++;
        step->page = 0;
    }
    go_on(step);
}

/* The next sink whose queues are in this Redis. false: that was all. */
static bool ask_sink(struct step *step)
{
    struct bridge *bridge = step->meta->bridge;
    for (; step->sink < bridge->sink_count; step->sink++) {
        const struct sink *sink = bridge->sinks[step->sink];
        struct buf key = {0};
        if (sink->rules == NULL || sink->store != step->meta->store)
            continue;
        queue_sink_key(sink, "queues", &key);
        store_names(sink->store, buf_slice(&key), step->page, step->page + PAGE - 1,
                    on_names, step);
        buf_free(&key);
        return true;
    }
    return false;
}

static void go_on(struct step *step)
{
    struct bucket *b = next_of_routes(step);
    if (b == NULL && step->at < step->count) {
        struct slice name = {step->names[step->at], step->sizes[step->at]};
        step->at++;
        b = queue_borrow(step->meta->bridge->sinks[step->sink], name)->bucket;
    }
    if (b)
        store_baseline(b, on_baseline, step);
    else if (!ask_sink(step))
        note(step);
}

static bool all_can(const struct meta *m)
{
    return m->bridge->serves && alive_layout(m->bridge->alive) >= META_LAYOUT;
}

void meta_step_tick(struct meta *m)
{
    int64_t now_ms = loop_mono_ms();
    if (m->step || m->there.layout == 0 || m->there.layout >= META_LAYOUT)
        return;
    if (!all_can(m)) {
        m->able_ms = 0;
    } else if (m->able_ms == 0) {
        m->able_ms = now_ms;
    } else if (now_ms - m->able_ms >= m->bridge->conf->daemon.upgrade_after_ms) {
        m->step = mem_alloc(sizeof(*m->step));
        m->step->meta = m;
        if (m->there.layout < META_LAYOUT_SUMS)
            go_on(m->step);
        else
            note(m->step);
    }
}

void meta_step_fini(struct meta *m)
{
    if (m->step)
        end(m->step);
}
