/* SPDX-License-Identifier: BSD-2-Clause */
/* What PREFIX:meta says: lists of generations, and which layouts this tarry may touch. */
#include "bridge/base/mem.h"
#include "bridge/engine/meta.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char *written(const struct meta_route *list, struct buf *text)
{
    buf_clear(text);
    meta_route_format(list, text);
    return buf_str(text);
}

static void a_list_is_written_as_it_was_read(void **state)
{
    static const char *const texts[] = {"1:1", "2:4 1:1", "9:1024 7:16 2:3",
                                        "8:1 7:1 6:1 5:1 4:1 3:1 2:1 1:1"};
    struct meta_route list;
    struct buf text = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(meta_route_parse(slice_of(texts[i]), &list), 0);
        assert_string_equal(written(&list, &text), texts[i]);
    }
    buf_free(&text);
}

static void what_is_no_list_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "1",
                                        "1:",
                                        ":1",
                                        "0:1",
                                        "1:0",
                                        "1:1025",
                                        "1:1 ",
                                        " 1:1",
                                        "1:1 2:4", /* the newest is first */
                                        "2:4 2:1",
                                        "2:4  1:1",
                                        "2:4,1:1",
                                        "1:x",
                                        "-1:1",
                                        "1:1 0:1",
                                        "99999999999:1",
                                        "9:1 8:1 7:1 6:1 5:1 4:1 3:1 2:1 1:1"};
    struct meta_route list;
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(meta_route_parse(slice_of(texts[i]), &list), -1);
}

static void
a_generation_begins_before_the_others_and_the_oldest_are_forgotten(void **state)
{
    struct meta_route list;
    struct buf text = {0};
    (void)state;
    assert_int_equal(meta_route_parse(SLICE_LIT("1:1"), &list), 0);
    assert_true(meta_route_begin(&list, 4));
    assert_true(meta_route_begin(&list, 3));
    assert_string_equal(written(&list, &text), "3:3 2:4 1:1");
    meta_route_forget(&list, 2);
    assert_string_equal(written(&list, &text), "3:3 2:4");
    meta_route_forget(&list, 9); /* the newest stays */
    assert_string_equal(written(&list, &text), "3:3");
    while (list.count < META_GENERATIONS_MAX)
        assert_true(meta_route_begin(&list, 1));
    assert_false(meta_route_begin(&list, 1));
    assert_int_equal(list.generation[0].number, META_GENERATIONS_MAX + 2);
    buf_free(&text);
}

/* Those of the first are as they always were. */
static void buckets_are_named_after_their_generation(void **state)
{
    struct buf name = {0};
    (void)state;
    meta_bucket_name("orders", 1, 3, &name);
    assert_string_equal(buf_str(&name), "orders/3");
    buf_clear(&name);
    meta_bucket_name("orders", 12, 0, &name);
    assert_string_equal(buf_str(&name), "orders/0.12");
    buf_free(&name);
}

static void newer_keys_are_left_alone(void **state)
{
    static const struct {
        struct meta_layout there;
        bool writes, fits;
    } rows[] = {
        {{0, 0, 0}, true, true},
        {{1, 1, 1}, true, true},
        {{META_LAYOUT, 1, META_LAYOUT}, true, true},
        {{META_LAYOUT + 1, 1, META_LAYOUT}, true, true}, /* it only adds */
        {{META_LAYOUT + 1, 1, META_LAYOUT + 1}, true, false},
        {{META_LAYOUT + 1, 1, META_LAYOUT + 1}, false, true},
        {{META_LAYOUT + 1, META_LAYOUT + 1, META_LAYOUT + 1}, false, false},
        {{META_LAYOUT + 1, META_LAYOUT + 1, 1}, true, false},
    };
    struct err err;
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool fits = meta_layout_fits(&rows[i].there, rows[i].writes, "tarry", &err) == 0;
        assert_int_equal(fits, rows[i].fits);
        if (!fits)
            assert_non_null(strstr(err.text, "layout 4"));
    }
}

UNIT(meta)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_written_as_it_was_read),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(
            a_generation_begins_before_the_others_and_the_oldest_are_forgotten),
        cmocka_unit_test(buckets_are_named_after_their_generation),
        cmocka_unit_test(newer_keys_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
