/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_internal.h - shared by the files of the HTTP server; no other file includes it.
 *
 * httpd.c runs libmicrohttpd on the loop. httpd_conn.c limits connections in number and
 * time, and detects disconnected clients. httpd_read.c checks the head of a request and
 * reads the body. httpd_guard.c checks tokens, hosts and sites. httpd_mhd.c works around
 * faults of the library. httpd_refuse.c sends rejections. httpd_req.c holds requests and
 * responses. httpd_tls.c holds the certificates. listeners.c applies new options.
 */
#ifndef BRIDGE_HTTPD_INTERNAL_H
#define BRIDGE_HTTPD_INTERNAL_H

#include "bridge/base/log.h"
#include "bridge/http/httpd.h"
#include "bridge/http/httpd_url.h"

#include <sys/queue.h>

#include <microhttpd.h>

struct httpd_tls_wire { /* transport of one session */
    int fd;
    uint64_t *transfers; /* counts its reads and writes that transferred bytes */
};

struct httpd_row {
    struct httpd_pattern pattern;
    const struct httpd_route *route;
    void *arg;
    bool removed;
};

enum httpd_conn_state { NEW, READING, WAITING, ANSWERING, IDLE, CLOSING, CONN_STATES };

struct httpd_conn {
    struct httpd_conn *prev, *next; /* in the list of its state */
    struct httpd *h;
    struct httpd_req *req;         /* NULL between requests */
    struct httpd_address *address; /* NULL: none (Unix socket) */
    int64_t deadline_ms;           /* monotonic; valid if the state has a time limit */
    int64_t body_received_bytes;   /* body bytes received since deadline_ms was set */
    int64_t requests;              /* requests started */
    struct httpd_tls *tls;         /* NULL: not TLS */
    void *session;                 /* the library's TLS session */
    struct httpd_tls_wire wire;
    struct buf
        names; /* names in the client's certificate, valid once names_read is set */
    bool names_read;
    bool watched;     /* registered in gone_fd */
    bool half_closed; /* the client has closed its sending side */
    bool over_limit;  /* above connections_max: gets one response */
    enum httpd_conn_state state;
    int fd;
};

/* The connections of one state, ordered by entry time and so by deadline. */
struct httpd_conns {
    struct httpd_conn *first, *last;
    unsigned n;
};

enum httpd_stage { HEAD, BODY, HANDLING, SUSPENDED, ANSWERED };
enum httpd_refusal {
    NOT_REFUSED,
    BAD_PATH,
    NO_PATH,
    NO_METHOD,
    ADMIN_ONLY,
    NO_TOKEN,
    BAD_TOKEN,
    NO_ROLE,
    OTHER_SITE,
    OTHER_HOST,
    TOO_LARGE,
    BODIES_FULL,
    CONNECTIONS_FULL,
    STOPPING,
    /* while a request is read: */
    HEAD_TOO_LARGE,
    BAD_FRAMING,
    BAD_VERSION,
    BAD_LINE,
    TIMED_OUT,
    /* without a request: */
    TOO_MANY_CONNECTIONS,
    IDLE_CLOSED,
    NO_REQUEST,
    REFUSALS
};

enum { HTTPD_LENGTH_DIGITS = 18 /* the most digits of a Content-Length */ };
enum {
    HTTPD_TOKEN_NAME_SIZE = 65 /* names in the configuration have at most 64 bytes */
};

struct httpd_req {
    struct httpd *h;
    struct httpd_conn *conn;
    struct MHD_Connection *mc;     /* NULL: the connection is closed */
    struct MHD_Response *response; /* owned until it is queued */
    enum httpd_stage stage;
    enum httpd_refusal refusal;
    unsigned status;
    unsigned path_param_count;
    bool has_query;
    size_t row; /* index in h->rows, unless refused */
    const char *method;
    struct slice path; /* undecoded */
    struct slice path_params[HTTPD_PATH_PARAMS_MAX];
    size_t target_n; /* bytes of the target in the request line */
    int64_t discarded;
    unsigned roles;                         /* of its token: 1 << role each */
    char token_name[HTTPD_TOKEN_NAME_SIZE]; /* name of the token; "": none */
    struct buf body;
    struct buf query;            /* a copy, because the library modifies the original */
    struct buf path_buf;         /* buffer for a decoded path */
    struct buf response_headers; /* response headers: name NUL value NUL ... */
    struct buf args;             /* httpd_args(): one struct; empty: not read */
    struct buf *texts;           /* decoded texts of args; NULL: none */
    unsigned texts_n;
    struct httpd_req *next_idle;
    void (*on_gone)(void *arg); /* NULL: none */
    void *gone_arg;
};

