/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy.h - the lmstfy source: its state, the requests of its two APIs, and shared
 * functions. Functions without a request or a clock are in lmstfy_job.h.
 *
 * The job API: lmstfy_http.c does the common steps of all requests, lmstfy_publish.c and
 * lmstfy_queue.c handle each call. The admin API: lmstfy_admin.c describes the service,
 * lmstfy_token.c and lmstfy_limit.c manage tokens and rate limits, lmstfy_metrics.c
 * counts.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_H
#define SOURCES_LMSTFY_LMSTFY_H

#include "bridge/http/http_api.h"
#include "bridge/engine/kv.h"
#include "sources/lmstfy/lmstfy_job.h"

enum { LMSTFY_QUEUES_MAX = 256 }; /* of a single consume */

struct lmstfy;
struct lmstfy_metrics; /* lmstfy_metrics.h */

/* Items of a kv in memory, so that requests need not wait for Redis. */
struct lmstfy_copies {
    const char *kv;
    bool absent;               /* also copy that the kv does not have a field */
    struct lmstfy_copy *items; /* lmstfy_token.c; by field */
};

struct lmstfy {
    struct http_api api; /* the job API */
    /* options */
    struct httpd_opts admin_http; /* the admin API */
    struct opt_list pools;        /* names; must contain "default" */
    struct pairs accounts;        /* user = password for the admin API; empty: no
                                   * authentication */
    bool skip_token_check;
    bool access_log; /* log a line per request; switched through the admin API */
    int64_t delay_ms, ttl_ms, ttr_ms, timeout_ms, tries; /* defaults for requests */
    /* the job API */
    struct buf topic; /* scratch: the topic of a queue, or of several in a row */
    struct buf key;   /* scratch of lmstfy_key() */
    struct log_limit complain;
    /* the admin API */
    struct httpd *admin_httpd;
    struct lmstfy_copies tokens, limits;
    unsigned kv_changes; /* counts the calls of lmstfy_copies_clear() */
    struct timer *copies_clear;
    struct lmstfy_metrics *metrics; /* NULL: the admin API is not open */
};

struct lmstfy_req;
struct lmstfy_row {
    const char *method;
    /* "/api/:namespace/:queue/job/:job_id", also a metrics label. The access log shows
     * that of the admin API instead of the real path, which may contain a token. */
    const char *path;
    void (*run)(struct lmstfy_req *r); /* must answer, at once or later */
    bool open;                         /* no token required */
    bool produces;                     /* counts against the token's limit for
                                        * producing */
    bool consumes;                     /* likewise for consuming; accepts several queues,
                                        * "a,b" */
    bool publishes;                    /* rejected while the source is paused */
    bool dead;                         /* about dead letters */
    bool guarded; /* admin API: requires an account, if any is configured */
};

struct lmstfy_refusal;

/* A request of either API. The answer frees it. */
struct lmstfy_req {
    struct lmstfy *l;
    struct httpd_req *req;
    const struct lmstfy_row *row; /* NULL: no row matched */
    bool admin;                   /* of the admin API */
    struct slice ns, queue, id;   /* from the path, decoded; queue may be a list. Admin
                                   * API: queue is [POOL:]TOKEN */
    struct slice pool, token;     /* job API: pool is empty until it is validated */
    int64_t begun_ms;             /* monotonic */
    bool known;                   /* its token is valid, or none is required */
    bool limited;                 /* counted against its token's limit */
    bool delayed;                 /* publishes a delayed job */
    unsigned count;               /* publish: number of jobs; consume: maximum */
    unsigned waiting;             /* open answers from Redis, if several */
    unsigned stored;              /* publish: jobs stored in Redis */
    const struct lmstfy_refusal
        *refusal; /* lmstfy_publish.c; NULL: Redis did not respond */
    struct http_poll poll;
    STAILQ_ENTRY(lmstfy_req) waiting_link; /* lmstfy_metrics.c */
    /* lmstfy_look_up() */
    struct lmstfy_copies *copies;
    kv_get_cb *on_value;
    unsigned kv_changes;
    struct buf path; /* memory of ns, queue, id */
    struct buf out;  /* the answer's body */
};

/* --- lmstfy.c --- */
bool lmstfy_has_pool(const struct lmstfy *l, struct slice pool); /* is it in pools? */

/* --- lmstfy_http.c --- */
/* Finds the row of a request. NULL: its path is malformed, and it was answered. */
struct lmstfy_req *lmstfy_req_new(struct lmstfy *l, struct httpd_req *req,
                                  const struct lmstfy_row *rows, bool admin);
/* Handles every request of the job API. arg: struct lmstfy. */
void lmstfy_serve(void *arg, struct httpd_req *req);
extern const struct http_dialect lmstfy_dialect, lmstfy_admin_dialect;
extern const struct lmstfy_row lmstfy_rows[]; /* of the job API */
/* Finds the row. took: the parameters of the decoded path, borrowed from it. NULL: no
 * row. */
const struct lmstfy_row *lmstfy_route(const struct lmstfy_row *rows, const char *method,
                                      struct slice path, struct slice took[3]);
/* Runs the row of a request that passed all checks. */
void lmstfy_run(struct lmstfy_req *r);
/* Returns the topic of the request's queue, valid until the next call. */
struct slice lmstfy_topic(struct lmstfy_req *r);
/* Parses a numeric parameter. Leaves *n unchanged if it is absent. -1: not a number from
 * min to max; the request was answered with 400 "invalid NAME". */
