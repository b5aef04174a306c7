/* SPDX-License-Identifier: BSD-2-Clause */
/* Steps of a history, the gaps between them, and what the next process reads. */
#include "bridge/metrics/history.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW_MS INT64_C(1800000000000) /* the start of a minute and of ten minutes */
#define FIRST (NOW_MS / 60000)        /* the minute that ends first */

static uint32_t value(const struct history *h, int64_t step, enum history_field field)
{
    return history_value(h, HISTORY_HOUR, step, field);
}

static void end_minute(struct history *h, int64_t step, struct history_counts *counts)
{
    struct history_counts sum = {0};
    history_end_step(h, HISTORY_HOUR, step, counts, &sum);
}

static void a_step_contains_the_change_of_the_counters(void **state)
{
    struct history *h = history_new(NOW_MS);
    struct history_counts counts = {.in = 5, .out = 3, .failures = 1, .pending = 7};
    struct history_counts sum = {.in = 100};
    (void)state;
    histogram_add(&counts.lateness, 0.0015);
    history_end_step(h, HISTORY_HOUR, FIRST, &counts, &sum);
    assert_int_equal(value(h, FIRST, HISTORY_IN), 5);
    assert_int_equal(value(h, FIRST, HISTORY_OUT), 3);
    assert_int_equal(value(h, FIRST, HISTORY_FAILURES), 1);
    assert_int_equal(value(h, FIRST, HISTORY_PENDING), 7);
    assert_int_equal(value(h, FIRST, HISTORY_P99_MS), 2);
    counts.in += 2;
    counts.pending = -1;
    history_end_step(h, HISTORY_HOUR, FIRST + 1, &counts, &sum);
    assert_int_equal(value(h, FIRST + 1, HISTORY_IN), 2);
    assert_int_equal(value(h, FIRST + 1, HISTORY_OUT), 0);
    assert_int_equal(value(h, FIRST + 1, HISTORY_PENDING), HISTORY_UNKNOWN);
    assert_int_equal(value(h, FIRST + 1, HISTORY_P50_MS), HISTORY_UNKNOWN);
    assert_int_equal(value(h, FIRST, HISTORY_IN), 5);
    assert_int_equal(sum.in, 107);
    assert_int_equal(histogram_count(&sum.lateness), 1);
    free(h);
}

static void the_spans_count_separately(void **state)
{
    struct history *h = history_new(NOW_MS);
    struct history_counts counts = {.in = 5}, sum = {0};
    (void)state;
    history_end_step(h, HISTORY_HOUR, FIRST, &counts, &sum);
    counts.in = 12;
    history_end_step(h, HISTORY_DAY, FIRST / 10, &counts, &sum);
    assert_int_equal(history_value(h, HISTORY_DAY, FIRST / 10, HISTORY_IN), 12);
    assert_int_equal(history_step_at(HISTORY_DAY, NOW_MS + 10 * 60000), FIRST / 10);
    assert_int_equal(history_step_at(HISTORY_DAY, NOW_MS + 10 * 60000 - 1),
                     FIRST / 10 - 1);
    free(h);
}

static void steps_that_were_not_ended_are_unknown(void **state)
{
    struct history *h = history_new(NOW_MS);
    struct history_counts counts = {.in = 5};
    (void)state;
    assert_int_equal(value(h, FIRST - 1, HISTORY_IN), HISTORY_UNKNOWN);
    assert_int_equal(value(h, FIRST, HISTORY_IN), HISTORY_UNKNOWN);
    end_minute(h, FIRST, &counts);
    end_minute(h, FIRST + 3, &counts);
    assert_int_equal(value(h, FIRST, HISTORY_IN), 5);
    assert_int_equal(value(h, FIRST + 1, HISTORY_IN), HISTORY_UNKNOWN);
    assert_int_equal(value(h, FIRST + 2, HISTORY_IN), HISTORY_UNKNOWN);
    assert_int_equal(value(h, FIRST + 3, HISTORY_IN), 0);
    assert_int_equal(value(h, FIRST + 4, HISTORY_IN), HISTORY_UNKNOWN);
    end_minute(h, FIRST + 59, &counts);
    assert_int_equal(value(h, FIRST, HISTORY_IN), 5);
    end_minute(h, FIRST + 60, &counts);
    assert_int_equal(value(h, FIRST, HISTORY_IN), HISTORY_UNKNOWN);
    end_minute(h, FIRST + 1000000, &counts);
    for (int64_t i = 1; i < 60; i++)
        assert_int_equal(value(h, FIRST + 1000000 - i, HISTORY_IN), HISTORY_UNKNOWN);
    free(h);
}

static void a_clock_that_was_set_back_forgets_the_other_steps(void **state)
{
    struct history *h = history_new(NOW_MS);
    struct history_counts counts = {.in = 5};
    (void)state;
    for (int64_t i = 0; i < 60; i++)
        end_minute(h, FIRST + i, &counts);
    counts.in = 6;
    end_minute(h, FIRST + 10, &counts);
    assert_int_equal(value(h, FIRST + 10, HISTORY_IN), 1);
    for (int64_t i = 0; i < 60; i++)
        if (i != 10)
            assert_int_equal(value(h, FIRST + i, HISTORY_IN), HISTORY_UNKNOWN);
    free(h);
}

