/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_httpd.c - paths and their rows, and a real listener with a client on another
 * thread.
 */
#include "bridge/httpd.h"
#include "bridge/httpd_route.h"
#include "bridge/loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* ------------------------------------------------------------------------ paths */

/* What went into the segments, with ";" between them; "-": no match, "!": no path. */
static const char *matched(const char *pattern_text, const char *raw)
{
    static char out[256];
    char room[256];
    struct httpd_pattern pattern;
    struct httpd_path path;
    struct slice took[HTTPD_SEGMENTS_MAX];
    httpd_pattern_init(&pattern, pattern_text);
    if (httpd_path_split(&path, slice_of(raw), room) < 0)
        return "!";
    int n = httpd_pattern_match(&pattern, &path, took);
    if (n < 0)
        return "-";
    out[0] = 0;
    for (int i = 0; i < n; i++)
        sprintf(out + strlen(out), "%s%.*s", i ? ";" : "", SLICE_ARG(took[i]));
    return out;
}

static void a_path_matches_segment_by_segment(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *path, *took;
    } rows[] = {
        {"/", "/", ""},
        {"/v1/routes/{}/jobs/{}", "/v1/routes/a/jobs/b", "a;b"},
        {"/v1/routes/{}/jobs/{}", "/v1/routes/a/jobs/", "-"},
        {"/v1/routes/{}/jobs/{}", "/v1/routes/a/jobs/b/", "-"},
        {"/v1/routes/{}/jobs", "/v1/routes//jobs", "-"},
        {"/v1/routes/{}/jobs", "/v1/%72outes/a%2Fb/jobs", "a/b"},
        {"/v1/{}", "/v1/%", "!"},
        {"/v1/{}", "v1/a", "!"},
        {"/c/{*}", "/c", "-"},
        {"/c/{*}", "/c/", ""},
        {"/c/{*}", "/c/a/b%20c/d", "a/b c/d"},
        {"/c/{*}", "/c/1/2/3/4/5/6/7/8/9/10/11/12/13/14",
         "1/2/3/4/5/6/7/8/9/10/11/12/13/14"},
        {"/{}/b/{*}", "/a/b/c/d", "a;c/d"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(matched(rows[i].pattern, rows[i].path), rows[i].took);
}

/* --------------------------------------------------------------- a live listener */

static struct timer *later_timer;
static struct httpd_req *later_req;

static void answer_later(void *arg)
{
    char text[128];
    struct httpd_req *req = later_req;
    (void)arg;
    snprintf(text, sizeof(text), "%.*s q=%.*s", SLICE_ARG(httpd_segment(req, 0)),
             SLICE_ARG(httpd_query(req, "q")));
    httpd_answer(req, 200, "text/plain", slice_of(text));
}

static void handle_later(void *arg, struct httpd_req *req)
{
    (void)arg;
    later_req = req;
    timer_set(later_timer, 20);
}

static void handle_echo(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_answer(req, 200, "text/plain", httpd_body(req));
}

static const struct httpd_route rows[] = {
    {"GET", "/later/{}", handle_later},
    {"GET", "/echo", handle_echo},
    {"POST", "/echo", handle_echo},
    {0},
};

struct client {
    const char *const *pieces; /* sent one by one, pause_ms apart; ends with NULL */
    unsigned pause_ms, port;
    char answer[8192]; /* all that came until the other end closed */
};

static void stop_loop(void *arg)
{
    (void)arg;
    loop_stop();
}

static void *client_main(void *arg)
{
    struct client *c = arg;
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)c->port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    size_t n = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0) {
        for (const char *const *p = c->pieces; *p; p++) {
            if (send(fd, *p, strlen(*p), MSG_NOSIGNAL) < 0)
                break;
            usleep(c->pause_ms * 1000);
        }
        ssize_t got;
        while (n < sizeof(c->answer) - 1 &&
               (got = recv(fd, c->answer + n, sizeof(c->answer) - 1 - n, 0)) > 0)
            n += (size_t)got;
    }
    c->answer[n] = 0;
    close(fd);
    loop_post(stop_loop, NULL);
    return NULL;
}

static int64_t bodies_max = 1000;

static char *talk_slowly(const char *const *pieces, unsigned pause_ms)
{
    static struct client c;
    struct err err;
    pthread_t thread;
    const struct httpd_conf conf = {.listen = "127.0.0.1:0",
                                    .body_max = 8,
                                    .bodies_max = bodies_max,
                                    .deadline_ms = 300,
                                    .idle_ms = 300,
                                    .connections_max = 4};
    loop_init();
    later_timer = timer_new(answer_later, NULL);
    struct httpd *h = httpd_start(&conf, &err);
    assert_non_null(h);
    httpd_serve(h, rows, NULL);
    c = (struct client){.pieces = pieces, .pause_ms = pause_ms, .port = httpd_port(h)};
    assert_int_equal(pthread_create(&thread, NULL, client_main, &c), 0);
    loop_run();
    pthread_join(thread, NULL);
    httpd_stop(h);
    timer_del(later_timer);
    loop_fini();
    assert_int_equal(httpd_body_bytes(), 0);
    return c.answer;
}

static char *talk(const char *text)
{
    return talk_slowly((const char *const[]){text, NULL}, 0);
}

static void assert_begins(const char *answer, const char *with)
{
    if (strncmp(answer, with, strlen(with)) != 0)
        fail_msg("\"%.200s\" does not begin with \"%s\"", answer, with);
}

#define HOST "Host: x\r\n"
#define LAST "Host: x\r\nConnection: close\r\n"

