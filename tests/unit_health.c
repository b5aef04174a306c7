/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_health.c - when the attempts of a route make it failing. */
#include "bridge/engine/health.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { T = 1234560000, SECOND = 1000 };

static void add(struct attempts *a, unsigned delivered, unsigned failed, int64_t now_ms)
{
    while (delivered-- > 0)
        attempts_add(a, false, now_ms);
    while (failed-- > 0)
        attempts_add(a, true, now_ms);
}

static void a_quarter_of_the_attempts_or_all_make_a_route_failing(void **state)
{
    (void)state;
    static const struct {
        unsigned delivered, failed; /* four minutes ago */
        unsigned lately, in_vain;   /* now */
        bool fails, minute;
    } rows[] = {
        {0, 0, 0, 0, false, false},
        {0, 1, 0, 0, true, false}, /* all of them */
        {1, 1, 0, 0, false, false},
        {1, 2, 0, 0, false, false}, /* too few */
        {1, 3, 0, 0, true, false},
        {9, 3, 0, 0, true, false},
        {10, 3, 0, 0, false, false},
        /* five attempts in the last minute decide */
        {0, 100, 4, 0, true, false},
        {0, 100, 5, 0, false, true},
        {1000, 0, 0, 4, false, false},
        {1000, 0, 0, 5, true, true},
        {1000, 0, 9, 3, true, true},
        {0, 1000, 10, 3, false, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct attempts a = {0};
        struct breaker_slice span;
        bool minute;
        add(&a, rows[i].delivered, rows[i].failed, T);
        add(&a, rows[i].lately, rows[i].in_vain, T + 240 * SECOND);
        bool fails = attempts_fail(&a, T + 240 * SECOND, &span, &minute);
        if (fails != rows[i].fails || minute != rows[i].minute)
            fail_msg("row %zu: %d %d", i, fails, minute);
        assert_int_equal(span.failed, rows[i].in_vain + (minute ? 0 : rows[i].failed));
    }
}

static void attempts_older_than_the_window_do_not_count(void **state)
{
    (void)state;
    struct attempts a = {0};
    struct breaker_slice span;
    bool minute;
    add(&a, 0, 10, T);
    assert_true(attempts_fail(&a, T, &span, &minute) && minute);
    assert_true(attempts_fail(&a, T + 61 * SECOND, &span, &minute) && !minute);
    assert_int_equal(attempts_sum(&a, T + 269 * SECOND).failed, 10);
    assert_int_equal(attempts_sum(&a, T + HEALTH_WINDOW_MS).all, 0);
    assert_false(attempts_fail(&a, T + HEALTH_WINDOW_MS, &span, &minute));
}

UNIT(health)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quarter_of_the_attempts_or_all_make_a_route_failing),
        cmocka_unit_test(attempts_older_than_the_window_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
