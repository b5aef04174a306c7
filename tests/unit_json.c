/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_json.c - JSON as bridge/base/json.h reads and writes it.
 */
#include "bridge/base/json.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct thing {
    struct slice text, other, raw, task;
    int64_t number, small;
    bool yes;
};
static const struct json_field fields[] = {
    {"text", JSON_TEXT, offsetof(struct thing, text), 0, 0},
    {"other_text", JSON_TEXT, offsetof(struct thing, other), 0, 0},
    {"raw", JSON_RAW, offsetof(struct thing, raw), 0, 0},
    {"task", JSON_TEXT, offsetof(struct thing, task), 0, 0},
    {"n", JSON_INT, offsetof(struct thing, number), 0, 0},
    {"small", JSON_INT, offsetof(struct thing, small), -128, 127},
    {"yes", JSON_BOOL, offsetof(struct thing, yes), 0, 0},
    {0},
};

/* Read from memory of exactly that size, so that a sanitizer detects an overread. */
static int read_into(struct slice text, struct thing *t, struct buf *room)
{
    char *exact = malloc(text.n ? text.n : 1);
    memcpy(exact, text.p, text.n);
    int rc = json_read((struct slice){exact, text.n}, fields, t, room);
    if (rc == 0 && t->raw.p) /* the only one that borrows from the text */
        t->raw.p = text.p + (t->raw.p - exact);
    free(exact);
    return rc;
}

static int reads(struct slice text)
{
    struct thing t = {{0}, .number = 0};
    struct buf room = {0};
    int rc = read_into(text, &t, &room);
    buf_free(&room);
    return rc;
}

static void assert_slice(struct slice s, const char *want)
{
    assert_int_equal(s.n, strlen(want));
    assert_memory_equal(s.p, want, s.n);
}

static void every_json_field_is_stored_at_its_offset(void **state)
{
    (void)state;
    struct thing t = {{0}, .number = 7};
    struct buf room = {0};
    struct slice text = SLICE_LIT(
        " {\"text\" : \"a\\nb\",\t\"Other_TEXT\":\"\",\"n\":-5,\r\n\"yes\":true,"
        "\"unknown\":{\"n\":[1,{}]},\"RAW\": [1, 2 ] ,\"small\":-128 } ");
    assert_int_equal(read_into(text, &t, &room), 0);
    assert_slice(t.text, "a\nb");
    assert_slice(t.other, "");
    assert_non_null(t.other.p);
    assert_null(t.task.p);
    assert_int_equal(t.number, -5);
    assert_int_equal(t.small, -128);
    assert_true(t.yes);
    assert_slice(t.raw, "[1, 2 ]");
    buf_free(&room);
}

static void null_and_absence_leave_a_field_as_it_is_and_the_last_counts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t number;
        const char *string;
    } rows[] = {
        {"null", 7, "before"},
        {" {} ", 7, "before"},
        {"{\"n\":null,\"text\":null,\"yes\":null,\"raw\":null}", 7, "before"},
        {"{\"n\":1,\"N\":2}", 2, "before"},
        {"{\"N\":2,\"n\":null}", 2, "before"},
        {"{\"text\":\"\\u0061\\u00e9\",\"TEXT\":\"b\"}", 7, "b"},
        {"{\"text\":\"b\",\"Text\":\"\\u0061\"}", 7, "a"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct thing t = {SLICE_LIT("before"), .number = 7};
        struct buf room = {0};
        assert_int_equal(read_into(slice_of(rows[i].text), &t, &room), 0);
        assert_int_equal(t.number, rows[i].number);
        assert_slice(t.text, rows[i].string);
        buf_free(&room);
    }
}

static void keys_match_as_unicode_folds_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool there;
    } rows[] = {
        {"{\"TASK\":\"x\"}", true},
        {"{\"\\u0074as\\u004B\":\"x\"}", true},
        {"{\"ta\xc5\xbf\xe2\x84\xaa\":\"x\"}", true},
        {"{\"ta\\u017f\\u212a\":\"x\"}", true},
        {"{\"tas\":\"x\"}", false},
        {"{\"tasks\":\"x\"}", false},
        {"{\"task \":\"x\"}", false},
        {"{\"ta\xc5k\":\"x\"}", false},
        {"{\"\":\"x\"}", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct thing t = {{0}, .number = 0};
        struct buf room = {0};
        assert_int_equal(read_into(slice_of(rows[i].text), &t, &room), 0);
        assert_int_equal(t.task.p != NULL, rows[i].there);
        buf_free(&room);
    }
}

static void keys_of_any_length_are_accepted(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_add_str(&text, "{\"");
    for (int i = 0; i < 100000; i++)
        buf_add_str(&text, i % 2 ? "\xff" : "\\u0061");
    buf_add_str(&text, "\":1}");
    assert_int_equal(reads(buf_slice(&text)), 0);
    buf_free(&text);
}

