/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_bucket.c - a bucket: its names in Redis and its batchers.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

static const char *const suffix[BUCKET_KEYS] = {
    [KEY_POOL] = "pool",
    [KEY_IDS] = "ids",
    [KEY_WHOLE] = "whole",
};

/* Create a bucket. Takes ownership of base, the prefix of all keys except KEY_IDS. */
static struct bucket *make(struct store *st, const char *name, struct buf *base,
                           const struct bucket_events *events, void *owner)
{
    struct bucket *b = mem_alloc(sizeof(*b));
    struct buf text = {0};
    b->store = st;
    b->events = events;
    b->owner = owner;
    b->far.first_ms = -1;
    b->name = mem_strdup(name);
    buf_addf(&text, "%s %s", name, st->conf.instance);
    b->wake = mem_strdup(buf_str(&text));
    /* The number identifies changes in Redis (lua/lib/late.lua), so it must not start
     * where an earlier bucket of this name started. */
    b->next_seq = (uint64_t)loop_mono_us();
    if (b->next_seq < st->seq_floor)
        b->next_seq = st->seq_floor;
    for (unsigned i = 0; i < BUCKET_KEYS; i++) {
        if (i == KEY_IDS)
            continue;
        buf_clear(&text);
        buf_addf(&text, "%s:%s", buf_str(base), suffix[i]);
        b->key_text[i] = mem_strdup(buf_str(&text));
        b->key[i] = slice_of(b->key_text[i]);
    }
    b->slot = redis_slot(b->key[KEY_POOL]);
    buf_free(&text);
    buf_free(base);
    for (int i = 0; i < BATCHERS; i++)
        batcher_init(&b->batcher[i], b, (enum batcher_kind)i);
    HASH_ADD_KEYPTR(hh, st->buckets, b->name, strlen(b->name), b);
    return b;
}

struct bucket *bucket_new(struct store *st, const char *name,
                          const struct bucket_rules *rules,
                          const struct bucket_events *events, void *owner)
{
    struct buf base = {0}, claimant = {0};
    buf_addf(&base, "%s:{%s}", st->conf.prefix, name);
    struct bucket *b = make(st, name, &base, events, owner);
    b->route_rules = rules;
    buf_addf(&claimant, "claim:%s.%u", st->conf.instance, ++st->claimants);
    b->claimant = mem_strdup(buf_str(&claimant));
    buf_free(&claimant);
    return b;
}

struct bucket *bucket_new_queue(struct store *st, const char *sink, const char *queue,
                                const struct queue_rules *rules,
                                const struct bucket_events *events, void *owner)
{
    struct buf base = {0}, name = {0};
    buf_addf(&name, "%s:%s", sink, queue);
    if (rules->global_ids) /* scripts move jobs between queues, so all queues of the sink
                            * must be on one node */
        buf_addf(&base, "%s:{%s}:%s", st->conf.prefix, sink, queue);
    else
        buf_addf(&base, "%s:{%s:%s}", st->conf.prefix, sink, queue);
    struct bucket *b = make(st, buf_str(&name), &base, events, owner);
    b->queue_rules = rules;
    if (rules->global_ids) {
        buf_clear(&name);
        buf_addf(&name, "%s:{%s}:%s", st->conf.prefix, sink, suffix[KEY_IDS]);
        b->key_text[KEY_IDS] = mem_strdup(buf_str(&name));
        b->key[KEY_IDS] = slice_of(b->key_text[KEY_IDS]);
    }
    buf_free(&name);
    return b;
}

bool bucket_is_idle(const struct bucket *b)
{
    for (int i = 0; i < BATCHERS; i++)
        if (b->batcher[i].queued > 0 || b->batcher[i].in_flight_count > 0 ||
            b->batcher[i].listed)
            return false;
    return b->calls == 0;
}

void bucket_check_idle(struct bucket *b)
{
    if (b->events->idle && bucket_is_idle(b))
        b->events->idle(b->owner);
}

/* --- partitions of Kafka --- */

enum { ORIGIN_MS = 3600 * 1000 /* see bucket_set_origin() */ };

struct partition_row {
    UT_hash_handle hh; /* by name */
    int64_t last;      /* offset passed on last; -1: none */
    int64_t used_ms;   /* monotonic: time of that */
    char name[];
};

static struct partition_row *row_of(struct bucket *b, struct slice name)
{
    struct partition_row *row;
    HASH_FIND(hh, b->partitions, name.p, name.n, row);
    if (row)
        return row;
    row = mem_alloc(sizeof(*row) + name.n + 1);
    row->last = -1;
    slice_put(row->name, name);
    HASH_ADD_KEYPTR(hh, b->partitions, row->name, name.n, row);
    return row;
}

/* before is -1, which means unknown, in two cases: the partition is read again from an
 * earlier offset, or its last record is so old that Redis' note of it may have expired
 * (lua/lib/ingest.lua). In the second case the bucket is idle, so all earlier records
 * were answered. */
void bucket_set_origin(struct bucket *b, struct slice partition, int64_t offset,
                       struct origin *origin)
{
    struct partition_row *row = row_of(b, partition);
    int64_t now_ms = loop_mono_ms();
    bool old = now_ms - row->used_ms > ORIGIN_MS && bucket_is_idle(b);
    origin->partition = row->name;
    origin->offset = offset;
    origin->before = offset > row->last && !old ? row->last : -1;
    row->last = offset;
    row->used_ms = now_ms;
}

void bucket_forget_offsets(struct bucket *b)
{
    for (struct partition_row *row = b->partitions; row; row = row->hh.next)
        row->last = -1;
}

static void free_partitions(struct bucket *b)
{
    struct partition_row *row, *next;
    HASH_ITER (hh, b->partitions, row, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        HASH_DEL(b->partitions, row);
        free(row);
    }
}

void bucket_free(struct bucket *b)
{
    if (b->store->seq_floor < b->next_seq)
        b->store->seq_floor = b->next_seq;
    for (int i = 0; i < BATCHERS; i++)
        batcher_close(&b->batcher[i]);
    far_close(b);
    free_partitions(b);
    HASH_DEL(b->store->buckets, b);
    for (size_t i = 0; i < BUCKET_KEYS; i++)
        free(b->key_text[i]);
    free(b->name);
    free(b->wake);
    free(b->claimant);
    free(b);
}

struct node *slot_node(const struct store *st, unsigned slot)
{
    return st->map ? map_node(st->map, slot) : st->nodes[0];
}

struct node *bucket_node(const struct bucket *b)
{
    return slot_node(b->store, b->slot);
}

bool bucket_is_up(const struct bucket *b)
{
    const struct node *node = bucket_node(b);
    return node && node->state == NODE_UP;
}

void bucket_push(struct bucket *b)
{
    if (bucket_is_up(b))
        redis_push(bucket_node(b)->redis);
}

const struct clock *bucket_clock(const struct bucket *b)
{
    static const struct clock unknown;
    const struct node *node = bucket_node(b);
    return node ? &node->clock : &unknown;
}

int64_t bucket_pause_us(const struct bucket *b)
{
    const struct node *node = bucket_node(b);
    int64_t now_us = loop_mono_us(), until_us = node ? node->pause_until_us : 0;
    for (int i = 0; i < BATCHERS; i++)
        if (b->batcher[i].pause_until_us > until_us && i != BATCHER_ENQUEUE)
            until_us = b->batcher[i].pause_until_us;
    return until_us > now_us ? until_us - now_us : 0;
}

const char *bucket_name(const struct bucket *b)
{
    return b->name;
}
