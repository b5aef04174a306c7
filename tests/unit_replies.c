/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_replies.c - replies in a format that none of our scripts returns: they are errors,
 * and each caller is notified once. Found by fuzz_store.c.
 */
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/redis/redis.h"
#include "bridge/store/store.h"
#include "tests/fake_redis.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

static struct {
    struct store *store;
    struct bucket *route, *queue;
    struct timer *limit;
    unsigned answered;
    int64_t answer; /* the reported result, as a number; 0: none */
    bool up;
} run;

static void tell(int64_t answer)
{
    run.answered++;
    run.answer = answer;
    loop_stop();
}

/* ---------------------------------------------------------------- the calls */

#define ID SLICE_LIT("id")

static void on_found(void *arg, const struct store_look_reply *found)
{
    (void)arg;
    tell(found ? found->state : 0);
}
static void ask_find(void)
{
    store_look(run.route, LOOK_WHICH_ID, ID, on_found, NULL);
}

static void on_touch(void *arg, const struct store_touch_reply *reply)
{
    (void)arg;
    tell(reply ? reply->code : 0);
}
static void ask_touch(void)
{
    store_touch(run.queue, ID, 5, 1000, on_touch, NULL);
}

static void on_look(void *arg, const struct store_look_reply *look)
{
    (void)arg;
    tell(look ? look->state : 0);
}
static void ask_look(void)
{
    store_look(run.queue, LOOK_WHICH_ID, ID, on_look, NULL);
}

static void on_alter(void *arg, const struct store_alter_reply *reply)
{
    (void)arg;
    tell(reply && reply->count == 1 ? reply->items[0].code : 0);
}
static void ask_alter(void)
{
    const struct store_alter_want job = {.id = ID};
    store_alter(run.route, ALTER_WHAT_MOVE, 0, 1000, &job, 1, on_alter, NULL);
}

static void on_pace(void *arg, const struct store_pace_reply *reply)
{
    (void)arg;
    tell(reply && reply->count == 2 ? 1000 + reply->items[1].wait_us : 0);
}
static void ask_pace(void)
{
    const struct pace_rate rate = {.per_s = 1, .burst = 1, .shared = true};
    const struct store_pace_want jobs[] = {{SLICE_LIT("a"), false},
                                           {SLICE_LIT("b"), true}};
    bucket_pace(run.route, &rate, jobs, 2, on_pace, NULL);
}

static void on_stored(void *arg, char code)
{
    (void)arg;
    tell(code);
}
static void ask_enqueue(void)
{
    struct job *job = job_new(0);
    job->id = job_copy_slice(job, ID);
    struct change *c = change_of_job(sizeof(*c), run.route, job, (struct slice){NULL, 0},
                                     (struct slice){NULL, 0});
    c->cb = on_stored;
    bucket_add(run.route, BATCHER_ENQUEUE, c);
    job_free(job);
}

/* -------------------------------------------------------------------- a store */

static void on_up(void *arg)
{
    (void)arg;
    run.up = true;
    loop_stop();
}
static void on_down(void *arg, const char *why)
{
    (void)arg;
    (void)why;
    run.up = false;
}
static void on_other(void *arg, struct slice name)
{
    (void)arg;
    (void)name;
}
static void on_head(void *owner, int64_t head_ms)
{
    (void)owner;
    (void)head_ms;
}
static void on_woken(void *owner)
{
    (void)owner;
}
static void on_asked(void)
{
}
static void on_limit(void *arg)
{
    (void)arg;
    loop_stop();
}

static bool run_for(int64_t limit_ms, const bool *until)
{
    timer_set(run.limit, limit_ms);
    loop_run();
    timer_stop(run.limit);
    return *until;
}

static void begin(struct sentinel **sentinel)
{
    static const struct store_events events = {on_up, on_down, on_other, NULL, NULL};
    static const struct bucket_events of_bucket = {.head = on_head, .woken = on_woken};
    static const struct bucket_rules rules = {.remember_ms = 1000};
    static const struct queue_rules queue_rules = {.lease_ms = 1000, .tries = 3};
    struct store_conf conf = {.redis = {.connect_timeout_ms = 2000,
                                        .command_timeout_ms = 2000,
                                        .backoff_first_ms = 1,
                                        .backoff_max_ms = 1},
                              .prefix = "tarry",
                              .instance = "unit",
                              .batch_max = 8};
    char url[64];
    snprintf(url, sizeof(url), "redis%s://127.0.0.1:%u%s", sentinel ? "+sentinel" : "",
             fake.port, sentinel ? "/m" : "");
    assert_int_equal(redis_url_parse(url, &conf.redis.url, NULL), 0);
    if (sentinel) {
        *sentinel = sentinel_new(&conf.redis, NULL, NULL);
        conf.redis.finder = sentinel_finder(*sentinel);
    }
    run.store = store_new(&conf, &events, NULL);
    run.route = bucket_new(run.store, "r/0", &rules, &of_bucket, NULL);
    run.queue = bucket_new_queue(run.store, "s", "q", &queue_rules, &of_bucket, NULL);
    redis_url_free(&conf.redis.url);
}

