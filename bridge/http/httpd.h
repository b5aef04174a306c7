/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd.h - an HTTP/1.1 listener on the loop (libmicrohttpd inside, nowhere else).
 *
 * A request reaches its handler when its body is whole and within the limit; the answer
 * may be given at once or later. Guards: a deadline for the head and a least rate for the
 * body, limits on connections, requests, header and body, a 400 for ambiguous framing
 * (two Content-Length, one beside a Transfer-Encoding, a Transfer-Encoding other than
 * chunked, folded lines, lines that end without CR LF, control characters), pages of
 * other sites; TLS, certificates of clients, and tokens (tokens.c).
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
struct httpd_req; /* lives until it is answered; handlers must answer each exactly once */

/* A table of these is a listener's API. method "*": any; "GET" takes HEAD too. path:
 * "/v1/routes/{}/jobs/{}": each {} takes one segment, percent-decoded; "{*}" at the end
 * takes the rest, so that "*" "/{*}" as the last row takes what no other did. ends with a
 * row of zeros. */
struct httpd_route {
    const char *method;
    const char *path;
    void (*handle)(void *arg, struct httpd_req *req);
    enum httpd_role role;
    const struct http_args *args; /* http_args.h; NULL: the handler reads the request */
};

/* name: of the listener in logs and metrics. NULL: err says why (address in use, bad
 * address, a certificate that cannot be used). Nothing of name and opts is kept. */
struct httpd *httpd_open(const char *name, const struct httpd_opts *opts,
                         struct err *err);
/* Bytes of the bodies of all open requests together, on each listener that is opened from
 * now on; above it 503. 64 MiB until then. */
void httpd_set_bodies_max(int64_t bytes);
/* The rows that are served on h are served on twin too, from now on. Both stay until the
 * first of them is stopped. */
void httpd_twin(struct httpd *h, struct httpd *twin);
/* Rows of other roles get 404 here, which names the admin listener. roles: 1 << role
 * each; until then all are served. */
void httpd_limit_roles(struct httpd *h, unsigned roles);
struct tokens; /* listeners.h */
/* From now on a row is served to whom tokens give its role: others get 401 or 403. NULL:
 * to everybody. Borrowed until the next call or httpd_stop(). */
void httpd_protect(struct httpd *h, const struct tokens *tokens);
/* The same for a listener whose other rows are open: *tokens is read at each request. */
void httpd_protect_roles(struct httpd *h, struct tokens *const *tokens);

/* --- new options while it runs --- */
/* -1: the files of tls_*, or hosts, could not be used, as err says. Changes nothing. */
int httpd_check(const struct httpd_opts *opts, struct err *err);
struct httpd_change {
    struct httpd *h;
    const struct httpd_opts *opts;
};
/* Every listener reads its files of tls_* again, for new connections; for those in
 * changes body_max, body_rate, deadline, idle, requests_max, connections_per_address,
 * hosts and the names of the files are new from now on, too (the other options stay, as
 * they do until a restart). -1: files of one cannot be used, as err says, and nothing has
 * changed. */
int httpd_reload(const struct httpd_change *changes, size_t n, struct err *err);

/* --- what it serves --- */
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
/* Refuses every new request in that way, stops the listener when the others are answered
 * and the answers are sent (it waits 100 ms at most for that), and calls closed. Never
 * before it has returned. */
void httpd_close(struct httpd *h, loop_cb *closed, void *arg);
/* Closes the listener and all connections; requests open now must still be answered, into
 * the void: what they had given is gone, and what they give now is none. Not from within
 * a handler. NULL is fine. */
void httpd_stop(struct httpd *h);

/* --- the request; what it gives is borrowed until it is answered --- */
const struct httpd_route *
httpd_route_of(const struct httpd_req *req); /* that it came by */
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
/* The name, in tokens: { }, of who asks; "" where nobody has one. Not to be kept. */
const char *httpd_who(const struct httpd_req *req);
/* Does the token of the request open rows of that role? Without tokens every one does. */
bool httpd_may(const struct httpd_req *req, enum httpd_role role);
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
/* Tells of each refusal that the server gives by itself how often it was given, by all
 * listeners together; "no-request": connections that ended without one. */
typedef void httpd_refusal_cb(void *arg, const char *word, uint64_t n);
void httpd_each_refusal(httpd_refusal_cb *cb, void *arg);
/* Calls back for each listener and state with the number of its connections now: new,
 * reading, waiting, answering, idle, closing. */
typedef void httpd_connections_cb(void *arg, const char *listener, const char *state,
                                  uint64_t n);
void httpd_each_connections(httpd_connections_cb *cb, void *arg);

/* --- the answer --- */
/* Adds a header to the answer; before httpd_answer(). Both are copied. */
void httpd_add(struct httpd_req *req, const char *name, const char *value);
/* Answers, and the request is gone. body is copied; type NULL: none. */
void httpd_answer(struct httpd_req *req, unsigned status, const char *type,
                  struct slice body);
/* The same, of JSON, which it frees. */
void httpd_answer_json(struct httpd_req *req, unsigned status, struct buf *json);
/* Answers {"error": word, "message": fmt...} as JSON: word for programs, fmt for people.
 */
void httpd_error(struct httpd_req *req, unsigned status, const char *word,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Answers 503 "unavailable", to be asked again in a second. */
void httpd_busy(struct httpd_req *req, const char *why);
/* Answers 403 no-role, as a row of a role that the token does not open. */
void httpd_deny(struct httpd_req *req);

#endif
