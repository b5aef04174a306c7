/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_kafka_offsets.c - which offsets of a Kafka partition may be committed and when,
 * and the offset from which it is read again.
 */
#include "sources/kafka/kafka_part.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void read_all(struct kafka_offsets *o, const int64_t *offsets, unsigned n,
                     struct kafka_read **reads)
{
    kafka_offsets_init(o);
    for (unsigned i = 0; i < n; i++)
        reads[i] = kafka_offsets_read(o, offsets[i], o);
}

static void nothing_may_be_committed_before_the_first_answer(void **state)
{
    (void)state;
    struct kafka_offsets o;
    struct kafka_read *r[2];
    read_all(&o, (const int64_t[]){7, 8}, 2, r);
    assert_int_equal(o.done, -1);
    assert_int_equal(o.position, 9);
    assert_int_equal(o.open, 2);
    assert_ptr_equal(r[0]->owner, &o);
    kafka_offsets_fini(&o);
}

static void answers_in_order_move_the_commit_one_by_one(void **state)
{
    (void)state;
    struct kafka_offsets o;
    struct kafka_read *r[3];
    read_all(&o, (const int64_t[]){0, 1, 2}, 3, r);
    for (int i = 0; i < 3; i++) {
        assert_true(kafka_offsets_answer(&o, r[i], true));
        assert_int_equal(o.done, i + 1);
    }
    assert_int_equal(o.count, 0);
    kafka_offsets_fini(&o);
}

static void an_unanswered_record_delays_the_commit(void **state)
{
    (void)state;
    struct kafka_offsets o;
    struct kafka_read *r[3];
    read_all(&o, (const int64_t[]){10, 11, 12}, 3, r);
    assert_false(kafka_offsets_answer(&o, r[2], true));
    assert_false(kafka_offsets_answer(&o, r[1], true));
    assert_int_equal(o.done, -1);
    assert_true(kafka_offsets_answer(&o, r[0], true));
    assert_int_equal(o.done, 13);
    kafka_offsets_fini(&o);
}

static void gaps_between_offsets_do_not_delay_the_commit(void **state)
{
    (void)state;
    struct kafka_offsets o;
    struct kafka_read *r[3];
    read_all(&o, (const int64_t[]){3, 40, 1000000000000}, 3, r);
    assert_true(kafka_offsets_answer(&o, r[0], true));
    assert_int_equal(o.done, 4);
    assert_true(kafka_offsets_answer(&o, r[1], true));
    assert_int_equal(o.done, 41);
    assert_true(kafka_offsets_answer(&o, r[2], true));
    assert_int_equal(o.done, INT64_C(1000000000001));
    kafka_offsets_fini(&o);
}

static void the_commit_never_passes_a_record_that_was_not_stored(void **state)
{
    (void)state;
    struct kafka_offsets o;
    struct kafka_read *r[4];
    read_all(&o, (const int64_t[]){5, 6, 7, 8}, 4, r);
    assert_false(kafka_offsets_answer(&o, r[1], false));
    assert_true(o.has_failed);
    assert_false(kafka_offsets_answer(&o, r[2], true));
    assert_true(kafka_offsets_answer(&o, r[0], true));
    assert_int_equal(o.done, 6);
    assert_false(kafka_offsets_answer(&o, r[3], true));
    assert_int_equal(o.done, 6);
    kafka_offsets_fini(&o);
}

static void a_rewind_reads_again_from_the_first_record_that_was_not_stored(void **state)
{
    (void)state;
    struct kafka_offsets o;
    struct kafka_read *r[4];
    read_all(&o, (const int64_t[]){5, 6, 9, 10}, 4, r);
    kafka_offsets_answer(&o, r[3], false);
    kafka_offsets_answer(&o, r[0], true);
    kafka_offsets_answer(&o, r[2], false);
    kafka_offsets_answer(&o, r[1], true);
    assert_int_equal(kafka_offsets_rewind(&o, -1), 9);
    assert_int_equal(o.position, 9);
    assert_int_equal(o.done, 7);
    assert_false(o.has_failed);

    struct kafka_read *again = kafka_offsets_read(&o, 9, NULL);
    assert_true(kafka_offsets_answer(&o, again, true));
    assert_int_equal(o.done, 10);
    kafka_offsets_fini(&o);
}

