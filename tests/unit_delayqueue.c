/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_delayqueue.c - reads requests of the delay-queue API:
 * sources/delayqueue/delayqueue.h.
 */
#include "sources/delayqueue/delayqueue.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_slice(struct slice s, const char *want)
{
    assert_int_equal(s.n, strlen(want));
    assert_memory_equal(s.p, want, s.n);
}

static void white_space_of_unicode_is_trimmed_at_both_ends(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"", ""},
        {" \t\r\n\v\f", ""},
        {" a b ", "a b"},
        {"\xe3\x80\x80\xc2\xa0 a\xe3\x80\x80z \xe2\x80\x83\xc2\x85", "a\xe3\x80\x80z"},
        {"\xe2\x80\xa8x\xe2\x80\xa9\xe1\x9a\x80\xe2\x80\xaf\xe2\x81\x9f", "x"},
        {"\xe2\x80\x8b\xef\xbb\xbf",
         "\xe2\x80\x8b\xef\xbb\xbf"}, /* not a space in Unicode */
        {"\x1c\x1f", "\x1c\x1f"},
        {"\xc3\x85", "\xc3\x85"}, /* its last byte is that of U+0085 */
        {"\xe3\x80", "\xe3\x80"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_slice(delayqueue_trim(slice_of(rows[i].in)), rows[i].out);
}

/* Returns NULL, or the error message for the answer. */
static const char *read_body(const struct http_args *form, struct slice text,
                             struct delayqueue_ask *ask, struct buf *room)
{
    static struct err err;
    int rc = http_args_read_json(form, &delayqueue_dialect, text, ask, room, &err);
    return rc < 0 ? err.text : NULL;
}

static const char *read_form(const struct http_args *form, const char *text,
                             struct delayqueue_ask *ask, struct buf *room)
{
    buf_clear(room);
    return read_body(form, slice_of(text), ask, room);
}

static void a_push_is_parsed_with_its_texts_trimmed(void **state)
{
    (void)state;
    struct delayqueue_ask ask;
    struct buf room = {0};
    assert_null(
        read_form(&delayqueue_push_args,
                  "{\"Topic\":\" t \",\"ID\":\"\\u3000i\\n\",\"delay\":2147483648,"
                  "\"ttr\":86400,\"body\":\"\\t{\\\"a\\\": 1} \",\"more\":[1]}",
                  &ask, &room));
    assert_slice(ask.topic, "t");
    assert_slice(ask.id, "i");
    assert_slice(ask.body, "{\"a\": 1}");
    assert_int_equal(ask.delay_s, INT64_C(2147483648));
    assert_int_equal(ask.ttr_s, 86400);
    assert_null(read_form(&delayqueue_push_args,
                          "{\"topic\":\"t\",\"id\":\"i\",\"delay\":1,\"ttr\":1}", &ask,
                          &room));
    assert_non_null(ask.body.p);
    assert_int_equal(ask.body.n, 0);
    buf_free(&room);
}

static void the_first_failed_check_sets_the_error(void **state)
{
    (void)state;
    static const struct {
        const struct http_args *form;
        const char *text, *message;
    } rows[] = {
        {&delayqueue_push_args, "", "解析json失败"},
        {&delayqueue_push_args, "{\"id\":5}", "解析json失败"},
        {&delayqueue_push_args, "{\"body\":{}}", "解析json失败"},
        {&delayqueue_push_args, "{\"delay\":\"1\"}", "解析json失败"},
        {&delayqueue_push_args, "null", "job id不能为空"},
        {&delayqueue_push_args, "{\"id\":\" \\u3000\",\"topic\":\"t\"}",
         "job id不能为空"},
        {&delayqueue_push_args, "{\"id\":\"i\"}", "topic 不能为空"},
        {&delayqueue_push_args, "{\"id\":\"i\",\"topic\":\"t\"}",
         "delay 取值范围1 - (2^31 - 1)"},
        {&delayqueue_push_args,
         "{\"id\":\"i\",\"topic\":\"t\",\"delay\":2147483649,\"ttr\":1}",
         "delay 取值范围1 - (2^31 - 1)"},
        {&delayqueue_push_args, "{\"id\":\"i\",\"topic\":\"t\",\"delay\":1}",
         "ttr 取值范围1 - 86400"},
        {&delayqueue_push_args,
         "{\"id\":\"i\",\"topic\":\"t\",\"delay\":1,\"ttr\":86401}",
         "ttr 取值范围1 - 86400"},
        {&delayqueue_push_args, "{\"id\":\"i\",\"topic\":\"a,b\",\"delay\":1,\"ttr\":1}",
         "the topic contains a comma, which /pop uses to separate topics"},
        {&delayqueue_pop_args, "{}", "topic不能为空"},
        {&delayqueue_pop_args, "{\"topic\":\" \"}", "topic不能为空"},
        {&delayqueue_pop_args, "{\"topic\":\"t\",\"id\":5}", NULL}, /* unknown member */
        {&delayqueue_pop_args, "{\"topic\":\",\"}", NULL},
        {&delayqueue_id_args, "{}", "job id不能为空"},
        {&delayqueue_id_args, "{\"id\":\"i\",\"topic\":5}", NULL},
        {&delayqueue_id_args, "[]", "解析json失败"},
    };
    struct delayqueue_ask ask;
    struct buf room = {0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *message = read_form(rows[i].form, rows[i].text, &ask, &room);
        if (rows[i].message)
            assert_string_equal(message, rows[i].message);
        else
            assert_null(message);
    }
    buf_free(&room);
}

