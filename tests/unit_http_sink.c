/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_http_sink.c - what goes into a callback's request, and what its answer means.
 */
#include "sinks/http_message.h"
#include "sinks/http_url.h"

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

static const char *sent_as(const char *url)
{
    static char out[256];
    struct buf b = {0};
    if (http_url_add(&b, slice_of(url)) < 0)
        return "none";
    assert_true(b.n < sizeof(out));
    strcpy(out, buf_str(&b));
    buf_free(&b);
    return out;
}

static void a_url_is_sent_so_that_it_cannot_end_the_request_line(void **state)
{
    (void)state;
    assert_string_equal(sent_as("http://a/b c?d e#f g"), "http://a/b%20c?d%20e");
    assert_string_equal(sent_as("http://a?x"), "http://a?x");
    assert_string_equal(sent_as("http://a/%2F/../b"), "http://a/%2F/../b");
    assert_string_equal(sent_as("http://a/\xc3\xa4?\xc3\xa4"),
                        "http://a/%C3%A4?\xc3\xa4");
    assert_string_equal(sent_as("http://a/\"\\"), "http://a/%22%5C");
    assert_string_equal(sent_as("http://a/b\r\nHost: c"), "none");
    assert_string_equal(sent_as("http://a/\x7f"), "none");
    assert_string_equal(sent_as("http:///a"), "none");
    assert_string_equal(sent_as("http://u@/a"), "none");
    assert_string_equal(sent_as("http://good\\@evil/"), "none");
    assert_string_equal(sent_as("http://a b/"), "none");
}

static bool same(const char *a, const char *b)
{
    return http_url_same_origin(slice_of(a), slice_of(b));
}

static void secrets_stay_with_scheme_host_and_port(void **state)
{
    (void)state;
    assert_true(same("http://a/x", "HTTP://A:80/y"));
    assert_true(same("https://u:p@a:443", "https://a?z"));
    assert_false(same("http://a/", "https://a/"));
    assert_false(same("http://a/", "http://a:8080/"));
    assert_false(same("http://a/", "http://a@b/"));
    assert_false(same("http://a/", "http://a.b/"));
    assert_false(same("http://a/", "ftp://a/"));
    assert_false(same("http://a:180/", "http://a:1/"));
}

static void a_referer_tells_no_password_and_nothing_from_https_to_http(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"http://u:p@a/b?c#d", "https://e/", "http://a/b?c"},
        {"https://a/b", "https://e/", "https://a/b"},
        {"https://a/b", "http://e/", ""}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b = {0};
        http_url_add_referer(&b, slice_of(rows[i][0]), slice_of(rows[i][1]));
        assert_string_equal(buf_str(&b), rows[i][2]);
        buf_free(&b);
    }
}

