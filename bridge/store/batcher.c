/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/batcher.h"
#include "bridge/base/fault.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

/* The fault point of a batcher, where it has one. */
#define BATCHER_POINT(batcher, of_enqueue, of_ack)                                       \
    ((batcher)->kind == BATCHER_ENQUEUE ? (of_enqueue)                                   \
     : (batcher)->kind == BATCHER_ACK   ? (of_ack)                                       \
                                        : NULL)

void batcher_init(struct batcher *batcher, struct bucket *b, enum batcher_kind kind)
{
    batcher->bucket = b;
    batcher->kind = kind;
    TAILQ_INIT(&batcher->queue);
    TAILQ_INIT(&batcher->in_flight);
}

static void count_change(struct batcher *batcher, const struct change *c)
{
    batcher->queued++;
    batcher->awaited += c->awaited;
}

static void remove_change(struct batcher *batcher, struct change *c)
{
    TAILQ_REMOVE(&batcher->queue, c, link);
    batcher->queued--;
    batcher->awaited -= c->awaited;
}

/* Answers the change and frees it. */
static void answer(struct batcher *batcher, struct change *c, char code)
{
    batcher->bucket->store->open_count--;
    if (c->cb)
        c->cb(c->arg, code);
    free(c);
}

/* Returns the change to its old place in the queue, by seq. behind: where to start the
 * search; NULL: at the head. */
static void put_back(struct batcher *batcher, struct change *c, struct change *behind)
{
    struct change *at = behind, *before;
    if (behind) {
        while ((before = TAILQ_PREV(at, change_list, link)) && before->seq > c->seq)
            at = before;
    } else {
        TAILQ_FOREACH (at, &batcher->queue, link) {
            if (at->seq > c->seq)
                break;
        }
    }
    if (at)
        TAILQ_INSERT_BEFORE(at, c, link);
    else
        TAILQ_INSERT_TAIL(&batcher->queue, c, link);
    count_change(batcher, c);
}

/* Frees a batch whose changes have all left it. */
static void finish_batch(struct batch *batch)
{
    struct batcher *batcher = batch->batcher;
    batcher->in_flight_count--;
    TAILQ_REMOVE(&batcher->in_flight, batch, link);
    free(batch->codes);
    free(batch);
    if (batcher->queued > 0)
        store_list_batcher(batcher->bucket->store, batcher);
    else
        bucket_check_idle(batcher->bucket);
}

void batch_send_again(struct batch *batch, bool lost)
{
    struct change *c, *behind = NULL;
    while ((c = TAILQ_LAST(&batch->list, change_list))) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list
        TAILQ_REMOVE(&batch->list, c, link);
        c->resent = c->resent || lost;
        if (lost && c->no_repeat) {
            answer(batch->batcher, c, 0);
            behind = NULL; /* the callback may have emptied the queue */
        } else {
            put_back(batch->batcher, c, behind);
            behind = c;
        }
    }
    finish_batch(batch);
}

/* For a repeated change: the answer of the first run, which was lost. */
static char first_answer(const struct batcher_row *row, char code)
{
    for (const char *p = row->resent_answers ? row->resent_answers
                                             : script_again[row->script];
         p && *p; p += 2) {
        if (p[0] == code)
            return p[1];
    }
    return code;
}

/* Returns the index of a partition in the batch, or partition_count. */
static unsigned partition_at(const struct batch *batch, const char *name)
{
    unsigned i = 0;
    while (i < batch->partition_count && batch->partitions[i].name != name)
        i++;
    return i;
}

/* Whether a record of the same partition before the queued c is queued or in flight. What
 * waits for replicas was executed, and c was rejected after it. */
static bool follows_open(const struct batch *batch, const struct change *c)
{
    const struct batch *other;
    const struct change *before = c;
    while ((before = TAILQ_PREV(before, change_list, link)))
        if (before->origin.partition == c->origin.partition)
            return true;
    TAILQ_FOREACH (other, &batch->batcher->in_flight, link)
        if (other->codes == NULL && other->first_seq < c->seq &&
            partition_at(other, c->origin.partition) < other->partition_count)
            return true;
    return false;
}

