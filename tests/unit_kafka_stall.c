/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_kafka_stall.c - statistics as librdkafka 2.0.2 writes them, without the fields
 * that nobody reads.
 */
#include "sources/kafka/kafka_stall.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Broker 1 has partitions 0 and 3 in its thread, broker 3 has none. */
static const char TEXT[] = "{\"brokers\":{"
                           "\"127.0.0.1:9/bootstrap\":{\"nodeid\":-1,\"toppars\":{}},"
                           "\"127.0.0.1:1/1\":{\"nodeid\":1,\"toppars\":{"
                           "\"in-0\":{\"topic\":\"in\",\"partition\":0},"
                           "\"in-3\":{\"topic\":\"in\",\"partition\":3}}},"
                           "\"127.0.0.1:3/3\":{\"nodeid\":3,\"toppars\":{}}},"
                           "\"topics\":{\"in\":{\"partitions\":{"
                           "\"0\":{\"partition\":0,\"broker\":1,\"leader\":1},"
                           "\"3\":{\"partition\":3,\"broker\":%d,\"leader\":3},"
                           "\"-1\":{\"partition\":-1,\"broker\":-1,\"leader\":-1}}}}}";

static bool found(const char *text, const char *expected)
{
    struct buf where = {0};
    const bool is = kafka_stall_find(text, strlen(text), &where);

    assert_string_equal(buf_str(&where), expected);
    buf_free(&where);
    return is;
}

static bool found_if_believed(int broker, const char *expected)
{
    char text[sizeof(TEXT) + 8];

    snprintf(text, sizeof(text), TEXT, broker);
    return found(text, expected);
}

static void kafka_stall_names_a_partition_at_the_wrong_broker(void **state)
{
    (void)state;
    assert_true(found_if_believed(3, "librdkafka reads in/3 from broker 1, but it should "
                                     "read it from broker 3"));
}

static void kafka_stall_accepts_the_right_broker_a_follower_and_none(void **state)
{
    (void)state;
    assert_false(found_if_believed(1, "")); /* broker 1 as a follower of leader 3, too */
    assert_false(found_if_believed(-1, ""));
}

static void kafka_stall_accepts_other_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"brokers\":[]}",
                                        "{\"brokers\":{\"a\":{\"nodeid\":1}}}",
                                        "{\"brokers\":{\"a\":{\"nodeid\":1,\"toppars\":"
                                        "{\"in-0\":{\"partition\":0}}}}}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(found(texts[i], ""));
}

UNIT(kafka_stall)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kafka_stall_names_a_partition_at_the_wrong_broker),
        cmocka_unit_test(kafka_stall_accepts_the_right_broker_a_follower_and_none),
        cmocka_unit_test(kafka_stall_accepts_other_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
