/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_store.c - libFuzzer: what a Redis, a sentinel or a node of a cluster may answer. A
 * store of its own asks a server of ours on the same loop, which answers by the lines of
 * the input; whatever the answers are, each question is told its outcome once.
 *
 * Two bytes say what the URL is (and 4: that all is well until the first question), and
 * which questions are asked; the rest are the answers, as fake_redis.h takes them.
 */
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/redis/sentinel.h"
#include "bridge/store/store.h"
#include "tests/fake_redis.h"
#include "tests/fuzz.h"

#include <stdio.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

enum {
    TURN_US = 300,   /* of the loop, at least */
    QUIET_TURNS = 8, /* nothing was asked in so many: it is over */
    WHOLE_MS = 300   /* of one input at most */
};

static struct {
    struct timer *quiet;
    int64_t end_ms;
    struct store *store;
    struct bucket *route, *queue;
    unsigned question; /* the first that is asked; those behind it follow */
    unsigned asked, told;
    unsigned seen, turns; /* commands in all; turns without a further one */
} run;

/* ---------------------------------------------------------------- what is asked */

static void told(void)
{
    run.told++;
}
static void on_change(void *arg, char code)
{
    (void)arg;
    (void)code;
    told();
}
static void on_claim(void *arg, const struct store_claim_reply *r)
{
    (void)arg;
    for (unsigned i = 0; r && i < r->count; i++)
        must(r->items[i].id.n <= 1 << 20);
    told();
}
static void on_reap(void *arg, const struct store_reap_reply *reply)
{
    (void)arg;
    (void)reply;
    told();
}
static void on_count(void *arg, const struct counts *counts)
{
    (void)arg;
    (void)counts;
    told();
}
static void on_pull(void *arg, const struct store_pull_reply *r)
{
    (void)arg;
    for (unsigned i = 0; r && i < r->count; i++)
        must(r->items[i].id.n <= 1 << 20);
    told();
}
static void on_touch(void *arg, const struct store_touch_reply *reply)
{
    (void)arg;
    (void)reply;
    told();
}
static void on_look(void *arg, const struct store_look_reply *look)
{
    (void)arg;
    must(look == NULL || look->id.n <= 1 << 20);
    told();
}
static void on_measure(void *arg, const struct queue_counts *counts)
{
    (void)arg;
    (void)counts;
    told();
}
static void on_respawned(void *arg, const struct store_respawn_reply *reply)
{
    (void)arg;
    (void)reply;
    told();
}
static void on_dropped(void *arg, const struct store_drop_reply *reply)
{
    (void)arg;
    (void)reply;
    told();
}
static void on_dead(void *arg, const struct store_dead_reply *t)
{
    (void)arg;
    for (unsigned i = 0; t && i < t->count; i++)
        must(t->items[i].id.n <= 1 << 20);
    told();
}
static void on_list(void *arg, const struct store_list_reply *t)
{
    (void)arg;
    for (unsigned i = 0; t && i < t->count; i++)
        must(t->items[i].id.n <= 1 << 20);
    told();
}
static void on_move_due(void *arg, const struct store_move_due_reply *reply)
{
    (void)arg;
    (void)reply;
    told();
}
static void on_pace(void *arg, const int64_t *wait_us)
{
    (void)arg;
    must(wait_us == NULL || wait_us[1] >= INT64_MIN); /* of both targets */
    told();
}
static void on_audit(void *arg, const struct audit_reply *r)
{
    (void)arg;
    for (unsigned i = 0; r && i < r->count; i++)
        must(r->findings[i].id.n <= 1 << 20);
    told();
}

