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
    const char *listen; /* "127.0.0.1:7700", "[::1]:7700", ":7700", "unix:/run/x.sock" */
    int64_t head_max; /* bytes that each connection holds for its request line and headers
                         (each line takes 56 more) and those of the answer (1 KiB); above
                         it 431; 0: 16 KiB */
    int64_t body_max; /* bytes; above it 413 */
    int64_t bodies_max;  /* bytes of all open requests together; above it 503 */
    int64_t deadline_ms; /* from the first byte of a request to its last */
    int64_t idle_ms;     /* a silent keep-alive connection is closed */
    unsigned connections_max;
};

/* The same as option rows of a plugin that has a listener of its own: struct httpd_opts
 * stands in its struct at field. */
struct httpd_opts {
    char *listen;
    int64_t head_max_bytes, body_max_bytes, deadline_ms, idle_ms, connections_max;
};
#define HTTPD_ROWS(type, field, listen_def, body_def)                                    \
    HTTPD_ROWS_NAMED("", type, field, listen_def, body_def)
/* As many rows with a prefix in their names: "admin_". */
#define HTTPD_ROWS_NAMED(prefix, type, field, listen_def, body_def)                      \
    {prefix "listen", OPT_STR, offsetof(type, field.listen), listen_def,                 \
     .help = "Address and port, or unix:/path, of this API."},                           \
        {prefix "head_max",                                                              \
         OPT_BYTES,                                                                      \
         offsetof(type, field.head_max_bytes),                                           \
         "6KiB",                                                                         \
         .help = "Memory of each connection for the line and headers of a request.",     \
         .min = 4096,                                                                    \
         .max = 1024LL * 1024},                                                          \
        {prefix "body_max",                                                              \
         OPT_BYTES,                                                                      \
         offsetof(type, field.body_max_bytes),                                           \
         body_def,                                                                       \
         .help = "The largest request body.",                                            \
         .min = 1024,                                                                    \
         .max = 1024LL * 1024 * 1024},                                                   \
        {prefix "deadline",                                                              \
         OPT_MS,                                                                         \
         offsetof(type, field.deadline_ms),                                              \
         "10s",                                                                          \
         .help = "The longest time from the first byte of a request to its last.",       \
         .min = 10,                                                                      \
         .max = 3600000},                                                                \
        {prefix "idle",                                                                  \
         OPT_MS,                                                                         \
         offsetof(type, field.idle_ms),                                                  \
         "60s",                                                                          \
         .help = "A connection without a request for so long is closed.",                \
         .min = 10,                                                                      \
         .max = 86400000},                                                               \
    {                                                                                    \
        prefix "connections_max", OPT_INT, offsetof(type, field.connections_max),        \
            "12000", .help = "The most connections at a time.", .min = 1, .max = 100000  \
    }

/* A table of these is a listener's API. method "*": any; "GET" takes HEAD too. path:
 * "/v1/routes/{}/jobs/{}": each {} takes one segment, percent-decoded; "{*}" at the end
 * takes the rest. ends with a row of zeros. */
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
/* Every request that no row takes, by its path or its method, goes to handle instead of
 * being answered 404 or 405. One per listener. */
void httpd_serve_rest(struct httpd *h, void (*handle)(void *arg, struct httpd_req *req),
                      void *arg);
/* Who shapes the answers that the server gives by itself (413 oversize, 400 bad-path, 503
 * full, 503 stopping, ...): answers req before it returns; headers that belong to the
 * answer (Allow, Retry-After) are added by then. word, why: as httpd_error() would say.
 * Answers that go out before a request could be read are not shaped. One per listener. */
typedef void httpd_refuse_cb(void *arg, struct httpd_req *req, unsigned status,
                             const char *word, const char *why);
void httpd_shape(struct httpd *h, httpd_refuse_cb *cb, void *arg);
/* Starts a listener as opts says; NULL as of httpd_start(). */
struct httpd *httpd_open(const struct httpd_opts *opts, struct err *err);
/* bodies_max of the listeners that httpd_open() starts from now on; 64 MiB until then. */
void httpd_set_bodies_max(int64_t bytes);
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
const char *httpd_method(const struct httpd_req *req);
struct slice httpd_path(const struct httpd_req *req); /* as it came, before any "?" */
struct slice
httpd_query_text(const struct httpd_req *req); /* as it came; p NULL: no "?" */
struct slice httpd_segment(const struct httpd_req *req, unsigned n); /* n-th {} from 0 */
/* The first parameter of that name, decoded ("+" is a blank); p NULL: none. A pair with a
 * bad escape or a ";" is none. */
struct slice httpd_query(const struct httpd_req *req, const char *name);
struct slice httpd_header(const struct httpd_req *req,
                          const char *name); /* p NULL: none */
/* Calls back for each request header line, in order. */
typedef void httpd_header_cb(void *arg, struct slice name, struct slice value);
void httpd_each_header(const struct httpd_req *req, httpd_header_cb *cb, void *arg);
struct slice httpd_body(const struct httpd_req *req);
/* Calls back for each parameter of the query, then of a body that is
 * application/x-www-form-urlencoded or multipart/form-data (files are left out), decoded
 * ("+" is a blank but in multipart), in order. name and value are good until cb returns.
 * -1: an escape or the body does not parse; some may have been told by then. */
typedef void httpd_param_cb(void *arg, struct slice name, struct slice value);
int httpd_each_param(struct httpd_req *req, httpd_param_cb *cb, void *arg);
/* While the request waits for its answer: calls back once when the client has gone away
 * (it closed the connection, or its sending side). The request must be answered all the
 * same. Costs nothing while the client stays. */
void httpd_on_gone(struct httpd_req *req, void (*cb)(void *arg), void *arg);
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
