/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_parts.h - what the files of the HTTP server share; nobody else includes it.
 *
 * httpd.c runs the library on the loop and keeps the times of connections, httpd_read.c
 * judges the head of a request and reads the rest until its handler has it, httpd_guard.c
 * judges who asks, httpd_mhd.c corrects the library, httpd_refuse.c says no, httpd_req.c
 * holds requests and their answers, httpd_gone.c sees clients leave, httpd_slots.c limits
 * how many there are, httpd_live.c takes new options, httpd_tls.c has the certificates.
 */
#ifndef BRIDGE_HTTPD_PARTS_H
#define BRIDGE_HTTPD_PARTS_H

#include "bridge/base/log.h"
#include "bridge/http/httpd.h"
#include "bridge/http/httpd_url.h"

#include <microhttpd.h>

/* GnuTLS stays inside httpd_tls.c, as it does in the library. */
struct httpd_tls_wire { /* of one session */
    int fd;
    uint64_t *moved; /* counts its reads and writes that moved anything */
};

struct httpd_row {
    struct httpd_pattern pattern;
    const struct httpd_route *route;
    void *arg;
    bool gone;
};

enum httpd_conn_state { NEW, READING, WAITING, ANSWERING, IDLE, CLOSING, CONN_STATES };

struct httpd_conn {
    struct httpd_conn *prev, *next; /* in the list of its state */
    struct httpd *h;
    struct httpd_req *req;         /* NULL between requests */
    struct httpd_address *address; /* NULL: it has none */
    int64_t deadline_ms;           /* monotonic; counts where its state has a limit */
    int64_t came_bytes;            /* of a body, since deadline_ms was set */
    int64_t requests;              /* begun */
    struct httpd_tls *tls;         /* NULL: plain */
    void *session;                 /* the library's TLS session */
    struct httpd_tls_wire wire;
    struct buf names; /* in the client's certificate, once they were asked for */
    bool named;
    bool watched; /* by gone_fd */
    bool ended;   /* the client sends nothing more */
    bool spare;   /* beyond connections_max: gets one answer */
    enum httpd_conn_state state;
    int fd;
};

/* The connections of one state, by the time they entered it: by their deadlines, too. */
struct httpd_conns {
    struct httpd_conn *first, *last;
    unsigned n;
};

enum httpd_stage { HEAD, BODY, HANDED, SUSPENDED, ANSWERED };
enum httpd_refusal {
    NOT_REFUSED,
    BAD_PATH,
    NO_PATH,
    NO_METHOD,
    NOT_HERE,
    NO_TOKEN,
    BAD_TOKEN,
    NO_ROLE,
    OTHER_SITE,
    OTHER_HOST,
    TOO_LARGE,
    CROWDED,
    NO_SLOT,
    DRAINED,
    /* in the midst of a request: */
    HEAD_TOO_LARGE,
    BAD_FRAMING,
    BAD_VERSION,
    BAD_LINE,
    TIMED_OUT,
    /* before one: */
    TOO_MANY,
    MADE_ROOM,
    NO_REQUEST,
    REFUSALS
};

enum { HTTPD_LENGTH_DIGITS = 18 /* of a Content-Length, at most */ };
enum { HTTPD_WHO_SIZE = 65 /* names of a configuration are 64 */ };

struct httpd_note { /* a decoded parameter of the query */
    struct httpd_note *next;
    char text[];
};

struct httpd_req {
    struct httpd *h;
    struct httpd_conn *conn;
    struct MHD_Connection *mc;     /* NULL: the connection is gone */
    struct MHD_Response *response; /* ours until it is queued */
    enum httpd_stage stage;
    enum httpd_refusal refusal;
    unsigned status;
    unsigned took_n;
    bool has_query;
    size_t row; /* index in h->rows, where it was not refused */
    const char *method;
    struct slice path; /* as it came */
    struct slice took[HTTPD_TOOK_MAX];
    size_t target_n; /* bytes of the request line's target */
    int64_t discarded;
    unsigned roles;           /* of the rows that its token opens: 1 << role */
    char who[HTTPD_WHO_SIZE]; /* "": nobody in particular */
    struct buf body;
    struct buf query; /* a copy: the library cuts the original to pieces */
    struct buf room;  /* where an escaped path is decoded */
    struct buf extra; /* headers of the answer: name NUL value NUL ... */
    struct buf args;  /* httpd_args(): one struct; empty: none was read */
    struct buf texts; /* decoded, of args */
    struct httpd_note *notes;
    struct httpd_req *next_idle;
    void (*on_gone)(void *arg); /* NULL: nobody asked */
    void *gone_arg;
};

