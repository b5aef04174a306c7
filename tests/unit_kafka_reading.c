/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_kafka_reading.c - the texts in Redis with the current reading of a partition, and
 * with the requested rewinds.
 */
#include "bridge/engine/admit.h"
#include "sources/kafka/kafka_marks.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LIT(text)                                                                        \
    {                                                                                    \
        text, sizeof(text) - 1                                                           \
    }

static void rewind_of_a_route_is_found_by_its_whole_name(void **state)
{
    static const struct {
        struct slice text, route;
        int64_t number;
    } rows[] = {
        {LIT("orders:5"), LIT("orders"), 5},
        {LIT("orders:5 hooks:7"), LIT("hooks"), 7},
        {LIT("orders:5 hooks:7"), LIT("hook"), 0},
        {LIT("orders:5 hooks:7"), LIT("rders"), 0},
        {LIT("orders:5 hooks:7"), LIT("orders:5 hooks"), 0},
        {LIT("orders:"), LIT("orders"), 0},
        {LIT("orders"), LIT("orders"), 0},
        {LIT(" "), LIT("orders"), 0},
        {LIT(""), LIT("orders"), 0},
        {{NULL, 0}, LIT("orders"), 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(job_rewind_number(rows[i].text, rows[i].route), rows[i].number);
}

static void rewind_applies_from_its_offset_on(void **state)
{
    static const struct {
        int64_t offset, number;
    } rows[] = {{0, 0}, {39, 0}, {40, 5}, {59, 5}, {60, 7}, {INT64_MAX, 7}};
    const struct slice rewinds = LIT("orders:7@60 hooks:9 orders:5@40");
    const struct slice orders = LIT("orders"), hooks = LIT("hooks");
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(admit_rewind_number(rewinds, orders, rows[i].offset),
                         rows[i].number);
        assert_int_equal(admit_rewind_number(rewinds, hooks, rows[i].offset), 9);
    }
    assert_int_equal(job_rewind_number(rewinds, orders), 7);
}

static void incarnation_of_a_partition_is_0_if_redis_has_none(void **state)
{
    static struct kv_item items[] = {
        {LIT("t/1"), LIT("99")},
        {LIT("reading t/1"), LIT("2")},
        {LIT("reading t/2"), LIT("3 orders:5")},
        {LIT("reading t/3"), LIT("nonsense")},
    };
    const struct kafka_fields fields = {.item = items, .n = COUNT(items)}, none = {0};
    (void)state;
    assert_int_equal(kafka_marks_incarnation(&fields, "t", 1), 2);
    assert_int_equal(kafka_marks_incarnation(&fields, "t", 2), 3);
    assert_int_equal(kafka_marks_incarnation(&fields, "t", 3), 0);
    assert_int_equal(kafka_marks_incarnation(&fields, "t", 12), 0);
    assert_int_equal(kafka_marks_incarnation(&none, "t", 1), 0);
}

static void mark_of_a_later_incarnation_has_a_separate_field(void **state)
{
    struct buf first = {0}, later = {0};
    (void)state;
    kafka_mark_field("t", 7, 0, &first);
    kafka_mark_field("t", 7, 2, &later);
    assert_string_equal(buf_str(&first), "t/7");
    assert_string_equal(buf_str(&later), "t/7~2");
    buf_free(&first);
    buf_free(&later);
}

static void rewind_contains_each_partition_and_its_number(void **state)
{
    static const struct rewind_row rows[] = {{"t", 0, 5, 9}, {"u", 12, 0, 0}};
    struct buf text = {0};
    (void)state;
    kafka_rewind_format(1785283200000, rows, COUNT(rows), &text);
    assert_string_equal(buf_str(&text), "1785283200000 t/0:5 u/12:0");
    struct kv_item item = {LIT("rewind orders"), buf_slice(&text)};
    const struct kafka_fields fields = {.item = &item, .n = 1};
    assert_int_equal(kafka_rewind_last(&fields, "orders"), 1785283200000);
    assert_int_equal(kafka_rewind_last(&fields, "order"), 0);
    buf_free(&text);
}

UNIT(kafka_reading)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewind_of_a_route_is_found_by_its_whole_name),
        cmocka_unit_test(rewind_applies_from_its_offset_on),
        cmocka_unit_test(incarnation_of_a_partition_is_0_if_redis_has_none),
        cmocka_unit_test(mark_of_a_later_incarnation_has_a_separate_field),
        cmocka_unit_test(rewind_contains_each_partition_and_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
