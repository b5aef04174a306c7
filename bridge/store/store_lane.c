/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/store_lane.h"
#include "bridge/base/fault.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

enum {
    GAP_US = 10 * 1000, /* for the batch before it to come again */
    REFUSED_MAX = 50    /* then the batch before it will not come any more */
};

/* The fault point of a lane, where it has one. */
#define LANE_POINT(lane, of_enqueue, of_ack)                                             \
    ((lane)->kind == LANE_ENQUEUE ? (of_enqueue)                                         \
     : (lane)->kind == LANE_ACK   ? (of_ack)                                             \
                                  : NULL)

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

/* The change is answered and gone. */
static void answer(struct lane *lane, struct change *c, char code)
{
    lane->bucket->store->open_count--;
    if (c->cb)
        c->cb(c->arg, code);
    free(c);
}

/* Back to where it stood, before every change that came after it. behind: one of these,
 * where to begin to look; NULL: at the head. */
static void put_back(struct lane *lane, struct change *c, struct change *behind)
{
    struct change *at = behind, *before;
    if (behind) {
        while ((before = TAILQ_PREV(at, change_list, link)) && before->seq > c->seq)
            at = before;
    } else {
        TAILQ_FOREACH (at, &lane->queue, link) {
            if (at->seq > c->seq)
                break;
        }
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
    struct change *c, *behind = NULL;
    while ((c = TAILQ_LAST(&batch->list, change_list))) {
        TAILQ_REMOVE(&batch->list, c, link);
        c->again = c->again || lost;
        if (lost && c->once) {
            answer(batch->lane, c, 0);
        } else {
            put_back(batch->lane, c, behind);
            behind = c;
        }
    }
}

/* Of what was sent again: the letter that the first run gave, and was lost. */
static char first_answer(const struct lane_row *row, char code)
{
    for (const char *p = row->again ? row->again : script_again[row->script]; p && *p;
         p += 2) {
        if (p[0] == code)
            return p[1];
    }
    return code;
}

/* A refused record waits for the batch before it, which is on its way again; where none
 * comes, the source has to read it anew. */
static void answer_each(struct batch *batch, struct slice codes)
{
    struct lane *lane = batch->lane;
    struct change *c;
    for (size_t i = 0; (c = TAILQ_FIRST(&batch->list)); i++) {
        TAILQ_REMOVE(&batch->list, c, link);
        char code = i < codes.n ? codes.p[i] : 0;
        if (c->again)
            code = first_answer(&lane_rows[lane->kind], code);
        if (code == ACK_STALE_BEFORE) /* a STALE that is not our own work */
            code = ACK_STALE;
        if (code == ENQUEUE_GAP && c->refused++ < REFUSED_MAX) {
            put_back(lane, c, NULL);
            lane->hold_until_us = loop_mono_us() + GAP_US;
            continue;
        }
        answer(lane, c, code == ENQUEUE_GAP ? 0 : code);
    }
}

/* It is on its way no more, and empty. */
static void land(struct batch *batch)
{
    struct lane *lane = batch->lane;
    lane->flying--;
    TAILQ_REMOVE(&lane->flights, batch, link);
    free(batch->codes);
    free(batch);
    if (lane->queued > 0)
        store_list_lane(lane->bucket->store, lane);
    else
        bucket_check_idle(lane->bucket);
}

void batch_answer(struct batch *batch, struct slice codes)
{
    answer_each(batch, codes);
    land(batch);
}

void batch_send_again(struct batch *batch)
{
    send_again(batch, true);
    land(batch);
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
        answer(batch->lane, c, is_done(code) ? change_unsafe(code) : 0);
    }
    batch->code_count = to;
}

/* The letters of a reply; what else it holds is told. */
static struct slice read_reply(struct lane *lane, const struct redisReply *reply)
{
    struct bucket *b = lane->bucket;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2)
        return redis_text(reply);
    int64_t head = reply->element[0]->integer;
    bool of_queue_lib = lane->kind == LANE_FINISH || lane->kind == LANE_RELEASE;
    if (b->rules && !of_queue_lib && head >= 0)
        head = (head + 999) / 1000; /* in us */
    b->events->head(b->owner, head);
    if (lane->kind == LANE_ENQUEUE)
        far_note(b, reply->elements > 2 ? redis_integer(reply->element[2]) : -1);
    else
        queue_settled(b, reply);
    return redis_text(reply->element[1]);
}

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct batch *batch = arg;
    struct lane *lane = batch->lane;
    const struct lane_row *row = &lane_rows[lane->kind];
    enum redis_error e = node_judge(batch->node, reply, row->script);
    if (e != REDIS_NO_ERROR) {
        if (reply && e != REDIS_ELSEWHERE)
            lane->hold_until_us = loop_mono_us() + node_rest_us(e);
        send_again(batch, reply == NULL);
        land(batch);
        return;
    }
    FAULT(LANE_POINT(lane, "S3", "K4"));
    struct slice codes = read_reply(lane, reply);
    if (row->sure && lane->bucket->store->conf.durability.replicas > 0)
        wait_for_replicas(batch->node, batch, codes);
    else
        batch_answer(batch, codes);
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

