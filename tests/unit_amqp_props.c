/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_amqp_props.c - frames, properties and headers of AMQP.
 */
#include "sources/amqp/amqp_props.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void a_frame_is_taken_only_when_it_is_whole(void **state)
{
    const struct slice whole = SLICE_LIT("\1\0\2\0\0\0\3abc\xce"
                                         "\x08\0\0\0\0\0\0\xce");
    struct amqp_frame f;
    struct err err;
    (void)state;
    for (size_t n = 0; n < 11; n++) {
        struct slice in = {whole.p, n};
        assert_int_equal(amqp_frame_take(&in, 4096, &f, &err), 0);
        assert_int_equal(in.n, n);
    }
    struct slice in = whole;
    assert_int_equal(amqp_frame_take(&in, 4096, &f, &err), 1);
    assert_int_equal(f.type, AMQP_METHOD);
    assert_int_equal(f.channel, 2);
    assert_true(slice_is(f.payload, "abc"));
    assert_int_equal(amqp_frame_take(&in, 4096, &f, &err), 1);
    assert_int_equal(f.type, AMQP_BEAT);
    assert_int_equal(in.n, 0);
}

static void a_frame_that_is_put_is_taken_unchanged(void **state)
{
    struct buf out = {0};
    struct amqp_frame f;
    (void)state;
    amqp_frame_put(&out, AMQP_BODY, 65535, SLICE_LIT("body"));
    struct slice in = buf_slice(&out);
    assert_int_equal(amqp_frame_take(&in, 4096, &f, NULL), 1);
    assert_int_equal(f.type, AMQP_BODY);
    assert_int_equal(f.channel, 65535);
    assert_true(slice_is(f.payload, "body"));
    buf_free(&out);
}

