/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_pace.c - when the breaker of a target opens, probes and closes; and how jobs for
 * the target wait meanwhile.
 */
#include "bridge/engine/bridge.h"
#include "bridge/engine/breaker.h"
#include "bridge/engine/gate.h"
#include "bridge/engine/pace_internal.h"
#include "bridge/job/tmpl.h"
#include "tests/unit.h"

#include <limits.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const struct breaker_conf half = {
    .share = 0.5, .window_ms = 10000, .least = 4, .rest_ms = 30000};
enum { T = 1234567000 }; /* any time */

/* o: delivered, x: failed; one each step_ms. Returns the last event. */
static enum breaker_change feed(struct breaker *b, const struct breaker_conf *conf,
                                const char *outcomes, int64_t from_ms, int64_t step_ms)
{
    enum breaker_change news = BREAKER_UNCHANGED;
    for (const char *o = outcomes; *o; o++, from_ms += step_ms) {
        assert_int_equal(news, BREAKER_UNCHANGED);
        news = breaker_outcome(b, conf, *o == 'x', from_ms);
    }
    return news;
}

static void a_breaker_opens_only_at_its_share_of_failures(void **state)
{
    (void)state;
    static const struct {
        const char *outcomes;
        double share;
        int64_t least;
        bool opens;
    } rows[] = {
        {"xxx", 0.5, 4, false},        {"xxxx", 0.5, 4, true},
        {"ooxx", 0.5, 4, true},        {"ooox", 0.5, 4, false},
        {"oooxoxx", 0.5, 4, false},    {"oooxoxxx", 0.5, 4, true},
        {"xxo", 0.5, 3, false}, /* a success opens nothing, */
        {"xxox", 0.5, 3, true}, /* but the next failure does */
        {"x", 0.5, 1, true},           {"xxxxxxxxxo", 1, 10, false},
        {"xxxxxxxxxx", 1, 10, true},   {"oooooooox", 0.1, 10, false},
        {"ooooooooox", 0.1, 10, true}, {"xxxxxxxxxxxxxxxx", 0, 1, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct breaker b = {0};
        struct breaker_conf conf = half;
        conf.share = rows[i].share;
        conf.least = rows[i].least;
        enum breaker_change news = feed(&b, &conf, rows[i].outcomes, T, 1);
        assert_int_equal(news, rows[i].opens ? BREAKER_HAS_OPENED : BREAKER_UNCHANGED);
        assert_int_equal(breaker_wait_ms(&b, T) > 0, rows[i].opens);
    }
}

static void a_breaker_ignores_outcomes_older_than_the_window(void **state)
{
    (void)state;
    struct breaker b = {0};
    assert_int_equal(feed(&b, &half, "xxx", T, 0), BREAKER_UNCHANGED);
    assert_int_equal(breaker_sum(&b, &half, T + 8999).failed, 3);
    assert_int_equal(breaker_sum(&b, &half, T + 10000).failed, 0);
    assert_int_equal(feed(&b, &half, "xxx", T + 10000, 0), BREAKER_UNCHANGED);
    assert_int_equal(breaker_sum(&b, &half, T + 10000).all, 3);
    /* Slice by slice: one failure in three seconds never makes four in ten. */
    struct breaker slow = {0};
    assert_int_equal(feed(&slow, &half, "xxxxxxxxxxxx", T, 3400), BREAKER_UNCHANGED);
    assert_int_equal(feed(&slow, &half, "x", T + 12 * 3400 - 2400, 0),
                     BREAKER_HAS_OPENED);
}

static void after_its_wait_a_breaker_sends_a_single_probe(void **state)
{
    (void)state;
    struct breaker b = {0};
    assert_int_equal(breaker_room(&b, 1000), UINT32_MAX);
    assert_false(breaker_start(&b));
    assert_int_equal(feed(&b, &half, "xxxx", T, 0), BREAKER_HAS_OPENED);
    assert_int_equal(breaker_wait_ms(&b, T), 30000);
    assert_int_equal(breaker_wait_ms(&b, T + 29999), 1);
    assert_int_equal(breaker_wait_ms(&b, T + 30000), 0);
    assert_int_equal(breaker_room(&b, 1), 0); /* an earlier delivery is still in flight */
    assert_int_equal(breaker_room(&b, 0), 1);
    assert_true(breaker_start(&b));
    assert_int_equal(breaker_room(&b, 0), 0);
    assert_int_equal(breaker_wait_ms(&b, T + 30000), 0);
}

static void the_outcome_of_the_probe_closes_or_reopens_the_breaker(void **state)
{
    (void)state;
    struct breaker_conf conf = half;
    struct breaker b = {0};
    conf.rest_ms = 1000; /* the failures are still in the window afterwards */
    feed(&b, &conf, "xxxx", T, 0);
    assert_true(breaker_start(&b));
    assert_int_equal(breaker_outcome(&b, &conf, true, T + 1500), BREAKER_REOPENED);
    assert_int_equal(breaker_wait_ms(&b, T + 1500), 1000);
    assert_true(breaker_start(&b));
    assert_int_equal(breaker_outcome(&b, &conf, false, T + 2600), BREAKER_HAS_CLOSED);
    assert_int_equal(breaker_room(&b, 7), UINT32_MAX);
    assert_int_equal(breaker_sum(&b, &conf, T + 2600).all, 0);
    assert_int_equal(feed(&b, &conf, "xxx", T + 2600, 0), BREAKER_UNCHANGED);
    assert_int_equal(feed(&b, &conf, "x", T + 2600, 0), BREAKER_HAS_OPENED);
}

static void outcomes_of_deliveries_started_before_the_wait_are_ignored(void **state)
{
    (void)state;
    struct breaker b = {0};
    feed(&b, &half, "xxxx", T, 0);
    assert_int_equal(feed(&b, &half, "oxoxo", T + 1, 1), BREAKER_UNCHANGED);
    assert_int_equal(breaker_wait_ms(&b, T), 30000);
    assert_int_equal(b.state, BREAKER_OPEN);
}

static void an_unsent_probe_is_followed_by_another(void **state)
{
    (void)state;
    struct breaker b = {0};
    breaker_not_started(&b);
    assert_int_equal(b.state, BREAKER_CLOSED);
    feed(&b, &half, "xxxx", T, 0);
    assert_true(breaker_start(&b));
    breaker_not_started(&b);
    assert_int_equal(breaker_wait_ms(&b, T + 30000), 0);
    assert_int_equal(breaker_room(&b, 0), 1);
    assert_true(breaker_start(&b));
}

static void a_breaker_without_recent_outcomes_is_blank(void **state)
{
    (void)state;
    struct breaker b = {0};
    assert_true(breaker_is_unused(&b, &half, T));
    feed(&b, &half, "xx", T, 0);
    assert_false(breaker_is_unused(&b, &half, T + 5000));
    assert_true(breaker_is_unused(&b, &half, T + 10000));
    feed(&b, &half, "xxxx", T + 20000, 0);
    assert_false(breaker_is_unused(&b, &half, T + 90000));
    assert_true(breaker_is_unused(&b, &half, T + 90001));
    assert_true(breaker_start(&b));
    assert_false(breaker_is_unused(&b, &half, T + 1000000));
}

static void a_short_window_works_at_any_clock_value(void **state)
{
    (void)state;
    const struct breaker_conf tiny = {
        .share = 1, .window_ms = 5, .least = 2, .rest_ms = 1};
    struct breaker b = {0};
    assert_int_equal(feed(&b, &tiny, "x", 0, 0), BREAKER_UNCHANGED);
    assert_int_equal(breaker_sum(&b, &tiny, 0).all, 1);
    assert_int_equal(feed(&b, &tiny, "x", 1, 0), BREAKER_HAS_OPENED);
    assert_int_equal(breaker_sum(&b, &tiny, INT64_MAX / 2).all, 0);
}

/* ------------------------------------------------------- jobs that ask, without Redis */

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, make_world, end_world)
enum { CREDIT = 40 };

