/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_httpd.c - paths and their rows, and a real listener with a client on another
 * thread.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/http/http_args.h"
#include "bridge/http/httpd_internal.h"
#include "bridge/http/httpd_url.h"
#include "tests/unit.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <linux/tcp.h>
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

/* The values of the segments, with ";" between them; "-": no match, "!": no path. */
static const char *matched(const char *pattern_text, const char *raw)
{
    static char out[256];
    char room[256];
    struct httpd_pattern pattern;
    struct httpd_path path;
    struct slice took[HTTPD_PATH_PARAMS_MAX];
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

/* Answer with the handler's view of its request. arg: the name of the row. */
static void handle_tell(void *arg, struct httpd_req *req)
{
    struct buf out = {0};
    struct slice query = httpd_query_text(req);
    buf_addf(&out, "%s %s %.*s ?%s%.*s q=%.*s body=", (const char *)arg,
             httpd_method(req), SLICE_ARG(httpd_path(req)), query.p ? "" : "none",
             SLICE_ARG(query), SLICE_ARG(httpd_query(req, "q")));
    buf_add_slice(&out, httpd_body(req));
    httpd_answer(req, 200, "text/plain", buf_slice(&out));
    buf_free(&out);
}

static void add_param(void *arg, struct slice name, struct slice value)
{
    buf_addf(arg, "[%.*s=%.*s]", SLICE_ARG(name), SLICE_ARG(value));
}

static void handle_params(void *arg, struct httpd_req *req)
{
    struct buf out = {0};
    (void)arg;
    bool bad = httpd_each_param(req, add_param, &out) < 0;
    buf_add_str(&out, bad ? "!" : ".");
    httpd_answer(req, 200, "text/plain", buf_slice(&out));
    buf_free(&out);
}

/* Answer with one parameter of each kind, as the kit reads them. */
struct args {
    struct slice name, word, token, text;
    int64_t max, wait_ms;
};
#define AT(field) offsetof(struct args, field)
static const struct http_param args_params[] = {
    {"a name", HTTP_TEXT, AT(name), .from = FROM_PATH, .max = 4},
    {"word", HTTP_TEXT, AT(word), .from = FROM_QUERY, .required = true},
    {"max", HTTP_INT, AT(max), .from = FROM_QUERY, .def = 7, .min = 1, .max = 9,
     .wrong = "max is odd"},
    {"wait", HTTP_MS, AT(wait_ms), .from = FROM_QUERY, .max = 60000},
    {"x-token", HTTP_TEXT, AT(token), .from = FROM_HEADER},
    {0}};
static const struct http_param form_params[] = {
    {"text", HTTP_TEXT, AT(text), .from = FROM_FORM, .max = 9},
    {"max", HTTP_INT, AT(max), .from = FROM_FORM, .required = true, .max = 9},
    {0}};
#undef AT

static void handle_args(void *arg, struct httpd_req *req)
{
    const struct args *args = httpd_args(req);
    struct buf out = {0};
    (void)arg;
    buf_addf(&out, "name=%.*s word=%.*s token=%.*s text=%.*s max=%lld wait=%lld",
             SLICE_ARG(args->name), SLICE_ARG(args->word), SLICE_ARG(args->token),
             SLICE_ARG(args->text), (long long)args->max, (long long)args->wait_ms);
    httpd_answer(req, 200, "text/plain", buf_slice(&out));
    buf_free(&out);
}

static void handle_nothing(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_answer(req, 204, "text/plain", SLICE_LIT(""));
}

static void handle_headers(void *arg, struct httpd_req *req)
{
    char value[700];
    (void)arg;
    snprintf(value, sizeof(value), "%0*d", (int)sizeof(value) - 1, 0);
    httpd_add(req, "X-Long", value);
    httpd_answer(req, 200, NULL, SLICE_LIT(""));
}

static void add_header(void *arg, struct slice name, struct slice value)
{
    buf_addf(arg, "[%.*s=%.*s]", SLICE_ARG(name), SLICE_ARG(value));
}

/* The token by its name, then every header. */
static void handle_values(void *arg, struct httpd_req *req)
{
    struct buf out = {0};
    (void)arg;
    buf_addf(&out, "<%.*s>", SLICE_ARG(httpd_header(req, "x-token")));
    httpd_each_header(req, add_header, &out);
    httpd_answer(req, 200, NULL, buf_slice(&out));
    buf_free(&out);
}

static struct httpd_req *gone_req;
static int gone_count;

static void on_gone(void *arg)
{
    assert_ptr_equal(arg, &gone_count);
    gone_count++;
    httpd_answer(gone_req, 200, "text/plain", SLICE_LIT("too late"));
}

static void handle_wait(void *arg, struct httpd_req *req)
{
    (void)arg;
    gone_req = req;
    httpd_on_gone(req, on_gone, &gone_count);
}

/* Waits as above, and is answered in time. */
static void handle_watched(void *arg, struct httpd_req *req)
{
    httpd_on_gone(req, on_gone, &gone_count);
    handle_later(arg, req);
}

static void stop_loop(void *arg);
static char rows_word[] = "rows", rest_word[] = "rest";
static struct httpd *listener;
static const struct httpd_route *served;

/* Like a source that stops and starts again. */
static void handle_again(void *arg, struct httpd_req *req)
{
    httpd_unserve(listener, arg);
    httpd_serve(listener, served, rest_word);
    httpd_answer(req, 200, NULL, SLICE_LIT("again"));
}

/* The listener stops while this request waits. */
static void handle_hold(void *arg, struct httpd_req *req)
{
    handle_wait(arg, req);
    loop_defer(stop_loop, NULL);
}

static void on_closed(void *arg)
{
    (void)arg;
    listener = NULL;
}

static void handle_close(void *arg, struct httpd_req *req)
{
    handle_later(arg, req);
    httpd_close(listener, on_closed, NULL);
}

static const struct httpd_route rows[] = {
    {"GET", "/close/{}", handle_close, HTTPD_OPEN, NULL},
    {"GET", "/later/{}", handle_later, HTTPD_OPEN, NULL},
    {"GET", "/echo", handle_echo, HTTPD_OPEN, NULL},
    {"POST", "/echo", handle_echo, HTTPD_OPEN, NULL},
    {"*", "/any", handle_tell, HTTPD_OPEN, NULL},
    {"GET", "/tell/{*}", handle_tell, HTTPD_OPEN, NULL},
    {"*", "/params", handle_params, HTTPD_OPEN, NULL},
    {"GET", "/args/{}", handle_args, HTTPD_OPEN, HTTP_ARGS(struct args, args_params)},
    {"POST", "/form", handle_args, HTTPD_OPEN,
     HTTP_ARGS(struct args, form_params, .others = true)},
    {"GET", "/nothing", handle_nothing, HTTPD_OPEN, NULL},
    {"GET", "/headers", handle_headers, HTTPD_OPEN, NULL},
    {"GET", "/values", handle_values, HTTPD_OPEN, NULL},
    {"GET", "/wait", handle_wait, HTTPD_OPEN, NULL},
    {"GET", "/again", handle_again, HTTPD_OPEN, NULL},
    {"GET", "/watched/{}", handle_watched, HTTPD_OPEN, NULL},
    {"GET", "/hold/{}", handle_hold, HTTPD_OPEN, NULL},
    {0},
};
/* All other paths. */
static const struct httpd_route rest_rows[] = {
    {"*", "/{*}", handle_tell, HTTPD_ADMIN, NULL}, {0}};

static void shape(void *arg, struct httpd_req *req, unsigned status, const char *word,
                  const char *why)
{
    char text[256];
    snprintf(text, sizeof(text), "%s: %s: %s", (const char *)arg, word, why);
    httpd_answer(req, status, "text/html", slice_of(text));
}

struct client {
    const char *const *pieces; /* sent one by one, pause_ms apart; ends with NULL */
    unsigned pause_ms, port;
    bool leaves;       /* closes after it has sent everything */
    char answer[8192]; /* everything that arrived until the other end closed */
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
        while (!c->leaves && n < sizeof(c->answer) - 1 &&
               (got = recv(fd, c->answer + n, sizeof(c->answer) - 1 - n, 0)) > 0)
            n += (size_t)got;
    }
    c->answer[n] = 0;
    close(fd);
    if (c->leaves)
        usleep(100 * 1000);
    loop_post(stop_loop, NULL);
    return NULL;
}

