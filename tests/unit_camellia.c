/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_camellia.c - parameters as the camellia API reads them, its JSON, its statistics.
 */
#include "sources/camellia/camellia.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- parameters */

struct taken {
    int64_t n, flag;
};
#define AT(field) offsetof(struct taken, field)
static const struct http_param long_row = {"l", HTTP_INT, AT(n), .required = true};
static const struct http_param int_row = {"i", HTTP_INT, AT(n), .min = INT32_MIN,
                                          .max = INT32_MAX};
static const struct http_param bool_row = {"b", HTTP_BOOL, AT(flag), .required = true};
static const struct http_param soft_row = {"s", HTTP_BOOL, AT(flag), .required = false};

static int take(const struct http_param *row, struct taken *to, const char *value)
{
    return camellia_dialect.set[row->type](row, slice_of(value), (char *)to + row->offset,
                                           NULL);
}

static void a_number_may_have_blanks_a_sign_and_be_hexadecimal(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t n;
    } rows[] = {{"5", 5},
                {" +5\t", 5},
                {"-5", -5},
                {"007", 7},
                {"0x10", 16},
                {"-0XfF", -255},
                {"#10", 16},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    struct taken to = {0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(take(&long_row, &to, rows[i].text), 0);
        assert_int_equal(to.n, rows[i].n);
    }
}

static void an_integer_out_of_range_is_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      " ",
                                      "x",
                                      "1.5",
                                      "1e3",
                                      "+",
                                      "-",
                                      "0x",
                                      "#",
                                      "+0x1",
                                      "--5",
                                      "5-",
                                      "0xg",
                                      "1 0",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "0x8000000000000000"};
    struct taken to = {.n = 42};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(take(&long_row, &to, bad[i]), -1);
    assert_int_equal(take(&int_row, &to, "2147483648"), -1);
    assert_int_equal(take(&int_row, &to, "-2147483649"), -1);
    assert_int_equal(to.n, 42);
}

static void an_empty_optional_integer_keeps_its_default(void **state)
{
    (void)state;
    struct taken to = {.n = 42, .flag = true};
    assert_int_equal(take(&int_row, &to, ""), 0);
    assert_int_equal(take(&int_row, &to, "  "), 0);
    assert_int_equal(to.n, 42);
    assert_int_equal(take(&soft_row, &to, ""), 0);
    assert_true(to.flag);
    assert_int_equal(take(&bool_row, &to, ""), -1);
    assert_int_equal(take(&long_row, &to, ""), -1);
}

static void booleans_have_many_names(void **state)
{
    (void)state;
    static const char *const words[2][4] = {{"false", "OFF", "No", " 0 "},
                                            {"True", "on", " yes", "1"}};
    struct taken to = {0};
    for (int value = 0; value < 2; value++) {
        for (int i = 0; i < 4; i++) {
            to.flag = !value;
            assert_int_equal(take(&bool_row, &to, words[value][i]), 0);
            assert_int_equal(to.flag, value);
        }
    }
    assert_int_equal(take(&bool_row, &to, "maybe"), -1);
    assert_int_equal(take(&bool_row, &to, "t"), -1);
}

static void a_text_is_kept_byte_for_byte_unless_it_is_not_utf_8(void **state)
{
    (void)state;
    struct buf out = {0};
    struct slice raw = SLICE_LIT(" a\0|{}\"\xf0\x9f\x98\x80 ");
    camellia_add_repaired(&out, raw);
    assert_true(slice_eq(buf_slice(&out), raw));
    buf_clear(&out);
    camellia_add_repaired(&out, SLICE_LIT("a\xff"
                                          "b\xc3"));
    assert_true(slice_is(buf_slice(&out), "a\xef\xbf\xbd"
                                          "b\xef\xbf\xbd"));
    buf_free(&out);
}

/* ---------------------------------------------------------------------- JSON */

typedef void add_text(struct buf *out, struct slice s);

static void is_text(struct slice s, add_text *add, const char *want)
{
    struct buf out = {0};
    add(&out, s);
    assert_string_equal(buf_str(&out), want);
    buf_free(&out);
}