/* Removes the records answered GAP. Such a record is sent again if one before it is. If
 * that one was answered, the source must read both again. */
static void return_gaps(struct batch *batch)
{
    struct batcher *batcher = batch->batcher;
    struct change *c, *next;
    size_t from = 0, to = 0;
    for (c = TAILQ_FIRST(&batch->list); c && from < batch->code_count; c = next, from++) {
        next = TAILQ_NEXT(c, link);
        if (batch->codes[from] != ENQUEUE_GAP) {
            batch->codes[to++] = batch->codes[from];
            continue;
        }
        TAILQ_REMOVE(&batch->list, c, link);
        put_back(batcher, c, NULL);
        if (!follows_open(batch, c)) {
            remove_change(batcher, c);
            answer(batcher, c, 0);
        }
    }
    batch->code_count = to;
}

void batch_answer(struct batch *batch)
{
    struct batcher *batcher = batch->batcher;
    struct change *c;
    for (size_t i = 0; (c = TAILQ_FIRST(&batch->list)); i++) {
        TAILQ_REMOVE(&batch->list, c, link);
        char code = i < batch->code_count ? batch->codes[i] : 0;
        if (c->resent)
            code = first_answer(&batcher_rows[batcher->kind], code);
        if (code == ACK_STALE_BEFORE) /* STALE, but not because of a repeated change */
            code = ACK_STALE;
        answer(batcher, c, code);
    }
    finish_batch(batch);
}

/* The job was stored, or cancelled. */
static bool is_done(char code)
{
    static const char done[] = {ENQUEUE_STORED,
                                ENQUEUE_REPLACED,
                                ENQUEUE_OVERTOOK,
                                ENQUEUE_OUTLIVED,
                                CANCEL_CANCELLED,
                                CANCEL_CANCELLED_DEAD,
                                0};
    return code && strchr(done, code);
}

void batch_expire(struct batch *batch, int64_t now_us)
{
    struct change *c, *next;
    size_t from = 0, to = 0;
    for (c = TAILQ_FIRST(&batch->list); c; c = next, from++) {
        next = TAILQ_NEXT(c, link);
        if (c->deadline_us == 0 || c->deadline_us > now_us) {
            batch->codes[to++] = from < batch->code_count ? batch->codes[from] : 0;
            continue;
        }
        char code = from < batch->code_count ? batch->codes[from] : 0;
        TAILQ_REMOVE(&batch->list, c, link);
        answer(batch->batcher, c, is_done(code) ? change_unsafe(code) : 0);
    }
    batch->code_count = to;
}

/* Returns the letters of a reply, and reports its other fields to the bucket. */
static struct slice read_reply(struct batcher *batcher, const struct redisReply *reply)
{
    struct bucket *b = batcher->bucket;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2)
        return redis_text(reply);
    int64_t head = reply->element[0]->integer;
    bool of_queue_lib =
        batcher->kind == BATCHER_FINISH || batcher->kind == BATCHER_RELEASE;
    if (b->queue_rules && !of_queue_lib && head >= 0)
        head = (head + 999) / 1000; /* for a queue in us */
    b->events->head(b->owner, head);
    if (batcher->kind == BATCHER_ENQUEUE)
        far_set_first(b, reply->elements > 2 ? redis_integer(reply->element[2]) : -1);
    else
        queue_settled(b, reply);
    return redis_text(reply->element[1]);
}

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct batch *batch = arg;
    struct batcher *batcher = batch->batcher;
    const struct batcher_row *row = &batcher_rows[batcher->kind];
    struct store *st = batcher->bucket->store;
    enum redis_error e = node_classify_reply(batch->node, reply, row->script);
    if (e != REDIS_NO_ERROR) {
        if (reply && e != REDIS_ELSEWHERE)
            batcher->pause_until_us = loop_mono_us() + node_pause_us(e);
        if (e == REDIS_FENCED && st->events.fenced)
            st->events.fenced(st->arg, batcher->bucket->route_rules);
        batch_send_again(batch, reply == NULL); /* the bucket may be gone */
        return;
    }
    FAULT(BATCHER_POINT(batcher, "S3", "K4"));
    struct slice codes = read_reply(batcher, reply);
    batch->codes = mem_strndup(codes.p, codes.n);
    batch->code_count = codes.n;
    return_gaps(batch);
    if (row->replicated && st->conf.durability.replicas > 0 && !TAILQ_EMPTY(&batch->list))
        TAILQ_INSERT_TAIL(&batch->node->unreplicated, batch, unreplicated);
    else
        batch_answer(batch);
}

