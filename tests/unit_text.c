/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_text.c - percent signs, JSON strings and base64 of bridge/base/text.h.
 */
#include "bridge/base/text.h"
#include "bridge/base/mem.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void percent_signs_decode_and_a_bad_one_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {{"", ""},
                {"a%2Fb%20c", "a/b c"},
                {"%41%6a", "Aj"},
                {"+", "+"},
                {"%", NULL},
                {"%2", NULL},
                {"%zz", NULL},
                {"a%2", NULL},
                {"%c3%A9", "\xc3\xa9"}};
    char out[32];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        long n = text_percent_decode(slice_of(rows[i].in), out);
        assert_int_equal(n, rows[i].out ? (long)strlen(rows[i].out) : -1);
        if (rows[i].out)
            assert_memory_equal(out, rows[i].out, (size_t)n);
    }
}

static void characters_outside_the_kept_set_are_escaped(void **state)
{
    (void)state;
    struct buf b = {0};
    text_add_percent(&b, (struct slice){"a.b/c%\0\xff-_", 10}, "/");
    assert_string_equal(buf_str(&b), "a%2Eb/c%25%00%FF-_");
    buf_free(&b);
}

static void json_strings_are_valid_for_any_input(void **state)
{
    (void)state;
    static const struct {
        struct slice in;
        const char *out;
    } rows[] = {
        {{NULL, 0}, "null"},
        {{"", 0}, "\"\""},
        {{"a\"\\\n\0\x1f\x7f", 7}, "\"a\\\"\\\\\\n\\u0000\\u001F\\u007F\""},
        {{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9},
         "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {{"a\xff z\xc3", 5}, "\"a\xef\xbf\xbd z\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b = {0};
        text_add_json(&b, rows[i].in);
        assert_string_equal(buf_str(&b), rows[i].out);
        buf_free(&b);
    }
}

static void utf8_is_distinguished_from_other_bytes(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",         "\xc0\x80",
                                      "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                      "\xe2\x82",     "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(text_is_utf8(slice_of(bad[i])));
    assert_true(text_is_utf8(slice_of("a\xc3\xa9\xed\x9f\xbf\xf4\x8f\xbf\xbf")));
    assert_true(text_is_utf8((struct slice){NULL, 0}));
}

static void base64_is_decoded_as_encoded(void **state)
{
    (void)state;
    static const struct {
        const char *plain, *text;
    } rows[] = {{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
                {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe\xfd", "//79"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf text = {0}, plain = {0};
        text_add_base64(&text, slice_of(rows[i].plain));
        assert_string_equal(buf_str(&text), rows[i].text);
        assert_int_equal(text_base64_decode(buf_slice(&text), &plain), 0);
        assert_string_equal(buf_str(&plain), rows[i].plain);
        buf_free(&text);
        buf_free(&plain);
    }
}

static void bad_base64_is_refused_and_missing_padding_is_not(void **state)
{
    (void)state;
    static const char *const bad[] = {"A",    "Zg===", "Z=g=", "Zm9*",
                                      "====", "Zg =",  "Zm9v="};
    struct buf out = {0};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(text_base64_decode(slice_of(bad[i]), &out), -1);
    assert_int_equal(text_base64_decode(slice_of("Zm8"), &out), 0);
    assert_memory_equal(out.p + out.n - 2, "fo", 2);
    buf_free(&out);
}

static void tokens_and_values_contain_no_characters_that_break_a_header(void **state)
{
    (void)state;
    assert_true(text_is_token(slice_of("X-A_b.1")));
    assert_false(text_is_token(slice_of("")));
    assert_false(text_is_token(slice_of("a b")));
    assert_false(text_is_token(slice_of("a:")));
    assert_false(text_is_token((struct slice){"a\0b", 3}));
    assert_true(text_is_header_value(slice_of("any \xff text")));
    assert_false(text_is_header_value(slice_of("a\r\nb: c")));
    assert_false(text_is_header_value((struct slice){"a\0", 2}));
    assert_true(text_is_header_value(slice_of("a\tb")));
    assert_false(text_is_header_value(slice_of("a\033[2J")));
    assert_false(text_is_header_value(slice_of("\177")));
}

/* memcpy() must not get NULL: with sanitizers (`make asan`) the program would end. */
static void an_empty_slice_without_bytes_is_copied(void **state)
{
    (void)state;
    char out[4] = "abc";
    assert_ptr_equal(slice_put(out, (struct slice){NULL, 0}), out);
    assert_ptr_equal(slice_put(out, SLICE_LIT("xy")), out + 2);
    assert_string_equal(out, "xyc");
    char *copy = mem_strndup(NULL, 0);
    assert_string_equal(copy, "");
    free(copy);
}

static void a_list_is_cut_part_by_part_and_its_last_part_may_be_empty(void **state)
{
    (void)state;
    struct slice rest = SLICE_LIT("a,,b,");
    static const char *const parts[] = {"a", "", "b", ""};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        assert_non_null(rest.p);
        assert_true(slice_is(text_cut(&rest, ','), parts[i]));
    }
    assert_null(rest.p);
    assert_null(text_cut(&rest, ',').p);
}

UNIT(text)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_cut_part_by_part_and_its_last_part_may_be_empty),
        cmocka_unit_test(percent_signs_decode_and_a_bad_one_is_an_error),
        cmocka_unit_test(characters_outside_the_kept_set_are_escaped),
        cmocka_unit_test(json_strings_are_valid_for_any_input),
        cmocka_unit_test(utf8_is_distinguished_from_other_bytes),
        cmocka_unit_test(base64_is_decoded_as_encoded),
        cmocka_unit_test(bad_base64_is_refused_and_missing_padding_is_not),
        cmocka_unit_test(tokens_and_values_contain_no_characters_that_break_a_header),
        cmocka_unit_test(an_empty_slice_without_bytes_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
