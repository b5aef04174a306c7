/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_sched.c - the scheduler's next action for a bucket. */
#include "bridge/engine/sched.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_bucket_does_the_action_of_its_view(void **state)
{
    (void)state;
    static const struct {
        struct sched_view view;
        enum sched_next next;
        int64_t wait_us;
    } rows[] = {
        /* due in, gap, credit, of, more, paced, head_stale */
        {{-1, 0, 10, 10, false, 0, false}, SCHED_IDLE, -1},
        {{-1, 500, 0, 10, true, 0, false}, SCHED_IDLE, -1},
        {{1, 0, 10, 10, false, 0, false}, SCHED_SLEEP, 1},
        {{1500000, 0, 10, 10, false, 0, false}, SCHED_SLEEP, 1500000},
        /* the tick handles it */
        {{1500001, 0, 10, 10, false, 0, false}, SCHED_IDLE, 1500001},
        {{0, 0, 0, 10, false, 0, false}, SCHED_WAIT_CREDIT, 0},
        {{0, 800, 0, 10, true, 0, false}, SCHED_WAIT_CREDIT, 0},
        {{0, 0, 1, 10, false, 0, false}, SCHED_CLAIM, 0},
        {{0, 800, 10, 10, false, 0, false}, SCHED_SLEEP, 800}, /* waits for more jobs */
        {{0, 800, 10, 10, true, 0, false}, SCHED_CLAIM, 0}, /* a backlog does not wait */
        /* little credit: wait for more */
        {{0, 800, 4, 10, true, 0, false}, SCHED_SLEEP, 800},
        {{0, 800, 5, 10, true, 0, false}, SCHED_CLAIM, 0},
        {{0, 800, SCHED_CREDIT_MIN, 10000, true, 0, false}, SCHED_CLAIM, 0},
        /* rate limit, or open breaker of the target */
        {{0, 0, 10, 10, true, 700, false}, SCHED_SLEEP, 700},
        {{0, 900, 10, 10, true, 700, false}, SCHED_SLEEP, 700},
        {{0, 0, 0, 10, true, 700, false}, SCHED_WAIT_CREDIT, 0},
        {{400, 0, 10, 10, true, 700, false}, SCHED_SLEEP, 400},
        /* The head may be gone: ask Redis, but only if a claim could follow. */
        {{0, 0, 1, 10, false, 0, true}, SCHED_READ_HEAD, 0},
        {{0, 800, 10, 10, true, 0, true}, SCHED_READ_HEAD, 0},
        {{0, 0, 0, 10, false, 0, true}, SCHED_WAIT_CREDIT, 0},
        {{0, 0, 10, 10, true, 700, true}, SCHED_SLEEP, 700},
        {{400, 0, 10, 10, true, 0, true}, SCHED_SLEEP, 400},
        {{-1, 0, 10, 10, true, 0, true}, SCHED_IDLE, -1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t wait_us;
        assert_int_equal(sched_next(&rows[i].view, &wait_us), rows[i].next);
        assert_int_equal(wait_us, rows[i].wait_us);
    }
}

UNIT(sched)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_does_the_action_of_its_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
