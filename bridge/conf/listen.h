/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listen.h - options of an HTTP listener and roles of its clients. Pure: reads no files.
 * bridge/http/ contains the server.
 */
#ifndef BRIDGE_CONF_LISTEN_H
#define BRIDGE_CONF_LISTEN_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/opt.h"

#include <stdbool.h>
#include <stdint.h>

/* The options of a listener, within struct conf or a plugin's struct. */
struct httpd_opts {
    char *listen; /* "127.0.0.1:7700", "[::1]:7700", ":7700", "unix:/run/x.sock" */
    int64_t head_max_bytes;  /* bytes per connection for request line and headers (plus
                              * 56 per line) and response headers (1 KiB); above it 431 */
    int64_t body_max_bytes;  /* bytes; above it 413 */
    int64_t body_rate_bytes; /* bytes per second; a faster body extends the deadline;
                              * 0: no extension */
    int64_t deadline_ms;     /* from the first to the last byte of a request */
    int64_t idle_ms;         /* closes a keep-alive connection without a request */
    int64_t connections_max;
    int64_t connections_per_address; /* 0: no limit */
    int64_t requests_max; /* per connection, which is closed afterwards; 0: no limit */
    char *tls_cert, *tls_key, *tls_client_ca; /* file names; NULL: none */
    struct opt_list hosts; /* host names that clients may use; empty: see the option's
                            * help */
};

/* Option rows for a struct httpd_opts that is member `field` of `type`. */
#define HTTPD_ROWS(type, field, listen_def, body_def)                                    \
    HTTPD_ROWS_NAMED("", type, field, listen_def, body_def)
/* The same rows with a prefix in their names: "admin_". */
#define HTTPD_ROWS_NAMED(prefix, type, field, listen_def, body_def)                      \
    {prefix "listen", OPT_STR, offsetof(type, field.listen), listen_def,                 \
     .help = "Address and port, or unix:/path, of this API."},                           \
        HTTPD_ROWS_LIMITS(prefix, type, field, "6KiB", body_def, "12000")
#define HTTPD_ROW(name, kind, type, field, def, ...)                                     \
    {                                                                                    \
        name, kind, offsetof(type, field), def, __VA_ARGS__                              \
    }
/* All rows except listen. */
#define HTTPD_ROWS_LIMITS(prefix, type, field, head_def, body_def, connections_def)      \
    HTTPD_ROW(prefix "head_max", OPT_BYTES, type, field.head_max_bytes, head_def,        \
              .help = "Memory per connection for the request line and "                  \
                      "headers.",                                                        \
              .min = 4096, .max = 1024LL * 1024),                                        \
        HTTPD_ROW(prefix "body_max", OPT_BYTES, type, field.body_max_bytes, body_def,    \
                  .help =                                                                \
                      "The largest request body; a larger one is answered with 413.",    \
                  .min = 1024, .max = 1024LL * 1024 * 1024, .reloads = true),            \
        HTTPD_ROW(prefix "body_rate", OPT_BYTES, type, field.body_rate_bytes, "16KiB",   \
                  .help = "A body that arrives at this rate (bytes per second) "         \
                          "or faster may exceed deadline; 0: none may.",                 \
                  .max = 1024LL * 1024 * 1024, .reloads = true),                         \
        HTTPD_ROW(prefix "deadline", OPT_MS, type, field.deadline_ms, "10s",             \
                  .help = "The longest time from the first byte of a request to its "    \
                          "last.",                                                       \
                  .min = 10, .max = 3600000, .reloads = true),                           \
        HTTPD_ROW(prefix "idle", OPT_MS, type, field.idle_ms, "60s",                     \
                  .help = "A connection is closed after this time without a request.",   \
                  .min = 10, .max = 86400000, .reloads = true),                          \
        HTTPD_ROW(prefix "connections_max", OPT_INT, type, field.connections_max,        \
                  connections_def, .help = "The largest number of open connections.",    \
                  .min = 1, .max = 100000),                                              \
        HTTPD_ROW(prefix "connections_per_address", OPT_INT, type,                       \
                  field.connections_per_address, "0",                                    \
                  .help = "The largest number of open connections per client "           \
                          "address (IPv6: per /64); a proxy counts as one "              \
                          "address. 0: no limit.",                                       \
                  .max = 100000),                                                        \
        HTTPD_ROW(prefix "requests_max", OPT_INT, type, field.requests_max, "0",         \
                  .help = "A connection is closed after this number of "                 \
                          "requests; 0: no limit.",                                      \
                  .max = 1000000000, .reloads = true),                                   \
        HTTPD_ROW(prefix "tls_cert", OPT_FILE, type, field.tls_cert, NULL,               \
                  .help = "Enables TLS, 1.2 or later: the server certificate "           \
                          "and its intermediate certificates, PEM.",                     \
                  .optional = true, .reloads = true),                                    \
        HTTPD_ROW(prefix "tls_key", OPT_KEY_FILE, type, field.tls_key, NULL,             \
                  .help = "The private key of tls_cert, PEM; default: tls_cert "         \
                          "contains the key.",                                           \
                  .optional = true, .reloads = true),                                    \
        HTTPD_ROW(prefix "tls_client_ca", OPT_FILE, type, field.tls_client_ca, NULL,     \
                  .help = "Clients must present a certificate that one of "              \
                          "these authorities has signed, PEM.",                          \
                  .optional = true, .reloads = true),                                    \
        HTTPD_ROW(prefix "hosts", OPT_LIST, type, field.hosts, "",                       \
                  .help = "Host names accepted in the Host header, besides "             \
                          "addresses, localhost and names without a dot; "               \
                          "\"*\": any. Empty: any; but none on loopback "                \
                          "without TLS and tokens, to prevent DNS rebinding.",           \
                  .reloads = true)

