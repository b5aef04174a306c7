/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_api.h - what the files of the lmstfy source share: its state, and how its two
 * halves, the job API and the admin API, talk.
 *
 * The job half: lmstfy.c starts and stops, lmstfy_http.c reads a request as far as all
 * have it in common, lmstfy_route.c finds its row, lmstfy_publish.c, lmstfy_consume.c and
 * lmstfy_job.c do the work. The admin half knows tokens, limits and statistics:
 * lmstfy_admin.c, lmstfy_token.c, lmstfy_limit.c, lmstfy_metrics.c.
 *
 * All slices handed over are borrowed until the call returns; who needs them longer
 * copies them.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_API_H
#define SOURCES_LMSTFY_LMSTFY_API_H

#include "bridge/http/http_args.h"
#include "bridge/plugin.h"

enum { LMSTFY_NAME_MAX = 255 }; /* bytes of a namespace's or a queue's name */

struct lmstfy_copy;    /* lmstfy_copy.h */
struct lmstfy_metrics; /* lmstfy_metrics.c */
struct lmstfy_admin;   /* lmstfy_admin.c: its listener */
struct lmstfy_req;     /* lmstfy_http.h */
struct lmstfy_ids;     /* lmstfy_id.h */

struct lmstfy {
    struct source *src;
    /* options */
    struct httpd_opts http;       /* the job API */
    struct httpd_opts admin_http; /* the admin API */
    struct opt_list pools;        /* names; "default" must be among them */
    struct pairs accounts; /* user = password, of the admin API; none: it is open */
    bool skip_token_check;
    bool access_log; /* a line per request; the admin API switches it */
    int64_t delay_ms, ttl_ms, ttr_ms, timeout_ms, tries; /* where a request says none */
    /* the job half */
    struct httpd *httpd;
    struct lmstfy_ids *ids;
    struct buf topic;        /* scratch: of one queue, or of several side by side */
    struct buf topics;       /* scratch: struct slice */
    struct lmstfy_req *idle; /* request objects kept for reuse */
    unsigned idle_count;
    unsigned open; /* requests without an answer yet */
    struct timer *linger;
    bool paused, stopping;
    struct log_limit complain;
    /* the admin half; each is its own file's */
    struct lmstfy_admin *admin;
    struct lmstfy_copy *tokens, *limits;
    struct lmstfy_metrics *metrics;
};

/* ------------------------------------------------- of the job half, for both halves */

/* Letters, digits, "-" and "_", at least one. Length is another matter. */
bool lmstfy_name_is_good(struct slice name);
/* One of pools? */
bool lmstfy_has_pool(const struct lmstfy *l, struct slice pool);
/* "[POOL:]TOKEN": cuts at the first colon; no pool or an empty one is "default". */
void lmstfy_cut_token(struct slice text, struct slice *pool, struct slice *token);
/* The topic under which a queue's jobs are submitted: "NS/QUEUE", with "POOL/" before it
 * in another pool than "default". Appends it. */
void lmstfy_add_topic(struct buf *out, struct slice pool, struct slice ns,
                      struct slice queue);
/* The other way round, for names of queue_list(); -1: not one of ours. Borrows. */
int lmstfy_cut_topic(struct slice topic, struct slice *pool, struct slice *ns,
                     struct slice *queue);
enum { LMSTFY_ULID = 26 };
/* A fresh ULID, not ended by a NUL: request ids, tokens. */
void lmstfy_ulid(struct lmstfy *l, char out[LMSTFY_ULID]);
/* "application/json; charset=utf-8" */
extern const char lmstfy_json_type[];
/* The line of the access log, where that is on. path: without the query, which may hold a
 * token. */
void lmstfy_log_access(const struct lmstfy *l, const char *method, struct slice path,
                       struct slice pool, unsigned status, int64_t latency_ms,
                       const char request_id[LMSTFY_ULID]);

/* ----------------------------------------------- of the admin half, for the job half */

/* -1: nothing stays open. Called after the job half has set src and the options. Begins
 * to read tokens and limits, and opens the admin listener. */
int lmstfy_admin_start(struct lmstfy *l, struct err *err);
/* Closes all of it; calls stopped(arg) once when nothing of it is under way any more, at
 * once or later. Auth and limit calls under way are answered before. */
void lmstfy_admin_stop(struct lmstfy *l, loop_cb *stopped, void *arg);

enum lmstfy_answer {
    LMSTFY_YES,
    LMSTFY_NO,   /* no such token; or over the limit */
    LMSTFY_AWAY, /* Redis did not answer: unknown */
    LMSTFY_LATER /* the callback will tell; never what a callback says */
};
typedef void lmstfy_cb(void *arg, enum lmstfy_answer answer);

/* May that token (without its pool, not empty) be used in that namespace? Known tokens
 * are answered at once, without the callback; LMSTFY_LATER: cb is called, after the
 * return. skip_token_check is the caller's business. */
enum lmstfy_answer lmstfy_auth(struct lmstfy *l, struct slice pool, struct slice ns,
                               struct slice token, lmstfy_cb *cb, void *arg);

enum lmstfy_action { LMSTFY_PRODUCE, LMSTFY_CONSUME }; /* "produce", "consume" in texts */

/* Counts one request against the token's limit. LMSTFY_YES at once where there is none:
 * then nothing was counted. Counts http_rate_limit itself when it refuses. */
enum lmstfy_answer lmstfy_limit_take(struct lmstfy *l, struct slice pool, struct slice ns,
                                     struct slice token, enum lmstfy_action action,
                                     lmstfy_cb *cb, void *arg);
/* The request has come to nothing: as if it had not been. Only after a LMSTFY_YES that
 * came by callback. */
void lmstfy_limit_give_back(struct lmstfy *l, struct slice pool, struct slice ns,
                            struct slice token, enum lmstfy_action action);

/* Statistics. api: the pattern of the route, "/api/:namespace/:queue/size"; "": none.
 * pool: empty when the request was refused before that was known; ns likewise. known: its
 * token is good, so that its names are not made up by a stranger. */
struct lmstfy_seen {
    const char *api, *method;
    struct slice ns, pool;
    unsigned status;
    int64_t latency_ms;
    bool known;
};
void lmstfy_count_http(struct lmstfy *l, const struct lmstfy_seen *seen);
void lmstfy_count_publish(struct lmstfy *l, struct slice pool, struct slice ns,
                          struct slice queue, unsigned jobs, bool delayed);
/* One job handed out. */
void lmstfy_count_consume(struct lmstfy *l, struct slice pool, struct slice ns,
                          struct slice queue, const struct queue_job *job);
/* A job was deleted before anybody consumed it. */
void lmstfy_count_unconsumed(struct lmstfy *l, struct slice pool, struct slice id);
/* One job deleted by its id. elapsed_ms: -1: the id does not tell. */
void lmstfy_count_ack(struct lmstfy *l, struct slice pool, struct slice ns,
                      struct slice queue, int64_t elapsed_ms);

#endif