enum { HTTPD_NAME_SIZE = 80 };

struct httpd {
    char name[HTTPD_NAME_SIZE];
    struct MHD_Daemon *mhd;
    struct httpd_opts opts;       /* listen is NULL; file names and hosts are copies */
    struct httpd_tls *tls;        /* for new connections; NULL: no TLS */
    struct httpd_tls *renewed;    /* during listeners_change() */
    struct tokens *const *tokens; /* NULL: none */
    bool tokens_suffice;          /* rows without a role are harmless, too */
    unsigned roles;               /* roles served here: 1 << role each */
    struct httpd *twin;           /* serves the same rows */
    LIST_ENTRY(httpd) link;       /* in httpd_all */
    struct log_limit rejected, full, too_many;
    struct watch *watch;
    struct turn_hook *hook;
    struct timer *more;  /* the library has more work */
    struct timer *sweep; /* deadlines; stopped while no connection has one */
    struct httpd_conns conns[CONN_STATES];
    int64_t now_ms; /* monotonic time of the last run of the library */
    struct httpd_row *rows;
    size_t rows_n;
    const struct http_dialect *dialect; /* NULL: native */
    void *dialect_arg;
    struct httpd_address *addresses; /* hash: addresses with connections */
    int gone_fd;                     /* epoll set that detects disconnects; -1: not
                                      * created */
    struct watch *gone_watch;
    struct httpd_req *idle;
    unsigned idle_n;
    int fd;
    unsigned port; /* 0: a Unix socket */
    struct log_limit starved;
    uint64_t progress; /* transfers of TLS, and calls by the library */
    bool active;       /* there is a connection, or was during this run */
    bool run_again;    /* the library must run before the loop waits */
    bool loopback;     /* listens on a loopback address */
    bool draining;
    struct timer *closing; /* polls whether all requests are answered; NULL: not
                            * closing */
    unsigned idle_polls;   /* polls since the last open request */
    loop_cb *closed;
    void *closed_arg;
    bool running; /* inside a call of the library */
};

/* --- httpd_conn.c --- */
struct httpd_conn *httpd_conn_of(struct MHD_Connection *mc);
/* Changes the state and starts its time limit. WAITING and CLOSING have none. */
void httpd_conn_enter(struct httpd_conn *conn, enum httpd_conn_state state);
/* Closes the connection, with or without a response. A request that completes later is
 * ignored. */
void httpd_conn_close(struct httpd_conn *conn);
/* The library's callback for each connection, and the timer's for the time limits. */
void httpd_on_connection(void *arg, struct MHD_Connection *mc, void **context,
                         enum MHD_ConnectionNotificationCode code);
void httpd_on_sweep(void *arg);
unsigned httpd_conns_n(const struct httpd *h); /* the number of connections */
/* Returns the connection limit for the library. */
unsigned httpd_slots_max(const struct httpd_opts *opts);
/* Returns whether more than connections_max connections are in use. */
bool httpd_slots_full(const struct httpd *h);
/* If the client has closed its sending side: handles that in the next turn. */
void httpd_gone_check(struct httpd_conn *conn);
void httpd_gone_stop(struct httpd *h);

/* --- httpd_read.c: callbacks of the library --- */
void *httpd_on_line(void *arg, const char *uri, struct MHD_Connection *mc);
enum MHD_Result httpd_on_request(void *arg, struct MHD_Connection *mc, const char *url,
                                 const char *method, const char *version,
                                 const char *bytes, size_t *n, void **context);
void httpd_on_completed(void *arg, struct MHD_Connection *mc, void **context,
                        enum MHD_RequestTerminationCode why);

/* --- httpd_guard.c --- */
/* Returns whether the client may use that row on this listener. */
enum httpd_refusal httpd_guard(struct httpd_req *req, const struct httpd_route *route);
/* Returns whether host is an allowed name of this listener. */
bool httpd_host_is_allowed(struct httpd *h, struct slice host);
bool httpd_changes_state(const char *method);
/* Logs a completed change by an operator, for audits. */
void httpd_log_change(const struct httpd_req *req);

/* --- httpd_mhd.c --- */
/* Returns the first header of that name without surrounding blanks; p NULL: absent. */
struct slice httpd_lookup(struct MHD_Connection *mc, struct slice name);
/* The library closed conn on its own. Sends a response if the cause was an invalid
 * request line. */
void httpd_answer_closed(const struct httpd_conn *conn);

