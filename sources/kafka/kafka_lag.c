/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_lag.h"

#include "bridge/base/mem.h"

enum { PARTS = 16 /* of the lag: the length of a slot */ };

void kafka_lag_init(struct kafka_lag *l, int64_t lag_ms)
{
    *l = (struct kafka_lag){.lag_ms = lag_ms, .ripe = -1};
}

static int64_t slot_ms(const struct kafka_lag *l)
{
    return (l->lag_ms + PARTS - 1) / PARTS;
}

static void ripen(struct kafka_lag *l, int64_t now_ms)
{
    while (l->count > 0 && l->slot[l->first].end_ms + l->lag_ms <= now_ms) {
        l->ripe = l->slot[l->first].offset;
        l->first = (l->first + 1) % KAFKA_LAG_SLOTS;
        l->count--;
    }
}

void kafka_lag_note(struct kafka_lag *l, int64_t now_ms, int64_t offset)
{
    ripen(l, now_ms);
    if (l->count > 0) {
        const unsigned last = (l->first + l->count - 1) % KAFKA_LAG_SLOTS;
        if (now_ms < l->slot[last].end_ms) {
            l->slot[last].offset = offset;
            return;
        }
    }
    must(l->count < KAFKA_LAG_SLOTS); /* what is older than the lag and a slot has left */
    const unsigned next = (l->first + l->count++) % KAFKA_LAG_SLOTS;
    l->slot[next].end_ms = now_ms + slot_ms(l);
    l->slot[next].offset = offset;
    ripen(l, now_ms);
}

int64_t kafka_lag_ripe(struct kafka_lag *l, int64_t now_ms)
{
    ripen(l, now_ms);
    return l->ripe;
}

void kafka_lag_reset(struct kafka_lag *l, int64_t offset)
{
    l->count = 0;
    l->ripe = offset;
}
