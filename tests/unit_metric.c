/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/metrics/stats.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void lines_have_their_labels_escaped(void **state)
{
    (void)state;
    struct buf out = {0};
    metric_head(&out, "a_total", "counter", "What it counts.");
    metric_count(&out, "a_total", NO_LABELS, 0);
    metric_count(&out, "a_total", LABELS({"x", "1"}, {"y", "q\"b\\n\nz"}),
                 9007199254740993);
    metric_number(&out, "b", LABELS({"x", ""}), -5);
    metric_real(&out, "c", NO_LABELS, 1760000000.125);
    assert_string_equal(buf_str(&out),
                        "# HELP a_total What it counts.\n"
                        "# TYPE a_total counter\n"
                        "a_total 0\n"
                        "a_total{x=\"1\",y=\"q\\\"b\\\\n\\nz\"} 9007199254740993\n"
                        "b{x=\"\"} -5\n"
                        "c 1760000000.125\n");
    buf_free(&out);
}

static void a_histogram_counts_up_to_and_including_its_bounds(void **state)
{
    (void)state;
    struct histogram h = {0};
    struct buf out = {0};
    histogram_add(&h, -1); /* a clock that was set back */
    histogram_add(&h, 0.005);
    histogram_add(&h, 0.0051);
    histogram_add(&h, 4000);
    metric_histogram(&out, "t_seconds", LABELS({"r", "a"}), &h, true);
    const char *text = buf_str(&out);
    assert_non_null(strstr(text, "t_seconds_bucket{r=\"a\",le=\"0.0001\"} 1\n"));
    assert_non_null(strstr(text, "t_seconds_bucket{r=\"a\",le=\"0.005\"} 2\n"));
    assert_non_null(strstr(text, "t_seconds_bucket{r=\"a\",le=\"0.01\"} 3\n"));
    assert_non_null(strstr(text, "t_seconds_bucket{r=\"a\",le=\"3600\"} 3\n"));
    assert_non_null(strstr(text, "t_seconds_bucket{r=\"a\",le=\"+Inf\"} 4\n"));
    assert_non_null(strstr(text, "t_seconds_sum{r=\"a\"} 4000.0101\n"));
    assert_non_null(strstr(text, "t_seconds_count{r=\"a\"} 4\n"));
    buf_free(&out);
}

static void a_brief_histogram_has_fewer_buckets_with_the_same_values(void **state)
{
    (void)state;
    struct histogram h = {0};
    struct buf out = {0};
    histogram_add(&h, 0.005);
    histogram_add(&h, 40);
    metric_histogram(&out, "t_seconds", LABELS({"r", "a"}), &h, false);
    const char *text = buf_str(&out);
    assert_null(strstr(text, "le=\"0.005\""));
    assert_non_null(strstr(text, "t_seconds_bucket{r=\"a\",le=\"0.001\"} 0\n"));
    assert_non_null(strstr(text, "t_seconds_bucket{r=\"a\",le=\"0.01\"} 1\n"));
    assert_non_null(strstr(text, "t_seconds_bucket{r=\"a\",le=\"60\"} 2\n"));
    assert_non_null(strstr(text, "t_seconds_bucket{r=\"a\",le=\"+Inf\"} 2\n"));
    assert_non_null(strstr(text, "t_seconds_count{r=\"a\"} 2\n"));
    buf_free(&out);
}

static void a_quantile_lies_within_its_bucket(void **state)
{
    (void)state;
    struct histogram h = {0};
    assert_true(histogram_quantile(&h, 0.5) < 0);
    for (int i = 0; i < 100; i++)
        histogram_add(&h, i < 90 ? 0.0015 : 1.5);
    assert_float_equal(histogram_quantile(&h, 0.45), 0.0015, 1e-9);
    double p99 = histogram_quantile(&h, 0.99);
    assert_true(p99 > 1.8 && p99 < 2);
    h = (struct histogram){0};
    histogram_add(&h, 10000);
    assert_float_equal(histogram_quantile(&h, 0.5), 3600, 1e-9);
    assert_int_equal(histogram_count(&h), 1);
}

UNIT(metric)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_their_labels_escaped),
        cmocka_unit_test(a_histogram_counts_up_to_and_including_its_bounds),
        cmocka_unit_test(a_brief_histogram_has_fewer_buckets_with_the_same_values),
        cmocka_unit_test(a_quantile_lies_within_its_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
