/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_part.h"

#include "bridge/base/mem.h"

#include <stdlib.h>

void kafka_offsets_init(struct kafka_offsets *o)
{
    *o = (struct kafka_offsets){.position = -1, .done = -1};
    STAILQ_INIT(&o->reads);
}

static void drop_head(struct kafka_offsets *o)
{
    struct kafka_read *read = STAILQ_FIRST(&o->reads);

    STAILQ_REMOVE_HEAD(&o->reads, link);
    o->count--;
    free(read);
}

void kafka_offsets_fini(struct kafka_offsets *o)
{
    while (!STAILQ_EMPTY(&o->reads))
        drop_head(o);
    o->open = 0;
}

struct kafka_read *kafka_offsets_read(struct kafka_offsets *o, int64_t offset,
                                      void *owner)
{
    must(offset >= o->position);
    struct kafka_read *read = mem_alloc(sizeof(*read));
    read->owner = owner;
    read->offset = offset;
    STAILQ_INSERT_TAIL(&o->reads, read, link);
    o->count++;
    o->open++;
    o->position = offset + 1;
    return read;
}

bool kafka_offsets_answer(struct kafka_offsets *o, struct kafka_read *read, bool stored)
{
    must(read->state == READ_OPEN && o->open > 0);
    read->state = stored ? READ_STORED : READ_FAILED;
    o->open--;
    if (!stored)
        o->has_failed = true;

    const int64_t before = o->done;
    for (const struct kafka_read *head = STAILQ_FIRST(&o->reads);
         head && head->state == READ_STORED; head = STAILQ_FIRST(&o->reads)) {
        o->done = head->offset + 1;
        drop_head(o);
    }
    return o->done != before;
}

int64_t kafka_offsets_rewind(struct kafka_offsets *o, int64_t back_to)
{
    must(o->open == 0);
    if (!STAILQ_EMPTY(&o->reads))
        o->position = STAILQ_FIRST(&o->reads)->offset;
    while (!STAILQ_EMPTY(&o->reads))
        drop_head(o);
    o->has_failed = false;
    if (back_to >= 0 && back_to < o->position)
        o->position = back_to;
    if (o->done > o->position)
        o->done = o->position;
    return o->position;
}

/* -------------------------------------------------------------------- the lag */

enum { SLOTS_PER_LAG = 16 };

void kafka_lag_init(struct kafka_lag *l, int64_t lag_ms)
{
    *l = (struct kafka_lag){.lag_ms = lag_ms, .ripe = -1, .safe = -1, .asked = -1};
}

static int64_t slot_ms(const struct kafka_lag *l)
{
    return (l->lag_ms + SLOTS_PER_LAG - 1) / SLOTS_PER_LAG;
}

static void ripen(struct kafka_lag *l, int64_t now_ms)
{
    while (l->count > 0 && l->slot[l->first].end_ms + l->lag_ms <= now_ms) {
        l->ripe = l->slot[l->first].offset;
        l->first = (l->first + 1) % KAFKA_LAG_SLOTS;
        l->count--;
    }
}

void kafka_lag_add(struct kafka_lag *l, int64_t now_ms, int64_t offset)
{
    ripen(l, now_ms);
    if (l->count > 0) {
        const unsigned last = (l->first + l->count - 1) % KAFKA_LAG_SLOTS;
        if (now_ms < l->slot[last].end_ms) {
            l->slot[last].offset = offset;
            return;
        }
    }
    must(l->count < KAFKA_LAG_SLOTS); /* slots older than the lag plus a slot were
                                       * removed */
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

int64_t kafka_lag_safe(struct kafka_lag *l, int64_t now_ms, int64_t answered_ms)
{
    if (answered_ms < l->asked_ms)
        return l->safe;
    l->safe = l->asked;
    l->asked = kafka_lag_ripe(l, now_ms);
    l->asked_ms = now_ms;
    if (answered_ms >= now_ms)
        l->safe = l->asked;
    return l->safe;
}

void kafka_lag_reset(struct kafka_lag *l, int64_t offset)
{
    l->count = 0;
    l->ripe = l->safe = l->asked = offset;
}
