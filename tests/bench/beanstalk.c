/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * beanstalk.c - loads beanstalkd. A producer's connection waits for each answer. A
 * consumer's connection has up to 32 commands in flight, which is fastest with
 * beanstalkd.
 *
 *   beanstalk put PORT COUNT DELAY-S CONNECTIONS
 *   beanstalk burst PORT COUNT DELAY-S CONNECTIONS   put, then reserved and deleted by
 *                          consumers that wait until the tube opens, when all are due
 *   beanstalk late PORT COUNT EVERY-US CONNECTIONS   put one by one with a delay of 1 s
 *
 * Jobs have 100 bytes. Prints one line of JSON: put_us and drain_us (from the first
 * reserved job to the last deleted one), or the lateness of the jobs in microseconds.
 */
#include "tests/bench/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BODY_BYTES = 100,
    PIPELINE = 32,
    TTR_S = 120,
    IN_MAX = 4096,
    EVENTS_MAX = 256,
    LIMIT_S = 120
};

struct conn {
    int fd;
    char in[IN_MAX + 1];
    size_t n;
};

static struct {
    int epoll_fd, port, connections;
    long long count, delay_s, every_us;
    long long put, inserted, deleted, early, late_n;
    int64_t first_us, *late_us;
    bool done;
} g;

static _Noreturn void die(const char *what, const char *more)
{
    fprintf(stderr, "beanstalk: %s: %.100s\n", what, more);
    exit(1);
}

static struct conn *conn_open(void)
{
    const int on = 1;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)g.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct conn *c = calloc(1, sizeof(*c));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (c == NULL || (c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0 ||
        connect(c->fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
        epoll_ctl(g.epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0)
        die("no connection", "");
    return c;
}

static void say(struct conn *c, const char *text, size_t n)
{
    if (send(c->fd, text, n, MSG_NOSIGNAL) != (ssize_t)n) /* blocks; few bytes */
        die("send", text);
}

static void say_str(struct conn *c, const char *text)
{
    say(c, text, strlen(text));
}

/* The body begins with the due time of the job. */
static void put(struct conn *c)
{
    char text[256];
    if (g.put == g.count)
        return;
    g.put++;
    int n =
        snprintf(text, sizeof(text), "put 0 %lld %d %d\r\n%-*lld\r\n", g.delay_s, TTR_S,
                 BODY_BYTES, BODY_BYTES, (long long)now_us() + g.delay_s * 1000000);
    say(c, text, (size_t)n);
}

/* ------------------------------------------------------------------------ answers */

static void on_inserted(struct conn *c, const char *rest)
{
    (void)rest;
    g.inserted++;
    if (g.every_us == 0)
        put(c);
    g.done = g.inserted == g.count && g.every_us == 0;
}

static void on_reserved(struct conn *c, const char *rest)
{
    char text[64];
    const char *body = strchr(rest, '\n') + 1;
    int64_t us = now_us();
    int64_t late_us = us - atoll(body);
    if (g.first_us == 0)
        g.first_us = us;
    g.early += late_us < 0;
    if (g.late_n < g.count)
        g.late_us[g.late_n++] = late_us;
    int n = snprintf(text, sizeof(text), "delete %llu\r\nreserve\r\n",
                     strtoull(rest, NULL, 10));
    say(c, text, (size_t)n);
}

static void on_deleted(struct conn *c, const char *rest)
{
    (void)c, (void)rest;
    g.deleted++;
    g.done = g.deleted == g.count;
}

static void on_paused(struct conn *c, const char *rest)
{
    (void)c, (void)rest;
    g.done = true;
}

static const struct answer {
    const char *word;
    void (*take)(struct conn *c, const char *rest);
} answers[] = {{"INSERTED ", on_inserted},
               {"RESERVED ", on_reserved},
               {"DELETED\r", on_deleted},
               {"PAUSED\r", on_paused}};

/* Return the length of the answer at text; 0: it is incomplete. */
static size_t answer_bytes(const char *text, const char *end)
{
    const char *line = memchr(text, '\n', (size_t)(end - text));
    if (line == NULL)
        return 0;
    size_t n = (size_t)(line + 1 - text);
    if (strncmp(text, "RESERVED ", 9) == 0)
        n += BODY_BYTES + 2;
    return n <= (size_t)(end - text) ? n : 0;
}

static void take(struct conn *c, const char *text)
{
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        size_t n = strlen(answers[i].word);
        if (strncmp(text, answers[i].word, n) == 0) {
            answers[i].take(c, text + n);
            return;
        }
    }
    die("an answer that is no good", text);
}

static void on_readable(struct conn *c)
{
    ssize_t got = recv(c->fd, c->in + c->n, IN_MAX - c->n, 0);
    if (got <= 0)
        die("recv", "the connection is closed");
    c->n += (size_t)got;
    c->in[c->n] = 0;
    size_t used = 0;
    for (size_t n; (n = answer_bytes(c->in + used, c->in + c->n)) > 0; used += n)
        take(c, c->in + used);
    c->n -= used;
    memmove(c->in, c->in + used, c->n);
}

/* Handle answers until all is done, or until limit_us is over. */
static void listen_for(int64_t limit_us)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t end_us = now_us() + limit_us, left_us;
    while (!g.done && (left_us = end_us - now_us()) > 0) {
        int n = epoll_wait(g.epoll_fd, events, EVENTS_MAX, (int)(left_us / 1000));
        for (int i = 0; i < n; i++)
            on_readable(events[i].data.ptr);
    }
}

