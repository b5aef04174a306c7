/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_lane.c - what one batch of changes may hold, and when it leaves.
 */
#include "bridge/store/store_lane.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct change of(const char *partition, int64_t offset)
{
    return (struct change){.origin = {partition, offset, offset - 1, 0}};
}

/* Records of a few partitions may come in any order: it is partitions that are counted,
 * not how often they change. */
static void partitions_in_turn_share_a_batch(void **state)
{
    (void)state;
    static const char *const names[] = {"t/0", "t/1", "t/2"};
    struct batch batch = {.partition_count = 0};
    for (int64_t i = 0; i < 600; i++) {
        struct change c = of(names[i % 3], 100 + i);
        assert_true(batch_takes(&batch, &c));
        assert_int_equal(c.partition, i % 3 + 1);
    }
    assert_int_equal(batch.partition_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_ptr_equal(batch.partitions[i].name, names[i]);
        assert_int_equal(batch.partitions[i].before, 99 + i); /* of its first record */
    }
}

static void a_batch_has_room_for_so_many_partitions(void **state)
{
    (void)state;
    static char names[LANE_PARTITIONS_MAX + 1][8];
    struct batch batch = {.partition_count = 0};
    for (unsigned i = 0; i < LANE_PARTITIONS_MAX; i++) {
        struct change c = of(names[i], 1);
        assert_true(batch_takes(&batch, &c));
    }
    struct change further = of(names[LANE_PARTITIONS_MAX], 1), known = of(names[7], 2),
                  none = of(NULL, -1);
    assert_false(batch_takes(&batch, &further));
    assert_true(batch_takes(&batch, &known));
    assert_int_equal(known.partition, 8);
    none.partition = 5; /* of the batch that it was in before */
    assert_true(batch_takes(&batch, &none));
    assert_int_equal(none.partition, 0);
}

enum { FULL = 500 };

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

UNIT(lane)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partitions_in_turn_share_a_batch),
        cmocka_unit_test(a_batch_has_room_for_so_many_partitions),
        cmocka_unit_test(a_change_that_comes_alone_leaves_at_once),
        cmocka_unit_test(what_nobody_awaits_is_paced),
        cmocka_unit_test(while_two_batches_are_on_their_way_the_next_one_gathers),
        cmocka_unit_test(a_full_batch_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
