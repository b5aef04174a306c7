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

#include "bridge/base/hash.h"
#include "bridge/base/text.h"
#include "bridge/http/http_api.h"

#define CAMELLIA_JSON "application/json"
#define CAMELLIA_PLAIN_TEXT "text/plain;charset=UTF-8"

enum { CAMELLIA_TOPIC_MAX = 1000 };

/* --- camellia_stats.c: counts calls and deliveries by topic in windows of equal length:
 * the running window and the last complete one. This process only. A topic without a call
 * in a whole window is dropped. Above a limit of topics, new topics are not counted. ---
 */

enum camellia_count {
    CAMELLIA_N_SEND,
    CAMELLIA_N_PULL, /* messages, not calls */
    CAMELLIA_N_DELETE,
    CAMELLIA_N_ACK,
    CAMELLIA_N_GET,
    CAMELLIA_N_READY,   /* became ready: due, sent without a delay, or released */
    CAMELLIA_N_END,     /* expired, or out of retries */
    CAMELLIA_N_TIMEOUT, /* not acknowledged in time */
    CAMELLIA_COUNTS
};
extern const char *const camellia_count_names[CAMELLIA_COUNTS];

struct camellia_gap {
    int64_t count, sum_ms, max_ms;
};
struct camellia_window {
    int64_t counts[CAMELLIA_COUNTS];
    struct camellia_gap pull;  /* ms from the trigger time to the pull */
    struct camellia_gap ready; /* ms from ready to the pull */
};
struct camellia_topic {
    UT_hash_handle hh;
    struct slice name; /* points to bytes */
    unsigned polls;    /* polls waiting now; while > 0 the topic is not dropped */
    struct camellia_window now, last;
    /* From the last survey: messages that are ready but not pulled. */
    int64_t unpulled_last;        /* those that became ready in the last window */
    struct camellia_gap unpulled; /* all of them, ms since they became ready */
    char bytes[];                 /* of the name */
};
struct camellia_stats { /* all zeros: valid and empty */
    int64_t from_ms,
        last_from_ms; /* start of the windows now and last, ms on Redis' clock; 0: none */
    struct camellia_topic *topics; /* by name */
};

/* Finds or adds a topic. Valid until camellia_stats_next_window(), and as long as polls >
 * 0. NULL: too many topics. */
struct camellia_topic *camellia_topic(struct camellia_stats *s, struct slice name);
/* Decrements polls after a poll. Frees a topic that existed only for its polls. */
void camellia_poll_ended(struct camellia_stats *s, struct camellia_topic *t);
/* Counts a call without a result, but only if the topic is known: invented names must not
 * fill the memory. */
void camellia_count_miss(struct camellia_stats *s, struct slice topic,
                         enum camellia_count what);
void camellia_count_calls(struct camellia_stats *s, struct slice topic,
                          enum camellia_count what, int64_t n);
/* Records a pull of a message that was ready since ready_ms. Times in ms since 1970. */
void camellia_count_pull(const struct camellia_stats *s, struct camellia_topic *t,
                         int64_t ready_ms, int64_t now_ms);
/* Returns the last window, including messages that are ready but not pulled. */
struct camellia_window camellia_last(const struct camellia_topic *t);
bool camellia_is_empty(const struct camellia_window *w);
/* Clears the results of surveys. */
void camellia_clear_unpulled(struct camellia_stats *s);
void camellia_gap_add(struct camellia_gap *g, int64_t gap_ms);
double camellia_gap_avg(const struct camellia_gap *g);
/* Completes the running window and starts a new one. */
void camellia_stats_next_window(struct camellia_stats *s, int64_t now_ms);
void camellia_stats_free(struct camellia_stats *s);

/* --- the source --- */

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
/* Returns the number of waiting messages by remaining time. counts: with the limits of
 * camellia_info.c. */
int64_t camellia_span(const struct queue_counts *counts, unsigned i);

/* A request of an operator. camellia_query_answer() frees it. */
struct camellia_query {
    struct camellia *c;
    struct httpd_req *req;
    struct slice topic; /* parameter */
    queue_survey_cb *cb;
    STAILQ_ENTRY(camellia_query) link;
};
extern const struct http_args camellia_query_args, camellia_topic_args;
struct camellia_query *camellia_query(struct camellia *c, struct httpd_req *req);
/* Answers and frees query. text NULL: HTTP 500, since Redis is unavailable. */
void camellia_query_answer(struct camellia_query *query, const char *type,
                           const struct buf *text);
/* Queries the CAMELLIA_SHOWN_MAX most recently used topics. Concurrent requests share the
 * answer. Adds messages that are not pulled yet to the statistics. Calls cb once, with
 * query as arg. */
void camellia_survey(struct camellia_query *query, queue_survey_cb *cb);
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
