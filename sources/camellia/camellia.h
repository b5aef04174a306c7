/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia.h - the camellia source: its state, the calls of its API, and the functions
 * its files share.
 *
 * A call is a request about messages, with its parameters. It exists until one of the
 * functions below answers it.
 */
#ifndef SOURCES_CAMELLIA_CAMELLIA_H
#define SOURCES_CAMELLIA_CAMELLIA_H

#include "bridge/base/text.h"
#include "bridge/http/http_api.h"
#include "sources/camellia/camellia_stats.h"

#define CAMELLIA_JSON "application/json"
#define CAMELLIA_PLAIN_TEXT "text/plain;charset=UTF-8"

enum { CAMELLIA_TOPIC_MAX = 1000 };

struct camellia {
    struct http_api api;
    int64_t ttl_ms, max_retry, ack_timeout_ms, poll_timeout_ms, polls_max,
        monitor_interval_ms;
    struct camellia_stats stats;
    struct timer *window; /* timer that ends a window of the statistics */
    /* camellia_survey() */
    bool surveying;
    int64_t survey_from_ms;                /* start of the window in which it began */
    STAILQ_HEAD(, camellia_query) queries; /* that wait for it, or for patience */
    struct timer *patience;                /* NULL: stopped */
    int64_t started_ms;                    /* wall clock */
    int64_t last_call_ms;                  /* monotonic */
    bool offline; /* set by an operator; only reported, calls are still served */
};

/* --- camellia_answer.c: a message as JSON, in the two formats of the original API. In
 * all calls except the long poll: fields in declaration order, encoded as by Jackson; in
 * the long poll: sorted by name, as by fastjson. Pure. --- */

enum camellia_status { /* of a message, with the numbers used in the API */
                       CAMELLIA_WAITING = 1,
                       CAMELLIA_READY = 2,
                       CAMELLIA_CONSUMING = 3,
                       CAMELLIA_ACKED = 4,
                       CAMELLIA_EXPIRED = 5, /* never delivered */
                       CAMELLIA_OUT_OF_RETRIES = 6,
                       CAMELLIA_DELETED = 7
};

struct camellia_msg {
    struct slice topic, id, msg;
    int64_t produce_ms, trigger_ms, expire_ms, max_retry, retry, status;
};

void camellia_add_msg(struct buf *out, const struct camellia_msg *m, bool sorted);
/* Appends x, always with a fraction: 357.0. */
void camellia_add_real(struct buf *out, double x);
/* Appends s with invalid UTF-8 replaced by U+FFFD, so that an id stays the same in later
 * answers.
 */
void camellia_add_repaired(struct buf *out, struct slice s);

/* --- camellia.c --- */
struct camellia_call;
struct camellia_op { /* one call of the API */
    const char *name;
    struct http_args args; /* parse a struct camellia_call */
    void (*run)(struct camellia_call *call);
    const char *failed; /* text after the code in an answer of failure */
    bool polls;         /* long poll: waits, and is answered as text/plain with sorted
                         * fields */
};
struct camellia_call {
    struct camellia *c;
    struct httpd_req *req;
    const struct camellia_op *op;
    /* parameters */
    struct slice topic, id, msg;
    int64_t delay_ms, ttl_ms, max_retry, lease_ms, batch, poll_ms, ack, release;
    /* state while it runs */
    bool again; /* a send: this is its second attempt */
    struct camellia_msg sent;
    char new_id[TEXT_UUID_SIZE];
    struct http_poll poll;
    struct camellia_topic *poller; /* topic whose polls counts this call; NULL: none */
    struct buf list;               /* JSON of the pulled messages */
};
extern const struct http_dialect camellia_dialect;

/* --- camellia_answer.c: each function answers and frees the call --- */
void camellia_answer(struct camellia_call *call, struct slice json);
void camellia_failed(struct camellia_call *call, int code); /* 400, 404, 500 */
/* {"code":200,"msg":"success"} */
void camellia_succeeded(struct camellia_call *call);
/* {"code":200,"msg":"success","delayMsg":{...}} */
void camellia_show(struct camellia_call *call, const struct camellia_msg *m);
/* Answers with an HTTP error instead of an API answer. A 400 closes the connection. */
void camellia_error(struct httpd_req *req, unsigned status);
/* Returns whether the Accept header contains this type. */
bool camellia_accepts(const struct httpd_req *req, const char *type);

/* --- camellia_message.c: the calls --- */
void camellia_send(struct camellia_call *call);
void camellia_ack(struct camellia_call *call);
void camellia_get(struct camellia_call *call);
void camellia_delete(struct camellia_call *call);
void camellia_pull(struct camellia_call *call); /* and the long poll */
/* Fills m with a found job as consumers see it. topic: the name that consumers use. */
void camellia_msg_of(const struct camellia *c, struct slice topic,
                     const struct queue_job *found, struct camellia_msg *m);

/* --- camellia_info.c, camellia_metrics.c: for operators --- */
enum { CAMELLIA_SPANS = 9, CAMELLIA_SHOWN_MAX = 1000 };
struct camellia_info {
    struct slice topic;
    int64_t waiting, ready, acking;
    int64_t span[CAMELLIA_SPANS]; /* waiting messages by remaining time */
    int64_t ready_last;      /* ready messages that became ready in the last statistics
                              * window */
    struct camellia_gap age; /* age of ready messages since they became ready */
};

/* A request of an operator. camellia_query_answer() frees it. infos is borrowed; NULL:
 * Redis did not answer. */
struct camellia_query;
typedef void camellia_survey_cb(struct camellia_query *query,
                                const struct camellia_info *infos, size_t n);
struct camellia_query {
    struct camellia *c;
    struct httpd_req *req;
    struct slice topic; /* parameter */
    camellia_survey_cb *cb;
    STAILQ_ENTRY(camellia_query) link;
};
extern const struct http_args camellia_query_args, camellia_topic_args;
struct camellia_query *camellia_query(struct camellia *c, struct httpd_req *req);
/* Answers and frees query. text NULL: HTTP 500, since Redis is unavailable. */
void camellia_query_answer(struct camellia_query *query, const char *type,
                           const struct buf *text);
/* Queries the CAMELLIA_SHOWN_MAX most recently used topics. Concurrent requests share the
 * answer. Adds messages that are not pulled yet to the statistics. Calls cb once. */
void camellia_survey(struct camellia_query *query, camellia_survey_cb *cb);
/* Answers the waiting queries without data. Later ones wait for the same survey. arg:
 * struct camellia. */
void camellia_survey_late(void *arg);

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