static void plain_and_sorted_json_escape_as_the_original_does(void **state)
{
    (void)state;
    struct slice controls = SLICE_LIT("\b\t\n\f\r\x01\x1f\"\\/\0");
    const char *want = "\"\\b\\t\\n\\f\\r\\u0001\\u001F\\\"\\\\/\\u0000\"";
    is_text(controls, text_add_json_jackson, want);
    is_text(controls, text_add_json_fastjson, want);
    is_text(SLICE_LIT("\x7f\xc2\x9f\xe2\x80\xa8"), text_add_json_jackson,
            "\"\x7f\xc2\x9f\xe2\x80\xa8\"");
    is_text(SLICE_LIT("\x7f\xc2\x9f\xe2\x80\xa8\xe2\x80\xa9"), text_add_json_fastjson,
            "\"\\u007F\\u009F\\u2028\\u2029\"");
    is_text(SLICE_LIT("\xc3\xa9\xf0\x9f\x98\x80"), text_add_json_jackson,
            "\"\xc3\xa9\\uD83D\\uDE00\"");
    is_text(SLICE_LIT("a\xff"
                      "b"),
            text_add_json_jackson,
            "\"a\xef\xbf\xbd"
            "b\"");
    is_text(SLICE_LIT(""), text_add_json_jackson, "\"\"");
}

static void a_message_has_its_fields_in_order_or_sorted(void **state)
{
    (void)state;
    const struct camellia_msg m = {.topic = SLICE_LIT("t"),
                                   .id = SLICE_LIT("m"),
                                   .msg = SLICE_LIT("b"),
                                   .produce_ms = 1795173462850,
                                   .trigger_ms = 1795173463850,
                                   .expire_ms = 1795177063850,
                                   .max_retry = 10,
                                   .status = CAMELLIA_WAITING};
    struct buf out = {0};
    camellia_add_msg(&out, &m, false);
    assert_string_equal(
        buf_str(&out),
        "{\"topic\":\"t\",\"msgId\":\"m\",\"msg\":\"b\",\"produceTime\":1795173462850,"
        "\"triggerTime\":1795173463850,\"expireTime\":1795177063850,\"maxRetry\":10,"
        "\"retry\":0,\"status\":1}");
    buf_clear(&out);
    camellia_add_msg(&out, &m, true);
    assert_string_equal(
        buf_str(&out),
        "{\"expireTime\":1795177063850,\"maxRetry\":10,\"msg\":\"b\",\"msgId\":\"m\","
        "\"produceTime\":1795173462850,\"retry\":0,\"status\":1,\"topic\":\"t\","
        "\"triggerTime\":1795173463850}");
    buf_free(&out);
}

static void a_real_number_has_a_fraction(void **state)
{
    (void)state;
    struct buf out = {0};
    camellia_add_real(&out, 357);
    buf_add_str(&out, " ");
    camellia_add_real(&out, 1.5);
    assert_string_equal(buf_str(&out), "357.0 1.5");
    buf_free(&out);
}

/* ---------------------------------------------------------------- statistics */

static void a_window_contains_the_counts_before_the_next_window(void **state)
{
    (void)state;
    struct camellia_stats s = {0};
    camellia_count_calls(&s, SLICE_LIT("a"), CAMELLIA_N_SEND, 3);
    struct camellia_topic *a = camellia_topic(&s, SLICE_LIT("a"));
    camellia_gap_add(&a->now.pull, -10);
    camellia_gap_add(&a->now.pull, 20);
    assert_int_equal(a->last.counts[CAMELLIA_N_SEND], 0);
    camellia_stats_next_window(&s, 1000);
    assert_ptr_equal(camellia_topic(&s, SLICE_LIT("a")), a);
    assert_int_equal(a->last.counts[CAMELLIA_N_SEND], 3);
    assert_int_equal(a->now.counts[CAMELLIA_N_SEND], 0);
    assert_int_equal(a->last.pull.count, 2);
    assert_int_equal(a->last.pull.max_ms, 20);
    assert_true(camellia_gap_avg(&a->last.pull) == 15);
    camellia_stats_free(&s);
}