/* A route with only the fields that pace.c uses; its bridge claims nothing. */
static char route_name[] = "r", any_target[] = "*";
static struct {
    struct bridge bridge;
    struct sink_ops ops;
    struct sink sink;
    struct conf_route conf;
    struct sched sched;
    struct sched *scheds;
    struct route route;
} world;

static int make_world(void **state)
{
    (void)state;
    memset(&world, 0, sizeof(world));
    loop_init();
    world.sink.ops = &world.ops;
    world.sink.max_in_flight = CREDIT;
    world.conf = (struct conf_route){.name = route_name,
                                     .lease_ms = 60000,
                                     .breaker = 0.5,
                                     .breaker_window_ms = 10000,
                                     .breaker_least = 4,
                                     .breaker_rest_ms = 300};
    TAILQ_INIT(&world.bridge.routes);
    world.sched.route = &world.route;
    world.scheds = &world.sched;
    world.route = (struct route){.bridge = &world.bridge,
                                 .conf = &world.conf,
                                 .sink = &world.sink,
                                 .scheds = &world.scheds,
                                 .bucket_count = 1};
    TAILQ_INSERT_TAIL(&world.bridge.routes, &world.route, link);
    return 0;
}

static int end_world(void **state)
{
    (void)state;
    pace_free(world.route.pace);
    tmpl_free(world.route.target);
    loop_fini();
    return 0;
}