static void a_bad_frame_is_rejected_with_its_reason(void **state)
{
    static const struct {
        struct slice in;
        const char *why;
    } rows[] = {
        {SLICE_LIT("AMQP\0\0\x09\x01"), "does not support AMQP 0-9-1"},
        {SLICE_LIT("HTTP/1.1 400"), "not an AMQP 0-9-1 server"},
        {SLICE_LIT("\1\0\1\0\0\x10\0"), "a frame of 4096 bytes; the limit is 4088"},
        {SLICE_LIT("\1\0\1\0\0\0\1a!"), "without an end"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice in = rows[i].in;
        struct amqp_frame f;
        struct err err = {""};
        assert_int_equal(amqp_frame_take(&in, 4096, &f, &err), -1);
        assert_non_null(strstr(err.text, rows[i].why));
    }
}

/* All properties but the cluster id, in the order of their flags. */
static const struct slice full = SLICE_LIT("\xff\xf8"
                                           "\x0atext/plain"
                                           "\4gzip"
                                           "\0\0\0\x0b\1aI\0\0\0\5\1t"
                                           "t\1" /* the headers: a = 5, t = true */
                                           "\2"
                                           "\7"
                                           "\2co\2re\3"
                                           "500\2id"
                                           "\0\0\0\0\x65\x92\0\x80"
                                           "\2ty\2us\2ap");

static void all_properties_are_read_and_put_back_byte_for_byte(void **state)
{
    static const struct {
        enum amqp_prop prop;
        const char *header, *text;
    } rows[] = {{AMQP_CONTENT_TYPE, "content-type", "text/plain"},
                {AMQP_CONTENT_ENCODING, "content-encoding", "gzip"},
                {AMQP_DELIVERY_MODE, NULL, "2"},
                {AMQP_PRIORITY, "amqp-priority", "7"},
                {AMQP_CORRELATION_ID, "amqp-correlation-id", "co"},
                {AMQP_REPLY_TO, "amqp-reply-to", "re"},
                {AMQP_EXPIRATION, NULL, "500"},
                {AMQP_MESSAGE_ID, "amqp-message-id", "id"},
                {AMQP_TIMESTAMP, "amqp-timestamp", "1704067200"},
                {AMQP_TYPE, "amqp-type", "ty"},
                {AMQP_USER_ID, "amqp-user-id", "us"},
                {AMQP_APP_ID, "amqp-app-id", "ap"}};
    struct amqp_props props;
    struct err err = {""};
    char room[AMQP_TEXT_SIZE];
    struct buf out = {0};
    (void)state;
    assert_int_equal(amqp_props_parse(full, &props, &err), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_true(slice_is(amqp_prop_text(&props, rows[i].prop, room), rows[i].text));
        if (rows[i].header)
            assert_string_equal(amqp_prop_header(rows[i].prop), rows[i].header);
        buf_clear(&out);
        assert_int_equal(amqp_prop_put(&out, rows[i].prop, slice_of(rows[i].text)), 0);
        assert_true(slice_eq(buf_slice(&out), props.raw[rows[i].prop]));
    }
    assert_null(amqp_prop_text(&props, AMQP_CLUSTER_ID, room).p);
    assert_null(amqp_prop_text(&props, AMQP_HEADERS, room).p);
    buf_clear(&out);
    amqp_props_put(&props, &out);
    assert_true(slice_eq(buf_slice(&out), full));
    buf_free(&out);
}

static void properties_that_are_cut_off_anywhere_are_rejected(void **state)
{
    struct amqp_props props;
    (void)state;
    for (size_t n = 0; n < full.n; n++)
        assert_int_equal(
            amqp_props_parse((struct slice){full.p, n}, &props, &(struct err){""}), -1);
    assert_int_equal(amqp_props_parse(SLICE_LIT("\0\0more"), &props, NULL), -1);
    assert_int_equal(amqp_props_parse(SLICE_LIT("\0\1"), &props, NULL), -1);
    assert_int_equal(amqp_props_parse(SLICE_LIT("\x20\0\0\0\0\3\1a?"), &props, NULL), -1);
}

static void tables_nested_too_deeply_are_rejected(void **state)
{
    (void)state;
    for (unsigned depth = 30; depth < 40; depth++) {
        struct buf inner = {0};
        struct amqp_props props;
        for (unsigned i = 0; i < depth; i++) { /* an array in an array ... in a field */
            struct buf outer = {0};
            buf_add(&outer, i + 1 < depth ? "A" : "\1xA", i + 1 < depth ? 1 : 3);
            amqp_put_number(&outer, inner.n, 4);
            buf_add_slice(&outer, buf_slice(&inner));
            buf_free(&inner);
            inner = outer;
        }
        struct buf all = {0};
        amqp_put_number(&all, 0x2000, 2);
        amqp_put_number(&all, inner.n, 4);
        buf_add_slice(&all, buf_slice(&inner));
        assert_int_equal(amqp_props_parse(buf_slice(&all), &props, NULL),
                         depth <= 32 ? 0 : -1);
        buf_free(&inner);
        buf_free(&all);
    }
}

static void every_scalar_has_a_text(void **state)
{
    static const struct {
        struct slice field;
        const char *text;
    } rows[] = {
        {SLICE_LIT("\1nS\0\0\0\2ab"), "ab"},
        {SLICE_LIT("\1nx\0\0\0\2ab"), "ab"},
        {SLICE_LIT("\1nt\0"), "false"},
        {SLICE_LIT("\1nt\1"), "true"},
        {SLICE_LIT("\1nb\xff"), "-1"},
        {SLICE_LIT("\1nB\xff"), "255"},
        {SLICE_LIT("\1ns\x80\0"), "-32768"},
        {SLICE_LIT("\1nu\xff\xff"), "65535"},
        {SLICE_LIT("\1nI\xff\xff\xec\x78"), "-5000"},
        {SLICE_LIT("\1ni\xff\xff\xff\xff"), "4294967295"},
        {SLICE_LIT("\1nl\xff\xff\xff\xff\xff\xff\xff\xfe"), "-2"},
        {SLICE_LIT("\1nL\xff\xff\xff\xff\xff\xff\xff\xff"), "18446744073709551615"},
        {SLICE_LIT("\1nT\0\0\0\0\0\0\0\2"), "2"},
        {SLICE_LIT("\1nf\x3d\xcc\xcc\xcd"), "0.1"},
        {SLICE_LIT("\1nd\x3f\xb9\x99\x99\x99\x99\x99\x9a"), "0.1"},
        {SLICE_LIT("\1nd\x3f\xf5\x55\x55\x55\x55\x55\x55"), "1.3333333333333333"},
        {SLICE_LIT("\1nD\2\0\0\4\xd2"), "12.34"},
        {SLICE_LIT("\1nD\3\xff\xff\xff\xff"), "-0.001"},
        {SLICE_LIT("\1nD\0\0\0\0\7"), "7"}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice rest = rows[i].field, text;
        struct amqp_field f;
        char room[AMQP_TEXT_SIZE];
        assert_true(amqp_field_take(&rest, &f));
        assert_int_equal(rest.n, 0);
        assert_true(slice_eq(f.raw, rows[i].field));
        assert_true(slice_is(f.name, "n"));
        assert_true(amqp_field_text(&f, room, &text));
        if (!slice_is(text, rows[i].text))
            fail_msg("%.*s instead of %s", SLICE_ARG(text), rows[i].text);
    }
}

static void a_void_is_an_absent_text_and_a_table_has_none(void **state)
{
    struct slice rest = SLICE_LIT("\1nV\1nF\0\0\0\0\1nA\0\0\0\0"), text = {"", 0};
    struct amqp_field f;
    char room[AMQP_TEXT_SIZE];
    (void)state;
    assert_true(amqp_field_take(&rest, &f) && amqp_field_text(&f, room, &text));
    assert_null(text.p);
    assert_true(amqp_field_take(&rest, &f) && !amqp_field_text(&f, room, &text));
    assert_true(amqp_field_take(&rest, &f) && !amqp_field_text(&f, room, &text));
    assert_false(amqp_field_take(&rest, &f));
}

static void numbers_are_read_from_every_type_that_has_them(void **state)
{
    static const struct {
        struct slice field;
        bool is;
        int64_t n;
    } rows[] = {{SLICE_LIT("\1nI\0\0\x13\x88"), true, 5000},
                {SLICE_LIT("\1nS\0\0\0\4-200"), true, -200},
                {SLICE_LIT("\1nS\0\0\0\4 200"), false, 0},
                {SLICE_LIT("\1nS\0\0\0\0"), false, 0},
                {SLICE_LIT("\1nd\x40\x29\xff\xff\xff\xff\xff\xff"), true, 12},
                {SLICE_LIT("\1nd\x7f\xf8\0\0\0\0\0\0"), false, 0},
                {SLICE_LIT("\1nL\xff\xff\xff\xff\xff\xff\xff\xff"), true, INT64_MAX},
                {SLICE_LIT("\1nt\1"), false, 0}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice rest = rows[i].field;
        struct amqp_field f;
        int64_t n = 0;
        assert_true(amqp_field_take(&rest, &f));
        assert_int_equal(amqp_field_number(&f, &n), rows[i].is);
        if (rows[i].is)
            assert_int_equal(n, rows[i].n);
    }
}

static void a_number_is_put_in_the_smallest_type_of_the_plugin(void **state)
{
    struct buf out = {0};
    (void)state;
    amqp_field_put_number(&out, SLICE_LIT("n"), -5000);
    assert_true(slice_eq(buf_slice(&out), SLICE_LIT("\1nI\xff\xff\xec\x78")));
    buf_clear(&out);
    amqp_field_put_number(&out, SLICE_LIT("n"), INT64_C(-5000000000));
    assert_true(
        slice_eq(buf_slice(&out), SLICE_LIT("\1nl\xff\xff\xff\xfe\xd5\xfa\x0e\0")));
    buf_free(&out);
}

static void a_text_that_is_no_value_of_a_property_is_rejected(void **state)
{
    struct buf out = {0}, longer = {0};
    (void)state;
    for (unsigned i = 0; i < 256; i++)
        buf_add(&longer, "x", 1);
    assert_int_equal(amqp_prop_put(&out, AMQP_PRIORITY, SLICE_LIT("256")), -1);
    assert_int_equal(amqp_prop_put(&out, AMQP_TIMESTAMP, SLICE_LIT("today")), -1);
    assert_int_equal(amqp_prop_put(&out, AMQP_TYPE, buf_slice(&longer)), -1);
    assert_int_equal(out.n, 0);
    buf_free(&longer);
}

UNIT(amqp_props)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_is_taken_only_when_it_is_whole),
        cmocka_unit_test(a_frame_that_is_put_is_taken_unchanged),
        cmocka_unit_test(a_bad_frame_is_rejected_with_its_reason),
        cmocka_unit_test(all_properties_are_read_and_put_back_byte_for_byte),
        cmocka_unit_test(properties_that_are_cut_off_anywhere_are_rejected),
        cmocka_unit_test(tables_nested_too_deeply_are_rejected),
        cmocka_unit_test(every_scalar_has_a_text),
        cmocka_unit_test(a_void_is_an_absent_text_and_a_table_has_none),
        cmocka_unit_test(numbers_are_read_from_every_type_that_has_them),
        cmocka_unit_test(a_number_is_put_in_the_smallest_type_of_the_plugin),
        cmocka_unit_test(a_text_that_is_no_value_of_a_property_is_rejected)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