/* Returns the seq of the first change of a batcher without an answer. */
static uint64_t oldest_open(const struct batcher *batcher)
{
    const struct batch *batch;
    uint64_t seq =
        TAILQ_EMPTY(&batcher->queue) ? UINT64_MAX : TAILQ_FIRST(&batcher->queue)->seq;
    TAILQ_FOREACH (batch, &batcher->in_flight, link) {
        if (batch->first_seq < seq)
            seq = batch->first_seq;
    }
    return seq;
}

/* A cancel must not overtake the enqueue of its job, nor an enqueue an earlier cancel.
 * Only changes with a lower seq than the result may be sent. */
static uint64_t seq_limit(const struct batcher *batcher)
{
    if (batcher->kind == BATCHER_CANCEL)
        return oldest_open(&batcher->bucket->batcher[BATCHER_ENQUEUE]);
    if (batcher->kind == BATCHER_ENQUEUE)
        return oldest_open(&batcher->bucket->batcher[BATCHER_CANCEL]);
    return UINT64_MAX;
}

/* The script looks for the predecessor of the first record of a partition only. So a
 * record whose own predecessor was rejected must be the first one of a batch. */
bool batch_accepts(struct batch *batch, struct change *c)
{
    const struct origin *o = &c->origin;
    c->partition = 0;
    if (o->partition == NULL)
        return true;
    const unsigned i = partition_at(batch, o->partition);
    if (i == BATCH_PARTITIONS_MAX)
        return false;
    struct batcher_partition *partition = &batch->partitions[i];
    if (i == batch->partition_count) {
        *partition = (struct batcher_partition){o->partition, o->before, o->before_ms, 0};
        batch->partition_count++;
    } else if (o->before != partition->last) {
        return false;
    }
    partition->last = o->offset;
    c->partition = i + 1;
    return true;
}

static unsigned jobs_max(const struct batcher *batcher)
{
    unsigned own = batcher_rows[batcher->kind].jobs_max;
    unsigned all = batcher->bucket->store->conf.batch_max;
    return own > 0 && own < all ? own : all;
}

/* Moves the changes of the next call from the queue to a new batch. */
static struct batch *next_batch(struct batcher *batcher)
{
    uint64_t limit = seq_limit(batcher);
    struct batch *batch = mem_alloc(sizeof(*batch));
    size_t bytes = 0;
    struct change *c;
    batch->batcher = batcher;
    batch->first_seq = TAILQ_FIRST(&batcher->queue)->seq;
    TAILQ_INIT(&batch->list);
    while ((c = TAILQ_FIRST(&batcher->queue))) {
        bytes += c->record.n + c->tries.n + c->id.n + c->kept_record.n + c->kept_tries.n;
        if (batch->count > 0 && (c->seq > limit || batch->count >= jobs_max(batcher) ||
                                 bytes > BATCH_BYTES_MAX))
            break;
        if (!batch_accepts(batch, c))
            break;
        remove_change(batcher, c);
        TAILQ_INSERT_TAIL(&batch->list, c, link);
        batch->count++;
    }
    return batch;
}

