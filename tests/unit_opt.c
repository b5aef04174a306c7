/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_opt.c - the option rows: what each type accepts, rejects, prints and frees. */
#include "bridge/base/retry.h"
#include "bridge/base/text.h"
#include "bridge/opt.h"
#include "bridge/conf/conf_internal.h"
#include "tests/unit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct box {
    char *text, *secret, *maybe;
    int64_t number, ms, bytes;
    double real;
    bool flag;
    int choice;
    struct opt_list list;
    struct pairs pairs;
    struct retry_policy retry;
};

#define AT(field) offsetof(struct box, field)
static const struct opt rows[] = {
    {"text", OPT_STR, AT(text), "abc", .help = "A text."},
    {"secret", OPT_SECRET, AT(secret), "", .help = "A secret."},
    {"maybe", OPT_STR, AT(maybe), NULL, .help = "Perhaps.", .optional = true},
    {"number", OPT_INT, AT(number), "5", .help = "A number.", .min = -3, .max = 9},
    {"wait_time", OPT_MS, AT(ms), "1h30m", .help = "A time.", .min = 1000,
     .max = 86400000},
    {"size", OPT_BYTES, AT(bytes), "64KiB", .help = "A size.", .min = 1},
    {"real", OPT_REAL, AT(real), "2.5", .help = "A real.", .max = 10},
    {"flag", OPT_BOOL, AT(flag), "true", .help = "A flag."},
    {"choice", OPT_CHOICE, AT(choice), "two", .help = "A choice.",
     .choices = "one|two|three"},
    {"list", OPT_LIST, AT(list), "[ \"a\", \"b c\" ]", .help = "A list."},
    {"pairs", OPT_PAIRS, AT(pairs), "{ x = \"1\"; y = 2; z = true }", .help = "Pairs."},
    {"retry", OPT_RETRY, AT(retry), "{ first = \"2s\"; limit = 3; }",
     .help = "A schedule."},
    {0}};

static const struct opt required[] = {{"text", OPT_STR, AT(text), NULL, .help = "Text."},
                                      {"list", OPT_LIST, AT(list), NULL, .help = "List."},
                                      {0}};
#undef AT

static struct opt_value str(const char *text)
{
    return (struct opt_value){.kind = OPT_IS_STR, .str = text};
}

static struct opt_value integer(int64_t n)
{
    return (struct opt_value){.kind = OPT_IS_INT, .integer = n};
}

static int set(struct box *box, const char *name, struct opt_value v, struct err *err)
{
    return opt_set(opt_find(rows, name), box, &v, err);
}

static void defaults_are_the_same_in_table_and_file(void **state)
{
    (void)state;
    struct box box = {0};
    opt_defaults(rows, &box);
    assert_string_equal(box.text, "abc");
    assert_string_equal(box.secret, "");
    assert_null(box.maybe);
    assert_int_equal(box.number, 5);
    assert_int_equal(box.ms, 5400000);
    assert_int_equal(box.bytes, 65536);
    assert_true(box.real == 2.5 && box.flag);
    assert_int_equal(box.choice, 1);
    assert_int_equal(box.list.n, 2);
    assert_string_equal(box.list.v[1], "b c");
    assert_int_equal(box.pairs.n, 3);
    assert_string_equal(box.pairs.v[1].value, "2");
    assert_string_equal(box.pairs.v[2].value, "true");
    assert_int_equal(box.retry.first_ms, 2000);
    assert_int_equal(box.retry.limit, 3);
    assert_int_equal(box.retry.max_ms, 600000); /* an absent option has its default */
    opt_free(rows, &box);
    assert_memory_equal(&box, &(struct box){0}, sizeof(box));
}

