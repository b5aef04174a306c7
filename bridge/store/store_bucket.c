/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_bucket.c - a bucket: its names in Redis and its batchers.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

static struct slice key_of(const char *base, const char *suffix)
{
    return slice_of(mem_format("%s:%s", base, suffix));
}

/* Create a bucket. Takes ownership of name and of base, the prefix of its keys. */
static struct bucket *make(struct store *st, char *name, char *base,
                           const struct bucket_events *events, void *owner)
{
    struct bucket *b = mem_alloc(sizeof(*b));
    b->store = st;
    b->events = events;
    b->owner = owner;
    b->far.first_ms = -1;
    b->name = name;
    b->wake = mem_format("%s %s", name, st->conf.instance);
    b->pool_key = key_of(base, "pool");
    b->whole_key = key_of(base, "whole");
    free(base);
    /* The number identifies changes in Redis (lua/lib/late.lua), so it must not start
     * where an earlier bucket of this name started. */
    b->next_seq = (uint64_t)loop_mono_us();
    if (b->next_seq < st->seq_floor)
        b->next_seq = st->seq_floor;
    b->slot = redis_slot(b->pool_key);
    for (int i = 0; i < BATCHERS; i++)
        batcher_init(&b->batcher[i], b, (enum batcher_kind)i);
    HASH_ADD_KEYPTR(hh, st->buckets, b->name, strlen(b->name), b);
    return b;
}

struct bucket *bucket_new(struct store *st, const char *name,
                          const struct bucket_rules *rules,
                          const struct bucket_events *events, void *owner)
{
    char *base = mem_format("%s:{%s}", st->conf.prefix, name);
    struct bucket *b = make(st, mem_strdup(name), base, events, owner);
    b->route_rules = rules;
    b->claimant = mem_format("claim:%s.%u", st->conf.instance, ++st->claimants);
    return b;
}

/* With global ids, scripts move jobs between queues, so all queues of the sink must be on
 * one node. */
struct bucket *bucket_new_queue(struct store *st, const char *sink, const char *queue,
                                const struct queue_rules *rules,
                                const struct bucket_events *events, void *owner)
{
    const char *prefix = st->conf.prefix;
    char *base = rules->global_ids ? mem_format("%s:{%s}:%s", prefix, sink, queue)
                                   : mem_format("%s:{%s:%s}", prefix, sink, queue);
    struct bucket *b = make(st, mem_format("%s:%s", sink, queue), base, events, owner);
    b->queue_rules = rules;
    if (rules->global_ids)
        b->ids_key = slice_of(mem_format("%s:{%s}:ids", prefix, sink));
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
    int64_t newest_ms; /* highest timestamp since the last record with before -1 */
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
                       int64_t stamp_ms, struct origin *origin)
{
    struct partition_row *row = row_of(b, partition);
    int64_t now_ms = loop_mono_ms();
    bool old = now_ms - row->used_ms > ORIGIN_MS && bucket_is_idle(b);
    int64_t before = offset > row->last && !old ? row->last : -1;
    if (before < 0)
        row->newest_ms = 0;
    *origin = (struct origin){.partition = row->name,
                              .offset = offset,
                              .before = before,
                              .stamp_ms = stamp_ms,
                              .before_ms = row->newest_ms};
    if (stamp_ms > row->newest_ms)
        row->newest_ms = stamp_ms;
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
        while (b->batcher[i].queued > 0) /* a callback may add a change */
            batcher_reject(&b->batcher[i], NULL, 0);
    far_close(b);
    free_partitions(b);
    HASH_DEL(b->store->buckets, b);
    free((char *)b->pool_key.p);
    free((char *)b->ids_key.p);
    free((char *)b->whole_key.p);
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

bool bucket_is_silent(const struct bucket *b)
{
    const struct node *node = bucket_node(b);
    return node && redis_silent_ms(node->redis) >= STORE_SILENT_MS;
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

int64_t bucket_now_ms(const struct bucket *b)
{
    const struct clock *clock = bucket_clock(b);
    return clock_is_set(clock) ? clock_now_ms(clock, loop_mono_us())
                               : store_now_ms(b->store);
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