static void large_numbers_are_not_unknown(void **state)
{
    struct history *h = history_new(NOW_MS);
    struct history_counts counts = {.in = UINT64_MAX / 2, .pending = INT64_MAX};
    (void)state;
    end_minute(h, FIRST, &counts);
    assert_int_equal(value(h, FIRST, HISTORY_IN), HISTORY_UNKNOWN - 1);
    assert_int_equal(value(h, FIRST, HISTORY_PENDING), HISTORY_UNKNOWN - 1);
    free(h);
}

static void the_next_process_knows_the_steps_and_the_gap(void **state)
{
    struct history *h = history_new(NOW_MS), *next;
    struct history_counts counts = {.in = 5};
    struct buf saved = {0};
    (void)state;
    end_minute(h, FIRST, &counts);
    history_save(h, &saved);
    next = history_new(NOW_MS + 3 * 60000);
    assert_int_equal(history_load(next, buf_slice(&saved)), 0);
    counts.in = 1;
    end_minute(next, FIRST + 3, &counts);
    assert_int_equal(value(next, FIRST, HISTORY_IN), 5);
    assert_int_equal(value(next, FIRST + 1, HISTORY_IN), HISTORY_UNKNOWN);
    assert_int_equal(value(next, FIRST + 2, HISTORY_IN), HISTORY_UNKNOWN);
    assert_int_equal(value(next, FIRST + 3, HISTORY_IN), 1);
    free(next);
    next = history_new(NOW_MS - 60 * 60000); /* the clock was set back */
    assert_int_equal(history_load(next, buf_slice(&saved)), -1);
    saved.p[0] ^= 1;
    assert_int_equal(history_load(next, buf_slice(&saved)), -1);
    assert_int_equal(history_load(next, SLICE_LIT("")), -1);
    free(next);
    free(h);
    buf_free(&saved);
}

static void steps_that_ended_before_the_saved_ones_were_read_are_kept(void **state)
{
    struct history *h = history_new(NOW_MS), *next = history_new(NOW_MS + 60000);
    struct history_counts counts = {.in = 5};
    struct buf saved = {0};
    (void)state;
    end_minute(h, FIRST, &counts);
    history_save(h, &saved);
    counts.in = 7;
    end_minute(next, FIRST + 1, &counts);
    assert_int_equal(history_load(next, buf_slice(&saved)), 0);
    assert_int_equal(value(next, FIRST, HISTORY_IN), 5);
    assert_int_equal(value(next, FIRST + 1, HISTORY_IN), 7);
    assert_int_equal(value(next, FIRST - 1, HISTORY_IN), HISTORY_UNKNOWN);
    free(next);
    free(h);
    buf_free(&saved);
}

static void marks_are_sorted_limited_and_survive_the_process(void **state)
{
    struct marks m = {0}, next = {0};
    struct buf saved = {0};
    (void)state;
    for (int i = 0; i < MARKS_MAX; i++)
        marks_add(&m, 10 + i, MARK_RELOAD, NULL, SLICE_LIT("x"));
    marks_add(&m, 1000, MARK_PAUSE, "r", SLICE_LIT("two\nwords"));
    marks_add(&m, 900, MARK_RESUME, NULL, SLICE_LIT("y"));
    assert_int_equal(m.n, MARKS_MAX);
    assert_int_equal(m.list[0].at_ms, 12);
    assert_int_equal(m.list[MARKS_MAX - 2].at_ms, 900);
    assert_string_equal(m.list[MARKS_MAX - 1].text, "two words");
    marks_save(&m, &saved);
    marks_add(&next, 950, MARK_RESTART, NULL, SLICE_LIT("z"));
    buf_add_str(&saved, "nonsense\n-1 reload - a\n5 what - b\n\n7 reload -");
    marks_load(&next, buf_slice(&saved));
    assert_int_equal(next.n, MARKS_MAX);
    assert_int_equal(next.list[MARKS_MAX - 1].kind, MARK_PAUSE);
    assert_string_equal(next.list[MARKS_MAX - 1].route, "r");
    assert_string_equal(next.list[MARKS_MAX - 1].text, "two words");
    assert_int_equal(next.list[MARKS_MAX - 2].kind, MARK_RESTART);
    assert_null(next.list[MARKS_MAX - 3].route);
    marks_free(&m);
    marks_free(&next);
    buf_free(&saved);
}

/* Negative steps once caused a write outside of the history. */
static void a_history_may_begin_before_the_time_is_known(void **state)
{
    (void)state;
    struct history *h = history_new(0);
    struct history_counts counts = {.in = 5};
    for (int64_t step = -HISTORY_HOUR_STEPS; step < 0; step++)
        assert_true(value(h, step, HISTORY_IN) == HISTORY_UNKNOWN);
    end_minute(h, FIRST, &counts);
    assert_int_equal(value(h, FIRST, HISTORY_IN), 5);
    assert_true(value(h, FIRST - 1, HISTORY_IN) == HISTORY_UNKNOWN);
    free(h); /* aborts if its head was overwritten */
}

UNIT(history)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_contains_the_change_of_the_counters),
        cmocka_unit_test(the_spans_count_separately),
        cmocka_unit_test(steps_that_were_not_ended_are_unknown),
        cmocka_unit_test(a_clock_that_was_set_back_forgets_the_other_steps),
        cmocka_unit_test(large_numbers_are_not_unknown),
        cmocka_unit_test(the_next_process_knows_the_steps_and_the_gap),
        cmocka_unit_test(steps_that_ended_before_the_saved_ones_were_read_are_kept),
        cmocka_unit_test(a_history_may_begin_before_the_time_is_known),
        cmocka_unit_test(marks_are_sorted_limited_and_survive_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
