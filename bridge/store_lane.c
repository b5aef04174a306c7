/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store_lane.h"
#include "bridge/loop.h"
#include "bridge/mem.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

enum {
    BATCH_BYTES_MAX = 1024 * 1024,
    GAP_US = 10 * 1000,  /* for the batch before it to come again */
    REFUSED_MAX = 50,    /* then the batch before it will not come any more */
    PARTITIONS_MAX = 64, /* of one batch */
    PATIENCE = 2 /* where nobody awaits the answer: so many times the pacer's gap */
};

struct batch {
    struct lane *lane;
    TAILQ_ENTRY(batch) link;
    uint64_t first_seq;
    struct change_list list;
    unsigned count;
};

/* How the changes of a lane become the arguments of its script. */
struct lane_row {
    enum script script;
    unsigned key_count;
    const enum bucket_key *key;
    bool of_queue; /* its keys and first arguments are those of lib/queue.lua */
    void (*head)(struct args *a, struct batch *batch); /* before the changes; or NULL */
    void (*change)(struct args *a, struct batch *batch, const struct change *c);
};

struct partition {
    const char *name;
    int64_t before, last;
};

/* Gives the number of name, from 1, and adds it where it is new. */
static unsigned partition_number(struct partition *parts, unsigned *n,
                                 const struct origin *o)
{
    for (unsigned i = 0; i < *n; i++)
        if (parts[i].name == o->partition)
            return i + 1;
    must(*n < PARTITIONS_MAX);
    parts[*n] = (struct partition){o->partition, o->before, o->offset};
    return ++*n;
}

/* Names the partitions of a batch, in the order of their first record. */
static void partitions(struct args *a, struct batch *batch)
{
    struct partition parts[PARTITIONS_MAX];
    struct change *c;
    unsigned n = 0;
    TAILQ_FOREACH (c, &batch->list, link) {
        if (c->origin.partition == NULL)
            continue;
        c->partition = partition_number(parts, &n, &c->origin);
        if (c->origin.offset > parts[c->partition - 1].last)
            parts[c->partition - 1].last = c->origin.offset;
    }
    args_number(a, n);
    for (unsigned i = 0; i < n; i++) {
        args_slice(a, slice_of(parts[i].name));
        if (parts[i].before < 0)
            args_slice(a, SLICE_LIT(""));
        else
            args_number(a, parts[i].before);
        args_number(a, parts[i].last);
    }
}

static void flag(struct args *a, bool on, const char *letter)
{
    args_slice(a, on ? slice_of(letter) : SLICE_LIT(""));
}

static void enqueue_head(struct args *a, struct batch *batch)
{
    const struct bucket *b = batch->lane->bucket;
    args_slice(a, SLICE_LIT(""));
    args_slice(a, slice_of(b->store->wake_channel));
    args_slice(a, slice_of(b->wake));
    flag(a, b->ways == NULL || b->ways->by_key, b->ways ? "k" : "q");
    flag(a, b->ways && b->ways->remember_ms > 0, "1");
    partitions(a, batch);
}

static void cancel_head(struct args *a, struct batch *batch)
{
    args_slice(a, SLICE_LIT(""));
    flag(a, batch->lane->bucket->ways != NULL, "1");
    partitions(a, batch);
}

static void ack_head(struct args *a, struct batch *batch)
{
    const struct bucket_rules *ways = batch->lane->bucket->ways;
    args_slice(a, SLICE_LIT(""));
    args_number(a, ways ? ways->remember_ms : 0);
}

static void number_or_none(struct args *a, int64_t n)
{
    if (n)
        args_number(a, n);
    else
        args_slice(a, SLICE_LIT(""));
}

static void how(struct args *a, const struct change *c)
{
    args_slice(a, (struct slice){&c->how, c->how ? 1 : 0});
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
    how(a, c);
    number_or_none(a, c->expires_ms);
    if (batch->lane->bucket->ways && batch->lane->bucket->ways->by_key)
        args_slice(a, c->group);
}

static void finish_change(struct args *a, struct batch *batch, const struct change *c)
{
    (void)batch;
    args_slice(a, c->id);
    number_or_none(a, c->lease);
    args_slice(a, c->tries);
    how(a, c);
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
    how(a, c);
}

static void cancel_change(struct args *a, struct batch *batch, const struct change *c)
{
    (void)batch;
    args_slice(a, c->id);
    args_number(a, c->partition);
    args_number(a, c->origin.offset);
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
    how(a, c);
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
}

static const enum bucket_key enqueue_keys[] = {KEY_POOL,  KEY_DELAY,  KEY_ERROR,
                                               KEY_TRIES, KEY_INGEST, KEY_UNACK,
                                               KEY_TTL,   KEY_DONE,   KEY_IDS};
static const enum bucket_key bury_keys[] = {KEY_POOL,  KEY_DELAY, KEY_UNACK,
                                            KEY_ERROR, KEY_TRIES, KEY_TTL};