static void an_invalid_default_is_rejected(void **state)
{
    (void)state;
    static const struct {
        enum opt_type type;
        const char *text;
    } bad[] = {{OPT_INT, ""},
               {OPT_INT, "5x"},
               {OPT_REAL, "1.5.2"},
               {OPT_BOOL, "yes"},
               {OPT_LIST, "[ \"a\""},
               {OPT_LIST, "[ \"a ]"},
               {OPT_LIST, "[ a ]"},
               {OPT_PAIRS, "{ x }"},
               {OPT_PAIRS, "{ = 1; }"},
               {OPT_PAIRS, "{ x = "},
               {OPT_LIST, "[ 1 2 ]"},
               {OPT_LIST, "[ 1 ] x"},
               {OPT_INT, "99999999999999999999"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const struct opt row = {"x", bad[i].type, 0, NULL, .help = ""};
        struct box box = {0};
        assert_int_equal(opt_set_text(&row, &box, bad[i].text, NULL), -1);
        assert_memory_equal(&box, &(struct box){0}, sizeof(box));
    }
}

static void an_error_names_the_valid_values(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct opt_value v;
        const char *says;
    } bad[] = {
        {"text", {.kind = OPT_IS_INT, .integer = 5}, "must be text in quotes, not 5"},
        {"number",
         {.kind = OPT_IS_STR, .str = "5"},
         "a whole number without quotes, not \"5\""},
        {"number",
         {.kind = OPT_IS_INT, .integer = 10},
         "must be between -3 and 9, not 10"},
        {"number",
         {.kind = OPT_IS_INT, .integer = -4},
         "must be between -3 and 9, not -4"},
        {"number", {.kind = OPT_IS_REAL, .real = 1.5}, "not 1.5"},
        {"wait_time", {.kind = OPT_IS_INT, .integer = 5000}, "duration with a unit"},
        {"wait_time", {.kind = OPT_IS_STR, .str = "999ms"}, "between 1s and 1d"},
        {"wait_time", {.kind = OPT_IS_STR, .str = "5000"}, "\"5000\": "},
        {"wait_time", {.kind = OPT_IS_STR, .str = ""}, "\"\": "},
        {"size", {.kind = OPT_IS_INT, .integer = 512}, "size with a unit"},
        {"size", {.kind = OPT_IS_STR, .str = "0"}, "at least 1B, not \"0\""},
        {"real", {.kind = OPT_IS_STR, .str = "2"}, "a number without quotes"},
        {"real", {.kind = OPT_IS_REAL, .real = -0.5}, "between 0 and 10"},
        {"real", {.kind = OPT_IS_REAL, .real = HUGE_VAL}, "a number"},
        {"flag", {.kind = OPT_IS_STR, .str = "true"}, "true or false, without quotes"},
        {"flag", {.kind = OPT_IS_INT, .integer = 1}, "true or false, without quotes"},
        {"choice", {.kind = OPT_IS_STR, .str = "tw"}, "one of one|two|three"},
        {"choice", {.kind = OPT_IS_STR, .str = ""}, "one of one|two|three"},
        {"choice", {.kind = OPT_IS_STR, .str = "one|two"}, "one of one|two|three"},
        {"list", {.kind = OPT_IS_GROUP}, "or a list: ["},
        {"pairs", {.kind = OPT_IS_LIST}, "{ name = \"value\"; }, not a list"},
        {"retry", {.kind = OPT_IS_STR, .str = "always"}, "or \"never\""},
        {"retry", {.kind = OPT_IS_INT, .integer = 3}, "or \"never\""},
    };
    struct box box = {0}, before;
    opt_defaults(rows, &box);
    before = box;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct err err;
        assert_int_equal(set(&box, bad[i].name, bad[i].v, &err), -1);
        if (strstr(err.text, bad[i].says) == NULL)
            fail_msg("%s: %s", bad[i].name, err.text);
    }
    assert_memory_equal(&box, &before, sizeof(box)); /* nothing was changed */
    opt_free(rows, &box);
}

static void a_required_option_must_not_be_empty(void **state)
{
    (void)state;
    struct box box = {0};
    struct err err;
    struct opt_value nothing = str(""), none = {.kind = OPT_IS_LIST};
    assert_int_equal(opt_set(&required[0], &box, &nothing, &err), -1);
    assert_int_equal(opt_set(&required[1], &box, &none, &err), -1);
    assert_int_equal(opt_set(&required[1], &box, &nothing, &err), -1);
}

static void a_secret_is_never_shown(void **state)
{
    (void)state;
    struct box box = {0};
    struct err err;
    struct opt_value v = integer(123456);
    assert_int_equal(set(&box, "secret", v, &err), -1);
    assert_null(strstr(err.text, "123456"));
    v = str("hunter2");
    v.expanded = true;
    const char *const names[] = {"wait_time", "size", "choice",
                                 "number",    "flag", "retry"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        assert_int_equal(set(&box, names[i], v, &err), -1);
        assert_null(strstr(err.text, "hunter2"));
    }
    opt_free(rows, &box);
}

