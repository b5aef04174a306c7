/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_clock.c - Redis' clock as estimated from its replies.
 */
#include "bridge/redis/redis_probe.h"
#include "bridge/engine/sched.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void redis_time_is_never_estimated_too_early(void **state)
{
    (void)state;
    struct clock c = {0};
    assert_false(clock_is_set(&c));
    /* true offset 5,000,000 us; replies need some time */
    clock_sample(&c, 1000, 1400, 1100 + 5000000);
    clock_sample(&c, 2000, 2100, 2050 + 5000000);
    assert_true(clock_is_set(&c));
    /* at our 3000 it is 5,003,000 at the server; the upper bound is 5,003,050 */
    assert_int_equal(clock_now_ms(&c, 3000), 5004);
    /* waits for a due time use the lower bound: 5,002,950 */
    assert_int_equal(clock_until_us(&c, 3000, 5004), 5004000 - 5002950);
    assert_int_equal(clock_until_us(&c, 3000, 5000), 0);
}

static void a_clock_jump_of_redis_is_adopted_at_once(void **state)
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

UNIT(clock)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redis_time_is_never_estimated_too_early),
        cmocka_unit_test(a_clock_jump_of_redis_is_adopted_at_once),
        cmocka_unit_test(a_far_due_time_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
