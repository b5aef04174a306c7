/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_http.h - a request of the job API: what all have in common.
 *
 * In this order: the row of its path, the names in it, the pool, the token, the limit of
 * the token; then the row's own function has it, which must see to one answer, at once or
 * later. What a request holds is its own memory, but for headers and body.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_HTTP_H
#define SOURCES_LMSTFY_LMSTFY_HTTP_H

#include "sources/lmstfy/lmstfy_api.h"
#include "sources/lmstfy/lmstfy_query.h"

struct lmstfy_row {
    const char *method;
    const char *api; /* "/api/:namespace/:queue/job/:job_id", also a label */
    void (*run)(struct lmstfy_req *r);
    bool open;      /* asks for no token */
    bool produces;  /* counts against that limit of the token */
    bool consumes;  /* likewise; and takes several queues, "a,b" */
    bool publishes; /* not while nothing can be stored */
};

enum { LMSTFY_QUEUES_MAX = 256 }; /* of one consume */

struct lmstfy_refusal;

struct lmstfy_req {
    struct lmstfy *l;
    struct httpd_req *req;
    const struct lmstfy_row *row; /* NULL: none takes it */
    struct slice path;            /* as it came */
    struct slice ns, queue, id;   /* of the path, decoded; queue: maybe several */
    struct slice pool, token;     /* pool: empty until it is known to be one */
    struct slice params[LMSTFY_PARAMS];
    int64_t begun_ms; /* monotonic */
    bool known;       /* its token is good, or none is asked for */
    bool limited;     /* counted against its token's limit */
    bool failed;      /* of what it publishes: not all is stored */
    bool delayed;     /* what it publishes */
    unsigned count;   /* jobs of a bulk; the most of a consume */
    unsigned waiting; /* jobs of a bulk without an answer */
    unsigned stored;  /* and those that Redis has */
    const struct lmstfy_refusal
        *refusal; /* lmstfy_publish.c; NULL: Redis did not answer */
    struct pull *pull;
    struct buf room; /* what the slices above lie in */
    struct buf out;  /* the answer's body */
    struct lmstfy_req *next;
};

/* Every request of the listener. arg: struct lmstfy. */
void lmstfy_take(void *arg, struct httpd_req *req);
extern const struct http_dialect lmstfy_dialect;
/* The row, and what the decoded path holds, borrowed from it; NULL: none. */
const struct lmstfy_row *lmstfy_route(const char *method, struct slice path,
                                      struct slice *ns, struct slice *queue,
                                      struct slice *id);

/* Of the request's queue; good until the next call. */
struct slice lmstfy_topic(struct lmstfy_req *r);
/* A parameter that is a number; when it is absent, *n stays. -1: it is none, and the
 * request was answered 400 with that error. */
int lmstfy_param(struct lmstfy_req *r, enum lmstfy_param param, int64_t max, int64_t *n,
                 const char *error);

/* Each answers, and the request is gone. */
void lmstfy_answer(struct lmstfy_req *r, unsigned status); /* with r->out */
void lmstfy_error(struct lmstfy_req *r, unsigned status, const char *error);
void lmstfy_internal_error(struct lmstfy_req *r); /* Redis did not answer */
void lmstfy_no_content(struct lmstfy_req *r);
/* The client has gone away: it hears nothing. */
void lmstfy_drop(struct lmstfy_req *r);

/* When nothing is open any more, and the source stops: the rest of it. */
void lmstfy_all_answered(struct lmstfy *l);
void lmstfy_requests_free(struct lmstfy *l);

/* --- the rows' functions --- */
void lmstfy_publish(struct lmstfy_req *r);
void lmstfy_republish(struct lmstfy_req *r);
void lmstfy_bulk(struct lmstfy_req *r);
void lmstfy_consume(struct lmstfy_req *r);
void lmstfy_delete(struct lmstfy_req *r);
/* The job of r->id was deleted: for the statistics. */
void lmstfy_count_deleted(struct lmstfy_req *r, enum queue_state was);
void lmstfy_peek_job(struct lmstfy_req *r);
void lmstfy_peek_queue(struct lmstfy_req *r);
void lmstfy_size(struct lmstfy_req *r);
void lmstfy_destroy(struct lmstfy_req *r);
void lmstfy_dead_head(struct lmstfy_req *r);
void lmstfy_dead_size(struct lmstfy_req *r);
void lmstfy_respawn(struct lmstfy_req *r);
void lmstfy_drop_dead(struct lmstfy_req *r);

#endif