#define ID SLICE_LIT("id")
static void ask_enqueue(void)
{
    struct job *job = job_new(0);
    job->id = job_keep(job, ID);
    job->payload = job_keep(job, SLICE_LIT("payload"));
    struct change *c =
        change_of_job(sizeof(*c), run.route, job, SLICE_LIT(""), SLICE_LIT(""));
    c->origin = (struct origin){"t/1", 5, 4, 1};
    c->cb = on_change;
    bucket_add(run.route, BATCHER_ENQUEUE, c);
    job_free(job);
}
static void ask_claim(void)
{
    bucket_claim(run.route, 10, 1000, on_claim, NULL);
}
static void ask_ack(void)
{
    store_ack(run.route, ID, 1, on_change, NULL);
}
static void ask_retry(void)
{
    store_retry(run.route, ID, 1, 5, SLICE_LIT("1||||"), on_change, NULL);
}
static void ask_bury(void)
{
    store_bury(run.route, ID, 1, SLICE_LIT("1||||"), on_change, NULL);
}
static void ask_cancel(void)
{
    struct change *c =
        change_new(sizeof(*c), ID, SLICE_LIT(""), SLICE_LIT(""), SLICE_LIT(""));
    c->deadline_us = loop_mono_us() + 1000 * 1000;
    c->awaited = true;
    c->cb = on_change;
    bucket_add(run.route, BATCHER_CANCEL, c);
}
static void ask_reap(void)
{
    bucket_reap(run.route, 10, on_reap, NULL);
}
static void ask_count(void)
{
    const struct count_ask ask = {run.route, on_count, NULL};
    store_count_many(&ask, 1);
}
static void ask_find(void)
{
    store_look(run.route, LOOK_WHICH_ID, ID, on_look, NULL);
}
static void ask_pull(void)
{
    const struct store_pull_want wants[] = {{0, 5}, {1000, 1}};
    store_pull(run.queue, 1000, wants, 2, on_pull, NULL);
}
static void ask_touch(void)
{
    store_touch(run.queue, ID, 5, 1000, on_touch, NULL);
}
static void ask_look(void)
{
    store_look(run.queue, LOOK_WHICH_ID, ID, on_look, NULL);
}
static void ask_measure(void)
{
    const int64_t limits_ms[] = {1000, 60000};
    store_measure(run.queue, limits_ms, 2, on_measure, NULL);
}
static void ask_finish(void)
{
    store_finish(run.queue, ID, 5, "acked", 0, 1000, on_change, NULL);
}
static void ask_release(void)
{
    store_release(run.queue, ID, 5, 0, true, 1000, on_change, NULL);
}
static void ask_respawn(void)
{
    store_respawn(run.queue, 10, 1000, on_respawned, NULL);
}
static void ask_drop(void)
{
    store_drop(run.queue, DROP_WHICH_DEAD, 10, on_dropped, NULL);
}
static void ask_dead(void)
{
    const struct store_dead_ask ask = {.what = DEAD_WHAT_LIST, .max = 10, .look = 100};
    store_dead(run.route, &ask, on_dead, NULL);
}
static void ask_list(void)
{
    struct store_list_ask ask = {
        .what = LIST_WHAT_WAITING, .max = 10, .bytes_max = 100000};
    bucket_list(run.route, &ask, NULL, 0, on_list, NULL);
}
static void ask_move_due(void)
{
    store_move_due(run.route, ID, 0, 1000, on_move_due, NULL);
}
static void ask_pace(void)
{
    const struct pace_rate rate = {.per_s = 1, .burst = 1, .shared = true};
    const struct paced_job jobs[] = {{SLICE_LIT("a"), false}, {SLICE_LIT("b"), true}};
    store_pace(run.route, &rate, jobs, 2, on_pace, NULL);
}
static void ask_audit(void)
{
    store_audit(run.route, AUDIT_DELAY, SLICE_LIT("0"), 10, false, on_audit, NULL);
}
static void (*const asks[])(void) = {
    ask_enqueue, ask_claim,    ask_ack,     ask_retry,   ask_bury,  ask_cancel,
    ask_reap,    ask_count,    ask_find,    ask_pull,    ask_touch, ask_look,
    ask_measure, ask_finish,   ask_release, ask_respawn, ask_drop,  ask_dead,
    ask_list,    ask_move_due, ask_pace,    ask_audit};
enum { ASKS = sizeof(asks) / sizeof(asks[0]) };

/* ---------------------------------------------------------------------- one input */

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