/* Append a member with a letter repeated n times. */
static const char *read_long(const struct http_args *form, const char *member, size_t n,
                             char letter)
{
    struct buf text = {0}, room = {0};
    struct delayqueue_ask ask;
    buf_add_str(&text, "{\"id\":\"i\",\"topic\":\"t\",\"delay\":1,\"ttr\":1,");
    buf_addf(&text, "\"%s\":\"", member);
    memset(buf_room(&text, n), letter, n);
    buf_grew(&text, n);
    buf_add_str(&text, "\"}");
    const char *message = read_body(form, buf_slice(&text), &ask, &room);
    buf_free(&text);
    buf_free(&room);
    return message;
}

static void a_text_too_long_for_a_job_is_rejected(void **state)
{
    (void)state;
    assert_null(read_long(&delayqueue_push_args, "id", 512, 'x'));
    assert_non_null(strstr(read_long(&delayqueue_push_args, "id", 513, 'x'), "512"));
    assert_non_null(strstr(read_long(&delayqueue_id_args, "id", 513, 'x'), "512"));
    assert_null(read_long(&delayqueue_push_args, "topic", 1000, 'x'));
    assert_non_null(strstr(read_long(&delayqueue_push_args, "topic", 1001, 'x'), "1000"));
    assert_null(read_long(&delayqueue_pop_args, "topic", 1000, 'x'));
    assert_non_null(strstr(read_long(&delayqueue_pop_args, "topic", 1001, 'x'), "1000"));
    assert_null(read_long(&delayqueue_pop_args, "topic", 999, ','));
    assert_non_null(strstr(read_long(&delayqueue_pop_args, "topic", 1000, ','), "1000"));
    assert_non_null(
        strstr(read_long(&delayqueue_pop_args, "topic", 5000000, ','), "1000"));
    assert_null(read_long(&delayqueue_push_args, "body", 5000000, 'x'));
}

static void topics_are_split_at_commas(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        unsigned n;
        const char *topics[3];
    } rows[] = {
        {"", 0, {NULL}},
        {"a", 1, {"a"}},
        {"a,b,c", 3, {"a", "b", "c"}},
        {"b, a b ,\xe3\x80\x80", 2, {"b", "a b"}},
        {",,x,", 1, {"x"}},
        {",", 0, {NULL}},
    };
    struct slice topics[DELAYQUEUE_TOPICS_MAX];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned n = delayqueue_split(slice_of(rows[i].in), topics);
        assert_int_equal(n, rows[i].n);
        for (unsigned t = 0; t < n; t++)
            assert_slice(topics[t], rows[i].topics[t]);
    }
}

UNIT(delayqueue)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_space_of_unicode_is_trimmed_at_both_ends),
        cmocka_unit_test(a_push_is_parsed_with_its_texts_trimmed),
        cmocka_unit_test(the_first_failed_check_sets_the_error),
        cmocka_unit_test(a_text_too_long_for_a_job_is_rejected),
        cmocka_unit_test(topics_are_split_at_commas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
