/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_sched.c - what a bucket does next; how batches are paced; Redis' clock seen from
 * here; when sources rest; what is kept of failed attempts.
 */
#include "bridge/flow.h"
#include "bridge/job/tries.h"
#include "bridge/redis/clock.h"
#include "bridge/sched.h"
#include "bridge/store/store_lane.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static void a_bucket_does_what_its_view_says(void **state)
{
    (void)state;
    static const struct {
        struct sched_view view;
        enum sched_next next;
        int64_t wait_us;
    } rows[] = {
        /* due in, gap, credit, of, more, paced, unsure */
        {{-1, 0, 10, 10, false, 0, false}, SCHED_REST, -1},
        {{-1, 500, 0, 10, true, 0, false}, SCHED_REST, -1},
        {{1, 0, 10, 10, false, 0, false}, SCHED_SLEEP, 1},
        {{1500000, 0, 10, 10, false, 0, false}, SCHED_SLEEP, 1500000},
        /* left to the tick */
        {{1500001, 0, 10, 10, false, 0, false}, SCHED_REST, 1500001},
        {{0, 0, 0, 10, false, 0, false}, SCHED_WAIT_CREDIT, 0},
        {{0, 800, 0, 10, true, 0, false}, SCHED_WAIT_CREDIT, 0},
        {{0, 0, 1, 10, false, 0, false}, SCHED_CLAIM, 0},
        {{0, 800, 10, 10, false, 0, false}, SCHED_SLEEP, 800}, /* waits for company */
        {{0, 800, 10, 10, true, 0, false}, SCHED_CLAIM, 0},    /* a backlog does not */
        /* little credit: wait for more */
        {{0, 800, 4, 10, true, 0, false}, SCHED_SLEEP, 800},
        {{0, 800, 5, 10, true, 0, false}, SCHED_CLAIM, 0},
        {{0, 800, SCHED_WORTH, 10000, true, 0, false}, SCHED_CLAIM, 0},
        /* the rate, or the target rests */
        {{0, 0, 10, 10, true, 700, false}, SCHED_SLEEP, 700},
        {{0, 900, 10, 10, true, 700, false}, SCHED_SLEEP, 700},
        {{0, 0, 0, 10, true, 700, false}, SCHED_WAIT_CREDIT, 0},
        {{400, 0, 10, 10, true, 700, false}, SCHED_SLEEP, 400},
        /* The head may be gone: Redis is asked, but only where a claim could follow. */
        {{0, 0, 1, 10, false, 0, true}, SCHED_LOOK, 0},
        {{0, 800, 10, 10, true, 0, true}, SCHED_LOOK, 0},
        {{0, 0, 0, 10, false, 0, true}, SCHED_WAIT_CREDIT, 0},
        {{0, 0, 10, 10, true, 700, true}, SCHED_SLEEP, 700},
        {{400, 0, 10, 10, true, 0, true}, SCHED_SLEEP, 400},
        {{-1, 0, 10, 10, true, 0, true}, SCHED_REST, -1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t wait_us;
        assert_int_equal(sched_next(&rows[i].view, &wait_us), rows[i].next);
        assert_int_equal(wait_us, rows[i].wait_us);
    }
}

enum { FULL = 500 };

static const struct pacer_rule rule = {.step_us = 1000, .max_us = 6000};

/* The gap after jobs have come at that rate for a while, each batch as soon as it may. */
static int64_t gap_at(int64_t per_s)
{
    struct pacer p = {0};
    int64_t now_us = 1000000, taken = per_s;
    for (int i = 0; i < 2000; i++) {
        int64_t next_us = (taken + 1) * 1000000 / per_s + 1; /* of the first not taken */
        int64_t free_us = now_us + pacer_wait_us(&p, now_us);
        now_us = free_us > next_us ? free_us : next_us;
        int64_t come = now_us * per_s / 1000000;
        pacer_sent(&p, &rule, (unsigned)(come - taken), now_us);
        taken = come;
    }
    return p.gap_us;
}

static void a_slow_stream_of_jobs_hardly_waits(void **state)
{
    (void)state;
    assert_int_equal(gap_at(250), rule.step_us);
    assert_int_equal(gap_at(900), rule.step_us);
}

static void a_steady_load_gathers_as_long_as_it_may(void **state)
{
    (void)state;
    assert_int_equal(gap_at(3000), rule.max_us);
    assert_int_equal(gap_at(5000), rule.max_us);
}

static void a_fast_stream_waits_shorter_since_batches_fill_sooner(void **state)
{
    (void)state;
    assert_in_range(gap_at(20000), 2700, 3300);
    assert_in_range(gap_at(50000), 1050, 1350);
}

static void after_a_batch_of_none_nothing_waits(void **state)
{
    (void)state;
    struct pacer p = {0};
    pacer_sent(&p, &rule, 5, 1000000);
    assert_int_equal(pacer_wait_us(&p, 1002000), 3000);
    pacer_sent(&p, &rule, 0, 1005000);
    assert_int_equal(pacer_wait_us(&p, 1005000), 0);
}

static struct lane lane_of(unsigned queued, unsigned awaited, unsigned flying)
{
    return (struct lane){.queued = queued,
                         .awaited = awaited,
                         .flying = flying,
                         .pacer = {.last_us = 1000000, .gap_us = 2000}};
}

static void a_change_that_comes_alone_leaves_at_once(void **state)
{
    (void)state;
    struct lane lane = lane_of(1, 1, 0);
    assert_int_equal(lane_wait_us(&lane, FULL, 1000000), 0);
    lane = lane_of(1, 0, 0);
    assert_int_equal(lane_wait_us(&lane, FULL, 1002000), 0);
}

static void what_nobody_awaits_is_paced(void **state)
{
    (void)state;
    struct lane lane = lane_of(FULL - 1, 0, 0);
    assert_int_equal(lane_wait_us(&lane, FULL, 1000500), 1500);
    lane.awaited = 1;
    assert_int_equal(lane_wait_us(&lane, FULL, 1000500), 0);
}

static void while_two_batches_are_on_their_way_the_next_one_gathers(void **state)
{
    (void)state;
    struct lane lane = lane_of(FULL - 1, FULL - 1, LANE_WINDOW - 1);
    assert_int_equal(lane_wait_us(&lane, FULL, 1000000), 0);
    lane.flying = LANE_WINDOW;
    assert_int_equal(lane_wait_us(&lane, FULL, 9000000), -1);
}

static void a_full_batch_does_not_wait(void **state)
{
    (void)state;
    struct lane lane = lane_of(FULL, 0, LANE_WINDOW);
    assert_int_equal(lane_wait_us(&lane, FULL, 1000000), 0);
}

static void redis_time_is_never_taken_for_earlier_than_it_is(void **state)
{
    (void)state;
    struct clock c = {0};
    assert_false(clock_is_set(&c));
    /* true offset 5,000,000 us; replies take a while */
    clock_sample(&c, 1000, 1400, 1100 + 5000000);
    clock_sample(&c, 2000, 2100, 2050 + 5000000);
    assert_true(clock_is_set(&c));
    /* at 3000 of ours it is 5,003,000 of theirs; the upper bound is 5,003,050 */
    assert_int_equal(clock_now_ms(&c, 3000), 5004);
    /* a due time is waited for by the lower bound: 5,002,950 */
    assert_int_equal(clock_until_us(&c, 3000, 5004), 5004000 - 5002950);
    assert_int_equal(clock_until_us(&c, 3000, 5000), 0);
}

static void a_clock_that_jumps_is_believed_at_once(void **state)
{
    (void)state;
    struct clock c = {0};
    clock_sample(&c, 1000, 1100, 1050 + 5000000);
    clock_sample(&c, 2000, 2100, 2050 + 9000000);
    assert_int_equal(clock_now_ms(&c, 3000), 9004);
    clock_sample(&c, 4000, 4100, 4050 + 1000000);
    assert_int_equal(clock_now_ms(&c, 5000), 1006);
}

static void a_far_due_time_does_not_overflow(void **state)
{
    (void)state;
    struct clock c = {0};
    clock_sample(&c, 1000, 1100, 1050);
    assert_true(clock_until_us(&c, 3000, INT64_MAX) > SCHED_SLEEP_MAX_US);
}

static void sources_rest_at_a_mark_and_go_on_below_half_of_it(void **state)
{
    (void)state;
    struct flow f = {.max_jobs = 4, .max_bytes = 1000};
    assert_false(flow_wants_pause(&f, true));
    assert_true(flow_wants_pause(&f, false));
    for (int i = 0; i < 4; i++)
        flow_took(&f, 10);
    assert_true(flow_wants_pause(&f, true));
    f.paused = true;
    flow_gave(&f, 10);
    flow_gave(&f, 10);
    assert_true(flow_wants_pause(&f, true));
    flow_gave(&f, 10);
    assert_false(flow_wants_pause(&f, true));
    f.paused = false;
    flow_took(&f, 990);
    assert_true(flow_wants_pause(&f, true));
    const struct flow narrow = {.max_jobs = 1, .max_bytes = 1000, .paused = true};
    assert_false(flow_wants_pause(&narrow, true)); /* half of one is not nothing */
}

static void attempts_survive_being_written_and_read(void **state)
{
    (void)state;
    struct tries t = {
        .attempts = 3, .dead_tries = 2, .first_ms = 1700000000000, .last_ms = 9};
    struct tries back;
    struct buf text = {0};
    tries_set_reason(&t, "rejected");
    tries_set_error(&t, "HTTP 418|tea\npot");
    tries_format(&t, &text);
    tries_parse(buf_slice(&text), &back);
    assert_int_equal(back.attempts, 3);
    assert_int_equal(back.dead_tries, 2);
    assert_int_equal(back.first_ms, 1700000000000);
    assert_string_equal(back.reason, "rejected");
    assert_string_equal(back.error, "HTTP 418|tea pot");
    buf_free(&text);
}

static void what_is_no_note_of_attempts_counts_as_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "3", "|||", "x|y|z", "\377\377"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct tries t;
        tries_parse(slice_of(texts[i]), &t);
        assert_int_equal(t.attempts, 0);
        assert_string_equal(t.reason, "");
    }
}

UNIT(sched)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_does_what_its_view_says),
        cmocka_unit_test(a_change_that_comes_alone_leaves_at_once),
        cmocka_unit_test(what_nobody_awaits_is_paced),
        cmocka_unit_test(a_slow_stream_of_jobs_hardly_waits),
        cmocka_unit_test(a_steady_load_gathers_as_long_as_it_may),
        cmocka_unit_test(a_fast_stream_waits_shorter_since_batches_fill_sooner),
        cmocka_unit_test(after_a_batch_of_none_nothing_waits),
        cmocka_unit_test(while_two_batches_are_on_their_way_the_next_one_gathers),
        cmocka_unit_test(a_full_batch_does_not_wait),
        cmocka_unit_test(redis_time_is_never_taken_for_earlier_than_it_is),
        cmocka_unit_test(a_clock_that_jumps_is_believed_at_once),
        cmocka_unit_test(a_far_due_time_does_not_overflow),
        cmocka_unit_test(sources_rest_at_a_mark_and_go_on_below_half_of_it),
        cmocka_unit_test(attempts_survive_being_written_and_read),
        cmocka_unit_test(what_is_no_note_of_attempts_counts_as_none),
    };
    alarm(30);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
