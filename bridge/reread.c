/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reread.c - nothing that was read before the loss of a connection is sent after it: what
 * was sent before that may be gone from Redis, and a later record must not stand there
 * without it.
 */
#include "bridge/reread.h"
#include "bridge/bridge.h"
#include "bridge/name.h"
#include "bridge/reload/reload.h"

#include <inttypes.h>
#include <stdlib.h>

static uint64_t arrivals(const struct bridge *bridge)
{
    uint64_t n = store_arrivals(bridge->store);
    for (size_t i = 0; i < bridge->pool_count; i++)
        n += store_arrivals(bridge->pools[i].store);
    return n;
}

static void tell(struct source *src)
{
    if (!src->started || src->stopped || src->ops->reread == NULL)
        return;
    name_forget(src, NULL);
    src->ops->reread(src, src->self);
}

void reread_all(struct bridge *bridge)
{
    const uint64_t made = arrivals(bridge);
    if (made == bridge->reread_at) /* its scripts were flushed, no more */
        return;
    const bool is_first = bridge->reread_at == 0;
    bridge->reread_at = made;
    if (is_first)
        return;
    /* Before anything is given back: with that a source may be through with a partition,
     * and must not note then that all of it is stored. */
    for (size_t i = 0; i < bridge->source_count; i++)
        tell(bridge->sources[i]);
    reload_each_new_source(bridge, tell); /* they have their place already */
    store_give_back(bridge->store);
    for (size_t i = 0; i < bridge->pool_count; i++)
        store_give_back(bridge->pools[i].store);
}

void source_rewound(struct source *src)
{
    src->rewinds++;
}

/* --- a topic that was made anew --- */

/* One partition, until every bucket has answered. */
struct forgetting {
    struct source *src;
    char *partition;
    unsigned open;
    bool failed;
    source_forget_cb *cb;
    void *arg;
};

static bool takes_from(const struct bucket *b, const struct source *src)
{
    const char *name = bucket_name(b);
    for (size_t i = 0; i < src->bridge->route_count; i++) {
        const struct route *route = src->bridge->routes[i];
        const char *owner =
            route->sink->rules ? sink_name(route->sink) : route->conf->name;
        const size_t n = strlen(owner);
        if (strncmp(name, owner, n) != 0 || name[n] != (route->sink->rules ? ':' : '/'))
            continue;
        for (size_t k = 0; k < route->conf->from.n; k++)
            if (strcmp(route->conf->from.v[k], source_name(src)) == 0)
                return true;
    }
    return false;
}

static void answered(struct forgetting *f)
{
    if (--f->open > 0)
        return;
    f->cb(f->arg, !f->failed);
    free(f->partition);
    free(f);
}

static void on_forgotten(void *arg, bool done)
{
    struct forgetting *f = arg;
    f->failed = f->failed || !done;
    answered(f);
}

static void forget_in(void *arg, struct bucket *b)
{
    struct forgetting *f = arg;
    if (!takes_from(b, f->src))
        return;
    f->open++;
    bucket_forget_partition(b, f->partition, on_forgotten, f);
}

static void on_begun(void *arg)
{
    answered(arg);
}

void source_forget_partition(struct source *src, const char *topic, int32_t partition,
                             source_forget_cb *cb, void *arg)
{
    struct forgetting *f = mem_alloc(sizeof(*f));
    struct buf name = {0};
    buf_addf(&name, "%s/%" PRId32, topic, partition);
    *f = (struct forgetting){.src = src, .open = 1, .cb = cb, .arg = arg};
    f->partition = mem_strdup(buf_str(&name));
    buf_free(&name);
    name_forget(src, f->partition);
    store_each_bucket(src->bridge->store, forget_in, f);
    for (size_t i = 0; i < src->bridge->pool_count; i++)
        store_each_bucket(src->bridge->pools[i].store, forget_in, f);
    loop_defer(on_begun, f); /* never before this has returned */
}