static void strings_are_decoded_like_go_does(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        struct slice out;
    } rows[] = {
        {"\\\"\\\\\\/\\b\\f\\n\\r\\t", SLICE_LIT("\"\\/\b\f\n\r\t")},
        {"\\u0000\\u001F\\u00e9\\u20AC", SLICE_LIT("\0\x1f\xc3\xa9\xe2\x82\xac")},
        {"\\ud83d\\ude00", SLICE_LIT("\xf0\x9f\x98\x80")},
        {"\xf0\x9f\x98\x80\xc3\xa9", SLICE_LIT("\xf0\x9f\x98\x80\xc3\xa9")},
        {"\\ud83d", SLICE_LIT("\xef\xbf\xbd")},
        {"\\ud83dx", SLICE_LIT("\xef\xbf\xbdx")},
        {"\\ud83d\\n", SLICE_LIT("\xef\xbf\xbd\n")},
        {"\\ude00\\ud83d", SLICE_LIT("\xef\xbf\xbd\xef\xbf\xbd")},
        {"\\ud83d\\ud83d\\ude00", SLICE_LIT("\xef\xbf\xbd\xf0\x9f\x98\x80")},
        {"\\ud83d\\u0041", SLICE_LIT("\xef\xbf\xbd"
                                     "A")},
        {"a\xff\xfe", SLICE_LIT("a\xef\xbf\xbd\xef\xbf\xbd")},
        {"\xe2\x82", SLICE_LIT("\xef\xbf\xbd\xef\xbf\xbd")},
        {"\xed\xa0\x80", SLICE_LIT("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
        {"\x7f", SLICE_LIT("\x7f")},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct thing t = {{0}, .number = 0};
        struct buf room = {0}, text = {0};
        buf_addf(&text, "{\"task\":\"x\",\"text\":\"%s\"}", rows[i].in);
        assert_int_equal(read_into(buf_slice(&text), &t, &room), 0);
        assert_int_equal(t.text.n, rows[i].out.n);
        assert_memory_equal(t.text.p, rows[i].out.p, t.text.n);
        assert_slice(t.task, "x");
        buf_free(&room);
        buf_free(&text);
    }
}

static void integers_are_literals_in_range(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool fine;
        int64_t n;
    } rows[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"15", true, 15},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999999999", false, 0},
        {"1.0", false, 0},
        {"1e2", false, 0},
        {"\"15\"", false, 0},
        {"true", false, 0},
        {"[]", false, 0},
        {"01", false, 0},
        {"+1", false, 0},
        {"-", false, 0},
        {"1.", false, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct thing t = {{0}, .number = 3};
        struct buf room = {0}, text = {0};
        buf_addf(&text, "{\"n\":%s}", rows[i].text);
        assert_int_equal(read_into(buf_slice(&text), &t, &room), rows[i].fine ? 0 : -1);
        if (rows[i].fine)
            assert_int_equal(t.number, rows[i].n);
        buf_free(&room);
        buf_free(&text);
    }
    assert_int_equal(reads(slice_of("{\"small\":127}")), 0);
    assert_int_equal(reads(slice_of("{\"small\":128}")), -1);
    assert_int_equal(reads(slice_of("{\"small\":-129}")), -1);
}

static void invalid_json_and_wrong_types_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "[]",
        "1",
        "\"a\"",
        "true",
        "nul",
        "nulll",
        "null null",
        "{}x",
        "{} {}",
        "{,}",
        "{\"a\":1,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":1 \"b\":2}",
        "{\"text\":1}",
        "{\"text\":{}}",
        "{\"text\":true}",
        "{\"yes\":1}",
        "{\"yes\":\"true\"}",
        "{\"yes\":tru}",
        "{\"raw\":}",
        "{\"raw\":[1,]}",
        "{\"raw\":[1}",
        "{\"raw\":{]}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\u12",
        "{\"a\":\"\\",
        "{\"a\":\"b",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":1e+}",
        "{\"a\":-}",
        "{\"a\":NaN}",
        "{\"a\":nul}",
        "{\"a\":undefined}",
        "\xef\xbb\xbf{}",
        "{\"a\":1}\xff",
        "{\"text\":null1}",
        "{\"a\":\"\t\"}",
        "\v{}",
        "{\"a\":[1 2]}",
        "{\"a\":{\"b\"}}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (reads(slice_of(bad[i])) != -1)
            fail_msg("taken: %s", bad[i]);
    }
    assert_int_equal(reads((struct slice){"{}\0", 3}), -1);
    struct buf room = {0};
    assert_int_equal(json_read((struct slice){NULL, 0}, fields, NULL, &room), -1);
    buf_free(&room);
}

