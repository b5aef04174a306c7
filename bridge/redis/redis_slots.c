/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/redis/redis_slots.h"

#include <stdint.h>
#include <stdio.h>

/* {FIRST, LAST, {HOST, PORT, ...} of the master, ...}. A host that is empty or nil is the
 * one that was asked: a lone node does not know its address. "?" is a name that is not
 * announced. */
int redis_slots_read(const struct redisReply *row, struct redis_slots *out)
{
    const struct redisReply *master = redis_item(row, 2);
    const int64_t first = redis_integer(redis_item(row, 0)),
                  last = redis_integer(redis_item(row, 1)),
                  port = redis_integer(redis_item(master, 1));
    const struct slice host = redis_text(redis_item(master, 0));
    *out = (struct redis_slots){.host = host.n > 0 ? host.p : "",
                                .nameless = slice_is(host, "?")};
    if (redis_items(master) < 2 || out->nameless || first < 0 || last < first ||
        last >= REDIS_SLOTS || port <= 0 || port > UINT16_MAX)
        return -1;
    out->first = (unsigned)first;
    out->last = (unsigned)last;
    snprintf(out->port, sizeof(out->port), "%u", (unsigned)port);
    return 0;
}
