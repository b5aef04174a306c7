/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/store_calls.h"
#include "bridge/base/mem.h"

struct store_calls store_calls;

#define ID SLICE_LIT("id")
enum { MOST_BYTES = 1 << 20 };

/* ---------------------------------------------------------------------- callbacks */

static void done(void *arg)
{
    store_calls.done(arg);
}

/* Defines a callback whose reply has no items to check. */
#define ON(name, type)                                                                   \
    static void name(void *arg, type reply)                                              \
    {                                                                                    \
        (void)reply;                                                                     \
        done(arg);                                                                       \
    }
/* Defines a callback that checks the items of its reply. */
#define ON_ITEMS(name, type)                                                             \
    static void name(void *arg, const struct type *reply)                                \
    {                                                                                    \
        for (unsigned i = 0; reply && i < reply->count; i++)                             \
            must(reply->items[i].id.n <= MOST_BYTES);                                    \
        done(arg);                                                                       \
    }

ON(on_code, char)
ON(on_command, const struct redisReply *)
ON(on_reap, const struct store_reap_reply *)
ON(on_count, const struct store_count_reply *)
ON(on_touch, const struct store_touch_reply *)
ON(on_measure, const struct store_measure_reply *)
ON(on_respawn, const struct store_respawn_reply *)
ON(on_drop, const struct store_drop_reply *)
ON(on_pace, const struct store_pace_reply *)
ON(on_alter, const struct store_alter_reply *)
ON_ITEMS(on_claim, store_claim_reply)
ON_ITEMS(on_pull, store_pull_reply)
ON_ITEMS(on_dead, store_dead_reply)
ON_ITEMS(on_list, store_list_reply)
ON_ITEMS(on_audit, store_audit_reply)

static void on_look(void *arg, const struct store_look_reply *look)
{
    must(look == NULL || look->id.n <= MOST_BYTES);
    done(arg);
}
/* -------------------------------------------------------------------------- calls */

#define ROUTE store_calls.route
#define QUEUE store_calls.queue
#define NONE SLICE_LIT("")
#define TRIES SLICE_LIT("1||||")