bool batch_takes(struct batch *batch, struct change *c)
{
    unsigned i = 0;
    c->partition = 0;
    if (c->origin.partition == NULL)
        return true;
    while (i < batch->partition_count && batch->partitions[i].name != c->origin.partition)
        i++;
    if (i == BATCH_PARTITIONS_MAX)
        return false;
    if (i == batch->partition_count)
        batch->partitions[batch->partition_count++] =
            (struct lane_partition){c->origin.partition, c->origin.before};
    c->partition = i + 1;
    return true;
}

static unsigned jobs_max(const struct lane *lane)
{
    unsigned own = lane_rows[lane->kind].jobs_max;
    unsigned all = lane->bucket->store->conf.batch_max;
    return own > 0 && own < all ? own : all;
}

/* Takes from the queue what one call carries. */
static struct batch *take(struct lane *lane)
{
    uint64_t limit = older_than(lane);
    struct batch *batch = mem_alloc(sizeof(*batch));
    size_t bytes = 0;
    struct change *c;
    batch->lane = lane;
    batch->first_seq = TAILQ_FIRST(&lane->queue)->seq;
    TAILQ_INIT(&batch->list);
    while ((c = TAILQ_FIRST(&lane->queue))) {
        bytes += c->record.n + c->tries.n + c->id.n + c->kept_record.n + c->kept_tries.n;
        if (batch->count > 0 &&
            (c->seq > limit || batch->count >= jobs_max(lane) || bytes > BATCH_BYTES_MAX))
            break;
        if (!batch_takes(batch, c))
            break;
        take_out(lane, c);
        TAILQ_INSERT_TAIL(&batch->list, c, link);
        batch->count++;
    }
    return batch;
}

static void send_batch(struct lane *lane, struct node *node, int64_t now_us)
{
    const struct lane_row *row = &lane_rows[lane->kind];
    struct store *st = lane->bucket->store;
    struct batch *batch = take(lane);
    batch->node = node;
    args_begin_bucket(&st->args, lane->bucket, row->script);
    row->head(&st->args, batch);
    const struct change *c;
    TAILQ_FOREACH (c, &batch->list, link)
        row->change(&st->args, batch, c);
    pacer_sent(&lane->pacer, &pacer_of_changes, batch->count, now_us);
    lane->flying++;
    TAILQ_INSERT_TAIL(&lane->flights, batch, link);
    args_send(&st->args, &st->scripts, row->script, node->redis, on_reply, batch);
    FAULT_QUEUED(LANE_POINT(lane, "S2", "K3"));
}

int64_t lane_wait_us(const struct lane *lane, unsigned full, int64_t now_us)
{
    if (lane->queued >= full)
        return 0;
    if (lane->flying >= BATCHES_OUT)
        return -1;
    return lane->awaited > 0 ? 0 : pacer_wait_us(&lane->pacer, now_us);
}

/* The bucket has moved. What was sent to where it was may come back, and goes first. */
static bool waits_for_another(const struct lane *lane, const struct node *node)
{
    const struct batch *batch = TAILQ_FIRST(&lane->flights);
    return batch && batch->node != node;
}

int64_t lane_flush(struct lane *lane, int64_t now_us)
{
    struct node *node = bucket_node(lane->bucket);
    if (node == NULL || node->state != NODE_UP)
        return -1; /* its coming makes the next turn */
    if (waits_for_another(lane, node))
        return -1; /* the answer makes the next turn */
    int64_t hold_us = lane->hold_until_us > node->pause_until_us ? lane->hold_until_us
                                                                 : node->pause_until_us;
    if (hold_us > now_us)
        return hold_us - now_us;
    while (lane->queued > 0 && lane->flying < BATCHES_OUT_FULL) {
        if (TAILQ_FIRST(&lane->queue)->seq > older_than(lane))
            return -1; /* the other lane's answer makes the next turn */
        int64_t wait_us = lane_wait_us(lane, jobs_max(lane), now_us);
        if (wait_us != 0)
            return wait_us;
        send_batch(lane, node, now_us);
    }
    return -1;
}

/* Redis may begin while the turn goes on. */
static void flush_early(struct lane *lane)
{
    unsigned flying = lane->flying;
    lane_flush(lane, loop_mono_us());
    if (lane->flying > flying)
        redis_push(bucket_node(lane->bucket)->redis);
}

void lane_add(struct lane *lane, struct change *c)
{
    c->seq = lane->bucket->next_seq++;
    TAILQ_INSERT_TAIL(&lane->queue, c, link);
    count_in(lane, c);
    lane->bucket->store->open_count++;
    store_list_lane(lane->bucket->store, lane);
    if ((lane->queued == BATCH_EARLY && lane->flying == 0) ||
        lane->queued == jobs_max(lane))
        flush_early(lane);
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

void lane_give_back(struct lane *lane)
{
    struct change *c, *next;
    for (c = TAILQ_FIRST(&lane->queue); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (c->origin.partition == NULL)
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
