/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_kafka_stall.c - statistics as librdkafka 2.0.2 writes them, without the unused
 * fields.
 */
#include "sources/kafka/kafka_client.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char TEXT[] = "{\"topics\":{\"in\":{\"topic\":\"in\",\"partitions\":{"
                           "\"0\":{\"partition\":0,\"broker\":1,\"leader\":1},"
                           "\"3\":{\"partition\":3,\"broker\":%d,\"leader\":%d},"
                           "\"-1\":{\"partition\":-1,\"broker\":-1,\"leader\":-1}}}}}";

static bool found(const char *text, const char *expected)
{
    struct buf where = {0};
    unsigned connected;
    const bool is = kafka_stall_find(text, strlen(text), &where, &connected);

    assert_string_equal(buf_str(&where), expected);
    buf_free(&where);
    return is;
}

static bool found_with(int broker, int leader, const char *expected)
{
    char text[sizeof(TEXT) + 8];

    snprintf(text, sizeof(text), TEXT, broker, leader);
    return found(text, expected);
}

static void kafka_stall_names_a_partition_at_the_wrong_broker(void **state)
{
    (void)state;
    assert_true(found_with(
        1, 3, "librdkafka reads in/3 from broker 1, but its leader is broker 3"));
}

static void kafka_stall_accepts_the_leader_and_none(void **state)
{
    (void)state;
    assert_false(found_with(3, 3, ""));
    assert_false(found_with(-1, 3, ""));
    assert_false(found_with(1, -1, ""));
}

static void kafka_stall_accepts_other_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"topics\":[]}",
                                        "{\"topics\":{\"in\":{\"partitions\":7}}}",
                                        "{\"topics\":{\"in\":{\"partitions\":{\"0\":"
                                        "{\"broker\":\"a\",\"leader\":2}}}}}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(found(texts[i], ""));
}

static void kafka_stall_counts_the_brokers_that_are_up(void **state)
{
    (void)state;
    static const char text[] =
        "{\"brokers\":{\"a:9092/bootstrap\":{\"state\":\"INIT\"},"
        "\"a:9092/1\":{\"state\":\"UP\"},\"b:9092/2\":{\"state\":\"DOWN\"},"
        "\"GroupCoordinator\":{\"state\":\"UP\"},\"x\":{\"state\":7},\"y\":3}}";
    struct buf where = {0};
    unsigned connected = 99;

    assert_false(kafka_stall_find(text, strlen(text), &where, &connected));
    assert_int_equal(connected, 2);
    assert_false(kafka_stall_find("", 0, &where, &connected));
    assert_int_equal(connected, 0);
    buf_free(&where);
}

UNIT(kafka_stall)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kafka_stall_names_a_partition_at_the_wrong_broker),
        cmocka_unit_test(kafka_stall_accepts_the_leader_and_none),
        cmocka_unit_test(kafka_stall_accepts_other_texts),
        cmocka_unit_test(kafka_stall_counts_the_brokers_that_are_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