static void setting_an_option_again_frees_the_old_value(void **state)
{
    (void)state;
    struct box box = {0};
    struct opt_value items[] = {str("x"), integer(7), {.kind = OPT_IS_REAL, .real = 0.5}};
    struct opt_value list = {.kind = OPT_IS_LIST, .item = items, .count = 3};
    opt_defaults(rows, &box);
    opt_defaults(rows, &box);
    assert_int_equal(set(&box, "list", list, NULL), 0);
    assert_int_equal(box.list.n, 3);
    assert_string_equal(box.list.v[1], "7");
    assert_string_equal(box.list.v[2], "0.5");
    assert_int_equal(set(&box, "list", str("alone"), NULL), 0);
    assert_int_equal(box.list.n, 1);
    assert_int_equal(set(&box, "text", str("new"), NULL), 0);
    assert_string_equal(box.text, "new");
    assert_int_equal(set(&box, "real", integer(3), NULL), 0);
    assert_true(box.real == 3);
    opt_free(rows, &box);
}

static void a_retry_is_a_list_a_formula_or_never(void **state)
{
    (void)state;
    struct box box = {0};
    struct err err;
    struct opt_value waits[] = {str("10s"), str("1m")};
    struct opt_value list = {.kind = OPT_IS_LIST, .item = waits, .count = 2};
    assert_int_equal(set(&box, "retry", list, NULL), 0);
    assert_int_equal(box.retry.list_count, 2);
    assert_int_equal(box.retry.list_ms[1], 60000);
    list.count = 0;
    assert_int_equal(set(&box, "retry", list, NULL), 0);
    assert_int_equal(retry_delay_ms(&box.retry, 1, 0.5), RETRY_EXHAUSTED);
    assert_int_equal(set(&box, "retry", str("never"), NULL), 0);
    assert_int_equal(retry_delay_ms(&box.retry, 1, 0.5), RETRY_EXHAUSTED);
    struct opt_value empty = {.kind = OPT_IS_GROUP};
    assert_int_equal(set(&box, "retry", empty, NULL), 0);
    assert_null(box.retry.list_ms);
    assert_int_equal(retry_delay_ms(&box.retry, 10, 0.5), 512000);
    assert_int_equal(retry_delay_ms(&box.retry, 11, 0.5), RETRY_EXHAUSTED);
    waits[0] = integer(10);
    list.count = 2;
    assert_int_equal(set(&box, "retry", list, &err), -1);
    assert_int_equal(retry_delay_ms(&box.retry, 1, 0.5), 1000); /* unchanged */
    opt_free(rows, &box);
}

static void usual_names_of_units_lead_to_the_right_ones(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        opt_parse *parse;
        const char *right; /* NULL: none */
    } cases[] = {{"10sec", opt_parse_ms, "10s"},
                 {"10 Seconds", opt_parse_ms, "10s"},
                 {"1hour 30min", opt_parse_ms, "1h30m"},
                 {"1.5 hrs", opt_parse_ms, "1.5h"},
                 {"2days", opt_parse_ms, "2d"},
                 {"5 s", opt_parse_ms, "5s"},
                 {"64k", text_parse_bytes, "64KiB"},
                 {"64 mb", text_parse_bytes, "64MB"},
                 {"10Gi", text_parse_bytes, "10GiB"},
                 {"30min 1hour", opt_parse_ms, NULL},
                 {"1 parsec", opt_parse_ms, NULL},
                 {"64 mb", opt_parse_ms, NULL},
                 {"sec", opt_parse_ms, NULL},
                 {"10", opt_parse_ms, NULL},
                 {"", opt_parse_ms, NULL},
                 {"-5sec", opt_parse_ms, NULL},
                 {"11111111111111111111111111111sec", opt_parse_ms, NULL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char right[OPT_TEXT_SIZE] = "";
        bool found = opt_right_units(cases[i].text, cases[i].parse, right);
        if (found != (cases[i].right != NULL) ||
            strcmp(right, found ? cases[i].right : ""))
            fail_msg("%s: \"%s\"", cases[i].text, right);
    }
}

