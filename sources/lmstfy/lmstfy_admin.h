/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_admin.h - what the files of the admin half share. The job half knows of it only
 * what stands in lmstfy_api.h.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_ADMIN_H
#define SOURCES_LMSTFY_LMSTFY_ADMIN_H

#include "bridge/base/json.h"
#include "bridge/store/shelf.h"
#include "sources/lmstfy/lmstfy_api.h"

struct lmstfy_call;

struct lmstfy_admin_row {
    const char *method;
    const char *path; /* as httpd.h has it; also what the access log shows, since the real
                         one may hold a token */
    bool guarded;     /* by the accounts, where there are any */
    void (*handle)(struct lmstfy_call *call); /* ends in one of the answers below */
};

/* One request of the admin API; gone when it is answered. */
struct lmstfy_call {
    struct lmstfy *l;
    const struct lmstfy_admin_row *row;
    struct httpd_req *req;
    int64_t begun_us; /* monotonic */
    struct buf out;   /* the answer as it grows */
    struct buf key;   /* POOL/NS/TOKEN, where the handler needs one across a callback */
    unsigned waits;   /* answers of Redis to come, where there are several */
    bool failed;      /* one of them did not come */
};
void lmstfy_call_text(struct lmstfy_call *call, unsigned status, const char *type);
void lmstfy_call_json(struct lmstfy_call *call, unsigned status); /* what is in out */
void lmstfy_call_none(struct lmstfy_call *call, unsigned status); /* no body */
/* {"error": text} */
void lmstfy_call_error(struct lmstfy_call *call, unsigned status, const char *text);
void lmstfy_call_away(struct lmstfy_call *call); /* Redis did not answer */

/* Everything under way whose end must be waited for before the admin half is gone. */
void lmstfy_hold(struct lmstfy *l);
void lmstfy_let_go(struct lmstfy *l);
/* Tokens and limits could not be read: again in a second. */
void lmstfy_refresh_soon(struct lmstfy *l);

/* Appends "POOL/NS/TOKEN": the field of tokens and limits. Neither pool nor namespace has
 * a "/", so that no other three give the same. */
void lmstfy_add_key(struct buf *out, struct slice pool, struct slice ns,
                    struct slice token);
/* The namespace of the path; "" where it is no name: nothing can be there. */
struct slice lmstfy_call_ns(const struct lmstfy_call *call);
/* Puts the key of the path "/token/NS/[POOL:]TOKEN..." into call->key. -1: answered,
 * since there is no such pool. */
int lmstfy_call_key(struct lmstfy_call *call);

/* --- tokens and limits --- */
#define LMSTFY_TOKENS_SHELF "tokens" /* POOL/NS/TOKEN -> description */
#define LMSTFY_LIMITS_SHELF "limits" /* POOL/NS/TOKEN -> JSON of the limit */

void lmstfy_token_new(struct lmstfy_call *call);
void lmstfy_token_list(struct lmstfy_call *call);
void lmstfy_token_delete(struct lmstfy_call *call);
void lmstfy_limit_list(struct lmstfy_call *call);
void lmstfy_limit_get(struct lmstfy_call *call);
void lmstfy_limit_add(struct lmstfy_call *call);
void lmstfy_limit_set(struct lmstfy_call *call);
void lmstfy_limit_delete(struct lmstfy_call *call);

/* --- the rest --- */
/* Appends a topic of that pool: queue_list() wants one, and every one leads to the queues
 * of the pool. */
void lmstfy_any_topic(struct buf *out, struct slice pool);
void lmstfy_about_version(struct lmstfy_call *call);
void lmstfy_about_pools(struct lmstfy_call *call);
void lmstfy_about_info(struct lmstfy_call *call);
void lmstfy_accesslog_get(struct lmstfy_call *call);
void lmstfy_accesslog_set(struct lmstfy_call *call);

/* --- statistics --- */
void lmstfy_metrics_start(struct lmstfy *l);
/* Nothing is asked of Redis any more; what is under way ends by itself. */
void lmstfy_metrics_stop(struct lmstfy *l);
void lmstfy_metrics_free(struct lmstfy *l);
void lmstfy_metrics_get(struct lmstfy_call *call);
void lmstfy_count_refused(struct lmstfy *l, struct slice pool, struct slice ns,
                          struct slice token, enum lmstfy_action action);

#endif