static void until_done(const char *what)
{
    listen_for(LIMIT_S * 1000000LL);
    if (!g.done)
        die(what, "not within two minutes");
    g.done = false;
}

/* -------------------------------------------------------------------------- cases */

/* Return the time that it took. */
static int64_t put_all(void)
{
    int64_t from_us = now_us();
    for (int i = 0; i < g.connections; i++)
        put(conn_open());
    until_done("put");
    return now_us() - from_us;
}

static void run_put(void)
{
    printf("{\"put_us\":%lld}\n", (long long)put_all());
}

static void open_consumers(void)
{
    for (int i = 0; i < g.connections; i++)
        say_str(conn_open(), "reserve\r\n");
}

static void run_burst(void)
{
    char pause[64];
    snprintf(pause, sizeof(pause), "pause-tube default %lld\r\n", g.delay_s + 2);
    int64_t put_us = put_all();
    if (put_us > g.delay_s * 1000000)
        die("put", "took longer than the delay");
    say_str(conn_open(), pause);
    until_done("pause-tube");
    open_consumers();
    until_done("reserve and delete");
    printf("{\"put_us\":%lld,\"drain_us\":%lld}\n", (long long)put_us,
           (long long)(now_us() - g.first_us));
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void run_late(void)
{
    struct conn *producer = conn_open();
    int64_t next_us = now_us();
    g.every_us = g.delay_s;
    g.delay_s = 1;
    open_consumers();
    for (; g.put < g.count; next_us += g.every_us) {
        listen_for(next_us - now_us());
        put(producer);
    }
    until_done("reserve and delete");
    qsort(g.late_us, (size_t)g.late_n, sizeof(*g.late_us), by_size);
    printf("{\"p50\":%lld,\"p99\":%lld,\"early\":%lld}\n",
           (long long)g.late_us[g.late_n / 2], (long long)g.late_us[g.late_n * 99 / 100],
           g.early);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"put", run_put}, {"burst", run_burst}, {"late", run_late}};
    if (argc == 6) {
        g.port = atoi(argv[2]);
        g.count = atoll(argv[3]);
        g.delay_s = atoll(argv[4]);
        g.connections = atoi(argv[5]);
    }
    for (size_t i = 0; g.count > 0 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        g.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        g.late_us = calloc((size_t)g.count, sizeof(*g.late_us));
        cases[i].run();
        return 0;
    }
    fprintf(stderr, "usage: beanstalk put|burst|late PORT COUNT DELAY-S|EVERY-US "
                    "CONNECTIONS\n");
    return 2;
}