static struct pace *begin(const char *topic)
{
    struct err err;
    world.route.target = tmpl_compile(topic, &err);
    pace_change(&world.route);
    assert_non_null(world.route.pace);
    return world.route.pace;
}

static void stop_loop(void *arg)
{
    (void)arg;
    loop_stop();
}

static void pass(int64_t ms)
{
    struct timer *t = timer_new(stop_loop, NULL);
    timer_set(t, ms);
    loop_run();
    timer_del(t);
}

enum { JOBS = 64 };
static struct job_asking {
    bool answered;
    struct pace_answer got;
    unsigned order;  /* the position of its answer */
    int64_t back_ms; /* monotonic: when it must return */
} asked[JOBS];
static unsigned answers;

static void on_answer(void *arg, const struct pace_answer *answer)
{
    struct job_asking *job = arg;
    assert_false(job->answered);
    *job =
        (struct job_asking){true, *answer, answers++, loop_mono_ms() + answer->wait_ms};
}

static struct job_asking *ask(struct pace *p, const char *target, unsigned job)
{
    asked[job] = (struct job_asking){0};
    pace_ask(p, slice_of(target), false, on_answer, &asked[job]);
    return &asked[job];
}

static bool goes(struct pace *p, const char *target)
{
    return ask(p, target, 0)->answered && asked[0].got.go;
}

static void report(struct pace *p, const char *target, enum outcome outcome, unsigned n)
{
    for (; n > 0; n--)
        pace_done(p, target_find(p, slice_of(target)), slice_of(target), outcome, false);
}

static void let_fail(struct pace *p, const char *target, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        assert_true(goes(p, target));
    report(p, target, TRY_AGAIN, n);
}

static void a_target_gets_no_more_at_a_time_than_it_may(void **state)
{
    (void)state;
    world.conf.target_in_flight = 2;
    struct pace *p = begin("{topic}");
    assert_true(goes(p, "a") && goes(p, "a"));
    assert_false(ask(p, "a", 1)->answered);
    assert_true(goes(p, "b"));
    report(p, "a", DELIVERED, 1);
    pass(5);
    assert_true(asked[1].answered && asked[1].got.go);
}

static void jobs_that_wait_for_a_slot_are_delivered_in_order(void **state)
{
    (void)state;
    world.conf.target_in_flight = 1;
    struct pace *p = begin("{topic}");
    assert_true(goes(p, "a"));
    for (unsigned i = 1; i <= 5; i++)
        assert_false(ask(p, "a", i)->answered);
    for (unsigned i = 1; i <= 5; i++) {
        report(p, "a", DELIVERED, 1);
        assert_false(ask(p, "a", 5 + i)->answered); /* no other job gets in before */
        pass(2);
        assert_true(asked[i].answered && asked[i].got.go);
        assert_true(i == 1 || asked[i].order > asked[i - 1].order);
    }
}