static void on_up(void *arg)
{
    enum { AT_A_TIME = 3 };

    (void)arg;
    fake.good = false;
    for (unsigned i = 0; run.asked < AT_A_TIME; i++, run.asked++)
        asks[(run.question + i) % ASKS]();
}
static void on_down(void *arg, const char *why)
{
    (void)arg;
    must(why != NULL);
}
static void on_told(void *arg, struct slice name)
{
    (void)arg;
    (void)name;
}

/* Counted in turns: in ms, this process may only not have had its share of the machine.
 */
static void on_quiet(void *arg)
{
    (void)arg;
    run.turns = run.seen == fake.commands ? run.turns + 1 : 0;
    run.seen = fake.commands;
    if (run.turns >= QUIET_TURNS || loop_mono_ms() > run.end_ms)
        loop_stop();
    timer_set_us(run.quiet, TURN_US);
}

static void on_asked(void)
{
    run.turns = 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    log_set_level(LOG_ERROR + 1);
    loop_init();
    fake_start(on_asked);
    run.quiet = timer_new(on_quiet, NULL);
    return 0;
}

static void begin(unsigned kind, struct sentinel **sentinel)
{
    static const struct store_events events = {on_up, on_down, on_told, NULL};
    static const struct bucket_events of_bucket = {on_head, on_woken, on_settled, NULL};
    static const struct bucket_rules rules = {.remember_ms = 1000, .rate = 5, .burst = 1};
    static const struct queue_rules queue_rules = {.lease_ms = 1000, .tries = 3};
    static const struct {
        const char *scheme, *rest;
    } forms[] = {{"redis", "/1"}, {"redis+cluster", ""}, {"redis+sentinel", "/m"}};
    struct store_conf conf = {.redis = {.connect_timeout_ms = 100,
                                        .command_timeout_ms = 100,
                                        .backoff_first_ms = 1,
                                        .backoff_max_ms = 1,
                                        .client_name = "fuzz"},
                              .prefix = "tarry",
                              .instance = "fuzz",
                              .batch_max = 8,
                              .horizon_ms = 1000};
    struct err err;
    char url[64];

    snprintf(url, sizeof(url), "%s://127.0.0.1:%u%s", forms[kind].scheme, fake.port,
             forms[kind].rest);
    must(redis_url_parse(url, &conf.redis.url, &err) == 0);
    conf.redis.master_only = true;
    if (conf.redis.url.kind == REDIS_SENTINEL) {
        *sentinel = sentinel_new(&conf.redis, NULL, NULL);
        conf.redis.finder = sentinel_finder(*sentinel);
    }
    run.store = store_new(&conf, &events, NULL);
    run.route = bucket_new(run.store, "r/0", &rules, &of_bucket, NULL);
    run.queue = bucket_new_queue(run.store, "s", "q", &queue_rules, &of_bucket, NULL);
    redis_url_free(&conf.redis.url);
}

/* What was deferred is freed. */
static void one_turn(void)
{
    run.turns = QUIET_TURNS;
    timer_set(run.quiet, 0);
    loop_run();
}

static void end(struct sentinel *sentinel)
{
    fake_hang_up();
    one_turn();
    store_free(run.store);
    sentinel_free(sentinel);
    one_turn();
    run.store = NULL;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct sentinel *sentinel = NULL;

    fake.answers = (struct slice){(const char *)bytes, n};
    run.asked = run.told = run.seen = run.turns = fake.commands = 0;
    unsigned kind = fuzz_byte(&fake.answers);
    run.question = fuzz_byte(&fake.answers) % ASKS;
    fake.good = kind & 4;
    kind = (kind & 3) % 3;
    bool may_stay = fake.good && kind == 0;
    if (run.store && !may_stay)
        end(NULL);
    if (run.store == NULL)
        begin(kind, &sentinel);
    else
        on_up(NULL);
    run.end_ms = loop_mono_ms() + WHOLE_MS;
    timer_set_us(run.quiet, TURN_US);
    loop_run();
    /* To make one that is up is most of the work: one that has come to no harm goes on.
     */
    if (!may_stay || !store_is_up(run.store) || run.told < run.asked) {
        end(sentinel);
        must(run.told == run.asked);
    }
    return 0;
}
