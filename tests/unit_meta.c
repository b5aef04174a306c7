/* SPDX-License-Identifier: BSD-2-Clause */
/* PREFIX:meta: bucket counts, and the layouts that this tarry may read and write. */
#include "bridge/base/mem.h"
#include "bridge/engine/meta.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_meta_field_contains_a_bucket_count_or_is_ignored(void **state)
{
    static const struct {
        const char *text;
        int64_t buckets; /* 0: none */
    } rows[] = {{"1", 1},
                {"16", 16},
                {"1024", META_BUCKETS_MAX},
                {"", 0},
                {"0", 0},
                {"1025", 0},
                {"1:1", 0},
                {"2:4 1:1", 0},
                {"-1", 0},
                {" 1", 0},
                {"1 ", 0},
                {"x", 0},
                {"1x", 0},
                {"99999999999999999999", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(meta_buckets_of(rows[i].text), rows[i].buckets);
}

static void keys_of_a_newer_version_are_not_used(void **state)
{
    static const struct {
        struct meta_layout there;
        bool writes, fits;
    } rows[] = {
        {{0, 0, 0}, true, true},
        {{1, 1, 1}, true, true},
        {{META_LAYOUT, 1, META_LAYOUT}, true, true},
        {{META_LAYOUT + 1, 1, META_LAYOUT}, true, true}, /* it only adds keys */
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
            assert_non_null(strstr(err.text, "layout 2"));
    }
}

UNIT(meta)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_meta_field_contains_a_bucket_count_or_is_ignored),
        cmocka_unit_test(keys_of_a_newer_version_are_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
