/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd.h - an HTTP/1.1 listener on the loop (libmicrohttpd inside, nowhere else).
 *
 * A request reaches its handler when its body is whole and within the limit; the answer
 * may be given at once or later. Guards: a deadline for the head and a least rate for the
 * body, limits on connections, requests, header and body, a 400 for ambiguous framing
 * (two Content-Length, one beside a Transfer-Encoding, a Transfer-Encoding other than
 * chunked, folded lines, lines that end without CR LF, control characters), pages of
 * other sites; TLS, certificates of clients, and tokens (tokens.h).
 */
#ifndef BRIDGE_HTTPD_H
#define BRIDGE_HTTPD_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/conf/opt.h"

#include <stdbool.h>
#include <stdint.h>

struct httpd;
struct httpd_req; /* lives until it is answered; handlers must answer each exactly once */

/* The options of a listener, as they stand in struct conf or in a plugin's struct. */
struct httpd_opts {
    char *listen; /* "127.0.0.1:7700", "[::1]:7700", ":7700", "unix:/run/x.sock" */
    int64_t head_max_bytes; /* that each connection holds for its request line and headers
                               (each line takes 56 more) and those of the answer (1 KiB);
                               above it 431 */
    int64_t body_max_bytes; /* above it 413 */
    int64_t body_rate_bytes; /* a second; while a body comes as fast, deadline is
                                extended; 0: it is not */
    int64_t deadline_ms;     /* from the first byte of a request to its last */
    int64_t idle_ms;         /* a silent keep-alive connection is closed */
    int64_t connections_max;
    int64_t connections_per_address; /* 0: no limit */
    int64_t requests_max; /* of one connection, then it is closed; 0: no limit */
    char *tls_cert, *tls_key, *tls_client_ca; /* files; NULL: none */
    struct opt_list hosts; /* names that clients may ask for it by; empty: see its row */
};

/* The same as option rows. struct httpd_opts stands in type at field. */
#define HTTPD_ROWS(type, field, listen_def, body_def)                                    \
    HTTPD_ROWS_NAMED("", type, field, listen_def, body_def)
/* As many rows with a prefix in their names: "admin_". */
#define HTTPD_ROWS_NAMED(prefix, type, field, listen_def, body_def)                      \
    {prefix "listen", OPT_STR, offsetof(type, field.listen), listen_def,                 \
     .help = "Address and port, or unix:/path, of this API."},                           \
        HTTPD_ROWS_LIMITS(prefix, type, field, "6KiB", body_def, "12000")