enum { DEADLINE_MS = 300 };
static char any_port[] = "127.0.0.1:0";
static struct httpd_opts opts = {.listen = any_port,
                                 .head_max_bytes = 4096,
                                 .body_max_bytes = 8,
                                 .deadline_ms = DEADLINE_MS,
                                 .idle_ms = 300,
                                 .connections_max = 4};
static int64_t bodies_max = 1000;
static const struct http_dialect shaped = {.refuse = shape};
static bool with_rest, with_shape, leaves;
static unsigned roles = ~0U;

static char *talk_slowly(const char *const *pieces, unsigned pause_ms)
{
    static struct client c;
    struct err err;
    pthread_t thread;
    loop_init();
    later_timer = timer_new(answer_later, NULL);
    httpd_set_bodies_max(bodies_max);
    struct httpd *h = httpd_open("test", &opts, &err);
    assert_non_null(h);
    listener = h;
    served = rows;
    httpd_serve(h, rows, rows_word);
    if (with_rest)
        httpd_serve(h, rest_rows, rest_word);
    h->roles = roles;
    if (with_shape)
        httpd_set_dialect(h, &shaped, rest_word);
    c = (struct client){
        .pieces = pieces, .pause_ms = pause_ms, .port = httpd_port(h), .leaves = leaves};
    assert_int_equal(pthread_create(&thread, NULL, client_main, &c), 0);
    loop_run();
    httpd_stop(listener);
    pthread_join(thread, NULL);
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

static void assert_contains(const char *answer, const char *what)
{
    if (strstr(answer, what) == NULL)
        fail_msg("\"%.500s\" does not hold \"%s\"", answer, what);
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

static void arguments_are_read_from_every_place_a_row_names(void **state)
{
    (void)state;
    static const struct {
        const char *request, *status, *contains;
    } cases[] = {
        {"GET /args/a%2Fb?word=x+y&wait=2s HTTP/1.1\r\n" LAST "X-Token: t\r\n\r\n", "200",
         "name=a/b word=x y token=t text= max=7 wait=2000"},
        {"GET /args/a?word= HTTP/1.1\r\n" LAST "\r\n", "200", "word= token= text= max=7"},
        {"GET /args/a HTTP/1.1\r\n" LAST "\r\n", "400", "word is missing"},
        {"GET /args/abcde?word=x HTTP/1.1\r\n" LAST "\r\n", "400",
         "a name must have from 1 to 4 bytes"},
        {"GET /args/a?word=x&max=10 HTTP/1.1\r\n" LAST "\r\n", "400", "max is odd"},
        {"GET /args/a?word=x&mix=1 HTTP/1.1\r\n" LAST "\r\n", "400",
         "unknown parameter \\\"mix\\\""},
        {"POST /form?text=a&more=1&max=3&text=b&max=no HTTP/1.1\r\n" LAST
         "Content-Type: application/x-www-form-urlencoded\r\n"
         "Content-Length: 8\r\n\r\ntext=,+d",
         "200", "text=a,b,, d max=3"},
        {"POST /form?text=a&max=3&text=bcdefghij HTTP/1.1\r\n" LAST
         "Content-Length: 0\r\n\r\n",
         "400", "text must have from 1 to 9 bytes"},
        {"POST /form?text=a HTTP/1.1\r\n" LAST "Content-Length: 0\r\n\r\n", "400",
         "max is missing"},
        {"POST /form?max=3&text=%zz HTTP/1.1\r\n" LAST "Content-Length: 0\r\n\r\n", "400",
         "the parameters cannot be read"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *answer = talk(cases[i].request);
        assert_contains(answer, cases[i].status);
        assert_contains(answer, cases[i].contains);
    }
}

static void an_unknown_path_or_method_is_reported_as_json(void **state)
{
    (void)state;
    char *answer = talk("GET /none HTTP/1.1\r\n" LAST "\r\n");
    assert_begins(answer, "HTTP/1.1 404 ");
    assert_non_null(strstr(answer, "{\"error\":\"not-found\""));
    answer = talk("DELETE /echo HTTP/1.1\r\n" LAST "\r\n");
    assert_begins(answer, "HTTP/1.1 405 ");
    assert_non_null(strstr(answer, "Allow: GET, HEAD, POST\r\n"));
}

static void removed_rows_are_served_again_by_the_listener_that_adds_them(void **state)
{
    (void)state;
    char *answer = talk("GET /tell/a HTTP/1.1\r\n" HOST "\r\n"
                        "GET /again HTTP/1.1\r\n" HOST "\r\n"
                        "GET /tell/b HTTP/1.1\r\n" LAST "\r\n");
    char *first = strstr(answer, "rows GET /tell/a");
    assert_non_null(first);
    assert_non_null(strstr(first, "rest GET /tell/b"));
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
    /* A proxy with HTTP/1.0 may not know chunks, and read them as the next request. */
    assert_begins(talk("POST /echo HTTP/1.0\r\nConnection: keep-alive\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
                  "HTTP/1.1 400 ");
}

/* Another server in front might see other lines, and another end of the request. */
static void a_head_that_could_be_read_in_another_way_is_refused(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "POST /echo HTTP/1.1\nHost: x\r\nContent-Length: 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\nContent-Length: 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\n\n",
        "POST /echo HTTP/1.1\n\nHost: x\r\nContent-Length: 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\nContent-Length: 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nX: a\r\n\tb\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nX: a\rY: b\r\nContent-Length: 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nX: a\vb\r\nContent-Length: 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nX: \177\r\nContent-Length: 3\r\n\r\n",
        "POST  /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n",
        "POST /echo  HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n",
        "POST /echo HTTP/1.1 \r\nHost: x\r\nContent-Length: 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\n Host: x\r\nContent-Length: 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent Length: 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\n: 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0x3\r\n\r\n",
        "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "%sabc", heads[i]);
        char *answer = talk(text);
        if (answer[0] && strncmp(answer, "HTTP/1.1 400 ", 13) != 0) /* or it closed */
            fail_msg("\"%s\" is answered \"%.200s\"", heads[i], answer);
    }
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

/* RFC 9110, 5.5: a field's value excludes the blanks and tabs around it. */
static void blanks_around_a_header_value_are_no_part_of_it(void **state)
{
    (void)state;
    assert_contains(talk("GET /values HTTP/1.1\r\nHost: x \r\nX-Token: \t TOK \t \r\n"
                         "X-Empty: \t\r\nConnection: close \r\n\r\n"),
                    "<TOK>[Host=x][X-Token=TOK][X-Empty=][Connection=close]");
    static const char *const framed[] = {
        "Content-Length: 3 \r\n\r\nabc",
        "Content-Length: \t3\t \r\n\r\nabc",
        "Content-Length: 3 \r\nExpect: 100-continue \r\n\r\nabc",
        "Transfer-Encoding: chunked \r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "Transfer-Encoding:\tCHUNKED\t\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(framed) / sizeof(framed[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text), "POST /echo HTTP/1.1\r\n" LAST "%s", framed[i]);
        char *answer = talk(text);
        assert_contains(answer, "HTTP/1.1 200 ");
        assert_contains(answer, "\r\n\r\nabc");
    }
}

/* Fails unless the answer contains the word. If the library calls its own functions
 * directly (Ubuntu), the answer may be its page instead. */
static void assert_refused(const char *answer, const char *word)
{
    static bool known, direct;
    if (!known) {
        char command[600];
        Dl_info library;
        assert_true(dladdr((void *)(uintptr_t)MHD_start_daemon, &library));
        snprintf(command, sizeof(command),
                 "! readelf -rW %s | grep -q MHD_queue_response", library.dli_fname);
        direct = system(command) == 0;
        known = true;
    }
    if (!direct || strstr(answer, "<html>") == NULL)
        assert_contains(answer, word);
}

/* One head, with a reason: a client would read a second one as the answer to its next
 * request. */
static void a_head_that_is_refused_is_answered_once(void **state)
{
    (void)state;
    static const struct {
        const char *text, *status, *word;
    } cases[] = {
        {"GET /echo HTTP/1.1\r\n\r\n", "400", "bad-framing"},
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\na", "400",
         "bad-framing"},
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\na", "400", "bad-framing"},
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1 1\r\n\r\na", "400",
         "bad-framing"},
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\na",
         "413", "oversize"},
        {"GET /echo HTTP/1.1\r\n" HOST "no colon\r\n\r\n", "400", "bad-framing"},
        {"GET /echo HTTP/3.0\r\n" HOST "\r\n", "505", "bad-version"},
        {"GET /echo HTTP/0.9\r\n" HOST "\r\n", "505", "bad-version"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *answer = talk(cases[i].text);
        assert_begins(answer, "HTTP/1.1 ");
        assert_begins(answer + 9, cases[i].status);
        assert_refused(answer, cases[i].word);
        if (count(answer, "Content-Length:") != 1)
            fail_msg("\"%s\" is answered more than once: %s", cases[i].text, answer);
    }
}

/* False in the emulator qemu-user. */
static bool kernel_counts_bytes(void)
{
    struct tcp_info info;
    socklen_t n = sizeof(info);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n), 0);
    close(fd);
    return n > offsetof(struct tcp_info, tcpi_bytes_sent);
}

