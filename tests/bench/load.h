/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load.h - HTTP connections of a load generator: many on one thread, one request at a
 * time on each. Any failure of a connection ends the program.
 */
#ifndef TESTS_BENCH_LOAD_H
#define TESTS_BENCH_LOAD_H

#include "tests/bench/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;

/* Handles an answer of a server, or a request to our own server. body ends with a NUL and
 * is valid until the callback returns. status: 0 for a request. */
typedef void conn_cb(struct conn *c, int status, const char *body, size_t n);

struct conn {
    int fd;
    conn_cb *cb;
    int step; /* for the case, as are these: */
    int64_t job, sent_us;
    void *more;
    char *in; /* received and incomplete */
    size_t in_n, in_cap;
};

void load_init(void);
struct conn *conn_open(int port, conn_cb *cb);
/* Sends the whole request, whose head ends with an empty line, and sets sent_us. */
void conn_send(struct conn *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void conn_send_bytes(struct conn *c, const char *bytes, size_t n);
void conn_close(struct conn *c);

/* Opens our own server, which passes every request to cb. cb answers it with conn_send().
 * Returns the port. */
int sink_open(conn_cb *cb);

/* Handles what arrives for limit_us, or until *stop is set. */
void load_run(int64_t limit_us, const bool *stop);

#endif
