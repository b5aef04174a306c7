/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_retry.c - the delays of bridge/base/retry.h, one by one. */
#include "bridge/base/mem.h"
#include "bridge/base/retry.h"
#include "tests/unit.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct retry_policy doubling = {
    .first_ms = 1000, .factor = 2, .max_ms = 8000, .limit = 5, .jitter = 0.2};

static void doubles_up_to_the_cap(void **state)
{
    (void)state;
    const int64_t want[] = {1000, 2000, 4000, 8000, 8000};
    for (unsigned n = 1; n <= 5; n++)
        assert_int_equal(retry_delay_ms(&doubling, n, 0.5), want[n - 1]);
}

static void attempts_end_after_the_limit(void **state)
{
    (void)state;
    assert_int_equal(retry_delay_ms(&doubling, 6, 0.5), RETRY_EXHAUSTED);
    assert_int_equal(retry_delay_ms(&doubling, UINT_MAX, 0.5), RETRY_EXHAUSTED);
}

static void without_a_limit_attempts_never_end_and_never_overflow(void **state)
{
    (void)state;
    struct retry_policy p = doubling;
    p.limit = 0;
    const unsigned ns[] = {6, 64, 1024, 1000000, UINT_MAX};
    for (size_t i = 0; i < sizeof(ns) / sizeof(*ns); i++)
        assert_int_equal(retry_delay_ms(&p, ns[i], 0.5), 8000);
    p.max_ms = INT64_MAX;
    for (unsigned n = 1; n < 5000; n++)
        assert_true(retry_delay_ms(&p, n, 0.999) > 0);
    p.max_ms = 0; /* without its own maximum */
    assert_true(retry_delay_ms(&p, UINT_MAX, 0.999) < INT64_MAX / 4);
    p.factor = 1;
    assert_int_equal(retry_delay_ms(&p, UINT_MAX, 0.5), 1000);
}

static void rounds_up_to_whole_milliseconds(void **state)
{
    (void)state;
    struct retry_policy p = {.first_ms = 1, .factor = 1.5, .max_ms = 1000};
    const int64_t want[] = {1, 2, 3, 4, 6};
    for (unsigned n = 1; n <= 5; n++)
        assert_int_equal(retry_delay_ms(&p, n, 0.5), want[n - 1]);
}

static void jitter_changes_a_delay_by_at_most_its_share(void **state)
{
    (void)state;
    struct retry_policy p = {
        .first_ms = 1000, .factor = 2, .max_ms = 60000, .jitter = 0.25};
    assert_int_equal(retry_delay_ms(&p, 1, 0), 750);
    assert_int_equal(retry_delay_ms(&p, 1, 0.5), 1000);
    assert_within(retry_delay_ms(&p, 1, 0.999999), 1249, 1250);
    p.jitter = 1;
    assert_int_equal(retry_delay_ms(&p, 1, 0), 0);
}

static void the_maximum_applies_with_jitter_too(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_within(retry_delay_ms(&doubling, 5, i / 1000.0), 6400, 8000);
}

static void a_list_of_delays_is_used_in_order_and_then_exhausted(void **state)
{
    (void)state;
    int64_t list[] = {10000, 20000, 40000};
    const struct retry_policy p = {.list_ms = list, .list_count = 3};
    for (unsigned n = 1; n <= 3; n++)
        assert_int_equal(retry_delay_ms(&p, n, 0.9), list[n - 1]);
    assert_int_equal(retry_delay_ms(&p, 4, 0.5), RETRY_EXHAUSTED);
}

static void an_empty_list_is_exhausted_at_once(void **state)
{
    (void)state;
    struct retry_policy p = {.list_ms = mem_alloc(1)};
    assert_int_equal(retry_delay_ms(&p, 1, 0.5), RETRY_EXHAUSTED);
    retry_free(&p);
    assert_null(p.list_ms);
    retry_free(NULL);
}

static void a_copy_has_a_list_of_its_own(void **state)
{
    (void)state;
    int64_t list[] = {10000, 20000};
    const struct retry_policy p = {.list_ms = list, .list_count = 2};
    struct retry_policy copy = retry_copy(&p), never = {.list_ms = mem_alloc(1)};
    list[1] = 5;
    assert_int_equal(retry_delay_ms(&copy, 2, 0.5), 20000);
    retry_free(&copy);
    copy = retry_copy(&never);
    assert_int_equal(retry_delay_ms(&copy, 1, 0.5), RETRY_EXHAUSTED); /* still a list */
    retry_free(&copy);
    retry_free(&never);
    copy = retry_copy(&doubling);
    assert_null(copy.list_ms);
    assert_int_equal(retry_delay_ms(&copy, 2, 0.5), 2000);
}

static void the_wait_for_a_broker_grows_and_has_an_end(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 200; n++) {
        int64_t wait_ms = retry_broker_ms(n);
        assert_within(wait_ms, n < 2 ? 350 : 700, 30000);
        assert_true(n > 1 || wait_ms <= 650);
    }
    assert_int_equal(retry_connect_ms(0, 0, 1), 1);
}

UNIT(retry)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_up_to_the_cap),
        cmocka_unit_test(attempts_end_after_the_limit),
        cmocka_unit_test(without_a_limit_attempts_never_end_and_never_overflow),
        cmocka_unit_test(rounds_up_to_whole_milliseconds),
        cmocka_unit_test(jitter_changes_a_delay_by_at_most_its_share),
        cmocka_unit_test(the_maximum_applies_with_jitter_too),
        cmocka_unit_test(a_list_of_delays_is_used_in_order_and_then_exhausted),
        cmocka_unit_test(an_empty_list_is_exhausted_at_once),
        cmocka_unit_test(a_copy_has_a_list_of_its_own),
        cmocka_unit_test(the_wait_for_a_broker_grows_and_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
