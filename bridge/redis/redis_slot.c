/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_slot.c - computes the slot of a key (CRC16/XMODEM of its hash tag) and reads the
 * owners of slots from a reply. Pure.
 */
#include "bridge/redis/redis_slot.h"

#include <stdint.h>
#include <stdio.h>

unsigned redis_slot(struct slice key)
{
    const char *open = key.n ? memchr(key.p, '{', key.n) : NULL;
    if (open) {
        const char *tag = open + 1;
        const char *close = memchr(tag, '}', (size_t)(key.p + key.n - tag));
        if (close && close > tag)
            key = (struct slice){tag, (size_t)(close - tag)};
    }
    unsigned crc = 0;
    for (size_t i = 0; i < key.n; i++) {
        crc ^= (unsigned)(unsigned char)key.p[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    }
    return crc % REDIS_SLOTS;
}

/* Row: {FIRST, LAST, {HOST, PORT, ...} of the master, ...}. An empty or nil host means
 * the node that was asked, because a single node does not know its address. "?" means
 * that the name is not announced. */
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
