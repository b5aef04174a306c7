/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reread.c - nothing that was read before the loss of a connection is sent after it: what
 * was sent before that may be gone from Redis, and a later record must not stand there
 * without it.
 */
#include "bridge/engine/reread.h"
#include "bridge/bridge.h"
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
    if (src->started && !src->stopped && src->ops->reread)
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