static void jobs_that_wait_too_long_are_put_back_each_with_its_own_due_time(void **state)
{
    (void)state;
    world.conf.target_in_flight = 1;
    struct pace *p = begin("{topic}");
    assert_true(goes(p, "a"));
    for (unsigned i = 1; i <= 20; i++)
        ask(p, "a", i);
    for (unsigned i = 1; i <= 20; i++) /* a quarter of the sink's credit waits */
        assert_int_equal(asked[i].answered, i > CREDIT / 4);
    pass(600);
    for (unsigned i = 1; i <= 20; i++) {
        assert_true(asked[i].answered && !asked[i].got.go && !asked[i].got.slot);
        assert_within(asked[i].got.wait_ms, 50, 2000);
    }
    /* At least A ms apart, except for the time that the answers need. */
    assert_true(asked[10].back_ms - asked[1].back_ms >= 9 - 2);
    assert_true(asked[20].back_ms - asked[11].back_ms >= 9 - 2);
}

/* Return the minimum of a pause of ms that remains after the time since started_ms, with
 * 10 ms of tolerance. */
static int64_t least_left_ms(int64_t ms, int64_t started_ms)
{
    int64_t left_ms = ms - 10 - (loop_mono_ms() - started_ms);
    return left_ms > 0 ? left_ms : 0;
}

static void a_failing_target_is_paused_and_other_targets_are_not(void **state)
{
    (void)state;
    struct pace *p = begin("{topic}");
    assert_true(goes(p, "b"));
    int64_t started_ms = loop_mono_ms();
    let_fail(p, "a", 4);
    assert_false(goes(p, "a"));
    assert_true(asked[0].answered);
    assert_within(asked[0].got.wait_ms, least_left_ms(300, started_ms), 300);
    assert_true(goes(p, "b"));
}

static void a_single_probe_is_sent_and_its_success_closes_the_breaker(void **state)
{
    (void)state;
    struct pace *p = begin("{topic}");
    let_fail(p, "a", 4);
    pass(310);
    assert_true(goes(p, "a"));
    assert_false(ask(p, "a", 1)->answered);
    report(p, "a", TRY_AGAIN, 1); /* it opens again, and waiting jobs are put back */
    pass(2);
    assert_true(asked[1].answered && !asked[1].got.go);
    pass(310);
    assert_true(goes(p, "a"));
    assert_false(ask(p, "a", 1)->answered);
    assert_false(ask(p, "a", 2)->answered);
    report(p, "a", DELIVERED, 1);
    pass(2);
    assert_true(asked[1].got.go && asked[2].got.go);
    assert_true(goes(p, "a"));
}

static void jobs_of_an_open_target_return_one_by_one_after_the_probe(void **state)
{
    (void)state;
    struct pace *p = begin("{topic}");
    int64_t started_ms = loop_mono_ms();
    let_fail(p, "a", 4);
    int64_t first_ms = ask(p, "a", 0)->got.wait_ms;
    assert_within(first_ms, least_left_ms(300, started_ms), 300);
    for (unsigned i = 1; i < JOBS; i++)
        assert_within(ask(p, "a", i)->got.wait_ms, first_ms + 190 + i,
                      first_ms + 200 + i);
}

static void a_rejection_is_no_failure(void **state)
{
    (void)state;
    struct pace *p = begin("{topic}");
    for (int i = 0; i < 20; i++) {
        assert_true(goes(p, "a"));
        report(p, "a", REJECTED, 1);
    }
}

static void a_route_with_one_target_claims_nothing_while_it_is_paused(void **state)
{
    (void)state;
    world.conf.target_in_flight = 5;
    struct pace *p = begin("a");
    assert_int_equal(pace_rest_us(p), 0);
    assert_int_equal(pace_room(p), UINT_MAX); /* nothing is known yet */
    assert_true(goes(p, "a"));
    assert_int_equal(pace_room(p), 4);
    world.route.reserved = 3;
    assert_int_equal(pace_room(p), 1);
    world.route.reserved = 0;
    report(p, "a", TRY_AGAIN, 1);
    int64_t started_ms = loop_mono_ms();
    let_fail(p, "a", 3);
    if (loop_mono_ms() % 60000 > 1200) /* not in the moment of the minute when it looks */
        assert_within(pace_rest_us(p), least_left_ms(290, started_ms) * 1000, 300000);
    pass(310);
    assert_int_equal(pace_rest_us(p), 0);
    assert_int_equal(pace_room(p), 1);
    assert_true(goes(p, "a"));
    assert_int_equal(pace_room(p), 0);
    assert_true(pace_rest_us(p) > 0);
    report(p, "a", DELIVERED, 1);
    assert_int_equal(pace_rest_us(p), 0);
    assert_int_equal(pace_room(p), 5);
}