static void enqueue(struct origin origin, void *arg)
{
    struct job *job = job_new(0);
    job->id = job_copy_slice(job, ID);
    job->payload = job_copy_slice(job, SLICE_LIT("payload"));
    struct change *c = change_of_job(sizeof(*c), ROUTE, job, NONE, NONE);
    c->origin = origin;
    c->cb = on_code;
    c->arg = arg;
    bucket_add(ROUTE, BATCHER_ENQUEUE, c);
    job_free(job);
}
static void call_enqueue_record(void *arg)
{
    enqueue((struct origin){"t/1", 5, 4, 1, 1}, arg);
}
void store_call_enqueue(void *arg)
{
    enqueue((struct origin){NULL, -1, -1, 0, 0}, arg);
}
static void call_claim(void *arg)
{
    bucket_claim(ROUTE, 10, 1000, on_claim, arg);
}
void store_call_ack(void *arg)
{
    store_ack(ROUTE, ID, 5, 0, on_code, arg);
}
static void call_retry(void *arg)
{
    store_retry(ROUTE, ID, 5, 9, TRIES, on_code, arg);
}
static void call_bury(void *arg)
{
    store_bury(ROUTE, ID, 5, TRIES, on_code, arg);
}
void store_call_cancel(void *arg)
{
    struct change *c = change_new(sizeof(*c), ID, NONE, NONE, NONE);
    c->awaited = true;
    c->cb = on_code;
    c->arg = arg;
    bucket_add(ROUTE, BATCHER_CANCEL, c);
}
static void call_reap(void *arg)
{
    bucket_reap(ROUTE, 10, on_reap, arg);
}
static void call_count(void *arg)
{
    store_count(ROUTE, on_count, arg);
}
static void call_find(void *arg)
{
    store_look(ROUTE, LOOK_WHICH_ID, ID, on_look, arg);
}
static void call_pull(void *arg)
{
    const struct store_pull_want wants[] = {{0, 5}, {1000, 1}};
    store_pull(QUEUE, 1000, wants, 2, on_pull, arg);
}
static void call_touch(void *arg)
{
    store_touch(QUEUE, ID, 5, 1000, on_touch, arg);
}
static void call_look(void *arg)
{
    store_look(QUEUE, LOOK_WHICH_ID, ID, on_look, arg);
}
static void call_measure(void *arg)
{
    const struct store_measure_want limits[] = {{1000}, {60000}};
    store_measure(QUEUE, limits, 2, on_measure, arg);
}
static void call_finish(void *arg)
{
    store_finish(QUEUE, ID, 5, "acked", 0, 1000, on_code, arg);
}
static void call_release(void *arg)
{
    store_release(QUEUE, ID, 5, 0, true, 1000, on_code, arg);
}
static void call_release_once(void *arg)
{
    store_release(QUEUE, ID, 0, 0, true, 0, on_code, arg);
}
static void call_respawn(void *arg)
{
    store_respawn(QUEUE, 10, 1000, on_respawn, arg);
}
static void call_drop(void *arg)
{
    store_drop(QUEUE, DROP_WHICH_DEAD, 10, on_drop, arg);
}
static void call_dead(void *arg)
{
    const struct store_dead_ask ask = {.what = DEAD_WHAT_LIST, .max = 10, .look = 100};
    store_dead(ROUTE, &ask, on_dead, arg);
}
static void call_list(void *arg)
{
    struct store_list_ask ask = {
        .what = LIST_WHAT_WAITING, .max = 10, .bytes_max = 100000};
    bucket_list(ROUTE, &ask, NULL, 0, on_list, arg);
}
static void call_alter(void *arg)
{
    const struct store_alter_want jobs[] = {{ID, 0, 0}, {ID, 60000, 7}};
    store_alter(ROUTE, ALTER_WHAT_MOVE, 0, 1000, jobs, 2, on_alter, arg);
}
static void call_pace(void *arg)
{
    const struct pace_rate rate = {.per_s = 1, .burst = 1, .shared = true};
    const struct store_pace_want jobs[] = {{SLICE_LIT("a"), false},
                                           {SLICE_LIT("b"), true}};
    bucket_pace(ROUTE, &rate, jobs, 2, on_pace, arg);
}
static void call_meta(void *arg)
{
    store_meta(store_calls.store, ID, NULL, 0, on_command, arg);
}
static void call_audit(void *arg)
{
    store_audit(ROUTE, SLICE_LIT("delay"), SLICE_LIT("0"), 10, false, on_audit, arg);
}
static void call_command(void *arg)
{
    const struct slice args[] = {SLICE_LIT("HGETALL"), ID};
    store_unlist(store_calls.store, ID, ID, 5, NULL, NULL);
    store_notify(store_calls.store, "=@x");
    store_command(store_calls.store, args, 2, on_command, arg);
}

/* Keep this order: tests/corpus/store depends on it. */
const struct store_call store_call_rows[STORE_CALLS] = {
    {.call = call_enqueue_record, .of_producers = true},
    {.call = call_claim},
    {.call = store_call_ack},
    {.call = call_retry},
    {.call = call_bury},
    {.call = store_call_cancel, .of_producers = true},
    {.call = call_reap},
    {.call = call_count},
    {.call = call_find},
    {.call = call_pull},
    {.call = call_touch},
    {.call = call_look},
    {.call = call_measure},
    {.call = call_finish},
    {.call = call_release},
    {.call = call_respawn},
    {.call = call_drop},
    {.call = call_dead},
    {.call = call_list},
    {.call = call_alter},
    {.call = call_pace},
    {.call = call_meta},
    {.call = call_audit},
    {.call = call_release_once},
    {.call = call_command, .no_script = true},
    {.call = store_call_enqueue, .of_producers = true},
};

/* ------------------------------------------------------------------------ buckets */

static void on_head(void *owner, int64_t head_ms)
{
    (void)owner;
    (void)head_ms;
}
static void on_woken(void *owner)
{
    (void)owner;
}
static void on_settled(void *owner, unsigned expired, unsigned timed_out,
                       unsigned exhausted)
{
    (void)owner;
    (void)expired;
    (void)timed_out;
    (void)exhausted;
}
void store_calls_on_name(void *arg, struct slice name)
{
    (void)arg;
    (void)name;
}

void store_calls_init(struct store *store)
{
    static const struct bucket_events events = {
        .head = on_head, .woken = on_woken, .settled = on_settled};
    static const struct bucket_rules rules = {.remember_ms = 1000, .rate = 5, .burst = 1};
    static const struct queue_rules queue_rules = {.lease_ms = 1000, .tries = 3};
    store_calls.store = store;
    store_calls.route = bucket_new(store, "r/0", &rules, &events, NULL);
    store_calls.queue = bucket_new_queue(store, "s", "q", &queue_rules, &events, NULL);
}
