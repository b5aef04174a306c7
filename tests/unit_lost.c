/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_lost.c - calls of the store whose reply is lost or is an error, on one Redis, with
 * Sentinel and in a cluster.
 *
 * The callback of every kind of call makes every kind of call. Other tests show which
 * errors pause the sources.
 */
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/redis/sentinel.h"
#include "bridge/store/store.h"
#include "tests/fake_redis.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct {
    struct store *store;
    struct bucket *route, *queue;
    struct timer *limit;
    unsigned bad;    /* answers that are still to be bad ones */
    unsigned inside; /* calls of the store that have not returned */
    bool again;      /* who is told for the first time asks for everything */
    bool takes_jobs; /* when the store came up last */
    unsigned asked, told, told_from_within, ups, downs;
} run;

/* ------------------------------------------------------- every kind that can be asked */

#define ID SLICE_LIT("id")
#define NONE ((struct slice){NULL, 0})

struct kind {
    void (*ask)(struct kind *kind);
    unsigned told;
    bool of_producers; /* its errors pause the sources */
    bool no_script;
};
static void ask_all(void);

static void told(void *arg)
{
    struct kind *kind = arg;
    run.told++;
    run.told_from_within += run.inside > 0;
    if (kind->told++ == 0 && run.again)
        ask_all();
    loop_stop();
}

static void on_code(void *arg, char code)
{
    (void)code;
    told(arg);
}
static void on_reply(void *arg, const struct redisReply *reply)
{
    (void)reply;
    told(arg);
}

static void ask_enqueue(struct kind *kind)
{
    struct job *job = job_new(0);
    job->id = job_keep(job, ID);
    struct change *c = change_of_job(sizeof(*c), run.route, job, NONE, NONE);
    c->cb = on_code;
    c->arg = kind;
    bucket_add(run.route, BATCHER_ENQUEUE, c);
    job_free(job);
}
static void ask_ack(struct kind *kind)
{
    store_ack(run.route, ID, 5, on_code, kind);
}
static void ask_retry(struct kind *kind)
{
    store_retry(run.route, ID, 5, 9, NONE, on_code, kind);
}
static void ask_bury(struct kind *kind)
{
    store_bury(run.route, ID, 5, NONE, on_code, kind);
}
static void ask_cancel(struct kind *kind)
{
    struct change *c = change_new(sizeof(*c), ID, NONE, NONE, NONE);
    c->awaited = true;
    c->cb = on_code;
    c->arg = kind;
    bucket_add(run.route, BATCHER_CANCEL, c);
}
static void ask_finish(struct kind *kind)
{
    store_finish(run.queue, ID, 5, "acked", 0, 0, on_code, kind);
}
static void ask_release(struct kind *kind)
{
    store_release(run.queue, ID, 5, 0, true, 0, on_code, kind);
}
static void ask_release_once(struct kind *kind)
{
    store_release(run.queue, ID, 0, 0, true, 0, on_code, kind);
}

