/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_rows.c - how the changes of a lane become the arguments of its script, in the
 * order that stands at the head of the file in lua/.
 */
#include "bridge/base/mem.h"
#include "bridge/store/store_lane.h"

#include <ctype.h>

/* Names the partitions of a batch, in the order of their first record. */
static void partitions(struct args *a, const struct batch *batch)
{
    args_number(a, batch->partition_count);
    for (unsigned i = 0; i < batch->partition_count; i++) {
        args_slice(a, slice_of(batch->partitions[i].name));
        if (batch->partitions[i].before < 0)
            args_slice(a, SLICE_LIT(""));
        else
            args_number(a, batch->partitions[i].before);
    }
}

static void flag(struct args *a, bool on, const char *letter)
{
    args_slice(a, on ? slice_of(letter) : SLICE_LIT(""));
}

static void number_or_none(struct args *a, int64_t n)
{
    if (n)
        args_number(a, n);
    else
        args_slice(a, SLICE_LIT(""));
}

static void enqueue_head(struct args *a, struct batch *batch)
{
    const struct bucket *b = batch->lane->bucket;
    args_slice(a, SLICE_LIT(""));
    args_slice(a, slice_of(b->store->wake_channel));
    args_slice(a, slice_of(b->wake));
    flag(a, b->ways == NULL || b->ways->by_key, b->ways ? "k" : "q");
    flag(a, b->ways && b->ways->remember_ms > 0, "1");
    number_or_none(a, far_horizon_ms(b->store));
    partitions(a, batch);
}

static void cancel_head(struct args *a, struct batch *batch)
{
    args_slice(a, SLICE_LIT(""));
    flag(a, batch->lane->bucket->ways != NULL, "1");
    args_slice(a, slice_of(batch->lane->bucket->wake));
    partitions(a, batch);
}

static void ack_head(struct args *a, struct batch *batch)
{
    const struct bucket_rules *ways = batch->lane->bucket->ways;
    args_slice(a, SLICE_LIT(""));
    args_number(a, ways ? ways->remember_ms : 0);
}

static void how(struct args *a, const struct change *c)
{
    args_slice(a, (struct slice){&c->how, c->how ? 1 : 0});
}

static void stamp(struct args *a, const struct batch *batch, const struct change *c)
{
    if (batch->partition_count > 0)
        number_or_none(a, c->origin.stamp_ms);
}

/* The letter, 0 none, as a capital where it was sent before: one of those, the first for
 * none. */
static void how_or_capital(struct args *a, const struct change *c, const char *capitals)
{
    const char *p = c->how ? strchr(capitals, c->how - 'a' + 'A') : capitals;
    must(p);
    if (c->again)
        args_slice(a, (struct slice){p, 1});
    else
        how(a, c);
}

static void how_again(struct args *a, const struct change *c)
{
    how_or_capital(a, c, "ABDFLSU");
}

static void enqueue_change(struct args *a, struct batch *batch, const struct change *c)
{
    args_slice(a, c->id);
    /* A queue keeps due times in us; other times are in ms everywhere. */
    bool in_us = batch->lane->bucket->rules && c->how != 'd' && c->how != 'f';
    if (c->now)
        args_slice(a, SLICE_LIT(""));
    else
        args_number(a, in_us ? c->due_ms * 1000 : c->due_ms);
    args_slice(a, c->record);
    args_slice(a, c->tries);
    args_number(a, c->partition);
    args_number(a, c->origin.offset);
    if (c->how == 'r') /* a second run would not find what it did: lua/lib/told.lua */
        args_letter_number(a, c->how, (int64_t)c->seq);
    else
        how_again(a, c);
    number_or_none(a, c->expires_ms);
    if (batch->lane->bucket->ways && batch->lane->bucket->ways->by_key)
        args_slice(a, c->group);
    stamp(a, batch, c);
}

