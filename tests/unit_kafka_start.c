/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_kafka_start.c - the start offsets of assigned partitions, from the replies of the
 * group and of Redis.
 */
#include "sources/kafka/kafka_group.h"

#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PARTS = 3, NONE = RD_KAFKA_OFFSET_INVALID };

struct started {
    bool done, sure;
    int64_t offsets[PARTS];
};

static struct kafka_start s; /* of the current test */

static void on_done(void *arg, rd_kafka_topic_partition_list_t *list)
{
    struct started *b = arg;
    b->done = true;
    b->sure = s.has_committed && s.fields;
    for (int i = 0; i < PARTS; i++)
        b->offsets[i] = list->elems[i].offset;
    rd_kafka_topic_partition_list_destroy(list);
}

static rd_kafka_topic_partition_list_t *list_of(const int64_t *offsets)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(PARTS);

    for (int i = 0; i < PARTS; i++)
        rd_kafka_topic_partition_list_add(list, "orders", i)->offset = offsets[i];
    return list;
}

/* Like kafka_start_begin(), without a client to ask, but with the marks of Redis. */
static void begin(struct started *b, bool latest, const int64_t *marks)
{
    static char names[PARTS][16], numbers[PARTS][24];
    static struct kv_item items[PARTS];
    static struct kafka_fields fields;
    rd_kafka_topic_partition_list_t *list = list_of(marks);

    fields = (struct kafka_fields){.item = items};
    for (int i = 0; i < PARTS; i++) {
        snprintf(names[i], sizeof(names[i]), "orders/%d", i);
        snprintf(numbers[i], sizeof(numbers[i]), "%lld", (long long)marks[i]);
        if (marks[i] >= 0)
            items[fields.n++] =
                (struct kv_item){slice_of(names[i]), slice_of(numbers[i])};
    }
    *b = (struct started){0};
    s = (struct kafka_start){0};
    kafka_start_init(&s, "in", "group", latest);
    s.done = on_done;
    s.arg = b;
    kafka_start_wait(&s, list);
    rd_kafka_topic_partition_list_destroy(list);
    kafka_start_marks(&s, &fields);
}

static void answer(const int64_t *offsets, int failed)
{
    rd_kafka_topic_partition_list_t *list = list_of(offsets);

    if (failed >= 0)
        list->elems[failed].err = RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT;
    kafka_start_offsets(&s, list);
    rd_kafka_topic_partition_list_destroy(list);
}

static const int64_t no_marks[] = {-1, -1, -1};

static void latest_waits_while_the_offset_of_one_partition_is_an_error(void **state)
{
    struct started b;
    (void)state;
    begin(&b, true, no_marks);
    answer((const int64_t[]){7, NONE, NONE}, 1);
    assert_false(b.done);
    answer((const int64_t[]){7, 5, NONE}, -1); /* it was asked again */
    assert_true(b.done && b.sure);
    assert_int_equal(b.offsets[0], 7);
    assert_int_equal(b.offsets[1], 5);
    assert_int_equal(b.offsets[2], RD_KAFKA_OFFSET_END); /* it has none */
    kafka_start_fini(&s);
}

static void partition_without_a_known_offset_begins_at_the_mark_or_where_librdkafka_finds(
    void **state)
{
    struct started b;
    (void)state;
    begin(&b, false, (const int64_t[]){-1, 4, -1});
    answer((const int64_t[]){7, NONE, NONE}, 1);
    kafka_start_now(&s); /* the limit has passed */
    assert_true(b.done);
    assert_false(b.sure);
    assert_int_equal(b.offsets[0], 7);
    assert_int_equal(b.offsets[1], 4);
    assert_int_equal(b.offsets[2], NONE);
    kafka_start_fini(&s);
}

static void partition_starts_at_a_mark_below_its_committed_offset(void **state)
{
    struct started b;
    (void)state;
    begin(&b, true, (const int64_t[]){5, 9, 3});
    answer((const int64_t[]){7, 9, NONE}, -1);
    assert_true(b.done && b.sure);
    assert_int_equal(b.offsets[0], 5);
    assert_int_equal(b.offsets[1], 9);
    assert_int_equal(b.offsets[2], 3);
    kafka_start_fini(&s);
}

UNIT(kafka_start)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latest_waits_while_the_offset_of_one_partition_is_an_error),
        cmocka_unit_test(
            partition_without_a_known_offset_begins_at_the_mark_or_where_librdkafka_finds),
        cmocka_unit_test(partition_starts_at_a_mark_below_its_committed_offset),
    };
    loop_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    loop_fini();
    return failed;
}