static void on_claim(void *arg, const struct store_claim_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_claim(struct kind *kind)
{
    bucket_claim(run.route, 5, 1000, on_claim, kind);
}
static void on_reap(void *arg, const struct store_reap_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_reap(struct kind *kind)
{
    bucket_reap(run.route, 5, on_reap, kind);
}
static void on_count(void *arg, const struct counts *counts)
{
    (void)counts;
    told(arg);
}
static void ask_count(struct kind *kind)
{
    store_count(run.route, on_count, kind);
}
static void on_found(void *arg, const struct store_look_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_find(struct kind *kind)
{
    store_look(run.route, LOOK_WHICH_ID, ID, on_found, kind);
}
static void on_list(void *arg, const struct store_list_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_list(struct kind *kind)
{
    struct store_list_ask ask = {.what = LIST_WHAT_WAITING, .max = 5, .bytes_max = 1000};
    bucket_list(run.route, &ask, NULL, 0, on_list, kind);
}
static void on_move_due(void *arg, const struct store_move_due_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_move_due(struct kind *kind)
{
    store_move_due(run.route, ID, 0, 1000, on_move_due, kind);
}
static void on_dead(void *arg, const struct store_dead_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_dead(struct kind *kind)
{
    const struct store_dead_ask ask = {.what = DEAD_WHAT_LIST, .max = 5, .look = 5};
    store_dead(run.route, &ask, on_dead, kind);
}
static void on_audit(void *arg, const struct audit_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_audit(struct kind *kind)
{
    store_audit(run.route, AUDIT_POOL, SLICE_LIT("0"), 5, false, on_audit, kind);
}
static void on_pace(void *arg, const int64_t *wait_us)
{
    (void)wait_us;
    told(arg);
}
static void ask_pace(struct kind *kind)
{
    const struct pace_rate rate = {.per_s = 1, .burst = 1, .shared = true};
    const struct paced_job jobs[] = {{SLICE_LIT("a"), false}};
    store_pace(run.route, &rate, jobs, 1, on_pace, kind);
}

static void on_pull(void *arg, const struct store_pull_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_pull(struct kind *kind)
{
    const struct store_pull_want want = {1000, 5};
    store_pull(run.queue, 1000, &want, 1, on_pull, kind);
}
static void on_touch(void *arg, const struct store_touch_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_touch(struct kind *kind)
{
    store_touch(run.queue, ID, 5, 1000, on_touch, kind);
}
static void on_look(void *arg, const struct store_look_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_look(struct kind *kind)
{
    store_look(run.queue, LOOK_WHICH_ID, ID, on_look, kind);
}
static void on_measure(void *arg, const struct queue_counts *counts)
{
    (void)counts;
    told(arg);
}
static void ask_measure(struct kind *kind)
{
    store_measure(run.queue, NULL, 0, on_measure, kind);
}
static void on_respawn(void *arg, const struct store_respawn_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_respawn(struct kind *kind)
{
    store_respawn(run.queue, 5, 0, on_respawn, kind);
}
static void on_drop(void *arg, const struct store_drop_reply *reply)
{
    (void)reply;
    told(arg);
}
static void ask_drop(struct kind *kind)
{
    store_drop(run.queue, DROP_WHICH_ALL, 5, on_drop, kind);
}

static void ask_meta(struct kind *kind)
{
    store_script(run.store, SCRIPT_META, ID, NULL, 0, on_reply, kind);
}
static void ask_command(struct kind *kind)
{
    const struct slice args[] = {SLICE_LIT("HGETALL"), ID};
    store_unlist(run.store, ID, ID, 5);
    store_tell(run.store, "=@x");
    store_command(run.store, args, 2, on_reply, kind);
}

/* The first one runs a script: a bad reply to it loses the replies of all others. */
static struct kind kinds[] = {
    {.ask = ask_find},
    {.ask = ask_enqueue, .of_producers = true},
    {.ask = ask_ack},
    {.ask = ask_retry},
    {.ask = ask_bury},
    {.ask = ask_cancel, .of_producers = true},
    {.ask = ask_finish},
    {.ask = ask_release},
    {.ask = ask_release_once},
    {.ask = ask_claim},
    {.ask = ask_reap},
    {.ask = ask_count},
    {.ask = ask_list},
    {.ask = ask_dead},
    {.ask = ask_move_due},
    {.ask = ask_audit},
    {.ask = ask_pace},
    {.ask = ask_pull},
    {.ask = ask_touch},
    {.ask = ask_look},
    {.ask = ask_measure},
    {.ask = ask_respawn},
    {.ask = ask_drop},
    {.ask = ask_meta},
    {.ask = ask_command, .no_script = true},
};
enum {
    KINDS = sizeof(kinds) / sizeof(kinds[0]),
    ASKED =
        KINDS + KINDS * KINDS /* each asks for all when it is told for the first time */
};

static void ask_all(void)
{
    for (unsigned i = 0; i < KINDS; i++) {
        run.inside++;
        kinds[i].ask(&kinds[i]);
        run.inside--;
        run.asked++;
    }
}

/* -------------------------------------------------------------------------- a store */

static void on_up(void *arg)
{
    (void)arg;
    run.ups++;
    run.takes_jobs = store_takes_jobs(run.store);
    loop_stop();
}
static void on_down(void *arg, const char *why)
{
    (void)arg;
    (void)why;
    run.downs++;
    if (run.bad == 0)
        fake.word = NULL;
}
static void on_told(void *arg, struct slice name)
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
/* After each answer. */
static void on_asked(void)
{
    fake.commands = 0;
    if (fake.word && run.bad > 0 && --run.bad == 0)
        fake.word = NULL;
}
static void on_limit(void *arg)
{
    (void)arg;
    loop_stop();
}

/* Runs until *n >= until, or for 10 s. */
static bool reached(const unsigned *n, unsigned until)
{
    int64_t end_ms = loop_mono_ms() + 10000;
    while (*n < until && loop_mono_ms() < end_ms) {
        timer_set(run.limit, 50);
        loop_run();
    }
    return *n >= until;
}

struct url {
    const char *scheme, *master;
    unsigned replicas; /* that must have what counts: WAIT comes behind it */
};

static void begin(const struct url *url, struct sentinel **sentinel)
{
    static const struct store_events events = {on_up, on_down, on_told, NULL};
    static const struct bucket_events of_bucket = {.head = on_head, .woken = on_woken};
    static const struct bucket_rules rules = {.remember_ms = 1000};
    static const struct queue_rules queue_rules = {.lease_ms = 1000, .tries = 3};
    struct store_conf conf = {.redis = {.connect_timeout_ms = 2000,
                                        .command_timeout_ms = 2000,
                                        .backoff_first_ms = 1,
                                        .backoff_max_ms = 1},
                              .prefix = "tarry",
                              .instance = "unit",
                              .batch_max = 8,
                              .durability = {.replicas = url->replicas}};
    char text[64];
    snprintf(text, sizeof(text), "%s://127.0.0.1:%u%s", url->scheme, fake.port,
             url->master);
    assert_int_equal(redis_url_parse(text, &conf.redis.url, NULL), 0);
    *sentinel = NULL;
    if (conf.redis.url.kind == REDIS_SENTINEL) {
        *sentinel = sentinel_new(&conf.redis, NULL, NULL);
        conf.redis.finder = sentinel_finder(*sentinel);
    }
    run.store = store_new(&conf, &events, NULL);
    run.route = bucket_new(run.store, "r/0", &rules, &of_bucket, NULL);
    run.queue = bucket_new_queue(run.store, "s", "q", &queue_rules, &of_bucket, NULL);
    redis_url_free(&conf.redis.url);
    run.again = false;
    run.asked = run.told = run.told_from_within = run.ups = run.downs = 0;
    for (unsigned i = 0; i < KINDS; i++)
        kinds[i].told = 0;
    assert_true(reached(&run.ups, 1));
}

static void end(struct sentinel *sentinel)
{
    store_free(run.store);
    sentinel_free(sentinel);
    fake_hang_up();
    timer_set(run.limit, 0);
    loop_run(); /* what was deferred is freed */
}

static const struct url urls[] = {{"redis", "", 0},
                                  {"redis+sentinel", "/m", 0},
                                  {"redis+cluster", "", 0},
                                  {"redis", "", 1}};
enum { URLS = sizeof(urls) / sizeof(urls[0]) };

/* So many answers long, those to word are bad; each call asks for all again when it is
 * told for the first time. */
static void lose_all(const struct url *url, const char *word, const char *bad,
                     unsigned times)
{
    struct sentinel *sentinel;
    begin(url, &sentinel);
    fake.word = word;
    fake.word_answer = bad;
    run.bad = times;
    run.again = true;
    ask_all();
    assert_true(reached(&run.told, ASKED));
    assert_int_equal(run.asked, ASKED);
    assert_int_equal(run.told, ASKED);
    assert_int_equal(run.told_from_within, 0);
    fake.word = NULL;
    end(sentinel);
}

/* ---------------------------------------------------------------------------- tests */

static void a_callback_of_a_lost_call_may_ask_for_anything(void **state)
{
    (void)state;
    for (unsigned i = 0; i < URLS; i++) {
        lose_all(&urls[i], "EVALSHA", "?this is no reply\n", 1);
        assert_true(run.downs > 0);
    }
}

static void a_callback_of_a_job_whose_wait_was_lost_may_ask_for_anything(void **state)
{
    (void)state;
    lose_all(&urls[URLS - 1], "WAIT", "?this is no reply\n", 0);
    assert_true(run.downs > 0);
}

static void a_callback_of_a_refused_call_may_ask_for_anything(void **state)
{
    (void)state;
    static const char *const errors[] = {
        "-NOSCRIPT no matching script\n", "-READONLY You can't write\n",
        "-BUSY Redis is busy\n",          "-OOM command not allowed\n",
        "-MASTERDOWN Link is down\n",     "-TRYAGAIN Multiple keys\n"};
    for (unsigned i = 0; i < URLS; i++)
        for (unsigned e = 0; e < sizeof(errors) / sizeof(errors[0]); e++)
            lose_all(&urls[i], "EVALSHA", errors[e], 3);
}

/* The callback is called later, never before the call returns. */
static void a_call_while_the_server_is_away_is_answered_later(void **state)
{
    (void)state;
    for (unsigned i = 0; i < URLS; i++) {
        struct sentinel *sentinel;
        begin(&urls[i], &sentinel);
        fake.word = "PING"; /* of the greeting */
        fake.word_answer = "-LOADING not yet\n";
        run.bad = UINT32_MAX;
        fake_hang_up();
        assert_true(reached(&run.downs, 1));
        run.again = true;
        ask_all();
        assert_int_equal(run.told_from_within, 0);
        fake.word = NULL;
        assert_true(reached(&run.told, ASKED));
        assert_int_equal(run.told_from_within, 0);
        end(sentinel);
    }
}

/* Redis answers the call with the error once, and then well. */
static void refuse_once(struct kind *kind, const char *error)
{
    fake.word = "EVALSHA";
    fake.word_answer = error;
    run.bad = 1;
    run.told = 0;
    kind->ask(kind);
    assert_true(reached(&run.told, 1));
    assert_null(fake.word);
}

static const char *const refusals[] = {"-BUSY Redis is busy\n", "-MISCONF no disk\n",
                                       "-NOREPLICAS Not enough\n", "-OOM no memory\n"};
enum { REFUSALS = sizeof(refusals) / sizeof(refusals[0]) };

static void
an_error_of_a_call_other_than_enqueue_and_cancel_pauses_no_source(void **state)
{
    (void)state;
    struct sentinel *sentinel;
    begin(&urls[0], &sentinel);
    for (unsigned i = 0; i < KINDS; i++)
        for (unsigned e = 0; e < REFUSALS && !kinds[i].no_script; e++) {
            if (kinds[i].of_producers)
                continue;
            refuse_once(&kinds[i], refusals[e]);
            assert_true(store_takes_jobs(run.store));
        }
    end(sentinel);
}

/* Acks are pending all the time, and must make no difference. */
static void an_error_of_a_cancel_pauses_sources_until_none_is_pending(void **state)
{
    (void)state;
    struct sentinel *sentinel;
    struct kind cancel = {.ask = ask_cancel}, ack = {.ask = ask_ack};
    begin(&urls[0], &sentinel);
    refuse_once(&cancel, "-MISCONF no disk\n");
    int64_t end_ms = loop_mono_ms() + 5000;
    unsigned held = 0;
    while (!store_takes_jobs(run.store) && loop_mono_ms() < end_ms) {
        for (unsigned i = 0; i < 200; i++)
            ask_ack(&ack);
        held++;
        timer_set(run.limit, 1);
        loop_run();
    }
    assert_true(held > 0);
    assert_true(store_takes_jobs(run.store));
    end(sentinel);
}

static void a_new_connection_resumes_sources_that_an_error_paused(void **state)
{
    (void)state;
    struct kind enqueue = {.ask = ask_enqueue};
    for (unsigned i = 0; i < URLS; i++) {
        struct sentinel *sentinel;
        begin(&urls[i], &sentinel);
        refuse_once(&enqueue, "-READONLY You can't write\n");
        assert_true(run.downs > 0);
        assert_true(run.takes_jobs); /* as soon as it was up again */
        end(sentinel);
    }
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

UNIT(lost)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callback_of_a_lost_call_may_ask_for_anything),
        cmocka_unit_test(a_callback_of_a_job_whose_wait_was_lost_may_ask_for_anything),
        cmocka_unit_test(a_callback_of_a_refused_call_may_ask_for_anything),
        cmocka_unit_test(a_call_while_the_server_is_away_is_answered_later),
        cmocka_unit_test(
            an_error_of_a_call_other_than_enqueue_and_cancel_pauses_no_source),
        cmocka_unit_test(an_error_of_a_cancel_pauses_sources_until_none_is_pending),
        cmocka_unit_test(a_new_connection_resumes_sources_that_an_error_paused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
