/* SPDX-License-Identifier: BSD-2-Clause */
/* The cursor of a run through dead letters. */
#include "bridge/admin/cursor.h"
#include "bridge/admin/dead.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

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

UNIT(dead)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_survives_as_text),
        cmocka_unit_test(what_is_no_cursor_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