static void code_100_in_the_body_is_a_delivery_and_nothing_else(void **state)
{
    (void)state;
    static const char *const good[] = {"{\"code\":100}",
                                       " {\"a\":[1,{}],\"CODE\" : 100}\n",
                                       "{\"code\":1,\"Code\":100}"};
    static const char *const bad[] = {"",
                                      "null",
                                      "{}",
                                      "[]",
                                      "100",
                                      "{\"code\":\"100\"}",
                                      "{\"code\":100.0}",
                                      "{\"code\":101}",
                                      "{\"code\":100,\"CODE\":101}",
                                      "{\"code\":100}x",
                                      "{\"code\":100",
                                      "{\"code\":1e2}",
                                      "ok",
                                      "{\"code\":null}",
                                      "{\"code\":99999999999999999999}"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(http_is_code100(slice_of(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(http_is_code100(slice_of(bad[i])));
}

static void a_redirect_keeps_or_drops_the_body_by_its_status(void **state)
{
    (void)state;
    for (long status = 200; status < 600; status++) {
        enum http_redirect want = HTTP_NO_REDIRECT;
        if (status >= 301 && status <= 303)
            want = HTTP_AS_GET;
        else if (status == 307 || status == 308)
            want = HTTP_AS_IT_IS;
        assert_int_equal(http_status_redirect(status), want);
    }
}

static char authorization[] = "Authorization", bearer[] = "Bearer x", tarry[] = "tarry";
static struct opt_pair authorized = {authorization, bearer};
static const struct http_opts usual = {
    .headers = {&authorized, 1}, .user_agent = tarry, .delay_headers = true};
static const struct http_hop first_hop = {0};

/* The lines of a delivery, with "|" after each. */
static const char *lines_of(struct header *headers, unsigned n, struct slice key,
                            const struct http_opts *o, const struct http_hop *hop,
                            unsigned want_left_out)
{
    static char out[1024];
    struct job job = {.id = SLICE_LIT("t/0.1"), .key = key};
    struct delivery d = {.job = &job, .headers = headers, .header_count = n};
    struct http_lines lines = {0};
    assert_int_equal(http_lines_make(&lines, &d, o, hop), want_left_out);
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
    assert_string_equal(lines_of(h, 2, SLICE_LIT("k"), &usual, &first_hop, 0),
                        "Authorization: Bearer x|x-a: 1|x-b;|User-Agent: tarry|"
                        "Content-Type: application/octet-stream|delay-key: k|"
                        "webhook-id: t/0%2E1|Accept:|Expect:|");
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
        lines_of(h, 7, (struct slice){"\0", 1}, &usual, &first_hop, 3),
        "Authorization: Bearer x|content-type: text/plain|User-Agent: tarry|"
        "webhook-id: t/0%2E1|Accept:|Expect:|");
}

static void our_own_headers_can_be_left_out(void **state)
{
    (void)state;
    static char go[] = "Go-http-client/1.1";
    const struct http_opts o = {.user_agent = go};
    struct header h[] = {{SLICE_LIT("Content-Type"), SLICE_LIT("application/json")},
                         {SLICE_LIT("delay-id"), SLICE_LIT("i")},
                         {SLICE_LIT("Delay-Attempt"), SLICE_LIT("1")}};
    assert_string_equal(lines_of(h, 3, SLICE_LIT("k"), &o, &first_hop, 0),
                        "Content-Type: application/json|User-Agent: Go-http-client/1.1|"
                        "Accept:|Expect:|");
}

static void a_redirect_to_elsewhere_takes_no_credentials_along(void **state)
{
    (void)state;
    struct header h[] = {{SLICE_LIT("cookie"), SLICE_LIT("c")},
                         {SLICE_LIT("authorization"), SLICE_LIT("theirs")},
                         {SLICE_LIT("content-type"), SLICE_LIT("text/plain")},
                         {SLICE_LIT("x-a"), SLICE_LIT("1")}};
    const struct http_hop hop = {true, true, SLICE_LIT("http://a/")};
    assert_string_equal(lines_of(h, 4, (struct slice){0}, &usual, &hop, 0),
                        "x-a: 1|User-Agent: tarry|webhook-id: t/0%2E1|"
                        "Referer: http://a/|Accept:|Expect:|");
    const struct http_hop near = {.bodyless = true};
    assert_string_equal(lines_of(h, 4, (struct slice){0}, &usual, &near, 0),
                        "Authorization: Bearer x|cookie: c|x-a: 1|User-Agent: tarry|"
                        "webhook-id: t/0%2E1|Accept:|Expect:|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_status_has_its_outcome),
        cmocka_unit_test(only_http_urls_pass),
        cmocka_unit_test(a_url_is_sent_so_that_it_cannot_end_the_request_line),
        cmocka_unit_test(secrets_stay_with_scheme_host_and_port),
        cmocka_unit_test(a_referer_tells_no_password_and_nothing_from_https_to_http),
        cmocka_unit_test(code_100_in_the_body_is_a_delivery_and_nothing_else),
        cmocka_unit_test(a_redirect_keeps_or_drops_the_body_by_its_status),
        cmocka_unit_test(a_request_has_the_jobs_headers_and_ours),
        cmocka_unit_test(our_own_headers_can_be_left_out),
        cmocka_unit_test(a_redirect_to_elsewhere_takes_no_credentials_along),
        cmocka_unit_test(a_job_cannot_break_the_framing_nor_take_a_fixed_header),
    };
    alarm(30);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
