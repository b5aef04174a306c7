/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line: its tables, and how answers are shown to a person. */
#include "bridge/cli/cli.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void text_for_a_terminal_contains_no_control_sequences(void **state)
{
    (void)state;
    struct buf out = {0};
    ctl_text_add(&out, SLICE_LIT("a\tb\\\n\r\x1b[31m\x7f\0 \xc3\xa9 \xc2\x9b"
                                 "1m \xc2\xa0"));
    assert_string_equal(buf_str(&out),
                        "a\\tb\\\\\\n\\r\\x1b[31m\\x7f\\x00 \xc3\xa9 \\x9b1m \xc2\xa0");
    buf_free(&out);
}

static void a_path_encodes_any_name_as_one_segment(void **state)
{
    (void)state;
    struct buf out = {0};
    char reason[] = "a=b", key[] = "of no dead letter";
    const struct cli_command command = {.path = "/v1/routes/{}/jobs/{}?t={}",
                                        .sets = CLI_DEAD};
    const struct cli_args order = {.command = &command,
                                   .arg = {"r", "../a b%/?#", "&"},
                                   .reason = reason,
                                   .key = key};
    ctl_path_add(&out, &order);
    assert_string_equal(
        buf_str(&out), "/v1/routes/r/jobs/%2E%2E%2Fa%20b%25%2F%3F%23?t=%26&reason=a%3Db");
    ctl_query_add(&out, "x", NULL);
    ctl_query_add(&out, "y", "");
    assert_non_null(strstr(buf_str(&out), "reason=a%3Db&y="));
    assert_null(strstr(buf_str(&out), "x="));
    buf_free(&out);
}

static void values_are_readable(void **state)
{
    (void)state;
    const int64_t now_ms = 1800000000000, hour_ms = 3600000;
    const struct {
        int64_t n;
        enum ctl_kind kind;
        const char *text;
    } rows[] = {
        {7, CTL_COUNT, "7"},
        {1234567, CTL_COUNT, "1,234,567"},
        {-1000, CTL_COUNT, "-1,000"},
        {999, CTL_BYTES, "999 B"},
        {1536, CTL_BYTES, "1.5 KiB"},
        {300 * 1024 * 1024, CTL_BYTES, "300 MiB"},
        {0, CTL_SPAN, "0ms"},
        {999, CTL_SPAN, "999ms"},
        {1500, CTL_SPAN, "1.5s"},
        {65000, CTL_SPAN, "1m5s"},
        {26 * hour_ms, CTL_SPAN, "1d2h"},
        {24 * hour_ms, CTL_SPAN, "1d"},
        {now_ms + 200000, CTL_WHEN, "in 3m20s"},
        {now_ms - 500, CTL_WHEN, "500ms ago"},
        {now_ms + 72 * hour_ms, CTL_WHEN, "2027-01-18T08:00:00Z"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out = {0};
        json_t *v = json_integer(rows[i].n);
        ctl_value_add(&out, v, rows[i].kind, now_ms);
        assert_string_equal(buf_str(&out), rows[i].text);
        json_decref(v);
        buf_free(&out);
    }
}

static void an_absent_value_is_shown_as_a_dash(void **state)
{
    (void)state;
    struct buf out = {0};
    json_t *o = json_pack("{s:s, s:s, s:n, s:[], s:[s,s], s:b}", "text", "a\tb", "empty",
                          "", "none", "list", "names", "x", "y", "truth", 1);
    static const char *const keys[] = {"text", "empty", "none", "missing",
                                       "list", "names", "truth"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        buf_add_str(&out, "|");
        ctl_value_add(&out, json_object_get(o, keys[i]), CTL_TEXT, 0);
    }
    assert_string_equal(buf_str(&out), "|a\\tb|-|-|-|-|x, y|yes");
    json_decref(o);
    buf_free(&out);
}

/* The path of a command with a request has as many placeholders as the command has
 * required arguments, and each flag belongs to a command. */
static void the_tables_agree(void **state)
{
    (void)state;
    unsigned sets = CLI_ANY;
    for (const struct cli_command *c = cli_commands; c->name; c++) {
        unsigned holes = 0;
        sets |= c->sets;
        assert_non_null(c->run);
        assert_int_equal(c->method != NULL, c->path != NULL);
        assert_int_equal(c->method != NULL, (c->sets & CLI_ASKS) != 0);
        for (const char *p = c->path; p && (p = strstr(p, "{}")); p += 2)
            holes++;
        assert_true(holes <= c->min_args);
        assert_true(c->min_args <= c->max_args && c->max_args <= CLI_ARGS_MAX);
        for (const struct cli_command *d = cli_commands; d < c; d++)
            assert_false(
                strcmp(c->name, d->name) == 0 &&
                (c->subcommand == NULL || strcmp(c->subcommand, d->subcommand) == 0));
    }
    for (const struct cli_flag *f = cli_flags; f->name; f++) {
        assert_true((f->sets & sets) == f->sets);
        assert_int_equal(f->value != NULL, f->type != OPT_BOOL);
    }
}

UNIT(cli)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_for_a_terminal_contains_no_control_sequences),
        cmocka_unit_test(a_path_encodes_any_name_as_one_segment),
        cmocka_unit_test(values_are_readable),
        cmocka_unit_test(an_absent_value_is_shown_as_a_dash),
        cmocka_unit_test(the_tables_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