static void a_line_that_is_no_request_is_answered_with_400(void **state)
{
    (void)state;
    if (!kernel_counts_bytes())
        skip();
    static const char *const lines[] = {
        "garbage\r\n\r\n",
        "GET\r\n\r\n",
        "GET /echo\r\n\r\n",
        " GET /echo HTTP/1.1\r\n" HOST "\r\n",
        "GET /a b HTTP/1.1\r\n" HOST "\r\n",
        "GET /echo HTTP/1.1x\r\n" HOST "\r\n",
        "\x16\x03\x01\x02\n\r\n", /* TLS to a listener without TLS */
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char *answer = talk(lines[i]);
        assert_begins(answer, "HTTP/1.1 400 ");
        assert_refused(answer, "bad-request-line");
        assert_int_equal(count(answer, "Content-Length:"), 1);
    }
    assert_begins(talk_slowly((const char *const[]){"gar", "bage\r\n", NULL}, 20),
                  "HTTP/1.1 400 ");
    /* A client that sends nothing receives nothing. */
    assert_string_equal(talk(""), "");
}

static void a_chunk_without_a_valid_size_is_refused(void **state)
{
    (void)state;
    static const char *const sizes[] = {"0x3", "-3", "+3", " 3", "3 ", "", "g", "3 ;x"};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                 "%s\r\nabc\r\n0\r\n\r\n",
                 sizes[i]);
        assert_begins(talk(text), "HTTP/1.1 400 ");
    }
    assert_begins(talk("POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                       "fffffffffffffffff\r\nabc"),
                  "HTTP/1.1 413 ");
    assert_begins(talk("POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                       "3\r\nabcd\r\n0\r\n\r\n"),
                  "HTTP/1.1 400 ");
}

/* One byte at a time, so that the library moves and enlarges its buffer. */
static void a_head_is_the_same_in_any_pieces(void **state)
{
    (void)state;
    static const char text[] =
        "POST /echo?a=b&c HTTP/1.1\r\nhost: x\r\nX-Empty:\r\n"
        "X-Spaces:   two  \r\nCookie: a=b; c=d\r\nConnection: close"
        "\r\nContent-Length: 3\r\n\r\nabc";
    static char bytes[sizeof(text)][2];
    const char *pieces[sizeof(text)] = {0};
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        bytes[i][0] = text[i];
        pieces[i] = bytes[i];
    }
    opts.deadline_ms = 10000; /* other processes may delay each piece */
    char *answer = talk_slowly(pieces, 1);
    opts.deadline_ms = DEADLINE_MS;
    assert_begins(answer, "HTTP/1.1 200 ");
    assert_non_null(strstr(answer, "\r\n\r\nabc"));
}