static void a_rewind_with_everything_stored_changes_no_position(void **state)
{
    (void)state;
    struct kafka_offsets o;
    struct kafka_read *r[1];
    read_all(&o, (const int64_t[]){5}, 1, r);
    kafka_offsets_answer(&o, r[0], true);
    assert_int_equal(kafka_offsets_rewind(&o, -1), 6);
    kafka_offsets_init(&o);
    assert_int_equal(kafka_offsets_rewind(&o, -1), -1);
    kafka_offsets_fini(&o);
}

static void a_rewind_may_go_below_the_stored_offset(void **state)
{
    (void)state;
    struct kafka_offsets o;
    struct kafka_read *r[3];
    read_all(&o, (const int64_t[]){5, 6, 7}, 3, r);
    for (int i = 0; i < 3; i++)
        kafka_offsets_answer(&o, r[i], true);
    assert_int_equal(o.done, 8);
    assert_int_equal(kafka_offsets_rewind(&o, 9), 8);
    assert_int_equal(o.done, 8);
    assert_int_equal(kafka_offsets_rewind(&o, 6), 6);
    assert_int_equal(o.position, 6);
    assert_int_equal(o.done, 6);
    kafka_offsets_answer(&o, kafka_offsets_read(&o, 6, NULL), true);
    assert_int_equal(o.done, 7);
    kafka_offsets_fini(&o);
}

/* ------------------------------------------------------------------ the lag */

static void an_offset_is_ripe_only_after_the_lag(void **state)
{
    (void)state;
    struct kafka_lag l;
    kafka_lag_init(&l, 1600);
    assert_int_equal(kafka_lag_ripe(&l, 0), -1);
    kafka_lag_add(&l, 1000, 7);
    assert_int_equal(kafka_lag_ripe(&l, 2599), -1);
    assert_int_equal(kafka_lag_ripe(&l, 1000 + 1600 + 100), 7);
    assert_int_equal(kafka_lag_ripe(&l, 9000), 7);
}

static void without_a_lag_everything_is_ripe_at_once(void **state)
{
    (void)state;
    struct kafka_lag l;
    kafka_lag_init(&l, 0);
    for (int64_t offset = 1; offset < 100; offset++) {
        kafka_lag_add(&l, 5, offset);
        assert_int_equal(kafka_lag_ripe(&l, 5), offset);
    }
}

static void offsets_added_before_a_reset_never_ripen(void **state)
{
    (void)state;
    struct kafka_lag l;
    kafka_lag_init(&l, 1600);
    kafka_lag_add(&l, 0, 50);
    kafka_lag_reset(&l, 20);
    assert_int_equal(kafka_lag_ripe(&l, 100000), 20);
    kafka_lag_add(&l, 100000, 21);
    assert_int_equal(kafka_lag_ripe(&l, 100000), 20);
    assert_int_equal(kafka_lag_ripe(&l, 101700), 21);
}

/* In a cluster the mark may be on another server than the job. If the job's server
 * crashes before it has written to its disk, the offset must not be committed meanwhile.
 */
static void an_offset_is_safe_once_redis_has_answered_after_the_lag(void **state)
{
    (void)state;
    struct kafka_lag l;
    kafka_lag_init(&l, 1600);
    kafka_lag_add(&l, 0, 7);
    assert_int_equal(kafka_lag_safe(&l, 1000, 900), -1);
    assert_int_equal(kafka_lag_safe(&l, 1700, 1000), -1); /* ripe now */
    assert_int_equal(kafka_lag_safe(&l, 9000, 1699), -1); /* silent since */
    assert_int_equal(kafka_lag_safe(&l, 9000, -1), -1);   /* down */
    assert_int_equal(kafka_lag_safe(&l, 9500, 9400), 7);
    kafka_lag_add(&l, 10000, 8);
    assert_int_equal(kafka_lag_safe(&l, 20000, 20000), 8);
    kafka_lag_reset(&l, 5);
    assert_int_equal(kafka_lag_safe(&l, 20001, 0), 5);
}

