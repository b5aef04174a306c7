/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts of the last one to two minutes, and nothing older. */
#include "bridge/base/histogram.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t count_of(const struct recent *r, const struct histogram *all)
{
    struct histogram h = recent_of(r, all);
    return histogram_count(&h);
}

static void a_recent_event_counts_for_one_to_two_periods(void **state)
{
    struct histogram all = {0};
    struct recent r = {0};
    int64_t now_ms = 10 * RECENT_MS; /* the host has been up for a while */
    (void)state;
    recent_tick(&r, &all, now_ms);
    histogram_add(&all, 0.5);
    histogram_add(&all, 3);
    assert_int_equal(count_of(&r, &all), 2);
    recent_tick(&r, &all, now_ms + RECENT_MS - 1);
    recent_tick(&r, &all, now_ms + RECENT_MS);
    histogram_add(&all, 0.5);
    assert_int_equal(count_of(&r, &all), 3);
    recent_tick(&r, &all, now_ms + RECENT_MS + 1);
    assert_int_equal(count_of(&r, &all), 3);
    recent_tick(&r, &all, now_ms + 2 * RECENT_MS);
    assert_int_equal(count_of(&r, &all), 1);
    recent_tick(&r, &all, now_ms + 3 * RECENT_MS);
    assert_int_equal(count_of(&r, &all), 0);
}

static void the_sum_is_of_the_same_time(void **state)
{
    struct histogram all = {0};
    struct recent r = {0};
    (void)state;
    histogram_add(&all, 100);
    recent_tick(&r, &all, 10 * RECENT_MS);
    recent_tick(&r, &all, 11 * RECENT_MS);
    histogram_add(&all, 0.25);
    struct histogram h = recent_of(&r, &all);
    assert_true(h.sum > 0.249 && h.sum < 0.251);
    assert_true(histogram_quantile(&h, 0.99) <= 0.5);
}

UNIT(recent)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recent_event_counts_for_one_to_two_periods),
        cmocka_unit_test(the_sum_is_of_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
