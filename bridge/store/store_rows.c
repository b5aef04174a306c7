/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_rows.c - the table of batchers and their scripts, and those script arguments that
 * depend on more than one field of a change. calls.c writes the others, as
 * lua/scripts.def defines.
 */
#include "bridge/base/text.h"
#include "bridge/store/batcher.h"

/* --- of a bucket --- */

void put_kind(struct resp *a, const struct bucket *b)
{
    args_letter(a, b->route_rules == NULL ? 'q' : b->route_rules->by_key ? 'k' : 0);
}

void put_wake(struct resp *a, const struct bucket *b)
{
    resp_add(a, slice_of(b->store->wake_channel));
    resp_add(a, slice_of(b->wake));
}

void put_horizon(struct resp *a, const struct bucket *b)
{
    args_number_or_none(a, b->store->conf.horizon_ms);
}

void put_epoch(struct resp *a, const struct bucket *b)
{
    args_number_or_none(a, b->route_rules ? b->route_rules->epoch : 0);
}

void put_queue(struct resp *a, const struct bucket *b)
{
    /* Rules for a job in the bucket of a route: lua/reap.lua handles its leases. */
    static const struct queue_rules plain;
    const struct queue_rules *rules = b->queue_rules ? b->queue_rules : &plain;
    resp_add(a, SLICE_LIT(""));
    if (b->queue_rules)
        resp_add_number(a, rules->tries);
    else
        resp_add(a, SLICE_LIT(""));
    resp_add_number(a, rules->keep_ms);
    args_flag(a, rules->bury);
    put_wake(a, b);
    put_horizon(a, b);
}

/* --- of a batch --- */

void put_remembers(struct resp *a, const struct batch *batch)
{
    const struct bucket_rules *route_rules = batch->batcher->bucket->route_rules;
    args_flag(a, route_rules && route_rules->remember_ms > 0);
}

void put_remember_ms(struct resp *a, const struct batch *batch)
{
    const struct bucket_rules *route_rules = batch->batcher->bucket->route_rules;
    resp_add_number(a, route_rules ? route_rules->remember_ms : 0);
}

void put_asker(struct resp *a, const struct batch *batch)
{
    resp_add(a, slice_of(batch->batcher->bucket->wake));
}

/* Names the partitions of a batch, in the order of their first record. */
void put_parts(struct resp *a, const struct batch *batch)
{
    resp_add_number(a, batch->partition_count);
    for (unsigned i = 0; i < batch->partition_count; i++) {
        resp_add(a, slice_of(batch->partitions[i].name));
        if (batch->partitions[i].before < 0)
            resp_add(a, SLICE_LIT(""));
        else
            resp_add_number(a, batch->partitions[i].before);
        args_number_or_none(a, batch->partitions[i].before_ms);
    }
}

static void queue_head(struct resp *a, const struct batch *batch)
{
    put_queue(a, batch->batcher->bucket);
}

/* --- of a change --- */

/* A queue stores due times in us; all other times are in ms. */
void put_due(struct resp *a, const struct batch *batch, const struct change *c)
{
    bool is_due = c->how != ENQUEUE_HOW_DEAD && c->how != ENQUEUE_HOW_IN_FLIGHT;
    if (c->now)
        resp_add(a, SLICE_LIT(""));
    else
        resp_add_number(a, batch->batcher->bucket->queue_rules && is_due
                               ? c->due_ms * 1000
                               : c->due_ms);
}

/* A second run could not detect the first without the number: see lua/lib/late.lua. */
static bool is_numbered(const struct batch *batch, const struct change *c)
{
    if (batch->batcher->kind == BATCHER_FINISH)
        return c->lease == 0 && slice_is(c->reason, "deleted");
    return batch->batcher->kind == BATCHER_ENQUEUE && c->how == ENQUEUE_HOW_REPLACE;
}

void put_how(struct resp *a, const struct batch *batch, const struct change *c)
{
    char text[2 + TEXT_DECIMAL_MAX];
    size_t n = 0;
    if (c->how)
        text[n++] = c->how;
    if (c->resent)
        text[n++] = '+';
    if (is_numbered(batch, c))
        n += text_put_decimal(text + n, (int64_t)c->seq);
    resp_add(a, (struct slice){text, n});
}

void put_group(struct resp *a, const struct batch *batch, const struct change *c)
{
    if (batch->batcher->bucket->route_rules &&
        batch->batcher->bucket->route_rules->by_key)
        resp_add(a, c->group);
}

void put_stamp(struct resp *a, const struct batch *batch, const struct change *c)
{
    if (batch->partition_count > 0)
        args_number_or_none(a, c->origin.stamp_ms);
}

static const char bury_again[] = {RETRY_STALE, RETRY_BURIED, 0};

const struct batcher_row batcher_rows[BATCHERS] = {
    [BATCHER_ENQUEUE] = {SCRIPT_ENQUEUE, enqueue_head, enqueue_row, NULL, true, 100},
    [BATCHER_ACK] = {SCRIPT_ACK, ack_head, ack_row, NULL, false, 0},
    [BATCHER_RETRY] = {SCRIPT_RETRY, retry_head, retry_row, NULL, false, 100},
    [BATCHER_BURY] = {SCRIPT_RETRY, retry_head, retry_row, bury_again, false, 0},
    [BATCHER_CANCEL] = {SCRIPT_CANCEL, cancel_head, cancel_row, NULL, true, 30},
    [BATCHER_FINISH] = {SCRIPT_FINISH, queue_head, finish_row, NULL, false, 0},
    [BATCHER_RELEASE] = {SCRIPT_RELEASE, queue_head, release_row, NULL, false, 100},
    [BATCHER_RENEW] = {SCRIPT_RENEW, renew_head, renew_row, NULL, false, 0},
};