/* All but listen. */
#define HTTPD_ROWS_LIMITS(prefix, type, field, head_def, body_def, connections_def)      \
    {prefix "head_max",                                                                  \
     OPT_BYTES,                                                                          \
     offsetof(type, field.head_max_bytes),                                               \
     head_def,                                                                           \
     .help = "Memory of each connection for the line and headers of a request.",         \
     .min = 4096,                                                                        \
     .max = 1024LL * 1024},                                                              \
        {prefix "body_max",                                                              \
         OPT_BYTES,                                                                      \
         offsetof(type, field.body_max_bytes),                                           \
         body_def,                                                                       \
         .help = "The largest request body; above it 413.",                              \
         .min = 1024,                                                                    \
         .max = 1024LL * 1024 * 1024},                                                   \
        {prefix "body_rate",                                                             \
         OPT_BYTES,                                                                      \
         offsetof(type, field.body_rate_bytes),                                          \
         "16KiB",                                                                        \
         .help = "A body that comes at so many bytes a second or more may take longer "  \
                 "than deadline; 0: none may.",                                          \
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
        {prefix "connections_max",                                                       \
         OPT_INT,                                                                        \
         offsetof(type, field.connections_max),                                          \
         connections_def,                                                                \
         .help = "The most connections at a time.",                                      \
         .min = 1,                                                                       \
         .max = 100000},                                                                 \
        {prefix "connections_per_address",                                               \
         OPT_INT,                                                                        \
         offsetof(type, field.connections_per_address),                                  \
         "0",                                                                            \
         .help = "The most connections of one address (of IPv6: of one /64) at a time; " \
                 "a proxy is one address. 0: no limit.",                                 \
         .max = 100000},                                                                 \
        {prefix "requests_max",                                                          \
         OPT_INT,                                                                        \
         offsetof(type, field.requests_max),                                             \
         "0",                                                                            \
         .help = "A connection is closed after so many requests; 0: never for that.",    \
         .max = 1000000000},                                                             \
        {prefix "tls_cert",                                                              \
         OPT_FILE,                                                                       \
         offsetof(type, field.tls_cert),                                                 \
         NULL,                                                                           \
         .help = "With it TLS is spoken here, 1.2 or later: our certificate and those "  \
                 "between it and its authority, PEM.",                                   \
         .optional = true,                                                               \
         .reread = true},                                                                \
        {prefix "tls_key",                                                               \
         OPT_KEY_FILE,                                                                   \
         offsetof(type, field.tls_key),                                                  \
         NULL,                                                                           \
         .help = "The key of tls_cert, PEM; without it the key stands in tls_cert.",     \
         .optional = true,                                                               \
         .reread = true},                                                                \
        {prefix "tls_client_ca",                                                         \
         OPT_FILE,                                                                       \
         offsetof(type, field.tls_client_ca),                                            \
         NULL,                                                                           \
         .help = "Clients must show a certificate that one of these authorities "        \
                 "signed, PEM.",                                                         \
         .optional = true,                                                               \
         .reread = true},                                                                \
    {                                                                                    \
        prefix "hosts", OPT_LIST, offsetof(type, field.hosts), "",                       \
            .help = "Names in Host by which it may be asked, beside addresses, "         \
                    "localhost and names without a dot; \"*\": any. Empty: any, but on " \
                    "loopback without TLS and tokens none, against DNS rebinding.",      \
            .min = 0                                                                     \
    }

/* What a request must be allowed to ask for it; which tokens open it: tokens.c. OPEN and
 * PAGE are for everybody; PAGE, METRICS and ADMIN stand on the admin listener alone. Each
 * row is also in README.md and etc/openapi.yaml, which tests/e2e/test_roles.py compares.
 *
 * Whatever the role, a browser gets nothing here for a page of another site: no request
 * that changes something, as its method or a row of any method may, and none at all where
 * it asks by a name that hosts does not have. */
enum httpd_role {
    HTTPD_OPEN,
    HTTPD_PRODUCE,
    HTTPD_CONSUME,
    HTTPD_METRICS,
    HTTPD_ADMIN,
    HTTPD_PAGE,   /* one for people, who log in there */
    HTTPD_EITHER, /* PRODUCE or CONSUME; what each may do, the handler asks httpd_may() */
    HTTPD_ROLES
};

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
struct tokens;
/* From now on a row is served to whom tokens give its role: others get 401 or 403. NULL:
 * to everybody. Borrowed until the next call or httpd_stop(). */
void httpd_protect(struct httpd *h, const struct tokens *tokens);
/* The same for a listener whose other rows are open: *tokens is read at each request. */
void httpd_protect_roles(struct httpd *h, struct tokens *const *tokens);

/* --- new options while it runs --- */
/* -1: the files of tls_*, or hosts, could not be used, as err says. Changes nothing. */
int httpd_check(const struct httpd_opts *opts, struct err *err);
/* Of hosts alone. */
int httpd_check_hosts(const struct httpd_opts *opts, struct err *err);
/* What shows without a look into the files; for the check of a source that listens. */
int httpd_check_opts(const struct httpd_opts *opts, struct err *err);
/* What lets a client in, beside a certificate. */
struct httpd_secrets {
    bool asked_for;
    const char *what;   /* "tokens" */
    const char *remedy; /* what to write, to have them asked for */
};
/* Appends a line if strangers who reach the listener may use it, or read the secrets on
 * their way: "listen: why; what to write". prefix: of the names of its options. secrets
 * NULL: its API knows none. */
void httpd_warn_of_strangers(const struct httpd_opts *opts, const char *prefix,
                             const struct httpd_secrets *secrets, struct buf *lines);
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
