/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy.h - the lmstfy source: its state, a request of its two APIs, and what the files
 * share. What they use without a request or a clock is in lmstfy_job.h.
 *
 * The job API: lmstfy_http.c reads a request as far as all have it in common,
 * lmstfy_publish.c and lmstfy_queue.c do the work. The admin API: lmstfy_admin.c listens
 * and describes the service, lmstfy_token.c and lmstfy_limit.c know who may do what,
 * lmstfy_metrics.c and lmstfy_sizes.c count.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_H
#define SOURCES_LMSTFY_LMSTFY_H

#include "bridge/http/http_api.h"
#include "bridge/engine/kv.h"
#include "sources/lmstfy/lmstfy_job.h"

enum { LMSTFY_QUEUES_MAX = 256 }; /* of one consume */

struct lmstfy;
struct lmstfy_copied;  /* lmstfy_token.c */
struct lmstfy_metrics; /* lmstfy_metrics.h */

/* A copy of one kv in memory, so that requests need not wait for Redis. It is fresh
 * from when it was read until a change is reported. */
struct lmstfy_copy {
    struct lmstfy *l;
    const char *kv;
    struct lmstfy_copied *items; /* by field */
    bool fresh;                  /* items is what Redis has, as far as we know */
    bool listing;                /* asked for */
    bool again;                  /* it changed while asked for */
};

struct lmstfy {
    struct http_api api; /* the job API */
    /* options */
    struct httpd_opts admin_http; /* the admin API */
    struct opt_list pools;        /* names; "default" must be among them */
    struct pairs accounts; /* user = password, of the admin API; none: it is open */
    bool skip_token_check;
    bool access_log; /* a line per request; the admin API switches it */
    int64_t delay_ms, ttl_ms, ttr_ms, timeout_ms, tries; /* where a request says none */
    /* the job API */
    struct lmstfy_ids ids;
    struct buf topic;  /* scratch: of one queue, or of several side by side */
    struct buf topics; /* scratch: struct slice */
    struct buf key;    /* scratch: lmstfy_key() */
    struct log_limit complain;
    /* the admin API */
    struct httpd *admin_httpd;
    struct lmstfy_copy tokens, limits;
    struct timer *refresh;
    unsigned holds;                 /* lmstfy_hold() */
    bool closing;                   /* released with the last hold */
    struct lmstfy_metrics *metrics; /* NULL: nothing is counted */
};

struct lmstfy_req;
struct lmstfy_row {
    const char *method;
    /* Of the job API "/api/:namespace/:queue/job/:job_id", also a label; of the admin API
     * as in httpd.h, also what the access log shows: the real path may hold a token. */
    const char *path;
    void (*run)(struct lmstfy_req *r); /* ends in an answer, at once or later */
    bool open;                         /* needs no token */
    bool produces;                     /* counts against that limit of the token */
    bool consumes;                     /* likewise; and accepts several queues, "a,b" */
    bool publishes;                    /* not while nothing can be stored */
    bool dead;                         /* of the dead letters */
    bool guarded; /* admin API: by the accounts, where there are any */
};

struct lmstfy_refusal;

/* A request of either API; gone when it is answered. */
struct lmstfy_req {
    struct lmstfy *l;
    struct httpd_req *req;
    const struct lmstfy_row *row; /* NULL: no row matches */
    bool admin;                   /* of the admin API */
    struct slice ns, queue, id;   /* of the path, decoded; queue: maybe several */
    struct slice pool, token;     /* pool: empty until it is known to be one */
    int64_t begun_ms;             /* monotonic */
    bool known;                   /* its token is good, or none is needed */
    bool limited;                 /* counted against its token's limit */
    bool failed;                  /* not all could be stored, or deleted */
    bool delayed;                 /* what it publishes */
    unsigned count;               /* jobs of a bulk; the most of a consume */
    unsigned waiting;             /* answers of Redis to come, where there are several */
    unsigned stored;              /* jobs of a bulk that Redis has */
    const struct lmstfy_refusal
        *refusal; /* lmstfy_publish.c; NULL: Redis did not answer */
    struct pull *pull;
    struct buf room; /* holds the slices of the path; in the admin API the key */
    struct buf out;  /* the answer's body */
};

/* --- lmstfy.c --- */
bool lmstfy_has_pool(const struct lmstfy *l, struct slice pool); /* one of pools? */
/* A fresh ULID, not ended by a NUL: request ids, tokens. */
void lmstfy_ulid(struct lmstfy *l, char out[LMSTFY_ULID]);
/* The last hold is gone: frees the rest, and the source has stopped. */
void lmstfy_release(struct lmstfy *l);

/* --- lmstfy_http.c --- */
struct lmstfy_req *lmstfy_req_new(struct lmstfy *l, struct httpd_req *req);
/* Every request of the job API. arg: struct lmstfy. */
void lmstfy_serve(void *arg, struct httpd_req *req);
extern const struct http_dialect lmstfy_dialect, lmstfy_admin_dialect;
/* The row, and what the decoded path holds, borrowed from it; NULL: none. */
const struct lmstfy_row *lmstfy_route(const char *method, struct slice path,
                                      struct slice *ns, struct slice *queue,
                                      struct slice *id);
/* Of the request's queue; good until the next call. */
struct slice lmstfy_topic(struct lmstfy_req *r);
/* A parameter that is a number; when it is absent, *n stays. -1: it is none from min to
 * max, and the request was answered 400 "invalid NAME". */