static void more_than_a_hundred_header_fields_are_refused(void **state)
{
    (void)state;
    opts.head_max_bytes = 32 * 1024;
    for (int n = 98; n <= 99; n++) { /* with Host and Connection */
        char text[4096] = "GET /echo HTTP/1.1\r\n" LAST;
        for (int i = 0; i < n; i++)
            sprintf(text + strlen(text), "X-%d: a\r\n", i);
        strcat(text, "\r\n");
        assert_begins(talk(text), n == 98 ? "HTTP/1.1 200 " : "HTTP/1.1 431 ");
    }
    opts.head_max_bytes = 4096;
}

static void a_connection_ends_after_its_share_of_requests(void **state)
{
    (void)state;
    opts.requests_max = 2;
    char *answer = talk("GET /echo HTTP/1.1\r\n" HOST "\r\nGET /echo HTTP/1.1\r\n" HOST
                        "\r\nGET /echo HTTP/1.1\r\n" HOST "\r\n");
    opts.requests_max = 0;
    char *second = strstr(answer + 1, "HTTP/1.1 200 ");
    assert_non_null(second);
    char *closes = strstr(answer, "Connection: close");
    assert_true(closes > second);
    assert_null(strstr(second + 1, "HTTP/1.1 200 "));
}

/* 1 KiB in pieces over three times the deadline. */
static char *send_at_rate(int64_t body_rate_bytes)
{
    enum { PIECES = 9, EACH = 120 };
    static char piece[EACH + 1];
    const char *pieces[PIECES + 2] = {"POST /none HTTP/1.1\r\n" LAST
                                      "Content-Length: 1080\r\n\r\n"};
    memset(piece, 'x', EACH);
    for (int i = 0; i < PIECES; i++)
        pieces[i + 1] = piece;
    opts.body_max_bytes = 100000;
    opts.body_rate_bytes = body_rate_bytes;
    bodies_max = 100000;
    char *answer = talk_slowly(pieces, 100);
    bodies_max = 1000;
    opts.body_rate_bytes = 0;
    opts.body_max_bytes = 8;
    return answer;
}

