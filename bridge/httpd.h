/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd.h - an HTTP/1.1 listener on the loop (libmicrohttpd inside, nowhere else).
 *
 * A request reaches its handler when its body is whole and within the limit; the answer
 * may be given at once or later. Guards: a deadline per request from its first byte,
 * limits on connections, header and body, and a 400 for ambiguous framing (two
 * Content-Length, one beside a Transfer-Encoding, or a Transfer-Encoding other than
 * chunked).
 */
#ifndef BRIDGE_HTTPD_H
#define BRIDGE_HTTPD_H

#include "bridge/buf.h"
#include "bridge/err.h"
#include "bridge/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct httpd;
struct httpd_req; /* lives until it is answered; handlers must answer each exactly once */

struct httpd_conf {
    const char *listen;  /* "127.0.0.1:7700", "[::1]:7700", ":7700", "unix:/run/x.sock" */
    int64_t body_max;    /* bytes; above it 413 */
    int64_t bodies_max;  /* bytes of all open requests together; above it 503 */
    int64_t deadline_ms; /* from the first byte of a request to its last */
    int64_t idle_ms;     /* a silent keep-alive connection is closed */
    unsigned connections_max;
};

/* A table of these is a listener's API. path: "/v1/routes/{}/jobs/{}": each {} takes one
 * segment, percent-decoded; "{*}" at the end takes the rest. ends with a row of zeros. */
struct httpd_route {
    const char *method;
    const char *path;
    void (*handle)(void *arg, struct httpd_req *req);
};

/* NULL: err says why (address in use, bad address). */
struct httpd *httpd_start(const struct httpd_conf *conf, struct err *err);
/* Rows are tried in the order they were added. rows and arg stay the caller's, and must
 * stay until httpd_stop(). An unknown path gets 404, a wrong method 405 with Allow, both
 * as JSON errors. */
void httpd_serve(struct httpd *h, const struct httpd_route *rows, void *arg);
/* The rows of that arg are gone: their paths get 503 from now on. Requests handed over
 * before are still to be answered. */
void httpd_unserve(struct httpd *h, const void *arg);
/* The port it really listens on (":0" takes a free one); 0 for a Unix socket. */
unsigned httpd_port(const struct httpd *h);
/* From now on every request of method POST, PUT, PATCH or DELETE is answered 503 with
 * Retry-After and "Connection: close"; reading goes on (health and metrics). */
void httpd_drain(struct httpd *h);
/* Closes the listener and all connections; requests open now must still be answered, into
 * the void: what they had given is gone, and what they give now is none. Not from within
 * a handler. NULL is fine. */
void httpd_stop(struct httpd *h);

/* --- the request; what it gives is borrowed until it is answered --- */
struct slice httpd_segment(const struct httpd_req *req, unsigned n); /* n-th {} from 0 */
struct slice httpd_query(const struct httpd_req *req,
                         const char *name); /* p NULL: none */
struct slice httpd_header(const struct httpd_req *req,
                          const char *name); /* p NULL: none */
/* Calls back for each request header line, in order. */
typedef void httpd_header_cb(void *arg, struct slice name, struct slice value);
void httpd_each_header(const struct httpd_req *req, httpd_header_cb *cb, void *arg);
struct slice httpd_body(const struct httpd_req *req);
/* Body bytes held by all open requests of all listeners. */
int64_t httpd_body_bytes(void);

/* --- the answer --- */
/* Adds a header to the answer; before httpd_answer(). Both are copied. */
void httpd_add(struct httpd_req *req, const char *name, const char *value);
/* Answers, and the request is gone. body is copied; type NULL: none. */
void httpd_answer(struct httpd_req *req, unsigned status, const char *type,
                  struct slice body);
/* Answers {"error": word, "message": fmt...} as JSON: word for programs, fmt for people.
 */
void httpd_error(struct httpd_req *req, unsigned status, const char *word,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
