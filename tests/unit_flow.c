/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_flow.c - when sources are paused and resumed.
 */
#include "bridge/engine/submit.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void sources_pause_at_the_limit_and_resume_below_half_of_it(void **state)
{
    (void)state;
    struct flow f = {.max_jobs = 4, .max_bytes = 1000};
    assert_false(flow_wants_pause(&f, true));
    assert_true(flow_wants_pause(&f, false));
    for (int i = 0; i < 4; i++)
        flow_submitted(&f, 10);
    assert_true(flow_wants_pause(&f, true));
    f.paused = true;
    flow_answered(&f, 10);
    flow_answered(&f, 10);
    assert_true(flow_wants_pause(&f, true));
    flow_answered(&f, 10);
    assert_false(flow_wants_pause(&f, true));
    f.paused = false;
    flow_submitted(&f, 990);
    assert_true(flow_wants_pause(&f, true));
    const struct flow narrow = {.max_jobs = 1, .max_bytes = 1000, .paused = true};
    assert_false(flow_wants_pause(&narrow, true)); /* half of one is rounded up */
}

UNIT(flow)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_pause_at_the_limit_and_resume_below_half_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