static void finish_change(struct args *a, struct batch *batch, const struct change *c)
{
    (void)batch;
    args_slice(a, c->id);
    number_or_none(a, c->lease);
    args_slice(a, c->tries);
    char first = c->how ? c->how : 'n';
    if (c->lease == 0 && slice_is(c->tries, "deleted"))
        args_letter_number(a, c->again ? (char)toupper(first) : first, (int64_t)c->seq);
    else
        how_or_capital(a, c, "NAFP");
}

static void release_change(struct args *a, struct batch *batch, const struct change *c)
{
    (void)batch;
    args_slice(a, c->id);
    number_or_none(a, c->lease);
    number_or_none(a, c->due_us);
    how(a, c);
}

static void ack_change(struct args *a, struct batch *batch, const struct change *c)
{
    (void)batch;
    args_slice(a, c->id);
    args_number(a, c->lease);
    how_again(a, c);
}

static void cancel_change(struct args *a, struct batch *batch, const struct change *c)
{
    args_slice(a, c->id);
    args_number(a, c->partition);
    args_number(a, c->origin.offset);
    args_number(a, (int64_t)c->seq);
    stamp(a, batch, c);
}

static void retry_change(struct args *a, struct batch *batch, const struct change *c)
{
    (void)batch;
    args_slice(a, c->id);
    args_number(a, c->lease);
    args_number(a, c->due_ms);
    args_slice(a, c->kept_id.n ? SLICE_LIT("") : c->tries);
    args_slice(a, c->record);
    args_slice(a, c->kept_id);
    args_slice(a, c->kept);
    args_slice(a, c->kept_id.n ? c->tries : SLICE_LIT(""));
    how_again(a, c);
}

static void now_head(struct args *a, struct batch *batch)
{
    (void)batch;
    args_slice(a, SLICE_LIT(""));
}

static void bury_change(struct args *a, struct batch *batch, const struct change *c)
{
    (void)batch;
    args_slice(a, c->id);
    args_number(a, c->lease);
    args_slice(a, c->tries);
    how_again(a, c);
}

static void renew_change(struct args *a, struct batch *batch, const struct change *c)
{
    (void)batch;
    args_slice(a, c->id);
    args_number(a, c->lease);
    args_number(a, c->due_ms); /* the end of the new lease */
}

static const enum bucket_key enqueue_keys[] = {KEY_POOL,  KEY_DELAY,  KEY_ERROR,
                                               KEY_TRIES, KEY_INGEST, KEY_UNACK,
                                               KEY_TTL,   KEY_DONE,   KEY_IDS};
static const enum bucket_key bury_keys[] = {KEY_POOL,  KEY_DELAY, KEY_UNACK,
                                            KEY_ERROR, KEY_TRIES, KEY_TTL};
static const enum bucket_key cancel_keys[] = {KEY_POOL,  KEY_DELAY,  KEY_UNACK, KEY_ERROR,
                                              KEY_TRIES, KEY_INGEST, KEY_TTL,   KEY_IDS};

const struct lane_row lane_rows[LANES] = {
    [LANE_ENQUEUE] = {SCRIPT_ENQUEUE, 9, enqueue_keys, false, true, enqueue_head,
                      enqueue_change, NULL, 70},
    [LANE_ACK] = {SCRIPT_ACK, 5, job_keys, false, false, ack_head, ack_change, "xa", 0},
    [LANE_RETRY] = {SCRIPT_RETRY, 5, job_keys, false, false, now_head, retry_change, "xr",
                    100},
    [LANE_BURY] = {SCRIPT_BURY, 6, bury_keys, false, false, now_head, bury_change, "xb",
                   0},
    [LANE_CANCEL] = {SCRIPT_CANCEL, 8, cancel_keys, false, true, cancel_head,
                     cancel_change, NULL, 30},
    [LANE_FINISH] = {SCRIPT_FINISH, 8, queue_keys, true, false, NULL, finish_change,
                     "nfefEfmnMeNE", 0},
    [LANE_RELEASE] = {SCRIPT_RELEASE, 8, queue_keys, true, false, NULL, release_change,
                      "xrnb", 100},
    [LANE_RENEW] = {SCRIPT_RENEW, 3, job_keys, false, false, now_head, renew_change, NULL,
                    0},
};