int lmstfy_param(struct lmstfy_req *r, const char *name, int64_t min, int64_t max,
                 int64_t *n);

/* Each answers, and the request is gone. */
void lmstfy_answer(struct lmstfy_req *r, unsigned status); /* r->out as JSON */
void lmstfy_answer_text(struct lmstfy_req *r, unsigned status, const char *type);
void lmstfy_answer_none(struct lmstfy_req *r, unsigned status); /* no body */
/* {"error": text} */
void lmstfy_error(struct lmstfy_req *r, unsigned status, const char *text);
void lmstfy_internal_error(struct lmstfy_req *r); /* Redis did not answer */
/* The same where away, which it gives back; else nothing. */
bool lmstfy_away(struct lmstfy_req *r, bool away);

/* --- lmstfy_publish.c, lmstfy_queue.c: rows of the job API --- */
void lmstfy_publish(struct lmstfy_req *r); /* also in the place of r->id */
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
/* The job of r->id was deleted: for the statistics. */
void lmstfy_count_deleted(struct lmstfy_req *r, enum queue_state was);

/* --- lmstfy_admin.c --- */
/* -1: nothing stays open. Needs src and the options. Begins to read tokens and limits,
 * and opens the admin listener. */
int lmstfy_admin_start(struct lmstfy *l, struct err *err);
/* Closes all of it; ends in lmstfy_release(). self: struct lmstfy. */
void lmstfy_admin_stop(void *self);
/* What is under way in the admin half, and must end before the source has stopped. */
void lmstfy_hold(struct lmstfy *l);
void lmstfy_let_go(struct lmstfy *l);
/* Tokens and limits could not be read: again in a second. */
void lmstfy_refresh_soon(struct lmstfy *l);
/* Appends a topic of that pool: queue_list() wants one, and every one leads to the queues
 * of the pool. */
void lmstfy_any_topic(struct buf *out, struct slice pool);
/* The namespace of an admin path; "" where it is no name: nothing can be there. */
struct slice lmstfy_ns_of_path(const struct lmstfy_req *r);
/* Puts the key of the path "/token/NS/[POOL:]TOKEN..." into r->room. -1: answered, since
 * there is no such pool. */
int lmstfy_key_of_path(struct lmstfy_req *r);

/* --- lmstfy_token.c, lmstfy_limit.c --- */
#define LMSTFY_TOKENS_KV "tokens" /* POOL/NS/TOKEN -> description */
#define LMSTFY_LIMITS_KV "limits" /* POOL/NS/TOKEN -> JSON of the limit */

/* That of the request, in l->key; good until the next call. */
struct slice lmstfy_key(struct lmstfy_req *r);

void lmstfy_copy_free(struct lmstfy_copy *copy);
/* Reads it anew. stale: it is not fresh until it has been read. */
void lmstfy_copy_refresh(struct lmstfy_copy *copy, bool stale);
/* p NULL: not there; whether that means anything says fresh. */
struct slice lmstfy_copy_find(const struct lmstfy_copy *copy, struct slice field);
/* A copy by field, to be freed; its texts are the items'. */
struct kv_item *lmstfy_sorted(const struct kv_item *items, unsigned n);

/* May the token of the request (not empty) be used in its namespace? Calls the second
 * once, at once or later; KV_NOT: there is no such token. skip_token_check is the
 * caller's business. */
void lmstfy_auth(struct lmstfy_req *r);
void lmstfy_authorized(struct lmstfy_req *r, enum kv_code code);
/* Counts the request against its token's limit, and sets limited where there is one;
 * likewise. KV_NOT: it is over the limit. */
void lmstfy_limit_take(struct lmstfy_req *r);
void lmstfy_limit_taken(struct lmstfy_req *r, enum kv_code code);
/* The request has come to nothing: as if it had not been. */
void lmstfy_limit_give_back(struct lmstfy_req *r);

void lmstfy_token_new(struct lmstfy_req *r);
void lmstfy_token_list(struct lmstfy_req *r);
void lmstfy_token_delete(struct lmstfy_req *r);
void lmstfy_limit_list(struct lmstfy_req *r);
void lmstfy_limit_get(struct lmstfy_req *r);
void lmstfy_limit_put(struct lmstfy_req *r);
void lmstfy_limit_delete(struct lmstfy_req *r);

/* --- lmstfy_metrics.c: statistics --- */
void lmstfy_metrics_start(struct lmstfy *l);
/* Nothing is asked of Redis any more; what is under way ends by itself. */
void lmstfy_metrics_stop(struct lmstfy *l);
void lmstfy_metrics_free(struct lmstfy *l);
void lmstfy_metrics_get(struct lmstfy_req *r);
/* r->row, ns and pool as far as they are known. known: names are not made up by a
 * stranger. */
void lmstfy_count_http(struct lmstfy_req *r, const char *method, unsigned status,
                       int64_t latency_ms);
void lmstfy_count_publish(struct lmstfy_req *r, unsigned jobs);
/* One job handed out. */
void lmstfy_count_consume(struct lmstfy_req *r, struct slice queue,
                          const struct queue_job *job);
/* One job deleted by its id. elapsed_ms: -1: the id does not tell. */
void lmstfy_count_ack(struct lmstfy_req *r, int64_t elapsed_ms);
/* A job was deleted before anybody consumed it. */
void lmstfy_count_unconsumed(struct lmstfy_req *r);
void lmstfy_count_limited(struct lmstfy_req *r);

/* For source_ops.import. */
struct import;
int lmstfy_import(struct source *src, void *self, struct import *im, struct err *err);

#endif
