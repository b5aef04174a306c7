/* SPDX-License-Identifier: BSD-2-Clause */
/* The cursor of a list of dead letters; the text of a group of them. */
#include "bridge/admin/admin.h"
#include "bridge/job/job.h"
#include "bridge/job/tries.h"
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
        const int64_t numbers[] = {7, 1769860800123, 1769860800123456, 1769860800120};
        int64_t again[4];
        struct buf text = {0}, bytes = {0};
        cursor_add(&text, numbers, 4, ids[i]);
        assert_int_equal(strspn(buf_str(&text), "0123456789abcdef."), text.n);
        assert_int_equal(cursor_read(buf_slice(&text), again, 4, JOB_ID_MAX, &bytes), 0);
        assert_memory_equal(again, numbers, sizeof(numbers));
        assert_true(slice_eq(buf_slice(&bytes), ids[i]));
        buf_free(&text);
        buf_free(&bytes);
    }
}

static bool reads(struct slice text)
{
    int64_t numbers[4];
    struct buf bytes = {0};
    int bad = cursor_read(text, numbers, 4, JOB_ID_MAX, &bytes);
    buf_free(&bytes);
    return bad == 0;
}

static void an_invalid_cursor_is_rejected(void **state)
{
    (void)state;
    char long_id[2 * 512 + 16] = "0.1.2.3.";
    memset(long_id + 8, '6', 2 * 512 + 2);
    const char *const bad[] = {
        "",           ".",         "0",       "0.1.2.3",    "0.1.2.3.6",
        "0.1.2.3.6G", "-1.1.2.3.", "0..2.3.", "0.1.2.3.AA", "9999999999999999999.1.2.3.",
        " 0.1.2.3.",  long_id};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (reads(slice_of(bad[i])))
            fail_msg("\"%s\" was taken", bad[i]);
    assert_false(reads((struct slice){"0.1.2.3.\0\0", 10}));
}

static void letters_that_differ_in_numbers_have_one_text(void **state)
{
    static const struct {
        const char *error, *answer, *text;
    } rows[] = {
        {"HTTP 400", "", "HTTP 400"},
        {"HTTP 400", "upstream exploded", "HTTP 400 upstream exploded"},
        {"HTTP 400", "\n  \n first \nsecond", "HTTP 400 first"},
        {"HTTP 422", "order 4711 unknown", "HTTP 422 order # unknown"},
        {"HTTP 422", "no 3f2504e0-4f89-41d3-9a0c-0305e82c3301!", "HTTP 422 no #!"},
        {"HTTP 422", "facade, deadbeef, face-17", "HTTP 422 facade, deadbeef, face-#"},
        {"timed out after 5001 ms", "", "timed out after # ms"},
        {"HTTP", "x", "HTTP x"},
        {"", "", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tries t = {0};
        struct buf out = {0};
        tries_set_error(&t, rows[i].error);
        t.answer = tries_answer_new((struct slice){0}, slice_of(rows[i].answer));
        dead_group_text(&t, &out);
        assert_string_equal(buf_str(&out), rows[i].text);
        buf_free(&out);
        free(t.answer);
    }
}

UNIT(dead)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_survives_as_text),
        cmocka_unit_test(an_invalid_cursor_is_rejected),
        cmocka_unit_test(letters_that_differ_in_numbers_have_one_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
