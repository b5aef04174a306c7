/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd.h - an HTTP/1.1 listener on the loop (uses libmicrohttpd internally).
 *
 * The server calls a handler when the body is complete and within the limit. The handler
 * may answer at once or later. The server limits connections, requests, header and body
 * sizes, the time for the head and the minimum rate of the body. It answers 400 for
 * ambiguous framing (two Content-Length, Content-Length with Transfer-Encoding,
 * Transfer-Encoding other than chunked, folded lines, lines without CR LF, control
 * characters). It rejects pages of other sites, and supports TLS, client certificates and
 * tokens (tokens.c).
 */
#ifndef BRIDGE_HTTPD_H
#define BRIDGE_HTTPD_H

#include "bridge/base/buf.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/conf/listen.h"

#include <stdbool.h>
#include <stdint.h>

struct httpd;
struct httpd_req; /* valid until answered; handlers must answer each request exactly
                   * once */

/* A listener's API is a table of these rows, ending with a zeroed row. method "*": any;
 * "GET" includes HEAD. path: "/v1/routes/{}/jobs/{}": each {} matches one segment,
 * percent-decoded; a final "{*}" matches the rest. A last row "*" "/{*}" matches
 * everything else. */
struct httpd_route {
    const char *method;
    const char *path;
    void (*handle)(void *arg, struct httpd_req *req);
    enum httpd_role role;
    const struct http_args *args; /* http_args.h; NULL: the handler reads the request
                                   * itself */
};

/* Opens a listener. name: in logs and metrics. NULL: err contains the reason (address in
 * use, bad address, unusable certificate). name and opts are copied. */
struct httpd *httpd_open(const char *name, const struct httpd_opts *opts,
                         struct err *err);
/* Sets the limit for the body bytes of all open requests of all listeners; above it 503.
 * Default 64 MiB. */
void httpd_set_bodies_max(int64_t bytes);
struct tokens; /* listeners.h */
/* Requires tokens if *tokens is not NULL: a row with a role is served only to tokens with
 * that role; others get 401 or 403. tokens is borrowed until httpd_stop() and read at
 * each request. */
void httpd_protect(struct httpd *h, struct tokens *const *tokens);
/* Checks the tls_* files and hosts without changing anything. -1: err contains the
 * reason. */
int httpd_check(const struct httpd_opts *opts, struct err *err);

/* --- rows --- */
/* Adds rows. Rows are tried in the order of addition. rows and arg are borrowed until
 * httpd_stop(). An unknown path gets 404, a wrong method 405 with Allow, both as JSON
 * errors. */
void httpd_serve(struct httpd *h, const struct httpd_route *rows, void *arg);
/* Removes the rows of arg: their paths get 503 from now on. Requests already with a
 * handler must still be answered. */
void httpd_unserve(struct httpd *h, const void *arg);
/* Returns the actual port (":0" selects a free one), or 0 for a Unix socket. */
unsigned httpd_port(const struct httpd *h);
/* Rejects all new requests with 503, Retry-After and "Connection: close", stops the
 * listener when the open ones are answered and sent (waits at most 100 ms for sending),
 * then calls closed, never before it returns. */
void httpd_close(struct httpd *h, loop_cb *closed, void *arg);
/* Closes the listener and all connections. Open requests must still be answered; the
 * answers are dropped. Their accessors return empty values from now on. Not allowed
 * inside a handler. NULL is allowed. */
void httpd_stop(struct httpd *h);

/* --- the request; results are borrowed until it is answered --- */
const struct httpd_route *
httpd_route_of(const struct httpd_req *req); /* the row that matched */
const char *httpd_method(const struct httpd_req *req);
struct slice httpd_path(const struct httpd_req *req); /* undecoded, without the query */
struct slice
httpd_query_text(const struct httpd_req *req); /* undecoded; p NULL: no "?" */
struct slice httpd_segment(const struct httpd_req *req, unsigned n); /* n-th {} from 0 */
/* Returns the first parameter of that name, decoded ("+" is a blank); p NULL: none. Pairs
 * with a bad escape or a ";" are ignored. */
struct slice httpd_query(const struct httpd_req *req, const char *name);
struct slice httpd_header(const struct httpd_req *req,
                          const char *name); /* p NULL: absent */
/* Calls back for each request header line, in order. */
typedef void httpd_header_cb(void *arg, struct slice name, struct slice value);
void httpd_each_header(const struct httpd_req *req, httpd_header_cb *cb, void *arg);
struct slice httpd_body(const struct httpd_req *req);
/* Returns whether the client's token includes that role. Always true without tokens. */
bool httpd_may(const struct httpd_req *req, enum httpd_role role);
/* Calls cb for each parameter of the query, then of an application/x-www-form-urlencoded
 * or multipart/form-data body (without files), decoded ("+" is a blank except in
 * multipart), in order. name and value are valid until cb returns. -1: a bad escape or
 * body; cb may have been called. */
typedef void httpd_param_cb(void *arg, struct slice name, struct slice value);
int httpd_each_param(struct httpd_req *req, httpd_param_cb *cb, void *arg);
/* Calls cb once if the client disconnects (closes the connection or its sending side)
 * before the answer. The request must still be answered. */
void httpd_on_gone(struct httpd_req *req, void (*cb)(void *arg), void *arg);
/* Returns the body bytes of all open requests of all listeners. */
int64_t httpd_body_bytes(void);

/* --- the response --- */
/* Adds a response header; call it before httpd_answer(). Copies both. */
void httpd_add(struct httpd_req *req, const char *name, const char *value);
/* Sends the response and frees the request. body is copied; type NULL: no
 * Content-Type. */
void httpd_answer(struct httpd_req *req, unsigned status, const char *type,
                  struct slice body);
/* The same with JSON; frees the content of json. */
void httpd_answer_json(struct httpd_req *req, unsigned status, struct buf *json);
/* Sends {"error": word, "message": fmt...} as JSON: word for programs, fmt for people. */
void httpd_error(struct httpd_req *req, unsigned status, const char *word,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Sends 503 "unavailable" with Retry-After of a second. */
void httpd_busy(struct httpd_req *req, const char *why);
/* Sends 403 no-role. */
void httpd_deny(struct httpd_req *req);

#endif