static void end(struct sentinel *sentinel)
{
    static const bool never;
    store_free(run.store);
    sentinel_free(sentinel);
    fake_disconnect();
    run_for(0, &never); /* frees deferred objects */
    run.up = false;
}

/* ------------------------------------------------------------------------ tests */

static void a_reply_of_another_shape_is_rejected(void **state)
{
    (void)state;
    static const struct {
        void (*ask)(void);
        const char *reply;
        int64_t answer;
    } rows[] = {
        {ask_find, "*11\n$w\n$id\n:5\n$record\n!\n:-1\n:9\n:0\n:0\n:0\n:-1\n", 'w'},
        {ask_find, "*11\n:1\n$id\n:5\n$record\n!\n:-1\n:9\n:0\n:0\n:0\n:-1\n", 0},
        {ask_find, "*11\n!\n!\n!\n!\n!\n!\n!\n!\n!\n!\n!\n", 0},
        {ask_touch, "*6\n$t\n:9\n:0\n:0\n:0\n:-1\n", 't'},
        {ask_touch, "*6\n:1\n:9\n:0\n:0\n:0\n:-1\n", 0},
        {ask_look, "*11\n*0\n$id\n:5\n$r\n$1\n:-1\n:9\n:0\n:0\n:0\n:-1\n", 0},
        {ask_alter, "*3\n:5\n:5\n$m\n", 'm'},
        {ask_alter, "*3\n:5\n:5\n:1\n", 0},
        {ask_alter, "*1\n:5\n", 0},
        {ask_pace, "*2\n:0\n:-5\n", 995},
        {ask_pace, "*1\n:0\n", 0},
        {ask_pace, "*3\n:0\n:1\n:2\n", 0},
        {ask_enqueue, "*2\n:5\n$s\n", 's'},
    };
    begin(NULL);
    assert_true(run_for(5000, &run.up));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake.replies = slice_of(rows[i].reply);
        run.answered = 0;
        rows[i].ask();
        run_for(5000, &run.up);
        assert_int_equal(run.answered, 1);
        assert_int_equal(run.answer, rows[i].answer);
        assert_int_equal(fake.replies.n, 0);
    }
    end(NULL);
}

/* Replies for more jobs than one call can contain. */
static void a_reply_with_too_many_items_is_rejected(void **state)
{
    (void)state;
    struct buf reply = {0};
    buf_add_str(&reply, "*500\n");
    for (int i = 0; i < 500; i++)
        buf_add_str(&reply, ":1\n");
    begin(NULL);
    assert_true(run_for(5000, &run.up));
    fake.replies = buf_slice(&reply);
    run.answered = 0;
    ask_pace();
    run_for(5000, &run.up);
    assert_int_equal(run.answered, 1);
    assert_int_equal(run.answer, 0);
    end(NULL);
    buf_free(&reply);
}

static void an_invalid_time_is_rejected(void **state)
{
    (void)state;
    static const char *const times[] = {"*2\n:1\n:2\n", "*2\n!\n!\n", "*0\n", "$5\n",
                                        "*2\n$999999999999999999999\n$5\n"};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        fake.match = "TIME";
        fake.match_reply = times[i];
        begin(NULL);
        assert_false(run_for(300, &run.up));
        fake.match = NULL;
        end(NULL);
    }
}

static void a_sentinel_without_a_master_is_ignored(void **state)
{
    (void)state;
    static const char *const places[] = {"*2\n:1\n:2\n", "*2\n!\n!\n", "*2\n$\n$\n",
                                         "!\n"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct sentinel *sentinel;
        fake.match = "GET-MASTER-ADDR-BY-NAME";
        fake.match_reply = places[i];
        begin(&sentinel);
        assert_false(run_for(300, &run.up));
        fake.match = NULL;
        end(sentinel);
    }
}

static void a_score_is_a_text_that_is_a_number(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        int64_t score;
    } rows[] = {{"$4\r\n1e15\r\n", 1000000000000000},
                {"$2\r\n-5\r\n", -5},
                {"$1\r\nx\r\n", 0},
                {"$3\r\ninf\r\n", 0},
                {"$5\r\n1e300\r\n", 0},
                {":7\r\n", 0},
                {"$-1\r\n", 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        redisReader *reader = redisReaderCreate();
        void *reply = NULL;
        redisReaderFeed(reader, rows[i].reply, strlen(rows[i].reply));
        assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
        assert_int_equal(redis_score(reply), rows[i].score);
        freeReplyObject(reply);
        redisReaderFree(reader);
    }
    assert_int_equal(redis_score(NULL), 0);
}

static int setup(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR + 1);
    loop_init();
    fake_start(on_asked);
    run.limit = timer_new(on_limit, NULL);
    return 0;
}

UNIT(replies)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_of_another_shape_is_rejected),
        cmocka_unit_test(a_reply_with_too_many_items_is_rejected),
        cmocka_unit_test(an_invalid_time_is_rejected),
        cmocka_unit_test(a_sentinel_without_a_master_is_ignored),
        cmocka_unit_test(a_score_is_a_text_that_is_a_number),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