static void a_fast_body_may_exceed_the_deadline(void **state)
{
    (void)state;
    /* sends 1,200 bytes per second, fewer on a busy machine; complete: no row matches */
    assert_begins(send_at_rate(200), "HTTP/1.1 404 ");
    assert_begins(send_at_rate(2400), "HTTP/1.1 408 "); /* half as fast as required */
    assert_begins(send_at_rate(0), "HTTP/1.1 408 ");
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

static void bodies_over_the_total_budget_are_refused_temporarily(void **state)
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

static void slow_header_lines_do_not_extend_the_deadline(void **state)
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

static void a_row_of_any_method_accepts_every_method(void **state)
{
    (void)state;
    static const char *const methods[] = {"GET",     "POST",  "PUT",  "DELETE",
                                          "OPTIONS", "PATCH", "BREW", "TRACE"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        char text[256], want[64];
        snprintf(text, sizeof(text),
                 "%s /any?q=1 HTTP/1.1\r\n" LAST "Content-Length: 3\r\n\r\nabc",
                 methods[i]);
        snprintf(want, sizeof(want), "\r\n\r\nrows %s /any ?q=1 q=1 body=abc",
                 methods[i]);
        assert_contains(talk(text), want);
    }
    char *answer = talk("HEAD /any HTTP/1.1\r\n" LAST "\r\n");
    assert_begins(answer, "HTTP/1.1 200 ");
    assert_contains(answer,
                    "Content-Length: 29\r\n"); /* "rows HEAD /any ?none q= body=" */
    assert_null(strstr(answer, "rows"));
}

/* Both for a row and for the rest. */
static void every_form_of_a_request_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *answer;
    } cases[] = {
        {"GET %s HTTP/1.1\r\n" LAST "\r\n", "body="},
        {"GET http://x.example:80%s HTTP/1.1\r\n" LAST "\r\n", "body="},
        {"GET %s HTTP/1.0\r\n\r\n", "body="},
        {"GET %s HTTP/1.1\r\n" LAST "Content-Length: 4\r\n\r\nbody", "body=body"},
        {"GET %s HTTP/1.1\r\n" LAST
         "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\nT: v\r\n\r\n",
         "body=abcd"},
        {"GET %s HTTP/1.1\r\n" LAST "expect: 100-Continue\r\nContent-Length: 2\r\n\r\nab",
         "body=ab"},
        {"GET %s HTTP/1.1\r\nhOST: x\r\nconnection: CLOSE\r\ncontent-LENGTH: 1\r\n\r\na",
         "body=a"},
    };
    with_rest = true;
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512], want[128];
        const char *path =
            i % 2 ? "/other/%7ea%2Fb?q=x%3Dy+z&q=2" : "/tell/a?q=x%3Dy+z&q=2";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof(text), cases[i / 2].text, path);
#pragma GCC diagnostic pop
        snprintf(want, sizeof(want), "%s GET %.*s ?q=x%%3Dy+z&q=2 q=x=y z %s",
                 i % 2 ? "rest" : "rows", (int)strcspn(path, "?"), path,
                 cases[i / 2].answer);
        assert_contains(talk(text), want);
    }
    with_rest = false;
}

