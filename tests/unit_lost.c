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
#include "bridge/redis/redis.h"
#include "bridge/store/batcher.h"
#include "tests/fake_redis.h"
#include "tests/store_calls.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct {
    struct store *store;
    struct timer *limit;
    unsigned bad;    /* remaining replies that are bad */
    unsigned inside; /* calls of the store that have not returned */
    bool again;      /* each callback makes all calls when it is first called */
    bool takes_jobs; /* when the store last came up */
    unsigned asked, answered, answered_within, ups, downs;
} run;

/* --------------------------------------------------------------- all of them at once */

/* Makes all calls when it is first called. */
enum { ASKED = STORE_CALLS + STORE_CALLS * STORE_CALLS };

static unsigned times_told[STORE_CALLS];

static void ask_all(void)
{
    for (unsigned i = 0; i < STORE_CALLS; i++) {
        run.inside++;
        store_call_rows[i].call(&times_told[i]);
        run.inside--;
        run.asked++;
    }
}

static void on_notified(void *arg)
{
    unsigned *times = arg;
    run.answered++;
    run.answered_within += run.inside > 0;
    if ((*times)++ == 0 && run.again)
        ask_all();
    loop_stop();
}

/* -------------------------------------------------------------------------- a store */

static void on_up(void *arg)
{
    (void)arg;
    run.ups++;
    run.takes_jobs = store_accepts_jobs(run.store);
    loop_stop();
}
static void on_down(void *arg, const char *why)
{
    (void)arg;
    (void)why;
    run.downs++;
    if (run.bad == 0)
        fake.match = NULL;
}
/* Called after each reply. */
static void on_asked(void)
{
    fake.commands = 0;
    if (fake.match && run.bad > 0 && --run.bad == 0)
        fake.match = NULL;
}
static void on_limit(void *arg)
{
    (void)arg;
    loop_stop();
}

/* Run until *n >= until. Returns false after 10 s. */
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
    unsigned replicas; /* replicas that must confirm; WAIT follows the call */
};

static void begin(const struct url *url, struct sentinel **sentinel)
{
    static const struct store_events events = {on_up, on_down, store_calls_on_name, NULL,
                                               NULL};
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
    store_calls_init(run.store);
    redis_url_free(&conf.redis.url);
    run.again = false;
    run.asked = run.answered = run.answered_within = run.ups = run.downs = 0;
    memset(times_told, 0, sizeof(times_told));
    assert_true(reached(&run.ups, 1));
}

static void end(struct sentinel *sentinel)
{
    store_free(run.store);
    sentinel_free(sentinel);
    fake_disconnect();
    timer_set(run.limit, 0);
    loop_run(); /* frees deferred objects */
}

static const struct url urls[] = {{"redis", "", 0},
                                  {"redis+sentinel", "/m", 0},
                                  {"redis+cluster", "", 0},
                                  {"redis", "", 1}};
enum { URLS = sizeof(urls) / sizeof(urls[0]) };

/* The next replies are bad, all with this text. Each callback makes all calls again when
 * it is first called. */
static void lose_all(const struct url *url, const char *word, const char *bad,
                     unsigned times)
{
    struct sentinel *sentinel;
    begin(url, &sentinel);
    fake.match = word;
    fake.match_reply = bad;
    run.bad = times;
    run.again = true;
    ask_all();
    assert_true(reached(&run.answered, ASKED));
    assert_int_equal(run.asked, ASKED);
    assert_int_equal(run.answered, ASKED);
    assert_int_equal(run.answered_within, 0);
    fake.match = NULL;
    end(sentinel);
}

/* ---------------------------------------------------------------------------- tests */

static void a_callback_of_a_lost_call_may_start_any_call(void **state)
{
    (void)state;
    for (unsigned i = 0; i < URLS; i++) {
        lose_all(&urls[i], "EVALSHA", "?this is no reply\n", 1);
        assert_true(run.downs > 0);
    }
}

static void a_callback_after_a_lost_wait_may_start_any_call(void **state)
{
    (void)state;
    lose_all(&urls[URLS - 1], "WAIT", "?this is no reply\n", 0);
    assert_true(run.downs > 0);
}

static void a_callback_of_a_rejected_call_may_start_any_call(void **state)
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

/* The callback runs later, never before the call returns. */
static void a_call_while_redis_is_unavailable_is_answered_later(void **state)
{
    (void)state;
    for (unsigned i = 0; i < URLS; i++) {
        struct sentinel *sentinel;
        begin(&urls[i], &sentinel);
        fake.match = "PING"; /* of the greeting */
        fake.match_reply = "-LOADING not yet\n";
        run.bad = UINT32_MAX;
        fake_disconnect();
        assert_true(reached(&run.downs, 1));
        run.again = true;
        ask_all();
        assert_int_equal(run.answered_within, 0);
        fake.match = NULL;
        assert_true(reached(&run.answered, ASKED));
        assert_int_equal(run.answered_within, 0);
        end(sentinel);
    }
}

/* Also the calls that the callbacks make meanwhile. */
static void a_store_that_is_freed_answers_all_calls_first(void **state)
{
    (void)state;
    for (unsigned i = 0; i < URLS; i++) {
        struct sentinel *sentinel;
        begin(&urls[i], &sentinel);
        fake.paused = true;
        run.again = true;
        ask_all();
        end(sentinel);
        fake.paused = false;
        assert_int_equal(run.asked, ASKED);
        assert_int_equal(run.answered, ASKED);
        assert_int_equal(run.answered_within, 0);
    }
}