/* --- listeners.c --- */
LIST_HEAD(httpd_list, httpd);
extern struct httpd_list httpd_all; /* all open listeners */
/* Copies the options; NULL: frees the copies. Reads no files. */
void httpd_set(struct httpd *h, const struct httpd_opts *opts);

/* --- http_args.c --- */
const struct http_dialect *httpd_dialect(const struct httpd *h);

/* --- httpd_refuse.c --- */
/* Sends an error in the listener's dialect. */
void httpd_refuse_as(struct httpd_req *req, unsigned status, const char *word,
                     const char *why);
/* Sends the response for req->refusal before it returns. */
void httpd_refuse(struct httpd_req *req);
/* Writes a whole response directly to the socket, because the library cannot respond in
 * the middle of a request. No other response can be in progress: the library queues one
 * only after it has read the request. */
void httpd_refuse_raw(const struct httpd_conn *conn, enum httpd_refusal what);
void httpd_count(enum httpd_refusal what);
/* Appends the metric of all refusals. */
void httpd_print_refusals(struct buf *out);

/* --- httpd_req.c --- */
struct httpd_req *httpd_req_new(struct httpd *h, struct httpd_conn *conn,
                                struct MHD_Connection *mc);
void httpd_req_add_body(struct httpd_req *req, const char *bytes, size_t n);
void httpd_req_drop_body(struct httpd_req *req);
/* Returns whether the bodies of all open requests may grow by n bytes. */
bool httpd_bodies_fit(int64_t n);
/* Frees empty buffers before a possibly long wait. */
void httpd_req_settle(struct httpd_req *req);
/* The library no longer uses req. Keeps it for reuse. */
void httpd_req_done(struct httpd *h, struct httpd_req *req);
void httpd_req_free(struct httpd_req *req);
/* Passes the response to the library. */
enum MHD_Result httpd_req_queue(struct httpd_req *req);

/* --- httpd_listen.c --- */
/* Returns a listening socket (non-blocking, close-on-exec), or -1. Accepts "host:port",
 * "[v6]:port", ":port" for all addresses, "unix:/path". Resolves names and may block: for
 * start-up only. Also raises the soft limit of open descriptors to the hard limit. */
int httpd_listen(const char *listen, struct err *err);
/* Tells the port (0: a Unix socket), and whether local browsers can reach the address. */
void httpd_listen_name(int fd, unsigned *port, bool *loopback);
/* Closes the socket and removes the file of a Unix socket. */
void httpd_unlisten(int fd);

/* --- httpd_tls.c: reads files only when they are loaded. A connection keeps the files
 * that were loaded when it began, so a reload does not affect it. --- */
struct httpd_tls; /* reference-counted */

/* libmicrohttpd's options for TLS, with its end marker. */
extern const struct MHD_OptionItem httpd_tls_options[];

/* Checks the options, reads the files and returns one reference in *tls; NULL: without
 * TLS. -1: err names the file and the fault. */
int httpd_tls_load(const struct httpd_opts *opts, struct httpd_tls **tls,
                   struct err *err);
struct httpd_tls *httpd_tls_use(struct httpd_tls *tls);
void httpd_tls_drop(struct httpd_tls *tls); /* NULL is allowed */

/* session: the library's, before its handshake. A reference to tls, and wire, must
 * outlive it. */
void httpd_tls_begin(const struct httpd_tls *tls, void *session,
                     struct httpd_tls_wire *wire);
/* Appends the names in the client's certificate, each with a NUL: alternative names, then
 * the common name. Appends nothing without a certificate. */
void httpd_tls_names(void *session, struct buf *names);
/* Sends without blocking; drops what does not fit. */
void httpd_tls_send(void *session, const char *bytes, size_t n);

/* --- httpd_guard.c: tokens --- */
struct conf;
enum { TOKEN_HASH_BYTES = 32 };
struct token { /* owned by its struct tokens */
    char *name;
    char *certificate; /* NULL: the entry has a hash */
    unsigned char hash[TOKEN_HASH_BYTES];
    unsigned roles; /* of the rows that it may use: 1 << role each */
};

/* Returns NULL if the configuration has no tokens: then none is required. */
struct tokens *tokens_new(const struct conf *conf);
void tokens_free(struct tokens *tokens); /* NULL is allowed */

/* Returns the entry of that token, or NULL. */
const struct token *tokens_find(const struct tokens *tokens, struct slice token);
/* Returns the entry whose certificate has one of these names, or NULL. Each name ends
 * with a NUL. */
const struct token *tokens_find_certificate(const struct tokens *tokens,
                                            struct slice names);

#endif
