/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia.h - the camellia source: its state, a call of its API, and what its files
 * share.
 *
 * A call is a request for a message, with its parameters. It lives with its request until
 * one of the functions below answers it.
 */
#ifndef SOURCES_CAMELLIA_CAMELLIA_H
#define SOURCES_CAMELLIA_CAMELLIA_H

#include "bridge/http/http_api.h"
#include "sources/camellia/camellia_stats.h"

#include <sys/queue.h>

#define CAMELLIA_JSON "application/json"
#define CAMELLIA_PLAIN_TEXT "text/plain;charset=UTF-8"

enum { CAMELLIA_TOPIC_MAX = 1000, CAMELLIA_NEW_ID_BYTES = 32 };

struct camellia {
    struct http_api api;
    int64_t ttl_ms, max_retry, ack_timeout_ms, poll_timeout_ms, polls_max,
        monitor_interval_ms;
    struct camellia_stats stats;
    struct timer *window;       /* of the statistics */
    struct camellia_look *look; /* under way, camellia_survey(); NULL: none */
    LIST_HEAD(, camellia_call) held;
    int64_t started_ms;   /* wall clock */
    int64_t last_call_ms; /* monotonic */
    bool offline;         /* as an operator said; refuses nothing */
};

/* --- camellia_answer.c: a message as JSON, in the two ways this API has always had.
 * PLAIN, of all calls but the long poll: fields in the order of their declaration, null
 * where there is none, characters beyond U+FFFF as pairs of escapes. SORTED, of the long
 * poll and in text/plain: by name, without nulls, more control characters escaped.
 * Parsers see no difference. Pure. --- */

enum camellia_json { CAMELLIA_PLAIN, CAMELLIA_SORTED };

enum camellia_status { /* of a message, by its numbers on the wire */
                       CAMELLIA_WAITING = 1,
                       CAMELLIA_READY = 2,
                       CAMELLIA_CONSUMING = 3,
                       CAMELLIA_ACKED = 4,
                       CAMELLIA_EXPIRED = 5, /* never delivered */
                       CAMELLIA_GIVEN_UP = 6,
                       CAMELLIA_DELETED = 7
};

struct camellia_msg {
    struct slice topic, id, msg;
    int64_t produce_ms, trigger_ms, expire_ms, max_retry, retry, status;
};

void camellia_add_msg(struct buf *out, const struct camellia_msg *m,
                      enum camellia_json how);
/* With its quotes; what is not UTF-8 becomes U+FFFD. */
void camellia_add_text(struct buf *out, struct slice s, enum camellia_json how);
/* Never without a fraction: 357.0. */
void camellia_add_real(struct buf *out, double x);
/* Appends s; what is not UTF-8 becomes U+FFFD, so that an id means the same ever after.
 */
void camellia_add_repaired(struct buf *out, struct slice s);

/* --- camellia.c --- */
struct camellia_call;
struct camellia_op { /* one of the calls */
    const char *name;
    struct http_args args; /* of a struct camellia_call */
    void (*run)(struct camellia_call *call);
    const char *failed; /* what follows the code in the answer that says no */
    bool polls;         /* is held, and answered as text/plain, fields sorted */
};
struct camellia_call {
    struct camellia *c;
    struct httpd_req *req;
    const struct camellia_op *op;
    /* parameters */
    struct slice topic, id, msg;
    int64_t delay_ms, ttl_ms, max_retry, lease_ms, batch, poll_ms, ack, release;
    /* of its run */
    bool again; /* a send: its second attempt */
    struct camellia_msg sent;
    char new_id[CAMELLIA_NEW_ID_BYTES];
    struct pull *pull;             /* while it waits in a queue */
    struct camellia_topic *poller; /* where it counts as one who waits */
    struct timer *held;            /* or waits here, since it can't there */
    LIST_ENTRY(camellia_call) held_link;
    int64_t until_ms; /* monotonic: not to be answered empty before; 0: it may */
    struct buf list;  /* what has been pulled */
};
extern const struct http_dialect camellia_dialect;

/* --- camellia_answer.c too: each answers, and the call is gone --- */
void camellia_answer(struct camellia_call *call, struct slice json);
void camellia_failed(struct camellia_call *call, int code); /* 400, 404, 500 */
/* {"code":200,"msg":"success"} */
void camellia_succeeded(struct camellia_call *call);
/* {"code":200,"msg":"success","delayMsg":{...}} */
void camellia_show(struct camellia_call *call, const struct camellia_msg *m);
/* An HTTP error in place of an answer of the API. A 400 closes the connection. */
void camellia_error(struct httpd_req *req, unsigned status);
/* Which types the client takes, by its Accept header. */
enum { CAMELLIA_TAKES_JSON = 1, CAMELLIA_ASKS_JSON = 2, CAMELLIA_ASKS_HTML = 4 };
unsigned camellia_accepts(const struct httpd_req *req);

/* --- camellia_message.c: the calls --- */
void camellia_send(struct camellia_call *call);
void camellia_ack(struct camellia_call *call);
void camellia_get(struct camellia_call *call);
void camellia_delete(struct camellia_call *call);
void camellia_pull(struct camellia_call *call); /* also a long poll */
/* The calls that wait for nothing are answered now. */
void camellia_release_held(struct camellia *c);
/* The message as consumers see it. topic: as they call it. */
void camellia_msg_of(const struct camellia *c, struct slice topic,
                     const struct queue_job *found, struct camellia_msg *m);

/* --- camellia_info.c, camellia_metrics.c: for operators --- */
enum { CAMELLIA_SPANS = 9, CAMELLIA_SHOWN_MAX = 1000 };
struct camellia_info {
    struct slice topic;
    int64_t waiting, ready, acking;
    int64_t span[CAMELLIA_SPANS]; /* of the waiting: by the time that is left */
    int64_t ready_last; /* of the ready: became so in the last window of the statistics */
    struct camellia_gap age; /* since the ready ones are */
};

/* A request of an operator; lives until camellia_tell(). */
struct camellia_ask {
    struct camellia *c;
    struct httpd_req *req;
    struct slice topic; /* parameter */
};
extern const struct http_args camellia_ask_args, camellia_topic_args;
struct camellia_ask *camellia_ask(struct camellia *c, struct httpd_req *req);
/* Answers; text NULL: HTTP 500, since Redis is away. Frees what text holds. */
void camellia_tell(struct camellia_ask *ask, const char *type, struct buf *text);
/* Asks for the CAMELLIA_SHOWN_MAX topics that were used last; all who ask meanwhile share
 * the answer. Notes in the statistics what nobody has pulled. Calls back once; infos is
 * borrowed, NULL when Redis did not answer. */
typedef void camellia_survey_cb(struct camellia_ask *ask,
                                const struct camellia_info *infos, size_t n);
void camellia_survey(struct camellia_ask *ask, camellia_survey_cb *cb);

void camellia_topic_info(void *arg, struct httpd_req *req);
void camellia_topic_infos(void *arg, struct httpd_req *req);
void camellia_monitor_data(void *arg, struct httpd_req *req);
void camellia_monitor_string(void *arg, struct httpd_req *req);
void camellia_metrics(void *arg, struct httpd_req *req);
void camellia_health(void *arg, struct httpd_req *req);

/* For source_ops.import. */
struct import;
int camellia_import(struct source *src, void *self, struct import *im, struct err *err);

#endif
