/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_pacer.c - how long changes and claims collect.
 */
#include "bridge/store/pacer.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Return how long changes collect after they have arrived at that rate for a while, each
 * batch sent as soon as allowed. */
static int64_t gap_at(int64_t per_s)
{
    struct pacer p = {0};
    int64_t now_us = 1000000, taken = per_s;
    for (int i = 0; i < 2000; i++) {
        int64_t next_us = (taken + 1) * 1000000 / per_s + 1; /* of the next one */
        int64_t free_us = now_us + pacer_wait_us(&p, now_us);
        now_us = free_us > next_us ? free_us : next_us;
        int64_t come = now_us * per_s / 1000000;
        unsigned count = (unsigned)(come - taken);
        pacer_sent(&p, count, pacer_changes_us(count), now_us);
        taken = come;
    }
    return p.gap_us;
}

static void a_slow_stream_of_jobs_hardly_waits(void **state)
{
    (void)state;
    assert_int_equal(gap_at(100), 3000);
    assert_int_equal(gap_at(300), 3000);
}

static void a_steady_load_gathers_as_long_as_it_may(void **state)
{
    (void)state;
    assert_int_equal(gap_at(1000), 16000);
    assert_int_equal(gap_at(3000), 16000);
}

static void a_fast_stream_waits_shorter_since_batches_fill_sooner(void **state)
{
    (void)state;
    assert_within(gap_at(20000), 2700, 3300);
    assert_within(gap_at(50000), 1050, 1350);
}

static void after_a_batch_of_none_nothing_waits(void **state)
{
    (void)state;
    struct pacer p = {0};
    pacer_sent(&p, 5, 5000, 1000000);
    assert_int_equal(pacer_wait_us(&p, 1002000), 3000);
    pacer_sent(&p, 0, 5000, 1005000);
    assert_int_equal(pacer_wait_us(&p, 1005000), 0);
}

static void a_claim_collects_no_longer_than_the_last_one_took(void **state)
{
    (void)state;
    struct pacer p = {0};
    int64_t sent_us = 1000000, took_us = 150;
    pacer_sent(&p, 1, pacer_claims_us(took_us), sent_us);
    assert_int_equal(pacer_wait_us(&p, sent_us + took_us), took_us);
    assert_int_equal(pacer_wait_us(&p, sent_us + 2 * took_us), 0);
}

static void claims_collect_for_seven_milliseconds_at_most(void **state)
{
    (void)state;
    assert_int_equal(pacer_claims_us(3000), 6000);
    assert_int_equal(pacer_claims_us(4000), 7000);
    assert_int_equal(pacer_claims_us(90000), 7000);
}

UNIT(pacer)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_stream_of_jobs_hardly_waits),
        cmocka_unit_test(a_steady_load_gathers_as_long_as_it_may),
        cmocka_unit_test(a_fast_stream_waits_shorter_since_batches_fill_sooner),
        cmocka_unit_test(after_a_batch_of_none_nothing_waits),
        cmocka_unit_test(a_claim_collects_no_longer_than_the_last_one_took),
        cmocka_unit_test(claims_collect_for_seven_milliseconds_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
