/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_httpd_slots.c - which clients get a connection if there are few, and when a
 * connection becomes free. A real listener, with its clients on another thread.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/http/httpd_internal.h"
#include "tests/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { CONNECTIONS_MAX = 4, LONG_MS = 20000, SOON_MS = 2000 };

/* ------------------------------------------------------------------ the listener */

static struct httpd_req *waiting[64];
static unsigned waiting_n;
static unsigned port;
static sem_t asked;
static struct httpd *listener;
static unsigned counted[CONN_STATES], counted_all;
static bool ended_well;

static void handle_fine(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_answer(req, 200, "text/plain", SLICE_LIT("fine"));
}

static void handle_wait(void *arg, struct httpd_req *req)
{
    (void)arg;
    waiting[waiting_n++] = req;
}

static const struct httpd_route rows[] = {
    {"GET", "/livez", handle_fine, HTTPD_OPEN, NULL},
    {"POST", "/jobs", handle_fine, HTTPD_PRODUCE, NULL},
    {"GET", "/wait", handle_wait, HTTPD_CONSUME, NULL},
    {0},
};

static void stop_loop(void *arg)
{
    (void)arg;
    loop_stop();
}

static void count_on_loop(void *arg)
{
    (void)arg;
    counted_all = 0;
    for (size_t i = 0; i < CONN_STATES; i++)
        counted_all += counted[i] = listener->conns[i].n;
    sem_post(&asked);
}

static void answer_on_loop(void *arg)
{
    (void)arg;
    while (waiting_n > 0)
        httpd_answer(waiting[--waiting_n], 200, "text/plain", SLICE_LIT("done"));
    sem_post(&asked);
}

/* Run scenario on its own thread, beside the loop. It sets a flag at its end: a failed
 * cmocka assertion on another thread would end the program. */
static void with_listener(const struct httpd_opts *opts, void *(*scenario)(void *))
{
    struct err err;
    pthread_t thread;
    loop_init();
    sem_init(&asked, 0, 0);
    waiting_n = 0;
    ended_well = false;
    struct httpd *h = httpd_open("test", opts, &err);
    assert_non_null(h);
    httpd_serve(h, rows, NULL);
    port = httpd_port(h);
    listener = h;
    assert_int_equal(pthread_create(&thread, NULL, scenario, NULL), 0);
    loop_run();
    answer_on_loop(NULL);
    httpd_stop(h);
    pthread_join(thread, NULL);
    sem_destroy(&asked);
    loop_fini();
    assert_true(ended_well);
}

static struct httpd_opts few(void)
{
    static char any_port[] = "127.0.0.1:0";
    return (struct httpd_opts){.listen = any_port,
                               .head_max_bytes = 4096,
                               .body_max_bytes = 1024,
                               .deadline_ms = LONG_MS,
                               .idle_ms = LONG_MS,
                               .connections_max = CONNECTIONS_MAX};
}

/* ------------------------------------------------------------------- the clients */

static void *end(void)
{
    ended_well = true;
    loop_post(stop_loop, NULL);
    return NULL;
}