static void every_prefix_of_a_good_text_is_refused(void **state)
{
    (void)state;
    struct slice text =
        SLICE_LIT("{\"text\":\"a\\u00e9\\n\",\"n\":12,\"raw\":[{\"x\":[-1.5e+3,"
                  "null,true]},{},[]],\"yes\":false}");
    for (size_t n = 0; n < text.n; n++)
        assert_int_equal(reads((struct slice){text.p, n}), -1);
    assert_int_equal(reads(text), 0);
}

/* {"a": and then depth - 1 brackets. */
static int reads_nested(const char *key, unsigned depth)
{
    struct buf text = {0};
    buf_addf(&text, "{\"%s\":", key);
    for (unsigned i = 1; i < depth; i++)
        buf_add_str(&text, i % 2 ? "[" : "{\"x\":");
    buf_add_str(&text, "1");
    for (unsigned i = depth; i-- > 1;)
        buf_add_str(&text, i % 2 ? "]" : "}");
    buf_add_str(&text, "}");
    int rc = reads(buf_slice(&text));
    buf_free(&text);
    return rc;
}

static void nesting_depth_is_limited(void **state)
{
    (void)state;
    assert_int_equal(reads_nested("a", 2), 0);
    assert_int_equal(reads_nested("a", JSON_DEPTH_MAX), 0);
    assert_int_equal(reads_nested("raw", JSON_DEPTH_MAX), 0);
    assert_int_equal(reads_nested("a", JSON_DEPTH_MAX + 1), -1);
    assert_int_equal(reads_nested("a", 1000000), -1);
}

struct heard {
    struct buf all;
};

static void hear(void *arg, struct slice raw)
{
    struct heard *h = arg;
    buf_addf(&h->all, "<%.*s>", SLICE_ARG(raw));
}

static void elements_are_reported_only_if_the_whole_array_is_valid(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int n;
        const char *heard;
    } rows[] = {
        {"null", 0, ""},
        {" [ ] ", 0, ""},
        {"[1]", 1, "<1>"},
        {" [ 1 ,\"a,]\", {\"b\" : [ ] } ,[2, 3]\n] ", 4,
         "<1><\"a,]\"><{\"b\" : [ ] }><[2, 3]>"},
        {"[1,2", -1, ""},
        {"[1,]", -1, ""},
        {"[1,2]x", -1, ""},
        {"[1,x]", -1, ""},
        {"{}", -1, ""},
        {"1", -1, ""},
        {"", -1, ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct heard h = {{0}};
        assert_int_equal(json_each(slice_of(rows[i].text), hear, &h), rows[i].n);
        assert_string_equal(buf_str(&h.all), rows[i].heard);
        buf_free(&h.all);
    }
}

static void strings_are_written_as_go_writes_them(void **state)
{
    (void)state;
    static const struct {
        struct slice in;
        const char *out;
    } rows[] = {
        {SLICE_LIT(""), "\"\""},
        {{NULL, 0}, "\"\""},
        {SLICE_LIT("a\"\\/b"), "\"a\\\"\\\\/b\""},
        {SLICE_LIT("<&>"), "\"\\u003c\\u0026\\u003e\""},
        {SLICE_LIT("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\""},
        {SLICE_LIT("\0\x1f\x7f"), "\"\\u0000\\u001f\x7f\""},
        {SLICE_LIT("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa"),
         "\"\\u2028\\u2029\xe2\x80\xaa\""},
        {SLICE_LIT("\xc3\xa9\xf0\x9f\x98\x80"), "\"\xc3\xa9\xf0\x9f\x98\x80\""},
        {SLICE_LIT("a\xffz\xe2\x80"), "\"a\\ufffdz\\ufffd\\ufffd\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b = {0};
        text_add_json_go(&b, rows[i].in);
        assert_string_equal(buf_str(&b), rows[i].out);
        buf_free(&b);
    }
}

UNIT(json)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_json_field_is_stored_at_its_offset),
        cmocka_unit_test(null_and_absence_leave_a_field_as_it_is_and_the_last_counts),
        cmocka_unit_test(keys_match_as_unicode_folds_them),
        cmocka_unit_test(keys_of_any_length_are_accepted),
        cmocka_unit_test(strings_are_decoded_like_go_does),
        cmocka_unit_test(integers_are_literals_in_range),
        cmocka_unit_test(invalid_json_and_wrong_types_are_refused),
        cmocka_unit_test(every_prefix_of_a_good_text_is_refused),
        cmocka_unit_test(nesting_depth_is_limited),
        cmocka_unit_test(elements_are_reported_only_if_the_whole_array_is_valid),
        cmocka_unit_test(strings_are_written_as_go_writes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