static void requests_in_one_piece_are_answered_in_their_order(void **state)
{
    (void)state;
    char *answer =
        talk("GET /later/a%2Fb?q=x%3Dy+z HTTP/1.1\r\n" HOST "\r\n"
             "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
             "POST /echo HTTP/1.1\r\n" LAST
             "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
    char *first = strstr(answer, "a/b q=x=y z");
    assert_non_null(first);
    char *second = strstr(first, "\r\n\r\nhello");
    assert_non_null(second);
    assert_non_null(strstr(second, "\r\n\r\nabc"));
}

static void an_unknown_path_or_method_is_told_as_json(void **state)
{
    (void)state;
    char *answer = talk("GET /none HTTP/1.1\r\n" LAST "\r\n");
    assert_begins(answer, "HTTP/1.1 404 ");
    assert_non_null(strstr(answer, "{\"error\":\"not-found\""));
    answer = talk("DELETE /echo HTTP/1.1\r\n" LAST "\r\n");
    assert_begins(answer, "HTTP/1.1 405 ");
    assert_non_null(strstr(answer, "Allow: GET, HEAD, POST\r\n"));
}

static void head_is_get_without_the_body(void **state)
{
    (void)state;
    char *answer = talk("HEAD /later/x HTTP/1.1\r\n" LAST "\r\n");
    assert_begins(answer, "HTTP/1.1 200 ");
    assert_non_null(strstr(answer, "Content-Length: 4\r\n"));
    assert_null(strstr(answer, "x q="));
}

static void ambiguous_framing_is_refused(void **state)
{
    (void)state;
    static const char *const headers[] = {
        HOST "Content-Length: 3\r\nContent-Length: 4\r\n",
        HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        HOST "Transfer-Encoding: gzip, chunked\r\n",
        HOST "Transfer-Encoding : chunked\r\nContent-Length: 3\r\n",
        HOST "Transfer-Encoding:\r\n chunked\r\nContent-Length: 3\r\n",
        HOST HOST "Content-Length: 3\r\n",
    };
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "POST /echo HTTP/1.1\r\n%s\r\nabc", headers[i]);
        assert_begins(talk(text), "HTTP/1.1 400 ");
    }
}

static void a_body_over_the_limit_is_refused_and_the_connection_stays(void **state)
{
    (void)state;
    char *answer =
        talk("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\n123456789"
             "POST /echo HTTP/1.1\r\n" HOST
             "Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n"
             "POST /echo HTTP/1.1\r\n" LAST "Content-Length: 8\r\n\r\n12345678");
    assert_begins(answer, "HTTP/1.1 413 ");
    char *second = strstr(answer + 1, "HTTP/1.1 413 ");
    assert_non_null(second);
    assert_non_null(strstr(second, "\r\n\r\n12345678"));
}

static void bodies_over_the_budget_of_all_are_sent_away_for_a_while(void **state)
{
    (void)state;
    bodies_max = 5;
    char *answer = talk("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 7\r\n\r\n1234567"
                        "POST /echo HTTP/1.1\r\n" HOST
                        "Transfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n0\r\n\r\n"
                        "POST /echo HTTP/1.1\r\n" LAST "Content-Length: 5\r\n\r\n12345");
    bodies_max = 1000;
    assert_begins(answer, "HTTP/1.1 503 ");
    assert_non_null(strstr(answer, "Retry-After: 1\r\n"));
    char *second = strstr(answer + 1, "HTTP/1.1 503 ");
    assert_non_null(second);
    assert_non_null(strstr(second, "\r\n\r\n12345"));
}

static void a_header_line_now_and_then_does_not_hold_off_the_deadline(void **state)
{
    (void)state;
    static const char *const pieces[] = {"GET /echo HTTP/1.1\r\n",
                                         HOST,
                                         "A: 1\r\n",
                                         "B: 1\r\n",
                                         "C: 1\r\n",
                                         "D: 1\r\n",
                                         "E: 1\r\n",
                                         "F: 1\r\n",
                                         NULL};
    assert_begins(talk_slowly(pieces, 100), "HTTP/1.1 408 ");
}

static void a_silent_connection_is_closed(void **state)
{
    (void)state;
    assert_string_equal(talk_slowly((const char *const[]){"", NULL}, 0), "");
    char *answer =
        talk("GET /echo HTTP/1.1\r\n" HOST "\r\n"); /* returns: it was closed */
    assert_begins(answer, "HTTP/1.1 200 ");
}

static void a_bad_address_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const char *const bad[] = {"7700",          "127.0.0.1", "::1:80",
                                      "[::1:80",       "h:99999",   "unix:relative.sock",
                                      "127.0.0.1:http"};
    loop_init();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {""};
        const struct httpd_conf conf = {.listen = bad[i], .connections_max = 1};
        assert_null(httpd_start(&conf, &err));
        assert_true(err.text[0]);
    }
    loop_fini();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_matches_segment_by_segment),
        cmocka_unit_test(requests_in_one_piece_are_answered_in_their_order),
        cmocka_unit_test(an_unknown_path_or_method_is_told_as_json),
        cmocka_unit_test(head_is_get_without_the_body),
        cmocka_unit_test(ambiguous_framing_is_refused),
        cmocka_unit_test(a_body_over_the_limit_is_refused_and_the_connection_stays),
        cmocka_unit_test(bodies_over_the_budget_of_all_are_sent_away_for_a_while),
        cmocka_unit_test(a_header_line_now_and_then_does_not_hold_off_the_deadline),
        cmocka_unit_test(a_silent_connection_is_closed),
        cmocka_unit_test(a_bad_address_is_refused_with_a_reason),
    };
    alarm(30);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