static int dial_from(const char *source)
{
    struct timeval patience = {.tv_sec = 5};
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, source, &from.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static int dial(void)
{
    return dial_from("127.0.0.1");
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Return what arrives until an answer is complete, or "" if the other end closes. */
static const char *hear(int fd)
{
    static char text[4096];
    size_t n = 0;
    text[0] = 0;
    while (n < sizeof(text) - 1) {
        ssize_t got = recv(fd, text + n, sizeof(text) - 1 - n, 0);
        if (got <= 0)
            return text;
        n += (size_t)got;
        text[n] = 0;
        const char *body = strstr(text, "\r\n\r\n"), *length = strstr(text, "Length: ");
        if (body && length && strlen(body + 4) >= (size_t)atoi(length + 8))
            return text;
    }
    return text;
}

static void expect(int fd, const char *what)
{
    const char *text = hear(fd);
    if (strstr(text, what) == NULL)
        fail_msg("\"%s\" does not hold \"%s\"", text, what);
}

static void expect_end(int fd)
{
    char c;
    assert_int_equal(recv(fd, &c, 1, 0), 0);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST_JOB "POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"

/* Return the number of connections that the listener counts. */
static unsigned connections(void)
{
    loop_post(count_on_loop, NULL);
    sem_wait(&asked);
    return counted_all;
}

static bool come_to(unsigned n)
{
    for (int i = 0; i < SOON_MS / 10; i++) {
        if (connections() == n)
            return true;
        usleep(10 * 1000);
    }
    return false;
}

/* ------------------------------------------------------------------------ tests */

static void *hang_up_early(void *arg)
{
    static const char *const beginnings[] = {
        "",
        "GET /li",
        "GET /livez HTTP/1.1\r\n",
        "GET /livez HTTP/1.1\r\nHost: x\r\nX-A",
        "POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
        "POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
        "POST /jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na",
        GET("/livez"),
        GET("/livez") "GET /li",
    };
    (void)arg;
    /* The last bytes and the end together, or separately: often enough for each. */
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        for (unsigned pauses = 0; pauses < 4; pauses++) {
            for (int round = 0; round < 40; round++) {
                int fd = dial();
                usleep(pauses & 1 ? 1000 : 0);
                say(fd, beginnings[i]);
                usleep(pauses & 2 ? 1000 : 0);
                close(fd);
            }
            if (!come_to(0))
                fail_msg("after \"%s\" there are still connections", beginnings[i]);
        }
    return end();
}

static void a_client_that_hangs_up_frees_its_connection_at_once(void **state)
{
    (void)state;
    struct httpd_opts opts = few();
    opts.connections_max = 100;
    with_listener(&opts, hang_up_early);
}

static void *half_close(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        int fd = dial();
        usleep(1000);
        say(fd, GET("/livez") GET("/wait") GET("/livez"));
        shutdown(fd, SHUT_WR);
        expect(fd, "fine");
        usleep(5 * 1000);
        loop_post(answer_on_loop, NULL);
        sem_wait(&asked);
        expect(fd, "done");
        assert_true(come_to(0)); /* not after the time for idle ones */
        close(fd);
    }
    return end();
}

static void
a_client_that_only_reads_any_more_gets_all_its_answers_and_the_end(void **state)
{
    (void)state;
    struct httpd_opts opts = few();
    with_listener(&opts, half_close);
}

static void *stay_idle(void *arg)
{
    int idle[CONNECTIONS_MAX];
    (void)arg;
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        idle[i] = dial();
        say(idle[i], GET("/livez"));
        expect(idle[i], "fine");
        usleep(5 * 1000);
    }
    int fd = dial();
    say(fd, POST_JOB);
    expect(fd, "HTTP/1.1 200 ");
    expect_end(idle[0]); /* the one that has been idle longest */
    say(idle[1], GET("/livez"));
    expect(idle[1], "fine");
    say(fd, POST_JOB); /* like any other */
    expect(fd, "HTTP/1.1 200 ");
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        close(idle[i]);
    close(fd);
    return end();
}

static void the_connection_that_is_idle_longest_makes_room_for_a_new_one(void **state)
{
    (void)state;
    struct httpd_opts opts = few();
    with_listener(&opts, stay_idle);
}

static void *fill(void *arg)
{
    int busy[CONNECTIONS_MAX], silent[40];
    (void)arg;
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        busy[i] = dial();
        say(busy[i], GET("/wait"));
    }
    assert_true(come_to(CONNECTIONS_MAX));
    for (int i = 0; i < 40; i++) { /* these keep no other client out, either */
        silent[i] = dial();
        if (i % 2)
            say(silent[i], "GET /livez HTTP/1.1\r\nX");
    }
    for (int i = 0; i < 40; i++) {
        int fd = dial();
        say(fd, GET("/livez"));
        expect(fd, "HTTP/1.1 200 ");
        expect_end(fd); /* the reserve is not kept */
        close(fd);
    }
    int fd = dial();
    say(fd, POST_JOB);
    const char *answer = hear(fd);
    assert_non_null(strstr(answer, "HTTP/1.1 503 "));
    assert_non_null(strstr(answer, "no-connection"));
    assert_non_null(strstr(answer, "Retry-After: 1\r\n"));
    close(fd);
    loop_post(answer_on_loop, NULL);
    sem_wait(&asked);
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        expect(busy[i], "done");
        close(busy[i]);
    }
    for (int i = 0; i < 40; i++)
        close(silent[i]);
    assert_true(come_to(0));
    fd = dial();
    say(fd, POST_JOB);
    expect(fd, "HTTP/1.1 200 ");
    close(fd);
    return end();
}

static void a_full_listener_answers_only_probes(void **state)
{
    (void)state;
    struct httpd_opts opts = few();
    with_listener(&opts, fill);
}

static void *crowd(void *arg)
{
    (void)arg;
    int first = dial(), second = dial();
    say(first, GET("/livez"));
    expect(first, "fine");
    assert_true(come_to(2));
    int third = dial();
    expect(third, "too-many-connections");
    close(third);
    int other = dial_from("127.0.0.2");
    say(other, GET("/livez"));
    expect(other, "fine");
    close(first);
    assert_true(come_to(2));
    third = dial();
    say(third, GET("/livez"));
    expect(third, "fine");
    close(second);
    close(third);
    close(other);
    return end();
}

static void an_address_has_no_more_connections_than_its_share(void **state)
{
    (void)state;
    struct httpd_opts opts = few();
    opts.connections_per_address = 2;
    with_listener(&opts, crowd);
}

static void *be_counted(void *arg)
{
    int silent = dial(), reading = dial(), held = dial(), idle = dial();
    (void)arg;
    say(reading, "GET /livez HTTP/1.1\r\n");
    say(held, GET("/wait"));
    say(idle, GET("/livez"));
    expect(idle, "fine");
    assert_true(come_to(4));
    for (int i = 0; i < 100 && (counted[1] != 1 || counted[2] != 1); i++) {
        usleep(10 * 1000);
        connections();
    }
    static const unsigned each[] = {1, 1, 1, 0, 1, 0};
    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
        assert_int_equal(counted[i], each[i]);
    close(silent);
    close(reading);
    close(held);
    close(idle);
    return end();
}

static void connections_are_counted_by_state(void **state)
{
    (void)state;
    struct httpd_opts opts = few();
    with_listener(&opts, be_counted);
}

UNIT(httpd_slots)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_hangs_up_frees_its_connection_at_once),
        cmocka_unit_test(
            a_client_that_only_reads_any_more_gets_all_its_answers_and_the_end),
        cmocka_unit_test(the_connection_that_is_idle_longest_makes_room_for_a_new_one),
        cmocka_unit_test(a_full_listener_answers_only_probes),
        cmocka_unit_test(an_address_has_no_more_connections_than_its_share),
        cmocka_unit_test(connections_are_counted_by_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
