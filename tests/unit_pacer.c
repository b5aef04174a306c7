/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_pacer.c - how long changes wait for company.
 */
#include "bridge/store/pacer.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

UNIT(pacer)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_stream_of_jobs_hardly_waits),
        cmocka_unit_test(a_steady_load_gathers_as_long_as_it_may),
        cmocka_unit_test(a_fast_stream_waits_shorter_since_batches_fill_sooner),
        cmocka_unit_test(after_a_batch_of_none_nothing_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