/* Compare with every note that was made, at random times, with lags of all sizes. */
static void the_age_of_the_ripe_offset_exceeds_the_lag_by_at_most_a_slot(void **state)
{
    (void)state;
    enum { N = 20000 };
    static int64_t at[N];
    static const int64_t lags[] = {1, 2, 15, 16, 17, 100, 2000, 2001, 600000};
    uint32_t random = 1;

    for (unsigned k = 0; k < sizeof(lags) / sizeof(lags[0]); k++) {
        const int64_t lag = lags[k], slack = (lag + 15) / 16;
        struct kafka_lag l;
        int64_t now = 0;
        kafka_lag_init(&l, lag);
        for (int64_t i = 0; i < N; i++) {
            random = random * 1664525 + 1013904223;
            now += random >> 16 & 1 ? 0 : random % (uint32_t)(lag / 4 + 2);
            at[i] = now;
            kafka_lag_add(&l, now, i);
            const int64_t ripe = kafka_lag_ripe(&l, now);
            assert_true(ripe < 0 || now - at[ripe] >= lag);
            assert_true(now - at[ripe + 1] < lag + slack);
        }
    }
}

/* Compare with a model that stores every record: 2000 records, answered in random
 * order. */
static void any_order_of_answers_commits_the_longest_stored_prefix(void **state)
{
    (void)state;
    enum { N = 2000 };
    static struct kafka_read *r[N];
    static bool stored[N];
    static unsigned order[N];
    struct kafka_offsets o;
    uint32_t random = 1;

    kafka_offsets_init(&o);
    for (unsigned i = 0; i < N; i++) {
        r[i] = kafka_offsets_read(&o, 3 * (int64_t)i, NULL);
        order[i] = i;
    }
    for (unsigned i = N - 1; i > 0; i--) {
        random = random * 1664525 + 1013904223;
        unsigned j = random % (i + 1), was = order[i];
        order[i] = order[j];
        order[j] = was;
    }
    unsigned prefix = 0;
    for (unsigned i = 0; i < N; i++) {
        stored[order[i]] = true;
        kafka_offsets_answer(&o, r[order[i]], true);
        while (prefix < N && stored[prefix])
            prefix++;
        assert_int_equal(o.done, prefix ? 3 * ((int64_t)prefix - 1) + 1 : -1);
        assert_int_equal(o.open, N - 1 - i);
    }
    kafka_offsets_fini(&o);
}

UNIT(kafka_offsets)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_may_be_committed_before_the_first_answer),
        cmocka_unit_test(answers_in_order_move_the_commit_one_by_one),
        cmocka_unit_test(an_unanswered_record_delays_the_commit),
        cmocka_unit_test(gaps_between_offsets_do_not_delay_the_commit),
        cmocka_unit_test(the_commit_never_passes_a_record_that_was_not_stored),
        cmocka_unit_test(a_rewind_reads_again_from_the_first_record_that_was_not_stored),
        cmocka_unit_test(a_rewind_with_everything_stored_changes_no_position),
        cmocka_unit_test(a_rewind_may_go_below_the_stored_offset),
        cmocka_unit_test(an_offset_is_ripe_only_after_the_lag),
        cmocka_unit_test(without_a_lag_everything_is_ripe_at_once),
        cmocka_unit_test(offsets_added_before_a_reset_never_ripen),
        cmocka_unit_test(an_offset_is_safe_once_redis_has_answered_after_the_lag),
        cmocka_unit_test(the_age_of_the_ripe_offset_exceeds_the_lag_by_at_most_a_slot),
        cmocka_unit_test(any_order_of_answers_commits_the_longest_stored_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