static const enum bucket_key cancel_keys[] = {KEY_POOL,  KEY_DELAY,  KEY_UNACK, KEY_ERROR,
                                              KEY_TRIES, KEY_INGEST, KEY_TTL,   KEY_IDS};

static const struct lane_row rows[LANES] = {
    [LANE_ENQUEUE] = {SCRIPT_ENQUEUE, 9, enqueue_keys, false, enqueue_head,
                      enqueue_change},
    [LANE_ACK] = {SCRIPT_ACK, 5, job_keys, false, ack_head, ack_change},
    [LANE_RETRY] = {SCRIPT_RETRY, 5, job_keys, false, now_head, retry_change},
    [LANE_BURY] = {SCRIPT_BURY, 6, bury_keys, false, now_head, bury_change},
    [LANE_CANCEL] = {SCRIPT_CANCEL, 8, cancel_keys, false, cancel_head, cancel_change},
    [LANE_FINISH] = {SCRIPT_FINISH, 8, queue_keys, true, NULL, finish_change},
    [LANE_RELEASE] = {SCRIPT_RELEASE, 8, queue_keys, true, NULL, release_change},
};

void lane_init(struct lane *lane, struct bucket *b, enum lane_kind kind)
{
    lane->bucket = b;
    lane->kind = kind;
    TAILQ_INIT(&lane->queue);
    TAILQ_INIT(&lane->flights);
}

static void count_in(struct lane *lane, const struct change *c)
{
    lane->queued++;
    lane->awaited += c->awaited;
}

static void take_out(struct lane *lane, struct change *c)
{
    TAILQ_REMOVE(&lane->queue, c, link);
    lane->queued--;
    lane->awaited -= c->awaited;
}

void lane_add(struct lane *lane, struct change *c)
{
    c->seq = lane->bucket->next_seq++;
    c->queued_us = loop_mono_us();
    lane->newest_us = c->queued_us;
    lane->newest_turn = lane->bucket->store->turn;
    TAILQ_INSERT_TAIL(&lane->queue, c, link);
    count_in(lane, c);
    lane->bucket->store->open_count++;
    store_list_lane(lane->bucket->store, lane);
}

/* The change is answered and gone. */
static void answer(struct lane *lane, struct change *c, char code)
{
    lane->bucket->store->open_count--;
    if (c->cb)
        c->cb(c->arg, code);
    free(c);
}

/* Back to where it stood, before every change that came after it. */
static void put_back(struct lane *lane, struct change *c)
{
    struct change *at;
    TAILQ_FOREACH (at, &lane->queue, link) {
        if (at->seq > c->seq)
            break;
    }
    if (at)
        TAILQ_INSERT_BEFORE(at, c, link);
    else
        TAILQ_INSERT_TAIL(&lane->queue, c, link);
    count_in(lane, c);
}

/* lost: the outcome is unknown. */
static void send_again(struct batch *batch, bool lost)
{
    struct change *c;
    while ((c = TAILQ_LAST(&batch->list, change_list))) {
        TAILQ_REMOVE(&batch->list, c, link);
        if (lost && c->once)
            answer(batch->lane, c, 0);
        else
            put_back(batch->lane, c);
    }
}

/* One letter per change. A refused record waits for the batch before it, which is on its
 * way again; where none comes, the source has to read it anew. */
static void answer_each(struct batch *batch, struct slice codes)
{
    struct lane *lane = batch->lane;
    struct change *c;
    for (size_t i = 0; (c = TAILQ_FIRST(&batch->list)); i++) {
        TAILQ_REMOVE(&batch->list, c, link);
        char code = i < codes.n ? codes.p[i] : 0;
        if (code == 'g' && c->refused++ < REFUSED_MAX) {
            put_back(lane, c);
            lane->hold_until_us = loop_mono_us() + GAP_US;
            continue;
        }
        answer(lane, c, code == 'g' ? 0 : code);
    }
}

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct batch *batch = arg;
    struct lane *lane = batch->lane;
    struct store *st = lane->bucket->store;
    lane->flying--;
    TAILQ_REMOVE(&lane->flights, batch, link);
    enum redis_error e = store_judge(st, reply, rows[lane->kind].script);
    if (e != REDIS_NO_ERROR) {
        if (reply)
            lane->hold_until_us = loop_mono_us() + store_rest_us(e);
        send_again(batch, reply == NULL);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements >= 2) {
        int64_t head = reply->element[0]->integer;
        if (lane->kind == LANE_ENQUEUE && lane->bucket->rules && head >= 0)
            head = (head + 999) / 1000; /* of a queue: in us */
        lane->bucket->events->head(lane->bucket->owner, head);
        queue_settled(lane->bucket, reply);
        answer_each(batch, redis_text(reply->element[1]));
    } else {
        answer_each(batch, redis_text(reply));
    }
    free(batch);
    if (lane->queued > 0)
        store_list_lane(st, lane);
}

/* The first change of a lane that Redis has not answered for. */
static uint64_t oldest_open(const struct lane *lane)
{
    const struct batch *batch;
    uint64_t seq =
        TAILQ_EMPTY(&lane->queue) ? UINT64_MAX : TAILQ_FIRST(&lane->queue)->seq;
    TAILQ_FOREACH (batch, &lane->flights, link) {
        if (batch->first_seq < seq)
            seq = batch->first_seq;
    }
    return seq;
}

