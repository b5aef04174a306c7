/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * late.c - measures lateness at the other end of the daemon. Payloads begin with the due
 * time of their job, in ms since 1970.
 *
 *   late hook COUNT           answers callbacks; prints its port first
 *   late pull PORT COUNT      eight consumers pull from queue q, and acknowledge
 *   late publish PORT PATH EVERY-US COUNT
 *                             one producer, which waits for each answer
 *   late ack PORT EVERY-US COUNT
 *                             one consumer of queue q, one job at a time
 *   late sleep EVERY-US COUNT wakes up at this interval: the lateness of the machine
 *
 * Prints one line of JSON, in microseconds. hook, pull and sleep: the lateness of COUNT
 * jobs or wake-ups by the clock of this host. publish and ack: the latency of COUNT
 * answers.
 */
#include "tests/bench/lateness.h"
#include "tests/bench/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONSUMERS = 8, PULL_MAX = 100, LIMIT_S = 120, STEP_PULL = 0, STEP_ACK = 1 };

static long long every_us;
static const char *path;

/* ------------------------------------------------------------------- callbacks */

static void on_callback(struct conn *c, int status, const char *body, size_t n)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    (void)status;
    lateness_note_due(body, n);
    conn_send_bytes(c, answer, sizeof(answer) - 1);
}

/* ------------------------------------------------------------------- consumers */

static void expect(bool good, int status, const char *body)
{
    if (good)
        return;
    fprintf(stderr, "late: answer %d: %.300s\n", status, body);
    exit(1);
}

static void pull(struct conn *c, int max)
{
    c->step = STEP_PULL;
    conn_send(c,
              "POST /v1/queues/q/pull?max=%d&wait=10s&lease=60s HTTP/1.1\r\nHost: b\r\n"
              "Content-Length: 0\r\n\r\n",
              max);
}

/* Return the text behind "name":" and its length. */
static const char *member(const char *at, const char *name, int *n)
{
    const char *found = strstr(at, name);
    if (found == NULL)
        return NULL;
    found += strlen(name);
    *n = (int)strcspn(found, "\"");
    return found;
}

/* Acknowledge all jobs of an answer. A payload follows the id and the token of its
 * job. */
static void ack(struct conn *c, const char *body)
{
    static char text[PULL_MAX * 256];
    int used = 0, id_n, token_n, payload_n;
    const char *id, *token, *at = body;
    while ((id = member(at, "\"id\":\"", &id_n))) {
        token = member(id, "\"token\":\"", &token_n);
        at = token ? member(token, "\"payload\":\"", &payload_n) : NULL;
        expect(at != NULL, 200, body);
        if (path == NULL)
            lateness_note_due(at, (size_t)payload_n);
        used += snprintf(text + used, sizeof(text) - (size_t)used,
                         "%s{\"id\":\"%.*s\",\"token\":\"%.*s\"}", used ? "," : "", id_n,
                         id, token_n, token);
    }
    c->step = STEP_ACK;
    conn_send(c,
              "POST /v1/queues/q/ack HTTP/1.1\r\nHost: b\r\nContent-Type: "
              "application/json\r\nContent-Length: %d\r\n\r\n{\"jobs\":[%s]}",
              used + 11, text);
}

static void on_consumed(struct conn *c, int status, const char *body, size_t n)
{
    (void)n;
    expect(status == 200 || status == 204, status, body);
    if (c->step == STEP_PULL && status == 200)
        ack(c, body);
    else
        pull(c, PULL_MAX);
}

/* One job at a time: the time of the ack counts. */
static void on_acked(struct conn *c, int status, const char *body, size_t n)
{
    (void)n;
    expect(status == 200, status, body);
    if (c->step == STEP_PULL) {
        ack(c, body);
        return;
    }
    lateness_note(now_us() - c->sent_us);
    usleep((useconds_t)every_us);
    pull(c, 1);
}

/* -------------------------------------------------------------------- producer */

static void publish(struct conn *c)
{
    conn_send(c, "POST %s HTTP/1.1\r\nHost: b\r\nContent-Length: 5\r\n\r\nhello", path);
}

static void on_published(struct conn *c, int status, const char *body, size_t n)
{
    (void)n;
    expect(status == 201, status, body);
    lateness_note(now_us() - c->sent_us);
    usleep((useconds_t)every_us);
    publish(c);
}

static void sleep_often(void)
{
    int64_t due_us = now_us();
    while (!*lateness_done()) {
        due_us += every_us;
        struct timespec until = {due_us / 1000000, due_us % 1000000 * 1000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        lateness_note(now_us() - due_us);
    }
}

static int start(int argc, char **argv)
{
    const char *way = argc > 2 ? argv[1] : "";
    const long long count = atoll(argv[argc - 1]);
    if (count <= 0)
        return -1;
    lateness_init(count);
    load_init();
    if (strcmp(way, "hook") == 0 && argc == 3) {
        printf("%d\n", sink_open(on_callback));
        fflush(stdout);
    } else if (strcmp(way, "pull") == 0 && argc == 4) {
        for (int i = 0; i < CONSUMERS; i++)
            pull(conn_open(atoi(argv[2]), on_consumed), PULL_MAX);
    } else if (strcmp(way, "publish") == 0 && argc == 6) {
        path = argv[3];
        every_us = atoll(argv[4]);
        publish(conn_open(atoi(argv[2]), on_published));
    } else if (strcmp(way, "ack") == 0 && argc == 5) {
        path = "";
        every_us = atoll(argv[3]);
        pull(conn_open(atoi(argv[2]), on_acked), 1);
    } else if (strcmp(way, "sleep") == 0 && argc == 4) {
        every_us = atoll(argv[2]);
        sleep_often();
    } else {
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (start(argc, argv) < 0) {
        fprintf(stderr,
                "usage: late hook COUNT | pull PORT COUNT | ack PORT EVERY-US COUNT | "
                "publish PORT PATH EVERY-US COUNT | sleep EVERY-US COUNT\n");
        return 2;
    }
    load_run(LIMIT_S * 1000000LL, lateness_done());
    return lateness_print();
}
