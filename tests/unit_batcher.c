/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_batcher.c - the content of a batch of changes, and when it is sent. */
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"
#include "tests/fake_redis.h"
#include "tests/batcher_rig.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct change of(const char *partition, int64_t offset)
{
    return (struct change){.origin = {partition, offset, offset - 1, 0, 0}};
}

/* Records of a few partitions may be in any order: partitions are counted, not their
 * alternations. */
static void partitions_in_turn_share_a_batch(void **state)
{
    (void)state;
    static const char *const names[] = {"t/0", "t/1", "t/2"};
    struct batch batch = {.partition_count = 0};
    for (int64_t i = 0; i < 600; i++) {
        struct change c = of(names[i % 3], 1000 * (i % 3 + 1) + i / 3);
        assert_true(batch_accepts(&batch, &c));
        assert_int_equal(c.partition, i % 3 + 1);
    }
    assert_int_equal(batch.partition_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_ptr_equal(batch.partitions[i].name, names[i]);
        assert_int_equal(batch.partitions[i].before, 1000 * (i + 1) - 1);
    }
}

static void a_batch_contains_at_most_the_maximum_of_partitions(void **state)
{
    (void)state;
    static char names[BATCH_PARTITIONS_MAX + 1][16];
    struct batch batch = {.partition_count = 0};
    for (unsigned i = 0; i < BATCH_PARTITIONS_MAX; i++) {
        struct change c = of(names[i], 1);
        assert_true(batch_accepts(&batch, &c));
    }
    struct change further = of(names[BATCH_PARTITIONS_MAX], 1), known = of(names[7], 2),
                  none = of(NULL, -1);
    assert_false(batch_accepts(&batch, &further));
    assert_true(batch_accepts(&batch, &known));
    assert_int_equal(known.partition, 8);
    none.partition = 5; /* of the batch that it was in before */
    assert_true(batch_accepts(&batch, &none));
    assert_int_equal(none.partition, 0);
}

enum { FULL = 500 };

static struct batcher batcher_of(unsigned queued, unsigned awaited,
                                 unsigned in_flight_count)
{
    return (struct batcher){.queued = queued,
                            .awaited = awaited,
                            .in_flight_count = in_flight_count,
                            .pacer = {.last_us = 1000000, .gap_us = 2000}};
}

static void a_single_change_is_sent_at_once(void **state)
{
    (void)state;
    struct batcher batcher = batcher_of(1, 1, 0);
    assert_int_equal(batcher_wait_us(&batcher, FULL, 1000000), 0);
    batcher = batcher_of(1, 0, 0);
    assert_int_equal(batcher_wait_us(&batcher, FULL, 1002000), 0);
}

static void changes_that_no_client_awaits_are_paced(void **state)
{
    (void)state;
    struct batcher batcher = batcher_of(FULL - 1, 0, 0);
    assert_int_equal(batcher_wait_us(&batcher, FULL, 1000500), 1500);
    batcher.awaited = 1;
    assert_int_equal(batcher_wait_us(&batcher, FULL, 1000500), 0);
}

static void changes_wait_while_two_batches_are_in_flight(void **state)
{
    (void)state;
    struct batcher batcher = batcher_of(FULL - 1, FULL - 1, BATCHES_IN_FLIGHT - 1);
    assert_int_equal(batcher_wait_us(&batcher, FULL, 1000000), 0);
    batcher.in_flight_count = BATCHES_IN_FLIGHT;
    assert_int_equal(batcher_wait_us(&batcher, FULL, 9000000), -1);
}

static void a_full_batch_does_not_wait(void **state)
{
    (void)state;
    struct batcher batcher = batcher_of(FULL, 0, BATCHES_IN_FLIGHT);
    assert_int_equal(batcher_wait_us(&batcher, FULL, 1000000), 0);
}

/* ------------------------------------------------------------ the content of batches */

enum { CHANGES_MAX = 400 };

static const char *id_of(unsigned i)
{
    static char ids[CHANGES_MAX][12];
    snprintf(ids[i], sizeof(ids[i]), "%u", i);
    return ids[i];
}

