/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load.h - HTTP connections of a load generator: many, on one thread, one request at a
 * time on each. Any failure of a connection ends the program.
 */
#ifndef TESTS_BENCH_LOAD_H
#define TESTS_BENCH_LOAD_H

#include "tests/bench/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;

/* Answers of a server, or requests to our own: body is ended by a NUL, good until the
 * callback returns. status: 0 for a request. */
typedef void conn_cb(struct conn *c, int status, const char *body, size_t n);

struct conn {
    int fd;
    conn_cb *cb;
    int step; /* the case's own, as are these: */
    int64_t job, sent_us;
    void *more;
    char *in; /* what came and is not whole yet */
    size_t in_n, in_cap;
};

void load_init(void);
struct conn *conn_open(int port, conn_cb *cb);
/* Sends the whole request, whose head ends with an empty line; sent_us is set. */
void conn_send(struct conn *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void conn_send_bytes(struct conn *c, const char *bytes, size_t n);
void conn_close(struct conn *c);

/* Our own server: every request is handed to cb, which answers it with conn_send(). Gives
 * its port. */
int sink_open(conn_cb *cb);

/* Handles what comes for so long, or until *stop is set. */
void load_run(int64_t limit_us, const bool *stop);

#endif