static void sizes_have_units_and_do_not_overflow(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; /* -1: rejected */
    } cases[] = {{"0", 0},
                 {"512B", 512},
                 {"64KiB", 65536},
                 {"10MB", 10000000},
                 {"1GiB", 1 << 30},
                 {"1kB", 1000},
                 {"2TiB", 2LL << 40},
                 {"", -1},
                 {"B", -1},
                 {"512", -1},
                 {"-1B", -1},
                 {"1.5MiB", -1},
                 {" 1B", -1},
                 {"1B ", -1},
                 {"1mib", -1},
                 {"9223372036854775807B", INT64_MAX},
                 {"9223372036854775808B", -1},
                 {"8388608TiB", -1},
                 {"99999999999999999999KiB", -1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t bytes = -1;
        int rc = text_parse_bytes(cases[i].text, &bytes, NULL);
        assert_int_equal(rc, cases[i].bytes < 0 ? -1 : 0);
        if (rc == 0)
            assert_int_equal(bytes, cases[i].bytes);
    }
}

static void a_duration_of_zero_needs_no_unit(void **state)
{
    (void)state;
    int64_t ms = 7;
    assert_int_equal(opt_parse_ms("0", &ms, NULL), 0);
    assert_int_equal(ms, 0);
    assert_int_equal(opt_parse_ms("00", &ms, NULL), -1);
    assert_int_equal(opt_parse_ms("1", &ms, NULL), -1);
    assert_int_equal(opt_parse_ms("1.5s", &ms, NULL), 0);
    assert_int_equal(ms, 1500);
}

static void numbers_are_shown_as_they_would_be_written(void **state)
{
    (void)state;
    char text[OPT_TEXT_SIZE];
    assert_string_equal(opt_text_ms(0, text), "0");
    assert_string_equal(opt_text_ms(1500, text), "1500ms");
    assert_string_equal(opt_text_ms(3660LL * 86400000, text), "3660d");
    assert_string_equal(opt_text_bytes(262144, text), "256KiB");
    assert_string_equal(opt_text_bytes(1000, text), "1000B");
}

static void a_mistyped_name_suggests_the_nearest_one(void **state)
{
    (void)state;
    static const struct {
        const char *typed, *meant;
    } cases[] = {{"txet", "text"},
                 {"wait-time", "wait_time"},
                 {"WaitTime", "wait_time"},
                 {"numbr", "number"},
                 {"siez", "size"},
                 {"lists", "list"},
                 {"something_else", NULL},
                 {"", NULL},
                 {"x", NULL}};
    char huge[1000];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *found = opt_nearest(rows, cases[i].typed);
        if (cases[i].meant == NULL)
            assert_null(found);
        else
            assert_string_equal(found, cases[i].meant);
    }
    memset(huge, 'a', sizeof(huge));
    huge[sizeof(huge) - 1] = '\0';
    assert_null(opt_nearest(rows, huge));
}

static void the_list_names_type_default_range_and_help(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    opt_print(rows, out);
    fclose(out);
    const char *const wanted[] = {"wait_time",
                                  "duration",
                                  "default \"1h30m\"",
                                  "1s to 1d",
                                  "one of one|two|three",
                                  "no default",
                                  "A schedule."};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
        assert_non_null(strstr(text, wanted[i]));
    free(text);
}

UNIT(opt)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_same_in_table_and_file),
        cmocka_unit_test(an_invalid_default_is_rejected),
        cmocka_unit_test(an_error_names_the_valid_values),
        cmocka_unit_test(a_required_option_must_not_be_empty),
        cmocka_unit_test(a_secret_is_never_shown),
        cmocka_unit_test(setting_an_option_again_frees_the_old_value),
        cmocka_unit_test(a_retry_is_a_list_a_formula_or_never),
        cmocka_unit_test(sizes_have_units_and_do_not_overflow),
        cmocka_unit_test(usual_names_of_units_lead_to_the_right_ones),
        cmocka_unit_test(a_duration_of_zero_needs_no_unit),
        cmocka_unit_test(numbers_are_shown_as_they_would_be_written),
        cmocka_unit_test(a_mistyped_name_suggests_the_nearest_one),
        cmocka_unit_test(the_list_names_type_default_range_and_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