/* A batcher whose changes are slow in Redis has its own maximum. */
static void a_batch_stops_at_the_maximum_of_jobs(void **state)
{
    (void)state;
    static const struct {
        enum batcher_kind kind;
        unsigned batch_max, most;
    } rows[] = {
        {BATCHER_ENQUEUE, 150, 100}, {BATCHER_ACK, 150, 150},
        {BATCHER_RETRY, 150, 100},   {BATCHER_BURY, 150, 150},
        {BATCHER_CANCEL, 150, 30},   {BATCHER_FINISH, 150, 150},
        {BATCHER_RELEASE, 150, 100}, {BATCHER_RENEW, 150, 150},
        {BATCHER_ENQUEUE, 20, 20},   {BATCHER_ACK, 20, 20},
        {BATCHER_RETRY, 20, 20},     {BATCHER_CANCEL, 20, 20},
    };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char sizes[64];
        unsigned n = BATCH_EARLY + 2 * rows[i].most + 5;
        rig_start(rows[i].batch_max, 0);
        for (unsigned k = 0; k < n; k++)
            rig_send(rows[i].kind, id_of(k));
        assert_true(rig_wait_for(&rig.answers, n));
        snprintf(sizes, sizeof(sizes), "%d %u %u 5 ", BATCH_EARLY, rows[i].most,
                 rows[i].most);
        assert_string_equal(buf_str(&rig.sizes), sizes);
        rig_stop();
    }
}

/* The number of calls in flight is limited: further changes wait for a reply. */
static void a_batcher_stops_at_the_maximum_of_batches(void **state)
{
    (void)state;
    rig_start(2, 0);
    fake.paused = true;
    for (unsigned i = 0; i < 2 * FULL_BATCHES_IN_FLIGHT + 3; i++)
        rig_send(BATCHER_ACK, id_of(i));
    rig_send(BATCHER_FINISH, "z"); /* after all that may be sent before */
    assert_true(rig_wait_for(&rig.calls, FULL_BATCHES_IN_FLIGHT + 1));
    assert_string_equal(buf_str(&rig.sizes), "2 2 2 2 2 2 2 2 1 ");
    fake_resume();
    assert_true(rig_wait_for(&rig.answers, 2 * FULL_BATCHES_IN_FLIGHT + 4));
    assert_string_equal(buf_str(&rig.sizes), "2 2 2 2 2 2 2 2 1 2 1 ");
    rig_stop();
}

/* tries is a text of that many bytes; borrowed until it returns. */
static void retry_with(const char *id, size_t tries_n)
{
    char *tries = mem_alloc(tries_n + 1);
    store_retry(rig.route, slice_of(id), 5, 9, (struct slice){tries, tries_n},
                rig_on_result, (void *)id);
    free(tries);
}

static void lose_with(const char *id, size_t kept_n)
{
    struct job *job = job_new(0);
    char *kept = mem_alloc(kept_n + 1);
    job->id = job_copy_slice(job, SLICE_LIT("x"));
    job->payload = (struct slice){kept, kept_n};
    const struct failed_run lost = {job, {NULL, 0}, true};
    store_fail_run(rig.route, slice_of(id), 5, &lost, NULL, 9, rig_on_result, (void *)id);
    free(kept);
    job_free(job);
}

static void assert_sizes(const char *sizes, unsigned answers)
{
    assert_true(rig_wait_for(&rig.answers, answers));
    assert_string_equal(buf_str(&rig.sizes), sizes);
    rig_stop();
}

/* Ids count, too: one byte each. */
static void a_batch_stops_at_the_maximum_of_bytes(void **state)
{
    (void)state;
    rig_start(8, 0);
    retry_with("a", BATCH_BYTES_MAX / 2 - 1);
    retry_with("b", BATCH_BYTES_MAX / 2 - 1);
    assert_sizes("2 ", 2);

    rig_start(8, 0);
    retry_with("a", BATCH_BYTES_MAX / 2 - 1);
    retry_with("b", BATCH_BYTES_MAX / 2);
    assert_sizes("1 1 ", 2);
}