static void a_topic_without_calls_is_dropped_unless_a_poll_waits(void **state)
{
    (void)state;
    struct camellia_stats s = {0};
    for (int i = 0; i < 3000; i++) {
        char name[16];
        snprintf(name, sizeof(name), "t%d", i);
        camellia_count_calls(&s, slice_of(name), CAMELLIA_N_GET, 1);
    }
    struct camellia_topic *held = camellia_topic(&s, SLICE_LIT("t7"));
    held->polls = 1;
    assert_int_equal(HASH_COUNT(s.topics), 3000);
    camellia_stats_next_window(&s, 1000);
    assert_int_equal(HASH_COUNT(s.topics), 3000);
    camellia_stats_next_window(&s, 1000);
    assert_int_equal(HASH_COUNT(s.topics), 1);
    assert_ptr_equal(camellia_topic(&s, SLICE_LIT("t7")), held);
    camellia_stats_free(&s);
}

static void a_topic_without_a_count_is_dropped_with_its_last_poll(void **state)
{
    (void)state;
    struct camellia_stats s = {0};
    camellia_count_miss(&s, SLICE_LIT("a"), CAMELLIA_N_ACK);
    assert_int_equal(HASH_COUNT(s.topics), 0);
    struct camellia_topic *a = camellia_topic(&s, SLICE_LIT("a"));
    a->polls = 2;
    camellia_poll_ended(&s, a);
    assert_int_equal(HASH_COUNT(s.topics), 1);
    camellia_poll_ended(&s, a);
    assert_int_equal(HASH_COUNT(s.topics), 0);
    a = camellia_topic(&s, SLICE_LIT("a"));
    a->polls = 1;
    camellia_count_miss(&s, SLICE_LIT("a"), CAMELLIA_N_ACK);
    camellia_poll_ended(&s, a);
    assert_int_equal(HASH_COUNT(s.topics), 1);
    assert_int_equal(camellia_topic(&s, SLICE_LIT("a"))->now.counts[CAMELLIA_N_ACK], 1);
    camellia_stats_free(&s);
}

static void a_ready_message_counts_in_its_window_whenever_it_is_pulled(void **state)
{
    (void)state;
    struct camellia_stats s = {.from_ms = 1000};
    struct camellia_topic *t = camellia_topic(&s, SLICE_LIT("t"));
    camellia_count_pull(&s, t, 500, 1500); /* before the first look */
    camellia_count_pull(&s, t, 1200, 1500);
    assert_int_equal(t->now.counts[CAMELLIA_N_READY], 1);
    camellia_stats_next_window(&s, 2000);
    camellia_count_pull(&s, t, 1900, 2100);
    camellia_count_pull(&s, t, 2000, 2100);
    camellia_count_pull(&s, t, 900, 2100);
    assert_int_equal(t->now.counts[CAMELLIA_N_READY], 1);
    assert_int_equal(t->last.counts[CAMELLIA_N_READY], 2);
    t->unpulled_last = 3;
    t->unpulled = (struct camellia_gap){.count = 4, .sum_ms = 400, .max_ms = 5000};
    assert_int_equal(camellia_last(t).counts[CAMELLIA_N_READY], 5);
    assert_int_equal(camellia_last(t).counts[CAMELLIA_N_PULL], 0);
    assert_int_equal(camellia_last(t).ready.count, 6);
    assert_int_equal(camellia_last(t).ready.max_ms, 5000);
    assert_int_equal(camellia_last(t).ready.sum_ms, 400 + 1000 + 300);
    camellia_clear_unpulled(&s);
    assert_int_equal(camellia_last(t).ready.count, 2);
    assert_false(camellia_is_empty(&t->last));
    camellia_stats_free(&s);
}

UNIT(camellia)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_may_have_blanks_a_sign_and_be_hexadecimal),
        cmocka_unit_test(an_integer_out_of_range_is_rejected),
        cmocka_unit_test(an_empty_optional_integer_keeps_its_default),
        cmocka_unit_test(booleans_have_many_names),
        cmocka_unit_test(a_text_is_kept_byte_for_byte_unless_it_is_not_utf_8),
        cmocka_unit_test(plain_and_sorted_json_escape_as_the_original_does),
        cmocka_unit_test(a_message_has_its_fields_in_order_or_sorted),
        cmocka_unit_test(a_real_number_has_a_fraction),
        cmocka_unit_test(a_window_contains_the_counts_before_the_next_window),
        cmocka_unit_test(a_ready_message_counts_in_its_window_whenever_it_is_pulled),
        cmocka_unit_test(a_topic_without_calls_is_dropped_unless_a_poll_waits),
        cmocka_unit_test(a_topic_without_a_count_is_dropped_with_its_last_poll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