static void a_client_that_sends_expect_gets_100_continue(void **state)
{
    (void)state;
    char *answer = talk_slowly(
        (const char *const[]){"POST /echo HTTP/1.1\r\n" LAST
                              "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
                              "ab", NULL},
        30);
    assert_begins(answer, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n");
    assert_contains(answer, "\r\n\r\nab");
    answer = talk("POST /echo HTTP/1.1\r\n" HOST
                  "Expect: 100-continue\r\nContent-Length: 200\r\n\r\n");
    assert_begins(answer, "HTTP/1.1 413 ");
}

static void http_1_0_stays_only_when_it_asks(void **state)
{
    (void)state;
    static const char two[] = "GET /echo HTTP/1.0\r\n%s\r\nGET /tell/x HTTP/1.0\r\n\r\n";
    char text[256];
    snprintf(text, sizeof(text), two, "Connection: keep-alive\r\n");
    char *answer = talk(text);
    assert_begins(answer, "HTTP/1.1 200 OK\r\n");
    assert_contains(answer, "rows GET /tell/x");
    assert_true(strcasestr(answer, "connection: keep-alive\r\n") != NULL);
    snprintf(text, sizeof(text), two, "");
    assert_null(strstr(talk(text), "rows GET /tell/x"));
}

static void requests_without_a_row_use_the_rest_handler(void **state)
{
    (void)state;
    with_rest = true;
    assert_contains(talk("DELETE /echo HTTP/1.1\r\n" LAST "\r\n"),
                    "rest DELETE /echo ?none");
    assert_contains(talk("PUT / HTTP/1.1\r\n" LAST "Content-Length: 2\r\n\r\nab"),
                    "rest PUT / ?none q= body=ab");
    assert_begins(talk("PUT / HTTP/1.1\r\n" LAST "Content-Length: 9\r\n\r\n123456789"),
                  "HTTP/1.1 413 ");
    assert_begins(talk("GET /%zz HTTP/1.1\r\n" LAST "\r\n"), "HTTP/1.1 400 ");
    assert_contains(talk("GET /%2f/a%20b/// HTTP/1.1\r\n" LAST "\r\n"),
                    "rest GET /%2f/a%20b/// ?none");
    roles = 1U << HTTPD_OPEN; /* it is a row with a role like any other */
    assert_contains(talk("DELETE /echo HTTP/1.1\r\n" LAST "\r\n"), "not-here");
    assert_contains(talk("POST /any HTTP/1.1\r\n" LAST "Content-Length: 0\r\n\r\n"),
                    "rows POST /any");
    roles = ~0U;
    with_rest = false;
}

static void refusals_have_the_shape_of_the_api(void **state)
{
    (void)state;
    with_shape = true;
    char *answer = talk("GET /none HTTP/1.1\r\n" LAST "\r\n");
    assert_begins(answer, "HTTP/1.1 404 ");
    assert_contains(answer, "\r\n\r\nrest: not-found: there");
    answer = talk("DELETE /echo HTTP/1.1\r\n" LAST "\r\n");
    assert_contains(answer, "Allow: GET, HEAD, POST\r\n");
    assert_contains(answer, "rest: bad-method: this path accepts only GET, HEAD, POST");
    answer = talk("GET /none HTTP/1.1\r\n" HOST
                  "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_contains(answer, "rest: not-found: ");
    answer = talk("GET /echo HTTP/1.1\r\n" LAST "Content-Length: 9\r\n\r\n123456789");
    assert_contains(answer,
                    "rest: oversize: the body is larger than the 8 bytes allowed");
    with_shape = false;
}

static void an_answer_without_content_has_no_headers_of_one(void **state)
{
    (void)state;
    char *answer = talk("GET /nothing HTTP/1.1\r\n" HOST "\r\n"
                        "GET /nothing HTTP/1.1\r\n" LAST "\r\n");
    assert_begins(answer, "HTTP/1.1 204 No Content\r\n");
    assert_null(strcasestr(answer, "content-"));
    assert_null(strcasestr(answer, "transfer-"));
    assert_null(strcasestr(answer, "server:"));
    assert_contains(answer, "Date: ");
    char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    assert_begins(end, "\r\n\r\nHTTP/1.1 204 No Content\r\n");
}

static void a_query_returns_the_first_well_formed_value(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"?", "? q= body"},          {"?q", "q= body"},
        {"?q=", "q= body"},          {"?q=1&q=2", "q=1 body"},
        {"?q=%zz&q=2", "q=2 body"},  {"?q=1;a=2&q=3", "q=3 body"},
        {"?a;q=1&q=4", "q=4 body"},  {"?%71=%41+%2b", "q=A + body"},
        {"?&&q=a=b&", "q=a=b body"}, {"?Q=1&qq=2&%q=3", "q= body"},
        {"?q=%", "q= body"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "GET /tell/x%s HTTP/1.1\r\n" LAST "\r\n",
                 cases[i][0]);
        assert_contains(talk(text), cases[i][1]);
    }
}

static void parameters_are_read_from_the_query_and_the_form(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"?a=1&b=%20+x", "", "[a=1][b=  x]."},
        {"?a=1;b", "", "[a=1;b]."},
        {"?a=1&b=%2", "", "[a=1]!"},
        {"?a=1", "Content-Type: text/plain\r\nContent-Length: 3\r\n\r\nb=2", "[a=1]."},
        {"?a=1",
         "Content-Type: Application/X-WWW-form-urlencoded ; charset=utf-8\r\n"
         "Content-Length: 5\r\n\r\nb=%32",
         "[a=1][b=2]."},
        {"",
         "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\n"
         "b=%",
         "!"},
        {"", "Content-Type: multipart/form-data\r\nContent-Length: 2\r\n\r\n--", "!"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512], want[128];
        snprintf(text, sizeof(text), "POST /params%s HTTP/1.1\r\n" LAST "%s%s",
                 cases[i][0], cases[i][1], cases[i][1][0] ? "" : "\r\n");
        snprintf(want, sizeof(want), "\r\n\r\n%s", cases[i][2]);
        assert_contains(talk(text), want);
    }
}

