/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reread.c - nothing that was read before the loss of a connection is sent after it: what
 * was sent before that may be gone from Redis, and a later record must not stand there
 * without it.
 */
#include "bridge/engine/reread.h"
#include "bridge/engine/bridge.h"

#include <inttypes.h>
#include <stdlib.h>

static uint64_t arrivals(const struct bridge *bridge)
{
    uint64_t n = store_arrivals(bridge->store);
    EACH_POOL (bridge, pool)
        n += store_arrivals(pool->store);
    return n;
}

static void tell(struct source *src)
{
    bool runs = src->run == PART_RUNS || src->run == PART_STOPPING;
    if (runs && src->ops->reread && src->use != PART_LEAVING)
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
    EVERY_SOURCE (bridge, src) /* a new one has its place in its group already */
        tell(src);
    store_give_back(bridge->store);
    EACH_POOL (bridge, pool)
        store_give_back(pool->store);
}

void source_rewound(struct source *src)
{
    src->rewinds++;
}
