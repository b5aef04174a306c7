/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_mqtt_topic.c - names in MQTT, and the delay in a topic.
 */
#include "sources/mqtt/mqtt_job.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void a_topic_to_publish_to_has_no_wildcards(void **state)
{
    static const char *const good[] = {"a",  "a/b", "/", "$SYS/x", "gr\xc3\xbc\xc3\x9f",
                                       "a b"};
    static const char *const bad[] = {"",      "a/#",   "+/b",  "a+",
                                      "a\x01", "a\x7f", "\xff", "a\xc3"};
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        assert_int_equal(mqtt_topic_check(slice_of(good[i]), NULL), 0);
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(mqtt_topic_check(slice_of(bad[i]), NULL), -1);
    assert_int_equal(mqtt_topic_check(SLICE_LIT("a\0b"), NULL), -1);
}

static void a_topic_longer_than_the_maximum_is_rejected(void **state)
{
    struct slice s = {malloc(65536), 65535};
    (void)state;
    memset((char *)(uintptr_t)s.p, 'a', 65536);
    assert_int_equal(mqtt_topic_check(s, NULL), 0);
    s.n++;
    assert_int_equal(mqtt_topic_check(s, NULL), -1);
    free((char *)(uintptr_t)s.p);
}

static void invalid_utf8_and_control_characters_are_rejected(void **state)
{
    static const struct {
        const char *text;
        bool ok;
    } rows[] = {{"", true},
                {"plain ~", true},
                {"\xc3\xbc", true},
                {"\xe2\x82\xac", true},
                {"\xf0\x9f\x98\x80", true},
                {"\xf4\x8f\xbf\xbd", true},
                {"\n", false},
                {"\xc2\x80", false},         /* a control character */
                {"\xc2\xa0", true},          /* the first after them */
                {"\xc0\xaf", false},         /* overlong */
                {"\xe0\x9f\xbf", false},     /* overlong */
                {"\xed\xa0\x80", false},     /* a surrogate */
                {"\xef\xb7\x90", false},     /* a non-character */
                {"\xef\xbf\xbf", false},     /* another */
                {"\xf4\x90\x80\x80", false}, /* above U+10FFFF */
                {"\xf8\x88\x80\x80\x80", false},
                {"\x80", false},
                {"\xe2\x82", false},
                {"\xe2\x82z", false}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(mqtt_text_ok(slice_of(rows[i].text)), rows[i].ok);
    assert_true(mqtt_text_ok((struct slice){NULL, 0}));
}

static void a_filter_may_contain_wildcards_only_as_whole_levels(void **state)
{
    static const char *const good[] = {"#",  "+",          "a/#",          "+/b/+", "/",
                                       "//", "$delayed/#", "$share/g/a/+", "a"};
    static const char *const bad[] = {"", "a#", "#/a", "a/#/b", "a+/b", "+a", "##"};
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        assert_int_equal(mqtt_filter_check(slice_of(good[i]), NULL), 0);
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(mqtt_filter_check(slice_of(bad[i]), NULL), -1);
}

static void a_delay_is_read_from_the_topic(void **state)
{
    static const struct {
        const char *topic;
        enum mqtt_delay_form form;
        int64_t number;
        const char *rest;
    } rows[] = {
        {"a/b", MQTT_NOT_DELAYED, 0, "a/b"},
        {"$delayed", MQTT_DELAYED_BAD, 0, "$delayed"},
        {"x/$delayed/5/a", MQTT_NOT_DELAYED, 0, "x/$delayed/5/a"},
        {"$delayed/5/a/b", MQTT_DELAYED_AFTER, 5, "a/b"},
        {"$delayed/0/a", MQTT_DELAYED_AFTER, 0, "a"},
        {"$delayed/007//a", MQTT_DELAYED_AFTER, 7, "/a"},
        {"$delayed/999999999/a", MQTT_DELAYED_AFTER, 999999999, "a"},
        {"$delayed/1000000000/a", MQTT_DELAYED_AT, 1000000000, "a"},
        {"$delayed/1767225600000/a", MQTT_DELAYED_AT, 1767225600000, "a"},
        {"$delayed/999999999999999/a", MQTT_DELAYED_AT, 999999999999999, "a"},
        {"$delayed/1000000000000000/a", MQTT_DELAYED_BAD, 0,
         "$delayed/1000000000000000/a"},
        {"$delayed/", MQTT_DELAYED_BAD, 0, "$delayed/"},
        {"$delayed/5", MQTT_DELAYED_BAD, 0, "$delayed/5"},
        {"$delayed/5/", MQTT_DELAYED_BAD, 0, "$delayed/5/"},
        {"$delayed//a", MQTT_DELAYED_BAD, 0, "$delayed//a"},
        {"$delayed/-5/a", MQTT_DELAYED_BAD, 0, "$delayed/-5/a"},
        {"$delayed/5s/a", MQTT_DELAYED_BAD, 0, "$delayed/5s/a"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mqtt_delayed d = mqtt_delayed_split(slice_of(rows[i].topic));
        assert_int_equal(d.form, rows[i].form);
        assert_true(slice_is(d.rest, rows[i].rest));
        if (d.form != MQTT_DELAYED_BAD)
            assert_true(d.number == rows[i].number);
    }
}

UNIT(mqtt_topic)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_to_publish_to_has_no_wildcards),
        cmocka_unit_test(a_topic_longer_than_the_maximum_is_rejected),
        cmocka_unit_test(invalid_utf8_and_control_characters_are_rejected),
        cmocka_unit_test(a_filter_may_contain_wildcards_only_as_whole_levels),
        cmocka_unit_test(a_delay_is_read_from_the_topic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