static void a_multipart_body_is_read_part_by_part(void **state)
{
    (void)state;
#define PART "Content-Disposition: form-data; name="
    static const struct {
        const char *type, *body, *expected;
    } cases[] = {
        {"multipart/form-data; boundary=b",
         "--b\r\n" PART "\"n\"\r\n\r\nv+%20\r\n--b--\r\n", "[n=v+%20]."},
        {"multipart/form-data; Boundary=\"b c\"",
         "preamble\r\n--b c \r\nX: y\r\ncontent-disposition: form-data; name=n\r\n\r\n"
         "\r\n--b c\r\n" PART "\"a\\\"b\"\r\n\r\n1\r\n2\r\n\r\n--b c--epilogue",
         "[n=][a\"b=1\r\n2\r\n]."},
        {"multipart/form-data; boundary=b",
         "--b\r\n" PART "f; filename=\"x\"\r\n\r\nfile\r\n--b\r\n" PART
         "\"; filename=\"\r\n\r\nv\r\n--b--",
         "[; filename==v]."},
        {"multipart/form-data; boundary=b", "--b--", "."},
        {"multipart/form-data; boundary=b", "", "!"},
        {"multipart/form-data; boundary=b", "--b\r\n" PART "n\r\n\r\nv", "!"},
        {"multipart/form-data; boundary=b", "--b\r\n" PART "n\r\n--b--", "!"},
        {"multipart/form-data; boundary=b", "--b\r\n\r\nv\r\n--b--", "!"},
        {"multipart/form-data; boundary=b", "--b\r\n" PART "\"n\r\n\r\nv\r\n--b--", "!"},
        {"multipart/form-data; boundary=b", "--b\r\n--b--", "!"},
        {"multipart/form-data; boundary=", "--\r\n--", "!"},
        {"multipart/form-data", "--b--", "!"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf params = {0};
        bool bad = multipart_each(slice_of(cases[i].body), slice_of(cases[i].type),
                                  add_param, &params) < 0;
        buf_add_str(&params, bad ? "!" : ".");
        assert_string_equal(buf_str(&params), cases[i].expected);
        buf_free(&params);
    }
}

static void a_client_that_leaves_while_it_waits_is_missed(void **state)
{
    (void)state;
    gone_count = 0;
    leaves = true;
    talk_slowly((const char *const[]){"GET /wait HTTP/1.1\r\n" HOST "\r\n",
                                      "GET /echo HTTP/1.1\r\n" HOST "\r\n", NULL},
                20);
    leaves = false;
    assert_int_equal(gone_count, 1);
}

static void pipelined_requests_are_no_farewell(void **state)
{
    (void)state;
    gone_count = 0;
    char *answer = talk("GET /watched/a HTTP/1.1\r\n" HOST "\r\n"
                        "GET /watched/b HTTP/1.1\r\n" HOST "\r\n"
                        "GET /tell/c HTTP/1.1\r\n" LAST "\r\n");
    assert_int_equal(gone_count, 0);
    char *first = strstr(answer, "\r\n\r\na q=");
    assert_non_null(first);
    char *second = strstr(first, "\r\n\r\nb q=");
    assert_non_null(second);
    assert_contains(second, "rows GET /tell/c");
}

static void a_request_outlives_its_listener(void **state)
{
    (void)state;
    gone_count = 0;
    assert_string_equal(talk("GET /hold/a?q=1 HTTP/1.1\r\n" HOST "\r\n"), "");
    assert_int_equal(gone_count, 0);
    assert_null(httpd_query(gone_req, "q").p);
    assert_null(httpd_segment(gone_req, 0).p);
    assert_null(httpd_header(gone_req, "host").p);
    assert_string_equal(httpd_method(gone_req), "");
    httpd_answer(gone_req, 200, NULL, SLICE_LIT(""));
}

static void a_closing_listener_answers_accepted_requests_and_refuses_others(void **state)
{
    (void)state;
    char *answer = talk("GET /close/a HTTP/1.1\r\n" HOST "\r\n"
                        "GET /echo HTTP/1.1\r\n" HOST "\r\n");
    assert_begins(answer, "HTTP/1.1 200 ");
    assert_contains(answer, "HTTP/1.1 503 ");
    assert_contains(answer, "\"stopping\"");
    assert_begins(talk("GET /close/a HTTP/1.1\r\n" HOST "\r\n"), "HTTP/1.1 200 ");
    assert_null(listener); /* it has closed the connection */
}

static void headers_over_the_limit_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"X-%d: some value\r\n", "X-%d: %0150d\r\n"};
    static char text[16 * 1024];
    for (size_t i = 0; i < 2; i++) {
        bool fits = true;
        for (int n = 0; n < 60; n += i ? 1 : 3) {
            strcpy(text, "POST /echo?q=1&a=2 HTTP/1.1\r\n" LAST "Content-Length: 5\r\n");
            for (int j = 0; j < n; j++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                sprintf(text + strlen(text), lines[i], j, j);
#pragma GCC diagnostic pop
            }
            strcat(text, "\r\nhello");
            const char *answer = talk(text);
            fits = fits && strncmp(answer, "HTTP/1.1 200 ", 13) == 0;
            assert_true(fits || n > 12);
            if (!fits)
                assert_begins(answer, "HTTP/1.1 431 ");
        }
        assert_false(fits);
    }
}

