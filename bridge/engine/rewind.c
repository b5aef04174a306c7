/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewind.c - records that were read before a connection was lost are not sent after it.
 * Redis may have lost the records before them, and must not store a later record without
 * those.
 */
#include "bridge/engine/rewind.h"
#include "bridge/engine/bridge.h"

#include <inttypes.h>
#include <stdlib.h>

static uint64_t arrivals(const struct bridge *bridge)
{
    uint64_t n = store_ready_count(bridge->store);
    EACH_POOL (bridge, pool)
        n += store_ready_count(pool->store);
    return n;
}

static void tell(struct source *src)
{
    bool runs = src->run == PART_RUNS || src->run == PART_STOPPING;
    if (runs && src->ops->rewind_to_stored && src->use != PART_LEAVING)
        src->ops->rewind_to_stored(src, src->self);
}

void rewind_sources(struct bridge *bridge)
{
    const uint64_t made = arrivals(bridge);
    if (made == bridge->rewound_at) /* only its scripts were flushed */
        return;
    const bool is_first = bridge->rewound_at == 0;
    bridge->rewound_at = made;
    if (is_first)
        return;
    /* Before the queued changes are answered: those answers may complete a partition, and
     * the source must not record then that all of it is stored. */
    EVERY_SOURCE (bridge, src) /* new parts may be members of their group already */
        tell(src);
    store_reject_kafka_changes(bridge->store);
    EACH_POOL (bridge, pool)
        store_reject_kafka_changes(pool->store);
}

void source_rewound(struct source *src)
{
    src->rewinds++;
}