enum { HTTPD_NAME_SIZE = 80 };

struct httpd {
    char name[HTTPD_NAME_SIZE];
    struct MHD_Daemon *mhd;
    struct httpd_opts opts; /* listen is NULL; files and hosts are copies */
    int64_t bodies_max_bytes;
    struct httpd_tls *tls;     /* for new connections; NULL: plain */
    struct httpd_tls *renewed; /* while all are read again */
    const struct tokens *tokens;
    struct tokens *const *role_tokens; /* httpd_protect_roles(); NULL: none */
    unsigned roles;                    /* of the rows that are served here: 1 << role */
    struct httpd *twin;                /* gets the same rows */
    struct httpd *before, *next;       /* in the list of all */
    struct log_limit turned_away, full, crowded;
    struct watch *watch;
    struct turn_hook *hook;
    struct timer *more;  /* the library has more to do at once */
    struct timer *sweep; /* deadlines; at rest while no connection has one */
    struct httpd_conns conns[CONN_STATES];
    int64_t now_ms; /* monotonic, when the library was last run */
    struct httpd_row *rows;
    size_t rows_n;
    const struct http_dialect *dialect; /* NULL: the native one */
    void *dialect_arg;
    struct httpd_address *addresses; /* hash: that have connections */
    int gone_fd;                     /* epoll: the ends of their streams; -1: none yet */
    struct watch *gone_watch;
    struct httpd_req *idle;
    unsigned idle_n;
    int fd;
    struct log_limit starved;
    uint64_t moves; /* of TLS, and calls of ours by the library */
    bool moved;     /* there is a connection, or was one in this run */
    bool rerun;     /* the library must run before the loop waits */
    bool loopback;  /* only programs of this host reach it, by TCP: browsers are such */
    bool draining;
    struct timer *closing; /* looks whether all is answered; NULL: it stays open */
    unsigned looks;        /* since no handler has a request */
    loop_cb *closed;
    void *closed_arg;
    bool running; /* inside the library */
};

/* --- httpd.c --- */
struct httpd_conn *httpd_conn_of(struct MHD_Connection *mc);
/* From now on the limit of that state counts. WAITING and CLOSING have none. */
void httpd_conn_enter(struct httpd_conn *conn, enum httpd_conn_state state);

/* Ends it, answer or not: a request that comes whole later is not looked at. */
void httpd_conn_close(struct httpd_conn *conn);

/* --- httpd_slots.c --- */
/* How many the library may take at a time. */
unsigned httpd_slots_max(const struct httpd_opts *opts);
/* A new connection, in the state NEW: closes it or others if there are too many. */
void httpd_slots_enter(struct httpd_conn *conn, struct MHD_Connection *mc);
void httpd_slots_leave(struct httpd_conn *conn);
/* Are more connections in use than connections_max? */
bool httpd_slots_full(const struct httpd *h);

/* --- httpd_read.c: what the library calls --- */
void *httpd_on_line(void *arg, const char *uri, struct MHD_Connection *mc);
enum MHD_Result httpd_on_request(void *arg, struct MHD_Connection *mc, const char *url,
                                 const char *method, const char *version,
                                 const char *bytes, size_t *n, void **context);
void httpd_on_completed(void *arg, struct MHD_Connection *mc, void **context,
                        enum MHD_RequestTerminationCode why);

/* --- httpd_guard.c --- */
/* May whoever asks have that row, here? */
enum httpd_refusal httpd_guard(struct httpd_req *req, const struct httpd_route *route);
/* May it be asked for by that name? */
bool httpd_is_meant(struct httpd *h, struct slice host);
bool httpd_changes_state(const char *method);
/* Logs what an operator did, now that it is done: it is looked for afterwards. */
void httpd_tell(const struct httpd_req *req);

/* --- httpd_mhd.c --- */
/* The first header of that name, without the blanks around it; p NULL: none. */
struct slice httpd_lookup(struct MHD_Connection *mc, struct slice name);
/* The library has closed conn, and not been asked to: answers if that was because of a
 * request line that is none. */
void httpd_answer_closed(const struct httpd_conn *conn);

/* --- httpd_live.c --- */
void httpd_live_add(struct httpd *h);
void httpd_live_del(struct httpd *h);
/* What may change while it runs; the files are not read. */
void httpd_set(struct httpd *h, const struct httpd_opts *opts);

/* --- http_args.c --- */
const struct http_dialect *httpd_dialect(const struct httpd *h);