static void a_query_may_be_long_and_is_never_waited_for(void **state)
{
    (void)state;
    static const char *const parameters[] = {"a&", "a=b&", "name=a%20value&"};
    static char text[8192];
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
        size_t bytes = strlen(parameters[i]);
        for (size_t n = 1; n * bytes < 6000; n += 1 + n / 8) {
            strcpy(text, "GET /any?");
            for (size_t j = 0; j < n; j++)
                strcat(text, parameters[i]);
            strcat(text, "q=end HTTP/1.1\r\n" LAST "\r\n");
            const char *answer = talk(text);
            if (n < 16 || strncmp(answer, "HTTP/1.1 200 ", 13) == 0)
                assert_non_null(strstr(answer, "q=end q=end body="));
            else if (strncmp(answer, "HTTP/1.1 414 ", 13) != 0)
                assert_begins(answer, "HTTP/1.1 431 ");
        }
    }
}

static void the_largest_head_leaves_space_for_the_answer(void **state)
{
    (void)state;
    static char text[16 * 1024];
    unsigned fine = 0, refused = 0;
    opts.head_max_bytes = sizeof(text);
    for (int bytes = 80; bytes < 100; bytes++) { /* of each of 98 fields */
        strcpy(text, "GET /headers HTTP/1.1\r\n" LAST);
        for (int i = 0; i < 98; i++)
            sprintf(text + strlen(text), "X-%02d: %0*d\r\n", i, bytes - 8, 0);
        strcat(text, "\r\n");
        const char *answer = talk(text);
        bool fits = strncmp(answer, "HTTP/1.1 200 ", 13) == 0;
        *(fits ? &fine : &refused) += 1;
        if (!fits)
            assert_begins(answer, "HTTP/1.1 431 ");
    }
    opts.head_max_bytes = 4096;
    assert_true(fine > 0 && refused > 0);
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
        struct httpd_opts at = {.listen = mem_strdup(bad[i]), .connections_max = 1};
        assert_null(httpd_open("test", &at, &err));
        assert_true(err.text[0]);
        free(at.listen);
    }
    loop_fini();
}

UNIT(httpd)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_matches_segment_by_segment),
        cmocka_unit_test(arguments_are_read_from_every_place_a_row_names),
        cmocka_unit_test(requests_in_one_piece_are_answered_in_their_order),
        cmocka_unit_test(an_unknown_path_or_method_is_reported_as_json),
        cmocka_unit_test(removed_rows_are_served_again_by_the_listener_that_adds_them),
        cmocka_unit_test(head_is_get_without_the_body),
        cmocka_unit_test(ambiguous_framing_is_refused),
        cmocka_unit_test(a_head_that_could_be_read_in_another_way_is_refused),
        cmocka_unit_test(blanks_around_a_header_value_are_no_part_of_it),
        cmocka_unit_test(a_head_that_is_refused_is_answered_once),
        cmocka_unit_test(a_line_that_is_no_request_is_answered_with_400),
        cmocka_unit_test(a_chunk_without_a_valid_size_is_refused),
        cmocka_unit_test(a_head_is_the_same_in_any_pieces),
        cmocka_unit_test(more_than_a_hundred_header_fields_are_refused),
        cmocka_unit_test(a_connection_ends_after_its_share_of_requests),
        cmocka_unit_test(a_fast_body_may_exceed_the_deadline),
        cmocka_unit_test(a_body_over_the_limit_is_refused_and_the_connection_stays),
        cmocka_unit_test(bodies_over_the_total_budget_are_refused_temporarily),
        cmocka_unit_test(slow_header_lines_do_not_extend_the_deadline),
        cmocka_unit_test(a_silent_connection_is_closed),
        cmocka_unit_test(a_bad_address_is_refused_with_a_reason),
        cmocka_unit_test(a_row_of_any_method_accepts_every_method),
        cmocka_unit_test(every_form_of_a_request_is_read),
        cmocka_unit_test(a_client_that_sends_expect_gets_100_continue),
        cmocka_unit_test(http_1_0_stays_only_when_it_asks),
        cmocka_unit_test(requests_without_a_row_use_the_rest_handler),
        cmocka_unit_test(refusals_have_the_shape_of_the_api),
        cmocka_unit_test(an_answer_without_content_has_no_headers_of_one),
        cmocka_unit_test(a_query_returns_the_first_well_formed_value),
        cmocka_unit_test(parameters_are_read_from_the_query_and_the_form),
        cmocka_unit_test(a_multipart_body_is_read_part_by_part),
        cmocka_unit_test(a_client_that_leaves_while_it_waits_is_missed),
        cmocka_unit_test(pipelined_requests_are_no_farewell),
        cmocka_unit_test(a_request_outlives_its_listener),
        cmocka_unit_test(a_closing_listener_answers_accepted_requests_and_refuses_others),
        cmocka_unit_test(headers_over_the_limit_are_refused),
        cmocka_unit_test(a_query_may_be_long_and_is_never_waited_for),
        cmocka_unit_test(the_largest_head_leaves_space_for_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