static void a_route_whose_jobs_name_their_targets_is_never_paused(void **state)
{
    (void)state;
    static char *any[] = {any_target};
    struct pace *p = begin("{topic}");
    let_fail(p, "a", 4);
    assert_int_equal(pace_rest_us(p), 0);
    end_world(state);
    make_world(state);
    world.conf.to_allow = (struct opt_list){any, 1};
    p = begin("a");
    let_fail(p, "a", 4);
    assert_int_equal(pace_rest_us(p), 0);
    end_world(state);
    make_world(state);
    p = begin("a"); /* a job from before a change of the configuration */
    let_fail(p, "a", 4);
    assert_true(goes(p, "b"));
    assert_int_equal(pace_rest_us(p), 0);
}

static void count_target(void *arg, const struct pace_target *target)
{
    (void)target;
    (*(unsigned *)arg)++;
}

static void memory_is_bounded_and_messages_in_flight_are_kept(void **state)
{
    (void)state;
    struct pace *p = begin("{topic}");
    char name[16];
    unsigned known = 0;
    assert_true(goes(p, "first"));
    for (int i = 0; i < 12000; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        assert_true(goes(p, name));
        report(p, name, DELIVERED, 1);
    }
    pace_list(p, count_target, &known);
    assert_int_equal(known, 10000);
    report(p, "first", DELIVERED, 1); /* must() fails if it was forgotten */
}

static void copy_target(void *arg, const struct pace_target *target)
{
    struct pace_target *all = arg;
    all[target->name.p[0] - 'a'] = *target;
}

static void states_are_listed_and_counted(void **state)
{
    (void)state;
    struct pace *p = begin("{topic}");
    struct pace_target all[3];
    struct buf text = {0};
    let_fail(p, "b", 4);
    let_fail(p, "c", 4);
    assert_true(goes(p, "a") && goes(p, "a") && goes(p, "a"));
    report(p, "a", DELIVERED, 2);
    pass(310);
    assert_true(goes(p, "c"));
    pace_list(p, copy_target, all);
    assert_string_equal(all[0].state, "flowing");
    assert_int_equal(all[0].in_flight, 1);
    assert_int_equal(all[0].delivered, 2);
    assert_string_equal(all[1].state, "resting");
    assert_int_equal(all[1].failed, 4);
    assert_string_equal(all[2].state, "probing");
    pace_print(&world.bridge, &text);
    assert_non_null(
        strstr(buf_str(&text), "tarry_targets{route=\"r\",state=\"resting\"} 1\n"));
    assert_non_null(
        strstr(buf_str(&text), "tarry_targets{route=\"r\",state=\"probing\"} 1\n"));
    assert_non_null(
        strstr(buf_str(&text), "tarry_targets{route=\"r\",state=\"stopped\"} 0\n"));
    buf_free(&text);
}

static void a_route_without_rate_options_has_no_rate_limit(void **state)
{
    make_world(state);
    world.conf.breaker = 0;
    pace_change(&world.route);
    assert_null(world.route.pace);
    end_world(state);
}

/* Ticks until all jobs of resumed targets were looked for. Returns the ms. */
static int64_t until_released(struct pace *p)
{
    int64_t begun_ms = loop_mono_ms();
    while (!TAILQ_EMPTY(&p->releases) && loop_mono_ms() < begun_ms + 20000) {
        release_tick(p);
        pass(10);
    }
    assert_true(TAILQ_EMPTY(&p->releases));
    return loop_mono_ms() - begun_ms;
}

/* No Redis: the lists of jobs are empty. A release makes two passes, one a second. */
static void resuming_a_target_again_restarts_its_release(void **state)
{
    (void)state;
    static const struct bucket_events events;
    static const struct bucket_rules rules;
    struct store_conf conf = {
        .redis = {.connect_timeout_ms = 10}, .prefix = "tarry", .instance = "unit"};
    assert_int_equal(redis_url_parse("redis://127.0.0.1:1", &conf.redis.url, NULL), 0);
    world.bridge.store = store_new(&conf, &(struct store_events){0}, NULL);
    world.sched.bucket = bucket_new(world.bridge.store, "r/0", &rules, &events, NULL);
    struct pace *p = begin("{topic}");
    release_start(p, SLICE_LIT("a"));
    const void *only = p->releases.tqh_last;
    pass(0);
    for (unsigned i = 0; i < 10; i++)
        release_start(p, SLICE_LIT("a"));
    assert_ptr_equal(p->releases.tqh_last, only);
    assert_true(until_released(p) >= 2900); /* three passes */
    store_free(world.bridge.store);
    pass(0);
    redis_url_free(&conf.redis.url);
}

