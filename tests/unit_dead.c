/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_dead.c - the cursor of a run through dead letters, and what the operator's
 * commands print and ask for.
 */
#include "bridge/ctl_parts.h"
#include "bridge/dead_cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void a_cursor_survives_as_text(void **state)
{
    (void)state;
    static const struct slice ids[] = {SLICE_LIT(""), SLICE_LIT("a"),
                                       SLICE_LIT("\xff.\0/ %\x01")};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct dead_cursor c = {7, 1769860800123, 1769860800123456, 1769860800120, {0}};
        struct dead_cursor again = {0};
        struct buf text = {0};
        buf_add_slice(&c.after, ids[i]);
        dead_cursor_add(&c, &text);
        assert_int_equal(strspn(buf_str(&text), "0123456789abcdef."), text.n);
        assert_int_equal(dead_cursor_read(buf_slice(&text), &again), 0);
        assert_int_equal(again.bucket, c.bucket);
        assert_int_equal(again.end_ms, c.end_ms);
        assert_int_equal(again.next_us, c.next_us);
        assert_int_equal(again.after_ms, c.after_ms);
        assert_true(slice_eq(buf_slice(&again.after), ids[i]));
        buf_free(&text);
        buf_free(&c.after);
        buf_free(&again.after);
    }
}

static void what_is_no_cursor_is_refused(void **state)
{
    (void)state;
    char long_id[2 * 512 + 16] = "0.1.2.3.";
    memset(long_id + 8, '6', 2 * 512 + 2);
    const char *const bad[] = {
        "",           ".",         "0",       "0.1.2.3",    "0.1.2.3.6",
        "0.1.2.3.6G", "-1.1.2.3.", "0..2.3.", "0.1.2.3.AA", "9999999999999999999.1.2.3.",
        " 0.1.2.3.",  long_id};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dead_cursor c = {0};
        if (dead_cursor_read(slice_of(bad[i]), &c) == 0)
            fail_msg("\"%s\" was taken", bad[i]);
        buf_free(&c.after);
    }
    struct dead_cursor c = {0};
    assert_int_equal(dead_cursor_read((struct slice){"0.1.2.3.\0\0", 10}, &c), -1);
    buf_free(&c.after);
}

static void text_for_a_terminal_commands_nothing(void **state)
{
    (void)state;
    struct buf out = {0};
    ctl_text_add(&out, SLICE_LIT("a\tb\\\n\r\x1b[31m\x7f\0 \xc3\xa9 \xc2\x9b"
                                 "1m \xc2\xa0"));
    assert_string_equal(buf_str(&out),
                        "a\\tb\\\\\\n\\r\\x1b[31m\\x7f\\x00 \xc3\xa9 \\x9b1m \xc2\xa0");
    buf_free(&out);
}

static void members_are_shown_in_a_line_and_what_is_not_there_as_a_dash(void **state)
{
    (void)state;
    struct buf out = {0};
    json_t *o =
        json_pack("{s:s, s:s, s:i, s:n}", "text", "a\tb", "empty", "", "n", 7, "none");
    static const char *const keys[] = {"text", "empty", "n", "none", "missing"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        ctl_member_add(&out, o, keys[i]);
    assert_string_equal(buf_str(&out), "a\\tb-7--");
    json_decref(o);
    buf_free(&out);
}

static void a_path_holds_any_name_as_one_segment(void **state)
{
    (void)state;
    struct buf out = {0};
    ctl_path_add(&out, "r", "jobs", "../a b%/?#");
    assert_string_equal(buf_str(&out), "/v1/routes/r/jobs/%2E%2E%2Fa%20b%25%2F%3F%23");
    ctl_query_add(&out, "x", NULL);
    ctl_query_add(&out, "x", "&=+");
    ctl_query_add(&out, "y", "");
    assert_string_equal(buf_str(&out),
                        "/v1/routes/r/jobs/%2E%2E%2Fa%20b%25%2F%3F%23?x=%26%3D%2B&y=");
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_survives_as_text),
        cmocka_unit_test(what_is_no_cursor_is_refused),
        cmocka_unit_test(text_for_a_terminal_commands_nothing),
        cmocka_unit_test(members_are_shown_in_a_line_and_what_is_not_there_as_a_dash),
        cmocka_unit_test(a_path_holds_any_name_as_one_segment),
    };
    alarm(30);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
