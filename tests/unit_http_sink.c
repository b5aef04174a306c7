/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_http_sink.c - what goes into a callback's request, and what its status means.
 */
#include "sinks/http_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static void each_status_has_its_outcome(void **state)
{
    (void)state;
    static const struct {
        long status;
        enum outcome outcome;
    } rows[] = {{200, DELIVERED}, {204, DELIVERED}, {299, DELIVERED}, {301, REJECTED},
                {304, REJECTED},  {400, REJECTED},  {404, REJECTED},  {408, TRY_AGAIN},
                {410, REJECTED},  {425, TRY_AGAIN}, {429, TRY_AGAIN}, {499, REJECTED},
                {500, TRY_AGAIN}, {503, TRY_AGAIN}, {599, TRY_AGAIN}, {101, TRY_AGAIN},
                {0, TRY_AGAIN},   {999, TRY_AGAIN}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(http_status_outcome(rows[i].status), rows[i].outcome);
}

static void only_http_urls_pass(void **state)
{
    (void)state;
    assert_true(http_is_url(slice_of("http://a/")));
    assert_true(http_is_url(slice_of("HTTPS://a")));
    assert_false(http_is_url(slice_of("http://")));
    assert_false(http_is_url(slice_of("ftp://a/")));
    assert_false(http_is_url(slice_of("a/b")));
    assert_false(http_is_url((struct slice){NULL, 0}));
    assert_false(http_is_url((struct slice){"http://a\0b", 10}));
}

/* The lines of a delivery, with "|" after each. */
static const char *lines_of(struct header *headers, unsigned n, struct slice key,
                            unsigned want_left_out)
{
    static char out[1024];
    struct job job = {.id = SLICE_LIT("t/0.1"), .key = key};
    struct delivery d = {.job = &job, .headers = headers, .header_count = n};
    struct opt_pair pair = {(char *)(uintptr_t) "Authorization",
                            (char *)(uintptr_t) "Bearer x"};
    struct opt_pairs fixed = {&pair, 1};
    struct http_lines lines = {0};
    assert_int_equal(http_lines_make(&lines, &d, &fixed), want_left_out);
    out[0] = 0;
    for (size_t i = 0; i < http_lines_count(&lines); i++)
        strcat(strcat(out, http_lines_at(&lines, i)), "|");
    http_lines_free(&lines);
    return out;
}

static void a_request_has_the_jobs_headers_and_ours(void **state)
{
    (void)state;
    struct header h[] = {{SLICE_LIT("x-a"), SLICE_LIT("1")},
                         {SLICE_LIT("x-b"), SLICE_LIT("")}};
    assert_string_equal(lines_of(h, 2, SLICE_LIT("k"), 0),
                        "Authorization: Bearer x|x-a: 1|x-b;|User-Agent: tarry|"
                        "Content-Type: application/octet-stream|delay-key: k|"
                        "webhook-id: t/0%2E1|Expect:|");
}

static void a_job_cannot_break_the_framing_nor_take_a_fixed_header(void **state)
{
    (void)state;
    struct header h[] = {{SLICE_LIT("Content-Length"), SLICE_LIT("1")},
                         {SLICE_LIT("transfer-encoding"), SLICE_LIT("chunked")},
                         {SLICE_LIT("HOST"), SLICE_LIT("evil")},
                         {SLICE_LIT("authorization"), SLICE_LIT("theirs")},
                         {SLICE_LIT("a b"), SLICE_LIT("1")},
                         {SLICE_LIT("x"), SLICE_LIT("1\r\nHost: evil")},
                         {SLICE_LIT("content-type"), SLICE_LIT("text/plain")}};
    assert_string_equal(
        lines_of(h, 7, (struct slice){"\0", 1}, 3),
        "Authorization: Bearer x|content-type: text/plain|User-Agent: tarry|"
        "webhook-id: t/0%2E1|Expect:|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_status_has_its_outcome),
        cmocka_unit_test(only_http_urls_pass),
        cmocka_unit_test(a_request_has_the_jobs_headers_and_ours),
        cmocka_unit_test(a_job_cannot_break_the_framing_nor_take_a_fixed_header),
    };
    alarm(30);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