int lmstfy_param(struct lmstfy_req *r, const char *name, int64_t min, int64_t max,
                 int64_t *n);
/* Parses a number of seconds. -1: as above. */
int lmstfy_span(struct lmstfy_req *r, const char *name, int64_t def_ms, int64_t *ms);

/* Each of these answers the request and frees it. */
void lmstfy_answer(struct lmstfy_req *r, unsigned status); /* r->out as JSON */
void lmstfy_answer_text(struct lmstfy_req *r, unsigned status, const char *type);
void lmstfy_answer_none(struct lmstfy_req *r, unsigned status); /* no body */
/* {"KEY": text} */
void lmstfy_answer_member(struct lmstfy_req *r, unsigned status, const char *key,
                          const char *text);
/* {"error": text} */
void lmstfy_error(struct lmstfy_req *r, unsigned status, const char *text);
void lmstfy_internal_error(struct lmstfy_req *r); /* Redis did not respond */
/* Calls lmstfy_internal_error() if away is true. Returns away. */
bool lmstfy_fail_if_unavailable(struct lmstfy_req *r, bool away);

/* --- lmstfy_publish.c, lmstfy_queue.c: rows of the job API --- */
void lmstfy_publish(struct lmstfy_req *r); /* also replaces the job r->id */
void lmstfy_bulk(struct lmstfy_req *r);
void lmstfy_consume(struct lmstfy_req *r);
void lmstfy_delete(struct lmstfy_req *r);
void lmstfy_peek_job(struct lmstfy_req *r);
void lmstfy_peek_queue(struct lmstfy_req *r);
void lmstfy_size(struct lmstfy_req *r);
void lmstfy_destroy(struct lmstfy_req *r);
void lmstfy_dead_head(struct lmstfy_req *r);
void lmstfy_respawn(struct lmstfy_req *r);
void lmstfy_drop_dead(struct lmstfy_req *r);

/* --- lmstfy_admin.c --- */
/* Handles every request of the admin API. arg: struct lmstfy. */
void lmstfy_serve_admin(void *arg, struct httpd_req *req);
/* Appends a topic of the pool for queue_list(). Every topic of the pool leads to its
 * queues. */
void lmstfy_any_topic(struct buf *out, struct slice pool);
/* Sets r->pool from the parameter. -1: the pool does not exist. */
int lmstfy_pool_of_query(struct lmstfy_req *r);
/* Sets r->pool and r->token from the path "/token/NS/[POOL:]TOKEN...". -1: the pool does
 * not exist; the request was answered. */
int lmstfy_token_of_path(struct lmstfy_req *r);

/* --- lmstfy_token.c, lmstfy_limit.c --- */
#define LMSTFY_TOKENS_KV "tokens" /* POOL/NS/TOKEN -> description */
#define LMSTFY_LIMITS_KV "limits" /* POOL/NS/TOKEN -> JSON of the limit */

/* Returns "POOL/NS/TOKEN" of the request, stored in l->key; valid until the next call. It
 * is unambiguous, since neither pool nor namespace contains a "/". */
struct slice lmstfy_key(struct lmstfy_req *r);
/* Looks up the request's key. Calls cb with r once, at once or later. */
void lmstfy_look_up(struct lmstfy_req *r, struct lmstfy_copies *copies, kv_get_cb *cb);
/* Forgets all copies. arg: struct lmstfy. */
void lmstfy_copies_clear(void *arg);
/* Returns the items sorted by field. The caller frees the array; its texts belong to
 * items. */
struct kv_item *lmstfy_sorted(const struct kv_item *items, unsigned n);

/* Counts the request against its token's limit, sets limited if a limit exists, and calls
 * lmstfy_run() or answers, at once or later. */
void lmstfy_limit_acquire(struct lmstfy_req *r);
/* Undoes the count after a request without effect. */
void lmstfy_limit_release(struct lmstfy_req *r);

void lmstfy_token_new(struct lmstfy_req *r);
void lmstfy_token_list(struct lmstfy_req *r);
void lmstfy_token_delete(struct lmstfy_req *r);
void lmstfy_limit_list(struct lmstfy_req *r);
void lmstfy_limit_get(struct lmstfy_req *r);
void lmstfy_limit_put(struct lmstfy_req *r);
void lmstfy_limit_delete(struct lmstfy_req *r);

/* --- lmstfy_metrics.c: statistics --- */
void lmstfy_metrics_start(struct lmstfy *l);
void lmstfy_metrics_stop(struct lmstfy *l);
void lmstfy_metrics_get(struct lmstfy_req *r);
/* Counts a request under r->row, ns and pool. Unless r->known, the names may be invented,
 * and only half of the series may be used. */
void lmstfy_count_http(struct lmstfy_req *r, const char *method, unsigned status,
                       int64_t latency_ms);
void lmstfy_count_publish(struct lmstfy_req *r, unsigned jobs);
/* Counts a consumed job. */
void lmstfy_count_consume(struct lmstfy_req *r, struct slice queue,
                          const struct queue_job *job);
/* Counts the deletion of job r->id. */
void lmstfy_count_deleted(struct lmstfy_req *r, enum queue_state was);
void lmstfy_count_limited(struct lmstfy_req *r);

/* For source_ops.import. */
struct import;
int lmstfy_import(struct source *src, void *self, struct import *im, struct err *err);

#endif