/* Jobs arrive in bursts, the clock jumps; each job leaves as soon as the gate allows
 * it. */
static void a_gate_never_exceeds_rate_and_burst(void **state)
{
    (void)state;
    static const struct gate_rule rules[] = {{10, 1}, {10, 10}, {0.5, 1}, {1000, 7}};
    for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++) {
        struct gate g = {.rule = rules[r]};
        const int64_t step_us = (int64_t)(1e6 / rules[r].per_s);
        int64_t left_us[500], now_us = INT64_C(1) << 40;
        for (unsigned n = 0; n < 500; n++) {
            if (n % 37 == 0)
                now_us += 20 * step_us; /* idle, or without a processor */
            now_us += gate_wait_us(&g, now_us);
            assert_true(gate_take(&g, now_us));
            left_us[n] = now_us;
            assert_true(gate_is_used(&g, now_us));
        }
        for (unsigned i = 0; i < 500; i++)
            for (unsigned j = i; j < 500; j++)
                assert_true(j - i + 1 <=
                            (double)(left_us[j] - left_us[i]) / 1e6 * rules[r].per_s +
                                (double)rules[r].burst + 0.01);
    }
}

static void a_gate_does_not_delay_deliveries_within_the_rate(void **state)
{
    (void)state;
    struct gate g = {.rule = {100, 5}};
    for (unsigned n = 0; n < 1000; n++)
        assert_true(gate_take(&g, 1000000 + n / 5 * 50000));
    assert_false(gate_take(&g, 1000000 + 199 * 50000));
    g.rule.per_s = 100000; /* raised: the use at the old rate does not count long */
    assert_true(gate_wait_us(&g, 1000000 + 199 * 50000) <= 10);
    g.rule.per_s = 0;
    for (unsigned n = 0; n < 100; n++)
        assert_true(gate_take(&g, 1));
}

UNIT(pace)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gate_never_exceeds_rate_and_burst),
        cmocka_unit_test(a_gate_does_not_delay_deliveries_within_the_rate),
        cmocka_unit_test(a_breaker_opens_only_at_its_share_of_failures),
        cmocka_unit_test(a_breaker_ignores_outcomes_older_than_the_window),
        cmocka_unit_test(after_its_wait_a_breaker_sends_a_single_probe),
        cmocka_unit_test(the_outcome_of_the_probe_closes_or_reopens_the_breaker),
        cmocka_unit_test(outcomes_of_deliveries_started_before_the_wait_are_ignored),
        cmocka_unit_test(an_unsent_probe_is_followed_by_another),
        cmocka_unit_test(a_breaker_without_recent_outcomes_is_blank),
        cmocka_unit_test(a_short_window_works_at_any_clock_value),
        IN_A_WORLD(a_target_gets_no_more_at_a_time_than_it_may),
        IN_A_WORLD(jobs_that_wait_for_a_slot_are_delivered_in_order),
        IN_A_WORLD(jobs_that_wait_too_long_are_put_back_each_with_its_own_due_time),
        IN_A_WORLD(a_failing_target_is_paused_and_other_targets_are_not),
        IN_A_WORLD(a_single_probe_is_sent_and_its_success_closes_the_breaker),
        IN_A_WORLD(jobs_of_an_open_target_return_one_by_one_after_the_probe),
        IN_A_WORLD(a_rejection_is_no_failure),
        IN_A_WORLD(a_route_with_one_target_claims_nothing_while_it_is_paused),
        IN_A_WORLD(a_route_whose_jobs_name_their_targets_is_never_paused),
        IN_A_WORLD(memory_is_bounded_and_messages_in_flight_are_kept),
        IN_A_WORLD(states_are_listed_and_counted),
        IN_A_WORLD(resuming_a_target_again_restarts_its_release),
        cmocka_unit_test(a_route_without_rate_options_has_no_rate_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