/* The permission that a request requires; tokens.c maps tokens to roles. OPEN and PAGE
 * are open to everybody. PAGE, METRICS and ADMIN are served only by the admin listener.
 * docs/reference/http-api.md and etc/openapi.yaml list each row;
 * tests/e2e/test_roles.py compares.
 *
 * For every role the server rejects browser requests from pages of other sites: requests
 * that change state (by method, or rows for any method), and all requests whose Host is
 * not in hosts. */
enum httpd_role {
    HTTPD_OPEN,
    HTTPD_PRODUCE,
    HTTPD_CONSUME,
    HTTPD_METRICS,
    HTTPD_ADMIN,
    HTTPD_PAGE,   /* a page for people, who log in there */
    HTTPD_EITHER, /* PRODUCE or CONSUME; the handler checks with httpd_may() */
    HTTPD_ROLES
};

/* --- checks --- */
/* Check hosts; that TLS has a certificate. -1: err begins with the name of the option. */
int httpd_check_hosts(const struct httpd_opts *opts, struct err *err);
int httpd_check_tls(const struct httpd_opts *opts, struct err *err);
/* Checks that listen is NULL, "", unix:/PATH or an address with a port. */
int httpd_check_address(const struct httpd_opts *opts, struct err *err);
/* Splits text, a copy of the address listen, in place: "host:port", "[v6]:port",
 * ":port". */
int httpd_cut_address(const char *listen, char *text, char **host, char **port,
                      struct err *err);
/* All three. For the check of a source with a listener. */
int httpd_check_opts(const struct httpd_opts *opts, struct err *err);
/* How clients authenticate, other than by certificate. */
struct httpd_secrets {
    bool asked_for;
    const char *what;   /* what authenticates a client: "tokens" */
    const char *remedy; /* what to configure, to require them */
};
/* Appends a line "listen: why; what to write" if strangers who reach the listener could
 * use it or read secrets in transit. prefix: of its option names. secrets NULL: its API
 * has no authentication. */
void httpd_warn_insecure(const struct httpd_opts *opts, const char *prefix,
                         const struct httpd_secrets *secrets, struct buf *lines);

/* --- tokens: { } --- */
enum { TOKEN_BYTES_MAX = 1024 };
/* Converts names to a bit set, 1 << role each. -1: err names the unknown role. */
int tokens_roles(const struct opt_list *names, unsigned *roles, struct err *err);
/* Checks that a token fits in a header and is hard to guess. -1: err says what to do. */
int tokens_check(const char *token, struct err *err);

#endif