/* Redis replies with the error once, and then normally. */
static void refuse_once(void (*ask)(void *arg), const char *error)
{
    unsigned times = 0;

    fake.match = "EVALSHA";
    fake.match_reply = error;
    run.bad = 1;
    run.answered = 0;
    ask(&times);
    assert_true(reached(&run.answered, 1));
    assert_null(fake.match);
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
    for (unsigned i = 0; i < STORE_CALLS; i++) {
        const struct store_call *call = &store_call_rows[i];
        for (unsigned e = 0; e < REFUSALS && !call->no_script && !call->of_producers;
             e++) {
            refuse_once(call->call, refusals[e]);
            assert_true(store_accepts_jobs(run.store));
        }
    }
    end(sentinel);
}

/* Acks are always pending, and must make no difference. */
static void an_error_of_a_cancel_pauses_sources_until_none_is_pending(void **state)
{
    (void)state;
    struct sentinel *sentinel;
    unsigned acked = 0;
    begin(&urls[0], &sentinel);
    refuse_once(store_call_cancel, "-MISCONF no disk\n");
    int64_t end_ms = loop_mono_ms() + 5000;
    unsigned held = 0;
    while (!store_accepts_jobs(run.store) && loop_mono_ms() < end_ms) {
        for (unsigned i = 0; i < 200; i++)
            store_call_ack(&acked);
        held++;
        timer_set(run.limit, 1);
        loop_run();
    }
    assert_true(held > 0);
    assert_true(store_accepts_jobs(run.store));
    end(sentinel);
}

static void a_new_connection_resumes_sources_that_an_error_paused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < URLS; i++) {
        struct sentinel *sentinel;
        begin(&urls[i], &sentinel);
        refuse_once(store_call_enqueue, "-READONLY You can't write\n");
        assert_true(run.downs > 0);
        assert_true(run.takes_jobs); /* as soon as it was up again */
        end(sentinel);
    }
}

/* --------------------------------------------------------------- the settings probe */

static const char *refusal; /* reply to INFO and CONFIG; NULL: none */

static bool reply_settings(const struct fake_command *c, struct buf *lines)
{
    bool config = slice_is(c->word[0], "CONFIG"), info = slice_is(c->word[0], "INFO");
    if ((config || info) && refusal)
        buf_add_str(lines, refusal);
    else if (config)
        buf_addf(lines, "*2\n$%.*s\n$yes\n", SLICE_ARG(c->word[2]));
    else if (info && slice_is(c->word[1], "memory"))
        buf_add_str(lines, "$used_memory:1000\n");
    return true;
}

/* As after a minute: the next probe reads all settings. */
static void probe_settings(void)
{
    struct node *node = run.store->nodes[0];
    int64_t end_ms = loop_mono_ms() + 5000;
    node->usage_probes = UINT16_MAX;
    node_tick(node);
    assert_int_equal(node->usage_probes, 0);
    while (node->probing && loop_mono_ms() < end_ms) {
        timer_set(run.limit, 1);
        loop_run();
    }
    assert_false(node->probing);
}

static void a_settings_probe_that_redis_rejects_keeps_what_is_known(void **state)
{
    (void)state;
    static const char *const errors[] = {"-NOPERM this user has no permissions\n",
                                         "-LOADING Redis is loading\n"};
    struct sentinel *sentinel;
    fake.on_command = reply_settings;
    begin(&urls[0], &sentinel);
    enum redis_persistence known = store_persistence(run.store);
    assert_int_equal(known, PERSISTS_EVERY_SECOND);
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        refusal = errors[i];
        probe_settings();
        assert_int_equal(store_persistence(run.store), known);
        assert_int_equal(run.store->nodes[0]->facts.used_bytes, 1000);
    }
    refusal = NULL;
    probe_settings();
    assert_int_equal(store_persistence(run.store), known);
    end(sentinel);
    fake.on_command = NULL;
}

static unsigned times_asked;

static bool reply_busy_once(const struct fake_command *c, struct buf *lines)
{
    bool asks = c->n > 2 && slice_is(c->word[2], "appendfsync");
    refusal = asks && times_asked++ == 0 ? "-BUSY Redis is busy\n" : NULL;
    return reply_settings(c, lines);
}

static void a_busy_redis_is_asked_for_its_settings_again(void **state)
{
    (void)state;
    struct sentinel *sentinel;
    times_asked = 0;
    fake.on_command = reply_busy_once;
    begin(&urls[0], &sentinel);
    assert_int_equal(times_asked, 2);
    assert_int_equal(store_persistence(run.store), PERSISTS_EVERY_SECOND);
    end(sentinel);
    fake.on_command = NULL;
}

static int setup(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR + 1);
    loop_init();
    fake_start(on_asked);
    store_calls.done = on_notified;
    run.limit = timer_new(on_limit, NULL);
    return 0;
}

UNIT(lost)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callback_of_a_lost_call_may_start_any_call),
        cmocka_unit_test(a_callback_after_a_lost_wait_may_start_any_call),
        cmocka_unit_test(a_callback_of_a_rejected_call_may_start_any_call),
        cmocka_unit_test(a_call_while_redis_is_unavailable_is_answered_later),
        cmocka_unit_test(a_store_that_is_freed_answers_all_calls_first),
        cmocka_unit_test(
            an_error_of_a_call_other_than_enqueue_and_cancel_pauses_no_source),
        cmocka_unit_test(an_error_of_a_cancel_pauses_sources_until_none_is_pending),
        cmocka_unit_test(a_settings_probe_that_redis_rejects_keeps_what_is_known),
        cmocka_unit_test(a_busy_redis_is_asked_for_its_settings_again),
        cmocka_unit_test(a_new_connection_resumes_sources_that_an_error_paused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