/* A cancel must not overtake the job that it means, nor a job the cancel before it: only
 * what is older than this may leave. */
static uint64_t older_than(const struct lane *lane)
{
    if (lane->kind == LANE_CANCEL)
        return oldest_open(&lane->bucket->lane[LANE_ENQUEUE]);
    if (lane->kind == LANE_ENQUEUE)
        return oldest_open(&lane->bucket->lane[LANE_CANCEL]);
    return UINT64_MAX;
}

/* Takes from the queue what one call carries. */
static struct batch *take(struct lane *lane)
{
    uint64_t limit = older_than(lane);
    struct batch *batch = mem_alloc(sizeof(*batch));
    const char *last = NULL;
    size_t bytes = 0;
    unsigned switches = 0;
    struct change *c;
    batch->lane = lane;
    batch->first_seq = TAILQ_FIRST(&lane->queue)->seq;
    TAILQ_INIT(&batch->list);
    while ((c = TAILQ_FIRST(&lane->queue))) {
        bytes += c->record.n + c->tries.n + c->id.n + c->kept.n;
        switches += c->origin.partition != last; /* no fewer than partitions */
        last = c->origin.partition;
        if (batch->count > 0 &&
            (c->seq > limit || batch->count >= lane->bucket->store->conf.batch_max ||
             bytes > BATCH_BYTES_MAX || switches > PARTITIONS_MAX))
            break;
        take_out(lane, c);
        TAILQ_INSERT_TAIL(&batch->list, c, link);
        batch->count++;
    }
    return batch;
}

static void send_batch(struct lane *lane, int64_t now_us)
{
    const struct lane_row *row = &rows[lane->kind];
    struct store *st = lane->bucket->store;
    struct batch *batch = take(lane);
    struct slice key[BUCKET_KEYS];
    unsigned keys = row->key_count; /* the last may be one that this bucket has not */
    must(keys > 0);
    for (unsigned i = 0; i < keys; i++)
        key[i] = lane->bucket->key[row->key[i]];
    keys -= key[keys - 1].p == NULL;
    args_begin(&st->args, &st->scripts, row->script, key, keys);
    if (row->of_queue)
        queue_args(&st->args, lane->bucket);
    if (row->head)
        row->head(&st->args, batch);
    const struct change *c;
    TAILQ_FOREACH (c, &batch->list, link)
        row->change(&st->args, batch, c);
    pacer_sent(&lane->pacer, batch->count, now_us);
    lane->flying++;
    TAILQ_INSERT_TAIL(&lane->flights, batch, link);
    args_send(&st->args, &st->scripts, row->script, st->redis, on_reply, batch);
}

/* us that the head of the queue may still wait for company; 0: the next turn; -1: not. */
static int64_t unripe_us(struct lane *lane, int64_t now_us)
{
    struct store *st = lane->bucket->store;
    if (lane->queued >= st->conf.batch_max)
        return -1;
    if (lane->awaited == 0) {
        int64_t wait_us = pacer_wait_us(&lane->pacer, now_us, PATIENCE);
        return wait_us > 0 ? wait_us : -1;
    }
    if (pacer_hurries(&lane->pacer, now_us))
        return lane->newest_turn == st->turn ? 0 : -1;
    int64_t wait_us = pacer_wait_us(&lane->pacer, now_us, 1);
    int64_t quiet_us = lane->newest_us + PACER_QUIET_US - now_us;
    if (wait_us == 0)
        return -1;
    if (quiet_us > 0)
        return wait_us < quiet_us ? wait_us : quiet_us;
    pacer_in_vain(&lane->pacer, now_us);
    return -1;
}

int64_t lane_flush(struct lane *lane, int64_t now_us)
{
    struct store *st = lane->bucket->store;
    int64_t hold_us = lane->hold_until_us > st->pause_until_us ? lane->hold_until_us
                                                               : st->pause_until_us;
    if (hold_us > now_us)
        return hold_us - now_us;
    while (lane->queued > 0 && lane->flying < LANE_BATCHES) {
        if (TAILQ_FIRST(&lane->queue)->seq > older_than(lane))
            return -1; /* the other lane's answer makes the next turn */
        int64_t wait_us = unripe_us(lane, now_us);
        if (wait_us >= 0)
            return wait_us;
        send_batch(lane, now_us);
    }
    return -1;
}

void lane_expire(struct lane *lane, int64_t now_us)
{
    struct change *c, *next;
    for (c = TAILQ_FIRST(&lane->queue); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (c->deadline_us == 0 || c->deadline_us > now_us)
            continue;
        take_out(lane, c);
        answer(lane, c, 0);
    }
}

void lane_close(struct lane *lane)
{
    struct change *c;
    while ((c = TAILQ_FIRST(&lane->queue))) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the head is another one by now
        take_out(lane, c);
        answer(lane, c, 0);
    }
}