/* --- httpd_refuse.c --- */
/* Answers an error in the dialect of the listener. */
void httpd_refuse_as(struct httpd_req *req, unsigned status, const char *word,
                     const char *why);
/* Answers with what req->refusal says, before it returns. */
void httpd_refuse(struct httpd_req *req);
/* Writes a whole answer past the library, which cannot answer in the midst of a request.
 * Nothing else is under way: an answer is queued only when the request has been read. */
void httpd_refuse_raw(const struct httpd_conn *conn, enum httpd_refusal what);
void httpd_count(enum httpd_refusal what);

/* --- httpd_gone.c --- */
/* From now on the end of what the client sends is noticed, until _unwatch(). */
void httpd_gone_watch(struct httpd_conn *conn);
void httpd_gone_unwatch(struct httpd_conn *conn);
/* If the client has sent its last byte: looks in the next turn what that means now. */
void httpd_gone_look(struct httpd_conn *conn);
/* Nobody will be told any more that the client of req left. */
void httpd_gone_forget(struct httpd_req *req);
void httpd_gone_stop(struct httpd *h);

/* --- httpd_req.c --- */
struct httpd_req *httpd_req_new(struct httpd *h, struct httpd_conn *conn,
                                struct MHD_Connection *mc);
void httpd_req_add_body(struct httpd_req *req, const char *bytes, size_t n);
void httpd_req_drop_body(struct httpd_req *req);
/* It waits, perhaps for long: gives back buffers that hold nothing. */
void httpd_req_settle(struct httpd_req *req);
/* The library is through with it: kept for the next one. */
void httpd_req_done(struct httpd *h, struct httpd_req *req);
void httpd_req_free(struct httpd_req *req);
/* Hands the answer to the library. */
enum MHD_Result httpd_req_queue(struct httpd_req *req);

/* --- httpd_listen.c --- */
/* Gives a listening socket (non-blocking, close-on-exec), or -1. "host:port",
 * "[v6]:port", ":port" for all addresses, "unix:/path". A name is looked up, so this may
 * block; it is for the start of the daemon. The process may have as many descriptors open
 * as its hard limit allows from then on. */
int httpd_listen(const char *listen, struct err *err);
/* The port a socket is bound to; 0 for a Unix socket. */
unsigned httpd_listen_port(int fd);
/* Is it bound to an address of this machine alone, which browsers here can ask? */
bool httpd_listen_is_loopback(int fd);
/* Closes the socket and removes the file of a Unix socket. */
void httpd_unlisten(int fd);

/* --- httpd_tls.c: files are read whole when they are loaded. Each connection holds what
 * was loaded when it began, so that a reload touches none. --- */
struct httpd_tls; /* counts its users */

/* The options that the library needs for TLS; the table ends as it wants it to. */
extern const struct MHD_OptionItem httpd_tls_options[];

bool httpd_tls_is_wanted(const struct httpd_opts *opts);
/* Reads the files; the caller is the first user. NULL: err names the file and says what
 * is wrong with it. */
struct httpd_tls *httpd_tls_load(const struct httpd_opts *opts, struct err *err);
struct httpd_tls *httpd_tls_use(struct httpd_tls *tls);
void httpd_tls_drop(struct httpd_tls *tls); /* NULL is fine */

/* session: the library's, before its handshake; tls must be used, and wire stay, until it
 * is gone. */
void httpd_tls_begin(const struct httpd_tls *tls, void *session,
                     struct httpd_tls_wire *wire);
/* Appends the names in the client's certificate, each with a NUL: the alternative names,
 * then the common name. Nothing: it showed none. */
void httpd_tls_names(void *session, struct buf *names);
/* Does not wait; what does not fit is lost. */
void httpd_tls_send(void *session, const char *bytes, size_t n);

/* --- tokens.c --- */
struct conf;
struct token; /* as long as its struct tokens */

/* NULL: the configuration has none, and nobody is asked for one. */
struct tokens *tokens_new(const struct conf *conf);
void tokens_free(struct tokens *tokens); /* NULL is fine */

/* Whose token that is; NULL: nobody's. */
const struct token *tokens_find(const struct tokens *tokens, struct slice token);
/* Whose certificate has one of these names, each of which ends with a NUL. */
const struct token *tokens_find_certificate(const struct tokens *tokens,
                                            struct slice names);
const char *token_name(const struct token *token);
/* Of the rows that it opens: 1 << role each. */
unsigned token_roles(const struct token *token);

#endif
