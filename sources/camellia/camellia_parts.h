/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_parts.h - what the files of the camellia source share.
 *
 * A call is a request whose parameters have been read. It lives until it is answered, by
 * one of the functions below.
 */
#ifndef SOURCES_CAMELLIA_CAMELLIA_PARTS_H
#define SOURCES_CAMELLIA_CAMELLIA_PARTS_H

#include "bridge/http/http_args.h"
#include "bridge/plugin.h"
#include "sources/camellia/camellia_json.h"
#include "sources/camellia/camellia_param.h"
#include "sources/camellia/camellia_stats.h"

#include <sys/queue.h>

#define CAMELLIA_JSON "application/json"
#define CAMELLIA_PLAIN_TEXT "text/plain;charset=UTF-8"

enum { CAMELLIA_TOPIC_MAX = 1000, CAMELLIA_NEW_ID_BYTES = 32 };

struct camellia {
    struct httpd_opts listen;
    int64_t ttl_ms, max_retry, ack_timeout_ms, poll_timeout_ms, polls_max,
        monitor_interval_ms;
    struct source *src;
    struct httpd *httpd;
    struct camellia_stats stats;
    struct timer *window;  /* of the statistics */
    struct survey *survey; /* under way, camellia_survey(); NULL: none */
    struct timer *closing;
    LIST_HEAD(, camellia_call) held;
    struct camellia_call *spare; /* calls kept for reuse */
    unsigned spare_count;
    unsigned open; /* requests that are not answered yet */
    struct buf out;
    int64_t started_ms;        /* wall clock */
    int64_t last_call_ms;      /* monotonic */
    unsigned char random[512]; /* for new ids; random_used of it are */
    size_t random_used;
    bool paused;   /* the store takes nothing */
    bool stopping; /* stop() was called */
    bool offline;  /* as an operator said; refuses nothing */
};

struct camellia_params {
    struct camellia_text topic, id, msg;
    int64_t delay_ms, ttl_ms, max_retry, lease_ms, batch, poll_ms;
    bool ack, release;
};

struct camellia_call;
struct camellia_op {                     /* one of the message calls */
    const struct camellia_param *params; /* ends with a row of zeros */
    void (*run)(struct camellia_call *call);
    const char *failed; /* what follows the code in the answer that says no */
    bool polls;         /* is held, and answered as text/plain, fields sorted */
};

struct camellia_call {
    struct camellia *c;
    struct httpd_req *req;
    const struct camellia_op *op;
    struct camellia_params p;
    struct camellia_call *next;
    bool again; /* a send: its second attempt */
    struct camellia_msg msg;
    char new_id[CAMELLIA_NEW_ID_BYTES];
    struct pull *pull;             /* while it waits in a queue */
    struct camellia_topic *poller; /* where it counts as one who waits */
    struct timer *held;            /* or waits here, since it can't there */
    LIST_ENTRY(camellia_call) held_link;
    int64_t until_ms; /* monotonic: not to be answered empty before; 0: it may */
    int64_t left;     /* of the batch */
    struct buf list;  /* what has been pulled */
};

/* --- camellia_call.c --- */
/* Reads the parameters and runs op, or answers what is wrong. */
void camellia_begin(struct camellia *c, struct httpd_req *req,
                    const struct camellia_op *op);
/* Each answers, and the call is gone. */
void camellia_answer(struct camellia_call *call, struct slice json);
void camellia_failed(struct camellia_call *call, int code); /* 400, 404, 500 */
/* {"code":200,"msg":"success"} */
void camellia_succeeded(struct camellia_call *call);
/* {"code":200,"msg":"success","delayMsg":{...}} */
void camellia_show(struct camellia_call *call, const struct camellia_msg *m);
void camellia_call_drop_spare(struct camellia *c);
/* The message as consumers see it. topic: as they call it. */
void camellia_msg_of(const struct camellia *c, struct slice topic,
                     const struct queue_job *found, struct camellia_msg *m);

/* --- camellia_error.c: answers that are no JSON of the API, but HTTP errors --- */
/* Which types the client takes, by its Accept header. */
enum { CAMELLIA_TAKES_JSON = 1, CAMELLIA_ASKS_JSON = 2, CAMELLIA_ASKS_HTML = 4 };
unsigned camellia_accepts(const struct httpd_req *req);
/* Answers. A 400 closes the connection. */
void camellia_error(struct httpd_req *req, unsigned status);
extern const struct http_dialect camellia_dialect;
/* What is none of camellia_routes. arg: struct camellia. */
void camellia_serve_rest(void *arg, struct httpd_req *req);

/* --- camellia.c --- */
extern const struct httpd_route camellia_routes[];
/* An answer was given; perhaps the last one that stop() waited for. */
void camellia_answered(struct camellia *c);

/* --- camellia_send.c, camellia_pull.c, camellia_one.c: the message calls --- */
extern const struct camellia_op camellia_send, camellia_pull, camellia_poll, camellia_ack,
    camellia_get, camellia_delete;
/* Those who wait for nothing are answered now. */
void camellia_release_held(struct camellia *c);

/* --- camellia_info.c, camellia_monitor.c, camellia_metrics.c: for operators --- */
enum { CAMELLIA_SPANS = 9, CAMELLIA_SHOWN_MAX = 1000 };
struct camellia_info {
    struct slice topic;
    int64_t waiting, ready, acking;
    int64_t span[CAMELLIA_SPANS]; /* of the waiting: by the time that is left */
    int64_t ready_last; /* of the ready: became so in the last window of the statistics */
    struct camellia_gap age; /* since the ready ones are */
};
extern const char *const camellia_span_names[CAMELLIA_SPANS];
/* Asks for all topics. Calls back once, never before it has returned; infos is borrowed,
 * and NULL when Redis did not answer. */
typedef void camellia_survey_cb(void *arg, const struct camellia_info *infos, size_t n);
void camellia_survey_all(struct camellia *c, camellia_survey_cb *cb, void *arg);
/* The same for who looks often: of the CAMELLIA_SHOWN_MAX topics that were used last, and
 * one survey for all who ask meanwhile. Notes in the statistics what nobody has pulled.
 */
void camellia_survey(struct camellia *c, camellia_survey_cb *cb, void *arg);

void camellia_topic_info(void *arg, struct httpd_req *req);
void camellia_topic_infos(void *arg, struct httpd_req *req);
void camellia_monitor_data(void *arg, struct httpd_req *req);
void camellia_monitor_string(void *arg, struct httpd_req *req);
void camellia_metrics(void *arg, struct httpd_req *req);
void camellia_health_status(void *arg, struct httpd_req *req);
void camellia_health_check(void *arg, struct httpd_req *req);
void camellia_health_online(void *arg, struct httpd_req *req);
void camellia_health_offline(void *arg, struct httpd_req *req);

/* A request for operators, which is no call: between these two it counts as open. */
struct camellia_ask {
    struct camellia *c;
    struct httpd_req *req;
};
struct camellia_ask *camellia_ask(struct camellia *c, struct httpd_req *req);
/* Answers; text NULL: HTTP 500, since Redis is away. ask is gone. */
void camellia_tell(struct camellia_ask *ask, const char *type, const struct buf *text);

#endif
