/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/log.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static struct {
    int kept, ends[2]; /* kept: the original stderr; ends: a pipe in its place */
    char text[16384];
} heard;

static int listen_to_stderr(void **state)
{
    (void)state;
    heard.kept = dup(STDERR_FILENO);
    assert_int_equal(pipe(heard.ends), 0);
    dup2(heard.ends[1], STDERR_FILENO);
    return 0;
}

static int give_stderr_back(void **state)
{
    (void)state;
    dup2(heard.kept, STDERR_FILENO);
    close(heard.kept);
    close(heard.ends[0]);
    close(heard.ends[1]);
    log_set_format(LOG_LOGFMT);
    log_set_level(LOG_INFO);
    return 0;
}

/* Return the next line, without its time. */
static const char *line(void)
{
    ssize_t n = read(heard.ends[0], heard.text, sizeof(heard.text) - 1);
    assert_true(n > 0);
    heard.text[n] = '\0';
    assert_non_null(strchr(heard.text, '\n'));
    assert_true(strchr(heard.text, '\n')[1] == '\0'); /* one line */
    const char *rest = strstr(heard.text, "level");
    assert_non_null(rest);
    return rest;
}

static void a_line_is_of_pairs_in_a_fixed_order(void **state)
{
    (void)state;
    log_warn("redis", "away: %s", "no route");
    assert_string_equal(line(), "level=warn who=redis msg=\"away: no route\"\n");
    const struct log_about about = {
        .route = "r",
        .source = "in",
        .sink = "out",
        .job = SLICE_LIT("j 1"),
        .traceparent =
            SLICE_LIT("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        .attempt = 3,
        .err = "HTTP 500",
    };
    log_event(LOG_ERROR, &about, "bad");
    assert_string_equal(line(), "level=error route=r source=in sink=out job=\"j 1\" "
                                "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 attempt=3 "
                                "err=\"HTTP 500\" msg=bad\n");
}

static void the_time_is_utc_with_milliseconds(void **state)
{
    (void)state;
    int year, month, day, hour, minute, second, ms, end = 0;
    log_info("daemon", "x");
    line();
    sscanf(heard.text, "ts=%4d-%2d-%2dT%2d:%2d:%2d.%3dZ level=%n", &year, &month, &day,
           &hour, &minute, &second, &ms, &end);
    assert_int_equal(end, strlen("ts=2026-01-31T12:00:00.123Z level="));
}

static void characters_that_break_a_line_are_escaped(void **state)
{
    (void)state;
    static const struct {
        struct slice id;
        const char *shown;
    } rows[] = {
        {SLICE_LIT("plain-1.2:3/4>"), "plain-1.2:3/4>"},
        {SLICE_LIT("a=b"), "\"a=b\""},
        {SLICE_LIT("a\"b\\c"), "\"a\\\"b\\\\c\""},
        {SLICE_LIT("a\nlevel=error\r\t\0b"), "\"a\\nlevel=error\\r\\t\\u0000b\""},
        {SLICE_LIT("\x1b[31m\x7f"), "\"\\u001B[31m\\u007F\""},
        {SLICE_LIT("\xc2\x9b"
                   "31m"),
         "\"\\u009B31m\""},
        {SLICE_LIT("gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\""},
        {SLICE_LIT("\xff\xc3"), "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char want[256];
        snprintf(want, sizeof(want), "level=warn job=%s msg=x\n", rows[i].shown);
        log_event(LOG_WARN, &(struct log_about){.job = rows[i].id}, "x");
        assert_string_equal(line(), want);
    }
}

/* Every byte, twice, in each place whose content comes from outside; and far too long. */
static void a_line_of_json_is_valid_for_any_content(void **state)
{
    (void)state;
    char bytes[6000];
    log_set_format(LOG_JSON);
    for (unsigned c = 0; c < 256; c++) {
        for (size_t n = 1; n < sizeof(bytes); n = n == 1 ? sizeof(bytes) - 1 : n + 1) {
            memset(bytes, (int)c, n);
            bytes[n] = '\0';
            const struct log_about about = {
                .route = "r", .job = {bytes, n}, .traceparent = {bytes, n}, .err = bytes};
            log_event(LOG_WARN, &about, "%s", bytes);
            line();
            json_error_t why;
            json_t *root =
                json_loads(heard.text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
            if (root == NULL)
                fail_msg("byte %u: %s: %.200s", c, why.text, heard.text);
            assert_string_equal(json_string_value(json_object_get(root, "route")), "r");
            assert_true(json_is_string(json_object_get(root, "job")));
            assert_true(json_is_string(json_object_get(root, "msg")));
            json_decref(root);
        }
    }
}

static void numbers_of_json_are_numbers(void **state)
{
    (void)state;
    log_set_format(LOG_JSON);
    log_event(LOG_WARN, &(struct log_about){.attempt = 7}, "x");
    assert_string_equal(line(), "level\":\"warn\",\"attempt\":7,\"msg\":\"x\"}\n");
}

static void an_invalid_traceparent_is_omitted(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "00-", "00-4bf92f3577b34da6a3ce929d0e0e473",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "00-4bf92f3577b34da6a3ce929d0e0e473\n-00f067aa0ba902b7-01"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        log_event(LOG_WARN, &(struct log_about){.traceparent = slice_of(bad[i])}, "x");
        assert_string_equal(line(), "level=warn msg=x\n");
    }
}

static void repeated_lines_are_summed(void **state)
{
    (void)state;
    struct log_limit limit = {0};
    const struct log_about about = {.route = "r", .limit = &limit};
    uint64_t before = log_lines(LOG_WARN);
    for (int i = 0; i < 5; i++)
        log_event(LOG_WARN, &about, "%d", i);
    assert_string_equal(line(), "level=warn route=r msg=0\n");
    limit.next_ms = 1; /* long ago */
    log_limited(&limit, LOG_WARN, "redis", "again");
    assert_string_equal(line(), "level=warn who=redis suppressed=4 msg=again\n");
    assert_int_equal(log_lines(LOG_WARN) - before, 2);
}

static void lines_below_the_level_are_neither_written_nor_counted(void **state)
{
    (void)state;
    uint64_t before = log_lines(LOG_INFO);
    log_set_level(LOG_WARN);
    log_info("daemon", "x");
    log_warn("daemon", "y");
    assert_string_equal(line(), "level=warn who=daemon msg=y\n");
    assert_int_equal(log_lines(LOG_INFO), before);
}

static void no_secret_is_written(void **state)
{
    (void)state;
    log_event(LOG_WARN, &(struct log_about){.err = "redis://me:hunter2@h refused"},
              "Authorization: Bearer abcdefghijklmnop of http://u:hunter2@h/");
    const char *text = line();
    assert_null(strstr(text, "hunter2"));
    assert_null(strstr(text, "abcdefghijklmnop"));
}

#define CASE(name)                                                                       \
    cmocka_unit_test_setup_teardown(name, listen_to_stderr, give_stderr_back)

UNIT(log)
{
    const struct CMUnitTest tests[] = {
        CASE(a_line_is_of_pairs_in_a_fixed_order),
        CASE(the_time_is_utc_with_milliseconds),
        CASE(characters_that_break_a_line_are_escaped),
        CASE(a_line_of_json_is_valid_for_any_content),
        CASE(numbers_of_json_are_numbers),
        CASE(an_invalid_traceparent_is_omitted),
        CASE(repeated_lines_are_summed),
        CASE(lines_below_the_level_are_neither_written_nor_counted),
        CASE(no_secret_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
