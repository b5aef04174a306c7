/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_lmstfy_series.c - series found by their labels, their limit and their text, of
 * sources/lmstfy/lmstfy_metrics.h; and which requests may create new ones.
 */
#include "sources/lmstfy/lmstfy_metrics.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char *const two_labels[] = {"a", "b", NULL}, *const one_label[] = {"a",
                                                                                NULL};
static const struct series_type plain = {"counter", 0, 0, 0};
static const struct series_type three_buckets = {"histogram", 15, 2.5, 3};
static const struct series_row counter = {"c", "Help.", &plain, two_labels};
static const struct series_row histogram = {"h", "Help.", &three_buckets, one_label};

static void check_text(const struct family *f, const char *wanted)
{
    struct buf out = {0};
    family_text(f, &out);
    assert_string_equal(buf_str(&out), wanted);
    buf_free(&out);
}

static void the_same_labels_are_the_same_series(void **state)
{
    (void)state;
    struct family f = {.row = &counter};
    struct buf scratch = {0};
    const struct slice one[] = {SLICE_LIT("x"), SLICE_LIT("")};
    const struct slice other[] = {SLICE_LIT(""), SLICE_LIT("x")};
    series_add(family_at(&f, one, 10, &scratch), 2);
    series_add(family_at(&f, other, 10, &scratch), 3);
    series_add(family_at(&f, one, 10, &scratch), 1);
    check_text(&f, "# HELP c Help.\n# TYPE c counter\n"
                   "c{a=\"x\",b=\"\"} 3\nc{a=\"\",b=\"x\"} 3\n");
    family_free(&f);
    buf_free(&scratch);
}

static void label_values_are_escaped_and_invalid_names_are_empty(void **state)
{
    (void)state;
    static char long_value[SERIES_VALUE_MAX + 1];
    struct family f = {.row = &counter};
    struct buf scratch = {0};
    const struct slice odd[] = {SLICE_LIT("\"\\\n\","), SLICE_LIT("\xff")};
    const struct slice large[] = {{long_value, sizeof(long_value)}, SLICE_LIT("b")};
    memset(long_value, 'x', sizeof(long_value));
    series_set(family_at(&f, odd, 10, &scratch), 1e15);
    series_set(family_at(&f, large, 10, &scratch), 0.5);
    check_text(&f, "# HELP c Help.\n# TYPE c counter\n"
                   "c{a=\"\\\"\\\\\\n\\\",\",b=\"\"} 1e+15\nc{a=\"\",b=\"b\"} 0.5\n");
    family_free(&f);
    buf_free(&scratch);
}

static void ten_thousand_series_are_found_and_further_ones_are_not_created(void **state)
{
    (void)state;
    struct family f = {.row = &counter};
    struct buf scratch = {0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3000; i++) {
            char text[16];
            int n = snprintf(text, sizeof(text), "%d", i);
            const struct slice values[] = {{text, (size_t)n}, SLICE_LIT("q")};
            struct series *s = family_at(&f, values, 2000, &scratch);
            assert_int_equal(s != NULL, i < 2000);
            series_add(s, 1); /* NULL is allowed */
        }
    }
    assert_int_equal(family_count(&f), 2000);
    family_free(&f);
    assert_int_equal(family_count(&f), 0);
    const struct slice again[] = {SLICE_LIT("1"), SLICE_LIT("q")};
    series_add(family_at(&f, again, 2000, &scratch), 1);
    check_text(&f, "# HELP c Help.\n# TYPE c counter\nc{a=\"1\",b=\"q\"} 1\n");
    family_free(&f);
    buf_free(&scratch);
}

/* A request for sizes needs no token, and is answered with 200 for any name. */
static void requests_without_a_token_use_at_most_half_of_the_series(void **state)
{
    (void)state;
    struct lmstfy l = {0};
    static const struct lmstfy_row row = {.path = "/api/:namespace/:queue/size"};
    struct lmstfy_req seen = {.l = &l, .row = &row};
    loop_init();
    lmstfy_metrics_start(&l);
    for (int i = 0; i < SERIES_MAX; i++) {
        char ns[16];
        snprintf(ns, sizeof(ns), "n%d", i);
        seen.ns = slice_of(ns);
        lmstfy_count_http(&seen, "GET", 200, 0);
    }
    assert_int_equal(family_count(&l.metrics->family[HTTP_CODES]), SERIES_MAX / 2);
    assert_int_equal(family_count(&l.metrics->family[HTTP_LATENCY]), SERIES_MAX / 2);
    seen.known = true;
    seen.ns = SLICE_LIT("ours");
    lmstfy_count_http(&seen, "GET", 200, 0);
    assert_int_equal(family_count(&l.metrics->family[HTTP_CODES]), SERIES_MAX / 2 + 1);
    assert_int_equal(family_count(&l.metrics->family[HTTP_LATENCY]), SERIES_MAX / 2 + 1);
    lmstfy_metrics_stop(&l);
    loop_fini();
}

static void a_histogram_counts_up_to_and_including_its_bounds(void **state)
{
    (void)state;
    static const double values[] = {0, 15, 15.5, 37.5, 93, 94};
    struct family f = {.row = &counter};
    struct buf scratch = {0};
    const struct slice label = SLICE_LIT("x");
    f.row = &histogram;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        series_observe(family_at(&f, &label, 10, &scratch), &three_buckets, values[i]);
    check_text(&f, "# HELP h Help.\n# TYPE h histogram\n"
                   "h_bucket{a=\"x\",le=\"15\"} 2\nh_bucket{a=\"x\",le=\"37.5\"} 4\n"
                   "h_bucket{a=\"x\",le=\"93.75\"} 5\nh_bucket{a=\"x\",le=\"+Inf\"} 6\n"
                   "h_sum{a=\"x\"} 255\nh_count{a=\"x\"} 6\n");
    family_free(&f);
    buf_free(&scratch);
}

UNIT(lmstfy_series)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_labels_are_the_same_series),
        cmocka_unit_test(label_values_are_escaped_and_invalid_names_are_empty),
        cmocka_unit_test(ten_thousand_series_are_found_and_further_ones_are_not_created),
        cmocka_unit_test(requests_without_a_token_use_at_most_half_of_the_series),
        cmocka_unit_test(a_histogram_counts_up_to_and_including_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