static void send_batch(struct batcher *batcher, struct node *node, int64_t now_us)
{
    const struct batcher_row *row = &batcher_rows[batcher->kind];
    struct store *st = batcher->bucket->store;
    struct batch *batch = next_batch(batcher);
    batch->node = node;
    args_begin_bucket(batcher->bucket, row->script);
    row->head(&st->args, batch);
    const struct change *c;
    TAILQ_FOREACH (c, &batch->list, link)
        row->change(&st->args, batch, c);
    pacer_sent(&batcher->pacer, batch->count, pacer_changes_us(batch->count), now_us);
    batcher->in_flight_count++;
    TAILQ_INSERT_TAIL(&batcher->in_flight, batch, link);
    args_send(st, row->script, node->redis, on_reply, batch);
    FAULT_QUEUED(BATCHER_POINT(batcher, "S2", "K3"));
}

int64_t batcher_wait_us(const struct batcher *batcher, unsigned full, int64_t now_us)
{
    if (batcher->queued >= full)
        return 0;
    if (batcher->in_flight_count >= BATCHES_IN_FLIGHT)
        return -1;
    return batcher->awaited > 0 ? 0 : pacer_wait_us(&batcher->pacer, now_us);
}

/* The number of buckets is not known, so the job may belong to another one. */
static bool waits_for_epoch(const struct batcher *batcher)
{
    const struct bucket_rules *rules = batcher->bucket->route_rules;
    return batcher->kind == BATCHER_ENQUEUE && rules && rules->epoch == EPOCH_UNKNOWN;
}

/* The bucket has moved to another node. Changes sent to the old node may have to be
 * repeated first. */
static bool waits_for_another(const struct batcher *batcher, const struct node *node)
{
    const struct batch *batch = TAILQ_FIRST(&batcher->in_flight);
    return batch && batch->node != node;
}

int64_t batcher_flush(struct batcher *batcher, int64_t now_us)
{
    struct node *node = bucket_node(batcher->bucket);
    if (node == NULL || node->state != NODE_UP)
        return -1; /* when the node is up, a new turn starts */
    if (waits_for_another(batcher, node) || waits_for_epoch(batcher))
        return -1; /* the answer starts a new turn */
    int64_t pause_until_us = batcher->pause_until_us > node->pause_until_us
                                 ? batcher->pause_until_us
                                 : node->pause_until_us;
    if (pause_until_us > now_us)
        return pause_until_us - now_us;
    while (batcher->queued > 0 && batcher->in_flight_count < FULL_BATCHES_IN_FLIGHT) {
        if (TAILQ_FIRST(&batcher->queue)->seq > seq_limit(batcher))
            return -1; /* the answer of the other batcher starts a new turn */
        int64_t wait_us = batcher_wait_us(batcher, jobs_max(batcher), now_us);
        if (wait_us != 0)
            return wait_us;
        send_batch(batcher, node, now_us);
    }
    return -1;
}

/* Sends now, so that Redis works in parallel with this turn. */
static void flush_early(struct batcher *batcher)
{
    unsigned in_flight_count = batcher->in_flight_count;
    batcher_flush(batcher, loop_mono_us());
    if (batcher->in_flight_count > in_flight_count)
        redis_push(bucket_node(batcher->bucket)->redis);
}

void bucket_add(struct bucket *b, enum batcher_kind kind, struct change *c)
{
    struct batcher *batcher = &b->batcher[kind];
    c->seq = b->next_seq++;
    TAILQ_INSERT_TAIL(&batcher->queue, c, link);
    count_change(batcher, c);
    b->store->open_count++;
    store_list_batcher(b->store, batcher);
    if ((batcher->queued == BATCH_EARLY && batcher->in_flight_count == 0) ||
        batcher->queued == jobs_max(batcher))
        flush_early(batcher);
}

void batcher_reject(struct batcher *batcher,
                    bool (*applies)(const struct change *c, int64_t now_us),
                    int64_t now_us)
{
    struct change *c, *next;
    for (c = TAILQ_FIRST(&batcher->queue); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (applies && !applies(c, now_us))
            continue;
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the head is another one by now
        remove_change(batcher, c);
        answer(batcher, c, 0);
    }
}
