/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_match.c - topic filters of bridge/job/tmpl.h, row by row.
 */
#include "bridge/job/tmpl.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void a_filter_has_wildcards_only_as_whole_levels(void **state)
{
    (void)state;
    static const char *const good[] = {
        "#",  "+",      "a",     "/",    "a/b", "+/#", "a/+",   "+/+/+",     "a//b",
        "/#", "$SYS/#", "a/+/c", "$a/+", "a b", "+/",  "a.b.c", "a/\xc3\xa4"};
    static const char *const bad[] = {"",   "a#", "#/a",  "a/#/b",  "a+", "+a", "a/b+",
                                      "##", "++", "a/#b", "a/+b/c", "#/", "+#"};
    struct err err;
    for (size_t i = 0; i < COUNT(good); i++)
        if (match_filter_check(good[i], &err) < 0)
            fail_msg("\"%s\" is refused: %s", good[i], err.text);
    for (size_t i = 0; i < COUNT(bad); i++) {
        err.text[0] = '\0';
        if (match_filter_check(bad[i], &err) == 0 || err.text[0] == '\0')
            fail_msg("\"%s\" is accepted", bad[i]);
    }
}

static void a_topic_matches_by_the_mqtt_standard(void **state)
{
    (void)state;
    static const struct {
        const char *filter, *topic;
        bool matches;
        const char *captures; /* each followed by | */
    } rows[] = {
        {"a/b", "a/b", true, ""},
        {"a/b", "a/B", false, ""},
        {"a/b", "a", false, ""},
        {"a/b", "a/b/c", false, ""},
        {"a/b", "a/b/", false, ""},
        {"a", "ab", false, ""},
        {"#", "a/b/c", true, "a/b/c|"},
        {"#", "/", true, "/|"},
        {"#", "", true, "|"},
        {"+", "a", true, "a|"},
        {"+", "", true, "|"},
        {"+", "a/b", false, ""},
        {"+", "/a", false, ""},
        {"+/+", "/a", true, "|a|"},
        {"/+", "/a", true, "a|"},
        {"+/", "a/", true, "a|"},
        {"sport/tennis/player1/#", "sport/tennis/player1", true, "|"},
        {"sport/tennis/player1/#", "sport/tennis/player1/ranking", true, "ranking|"},
        {"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true,
         "score/wimbledon|"},
        {"sport/#", "sport", true, "|"},
        {"sport/#", "sport/", true, "|"},
        {"sport/#", "sports", false, ""},
        {"sport/+", "sport", false, ""},
        {"sport/+", "sport/", true, "|"},
        {"+/tennis/#", "sport/tennis/a/b", true, "sport|a/b|"},
        {"+/b/+/#", "a/b/c", true, "a|c||"},
        {"#", "$SYS/a", false, ""},
        {"+/a", "$SYS/a", false, ""},
        {"+/#", "$delayed/5/a", false, ""},
        {"$SYS/#", "$SYS/a", true, "a|"},
        {"$SYS/+", "$SYS/a", true, "a|"},
        {"$delayed/+/#", "$delayed/5/a/b", true, "5|a/b|"},
        {"a/#", "a/$b", true, "$b|"},
        {"orders.delayed", "orders.delayed", true, ""},
        {"+/+/+/+/+/+/+/+/+/+", "1/2/3/4/5/6/7/8/9/10", true, "1|2|3|4|5|6|7|8|9|"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice captures[MATCH_CAPTURES_MAX];
        unsigned count = 99;
        char text[128] = "";
        assert_int_equal(match_filter_check(rows[i].filter, NULL), 0);
        bool matches =
            match_topic(rows[i].filter, slice_of(rows[i].topic), captures, &count);
        for (unsigned k = 0; k < count; k++) {
            size_t n = strlen(text);
            snprintf(text + n, sizeof(text) - n, "%.*s|", SLICE_ARG(captures[k]));
        }
        if (matches != rows[i].matches || strcmp(text, rows[i].captures) != 0)
            fail_msg("%s on %s: %d, %s", rows[i].filter, rows[i].topic, matches, text);
        assert_int_equal(match_topic(rows[i].filter, slice_of(rows[i].topic), NULL, NULL),
                         matches);
    }
}

static void a_missing_topic_is_an_empty_one(void **state)
{
    (void)state;
    unsigned count;
    assert_true(match_topic("#", (struct slice){NULL, 0}, NULL, &count));
    assert_int_equal(count, 1);
    assert_false(match_topic("a", (struct slice){NULL, 0}, NULL, &count));
}

static void a_filter_covers_another_if_it_matches_each_of_its_topics(void **state)
{
    (void)state;
    static const char *const filters[] = {"#",     "+",      "a",    "b",     "a/#",
                                          "a/+",   "+/b",    "a/b",  "a/+/c", "+/#",
                                          "a/b/#", "$SYS/#", "$SYS", "+/+"};
    static const char *const topics[] = {
        "a",     "b",     "c",     "a/b", "a/c",  "b/b",    "c/c",     "a/b/c",
        "a/d/c", "a/b/d", "b/c/d", "a/",  "$SYS", "$SYS/a", "x/y/z/w", "a/b/c/d"};
    for (size_t i = 0; i < COUNT(filters); i++)
        for (size_t k = 0; k < COUNT(filters); k++) {
            bool covers = true;
            for (size_t t = 0; t < COUNT(topics); t++)
                if (match_topic(filters[k], slice_of(topics[t]), NULL, NULL))
                    covers &= match_topic(filters[i], slice_of(topics[t]), NULL, NULL);
            if (strcmp(filters[i], "+/#") == 0 && strcmp(filters[k], "#") == 0)
                covers = false; /* the only pair that it does not detect */
            if (match_covers(filters[i], filters[k]) != covers)
                fail_msg("%s covers %s: expected %d", filters[i], filters[k], covers);
        }
}

UNIT(match)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_has_wildcards_only_as_whole_levels),
        cmocka_unit_test(a_topic_matches_by_the_mqtt_standard),
        cmocka_unit_test(a_missing_topic_is_an_empty_one),
        cmocka_unit_test(a_filter_covers_another_if_it_matches_each_of_its_topics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