static void records_and_kept_runs_count_towards_the_bytes_of_a_batch(void **state)
{
    (void)state;
    const struct change how = {.awaited = true};
    rig_start(8, 0);
    for (unsigned i = 0; i < 7; i++)
        rig_enqueue(rig.route, id_of(i), &how, BATCH_BYTES_MAX / 7 * 2);
    assert_sizes("3 3 1 ", 7);

    rig_start(8, 0);
    for (unsigned i = 0; i < 7; i++)
        lose_with(id_of(i), BATCH_BYTES_MAX / 7 * 2);
    assert_sizes("3 3 1 ", 7);
}

static void a_change_larger_than_a_batch_is_sent_alone(void **state)
{
    (void)state;
    rig_start(8, 0);
    retry_with("a", 1);
    retry_with("b", BATCH_BYTES_MAX + 1);
    retry_with("c", 1);
    assert_sizes("1 1 1 ", 3);
}

static void a_batch_stops_at_the_maximum_of_partitions(void **state)
{
    (void)state;
    static char names[BATCH_EARLY + BATCH_PARTITIONS_MAX + 1][16];
    enum { N = BATCH_EARLY + BATCH_PARTITIONS_MAX + 1 };
    rig_start(500, 0);
    for (unsigned i = 0; i < N; i++) {
        const struct change how = {.awaited = true, .origin = {names[i], 7, 6, 0, 0}};
        snprintf(names[i], sizeof(names[i]), "t/%u", i);
        rig_enqueue(rig.route, id_of(i), &how, 0);
    }
    assert_sizes("16/16 64/64 1/1 ", N);
}

/* Changes of the same partition do not overtake it. */
static void a_change_of_one_partition_too_many_delays_later_changes(void **state)
{
    (void)state;
    static char names[BATCH_PARTITIONS_MAX + 1][16];
    rig_start(500, 0);
    fake.paused = true;
    for (unsigned i = 0; i <= BATCH_PARTITIONS_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "t/%u", i);
    }
    for (unsigned i = 0; i < BATCH_EARLY; i++) {
        const struct change how = {.awaited = true, .origin = {names[0], i, i - 1, 0, 0}};
        rig_enqueue(rig.route, id_of(i), &how, 0);
    }
    for (unsigned i = 0; i <= BATCH_PARTITIONS_MAX; i++) {
        const struct change how = {.awaited = true, .origin = {names[i], 100, 99, 0, 0}};
        rig_enqueue(rig.route, id_of(100 + i), &how, 0);
    }
    const struct change known = {.awaited = true, .origin = {names[0], 101, 100, 0, 0}};
    rig_enqueue(rig.route, "last", &known, 0);
    fake_resume();
    assert_true(rig_wait_for(&rig.answers, BATCH_EARLY + BATCH_PARTITIONS_MAX + 2));
    assert_string_equal(buf_str(&rig.sizes), "16/1 64/64 2/2 ");
    assert_non_null(strstr(buf_str(&rig.sent), "\nenqueue 164 last\n"));
    rig_stop();
}

UNIT(batcher)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partitions_in_turn_share_a_batch),
        cmocka_unit_test(a_batch_contains_at_most_the_maximum_of_partitions),
        cmocka_unit_test(a_single_change_is_sent_at_once),
        cmocka_unit_test(changes_that_no_client_awaits_are_paced),
        cmocka_unit_test(changes_wait_while_two_batches_are_in_flight),
        cmocka_unit_test(a_full_batch_does_not_wait),
        cmocka_unit_test(a_batch_stops_at_the_maximum_of_jobs),
        cmocka_unit_test(a_batcher_stops_at_the_maximum_of_batches),
        cmocka_unit_test(a_batch_stops_at_the_maximum_of_bytes),
        cmocka_unit_test(records_and_kept_runs_count_towards_the_bytes_of_a_batch),
        cmocka_unit_test(a_change_larger_than_a_batch_is_sent_alone),
        cmocka_unit_test(a_batch_stops_at_the_maximum_of_partitions),
        cmocka_unit_test(a_change_of_one_partition_too_many_delays_later_changes),
    };
    return cmocka_run_group_tests(tests, rig_setup, NULL);
}
