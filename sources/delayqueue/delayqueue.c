/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue.c - the delayqueue source: the HTTP API of delay-queue
 * (github.com/ouqiang/delay-queue) on its own listener.
 *
 * An id is unique across all topics. Every answer has status 200; its body contains a
 * code. A push is answered after Redis has stored the job.
 */
#include "bridge/base/text.h"
#include "sources/delayqueue/delayqueue.h"

struct delayqueue {
    struct http_api api;
    int64_t pop_timeout_ms; /* an option */
};

/* --------------------------------------------------------------------- parameters */

enum { TTR_MAX_S = 86400 };
#define DELAY_MAX_S (INT64_C(1) << 31)

_Static_assert((int)DELAYQUEUE_ID_MAX <= (int)JOB_ID_MAX &&
                   (int)DELAYQUEUE_TOPIC_MAX < (int)JOB_TOPIC_MAX,
               "an id and a topic of this API fit into a job");

static bool is_space(uint32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Returns the bytes of the white-space character at the start or end of s; 0: none. */
static size_t space_bytes(struct slice s, bool at_end)
{
    uint32_t c;
    size_t n = 1;
    if (s.n == 0)
        return 0;
    while (at_end && n < s.n && ((unsigned char)s.p[s.n - n] & 0xc0) == 0x80)
        n++;
    n = text_character(at_end ? (struct slice){s.p + s.n - n, n} : s, &c);
    return n > 0 && is_space(c) ? n : 0;
}

struct slice delayqueue_trim(struct slice s)
{
    for (size_t n; (n = space_bytes(s, false)) > 0;)
        s = (struct slice){s.p + n, s.n - n};
    for (size_t n; (n = space_bytes(s, true)) > 0;)
        s.n -= n;
    return s;
}

static int set_text(const struct http_param *row, struct slice value, void *field,
                    struct err *err)
{
    (void)row, (void)err;
    *(struct slice *)field = delayqueue_trim(value);
    return 0;
}

static const char id_empty[] = "job id不能为空";

#define AT(field) offsetof(struct delayqueue_ask, field)
/* In the order of the original's checks. */
static const struct http_param push_params[] = {
    {"id", HTTP_TEXT, AT(id), .from = FROM_JSON, .min = 1, .wrong = id_empty},
    {"topic", HTTP_TEXT, AT(topic), .from = FROM_JSON, .min = 1,
     .wrong = "topic 不能为空"}, /* with a blank: clients compare */
    {"delay", HTTP_INT, AT(delay_s), .from = FROM_JSON, .min = 1, .max = DELAY_MAX_S,
     .wrong = "delay 取值范围1 - (2^31 - 1)"},
    {"ttr", HTTP_INT, AT(ttr_s), .from = FROM_JSON, .min = 1, .max = TTR_MAX_S,
     .wrong = "ttr 取值范围1 - 86400"},
    {"body", HTTP_TEXT, AT(body), .from = FROM_JSON},
    {0}};
static const struct http_param pop_params[] = {{"topic", HTTP_TEXT, AT(topic),
                                                .from = FROM_JSON, .min = 1,
                                                .wrong = "topic不能为空"},
                                               {0}};
static const struct http_param id_params[] = {
    {"id", HTTP_TEXT, AT(id), .from = FROM_JSON, .min = 1, .wrong = id_empty}, {0}};
#undef AT

/* Rejects values that the original accepts but a job cannot contain. */
static int check_id(const void *args, struct err *err)
{
    const struct delayqueue_ask *ask = args;
    if (ask->id.n > DELAYQUEUE_ID_MAX)
        return err_set(err, "the id is longer than %d bytes", DELAYQUEUE_ID_MAX);
    return 0;
}

static int check_topic(struct slice topic, struct err *err)
{
    if (topic.n > DELAYQUEUE_TOPIC_MAX)
        return err_set(err, "a topic is longer than %d bytes", DELAYQUEUE_TOPIC_MAX);
    return 0;
}

static int check_push(const void *args, struct err *err)
{
    const struct delayqueue_ask *ask = args;
    if (check_id(args, err) < 0 || check_topic(ask->topic, err) < 0)
        return -1;
    if (memchr(ask->topic.p, ',', ask->topic.n))
        return err_set(err,
                       "the topic contains a comma, which /pop uses to separate topics");
    return 0;
}

static int check_pop(const void *args, struct err *err)
{
    const struct delayqueue_ask *ask = args;
    struct slice rest = ask->topic;
    for (unsigned n = 0; rest.p; n++) {
        if (n == DELAYQUEUE_TOPICS_MAX)
            return err_set(err, "a pop may contain at most %d topics",
                           DELAYQUEUE_TOPICS_MAX);
        if (check_topic(delayqueue_trim(text_cut(&rest, ',')), err) < 0)
            return -1;
    }
    return 0;
}

const struct http_args delayqueue_push_args = {sizeof(struct delayqueue_ask), push_params,
                                               check_push, true};
const struct http_args delayqueue_pop_args = {sizeof(struct delayqueue_ask), pop_params,
                                              check_pop, true};
const struct http_args delayqueue_id_args = {sizeof(struct delayqueue_ask), id_params,
                                             check_id, true};

unsigned delayqueue_split(struct slice topic, struct slice *topics)
{
    unsigned n = 0;
    while (topic.p && n < DELAYQUEUE_TOPICS_MAX) {
        topics[n] = delayqueue_trim(text_cut(&topic, ','));
        n += topics[n].n > 0;
    }
    return n;
}

/* ------------------------------------------------------------------------ answers */

static const char text_type[] = "text/plain; charset=utf-8";
static const char done[] = "操作成功";

static void answer(struct httpd_req *req, int code, const char *message,
                   struct slice data)
{
    struct buf json = {0};
    buf_addf(&json, "{\"code\":%d,\"message\":", code);
    text_add_json_go(&json, slice_of(message));
    buf_add_str(&json, ",\"data\":");
    buf_add_slice(&json, data.p ? data : SLICE_LIT("null"));
    buf_add_str(&json, "}");
    httpd_answer(req, 200, text_type, buf_slice(&json));
    buf_free(&json);
}

static void ok(struct httpd_req *req, const char *message, struct slice data)
{
    answer(req, 0, message, data);
}

static void error(struct httpd_req *req, const char *message)
{
    answer(req, 1, message, (struct slice){NULL, 0});
}

static void trouble(struct httpd_req *req, enum queue_code code)
{
    error(
        req,
        code == QUEUE_NO_ROUTE
            ? "no route accepts this topic, or its queue sink does not have global_ids = "
              "true; check the configuration"
            : "Redis did not answer, so the outcome is unknown; send the request again");
}

static void not_found(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_add(req, "X-Content-Type-Options", "nosniff");
    httpd_answer(req, 404, text_type, SLICE_LIT("404 page not found\n"));
}

/* Answers a malformed request. A malformed path does not belong to the API, in which
 * every answer has status 200. */
static void refuse(void *arg, struct httpd_req *req, unsigned status, const char *word,
                   const char *why)
{
    (void)arg, (void)status;
    if (strcmp(word, "bad-path") == 0)
        httpd_answer(req, 400, text_type, SLICE_LIT("400 Bad Request"));
    else
        error(req, why);
}

const struct http_dialect delayqueue_dialect = {
    .refuse = refuse,
    .set = {[HTTP_TEXT] = set_text},
    .bad_body = "解析json失败",
};

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct httpd_req *req = arg;
    if (reply->outcome == STORED || reply->outcome == STORED_ALREADY)
        ok(req, "添加成功", (struct slice){NULL, 0});
    else
        error(req, reply->why);
}

static void push(void *arg, struct httpd_req *req)
{
    struct delayqueue *dq = arg;
    const struct delayqueue_ask *ask = httpd_args(req);
    if (dq->api.paused) {
        error(req, "Redis is unavailable or full: tarry cannot store jobs now");
        return;
    }
    struct job *job = job_new(ask->body.n + ask->id.n + ask->topic.n);
    job->id = job_copy_slice(job, ask->id);
    job->topic = job_copy_slice(job, ask->topic);
    job->payload = job_copy_slice(job, ask->body);
    job->timed = true;
    job->replace = true;
    job->due_ms = source_now_ms(dq->api.src, job->topic) + ask->delay_s * 1000;
    job->lease_ms = ask->ttr_s * 1000;
    source_submit(dq->api.src, job, on_stored, req);
}

/* An unknown job counts as finished. */
static void on_finished(void *arg, enum queue_code code, enum queue_state was)
{
    struct httpd_req *req = arg;
    (void)was;
    if (code == QUEUE_AWAY || code == QUEUE_NO_ROUTE)
        trouble(req, code);
    else
        ok(req, done, (struct slice){NULL, 0});
}

/* The end only shows in the statistics. */
static void finish(void *arg, struct httpd_req *req)
{
    struct delayqueue *dq = arg;
    const struct delayqueue_ask *ask = httpd_args(req);
    bool deletes = strcmp(httpd_route_of(req)->path, "/delete") == 0;
    const struct queue_finish how = {.end =
                                         deletes ? QUEUE_END_DELETED : QUEUE_END_ACKED};
    queue_finish(dq->api.src, (struct slice){NULL, 0}, ask->id, &how, on_finished, req);
}

static void add_job(struct buf *out, const struct queue_job *found)
{
    const struct job *job = found->job;
    buf_add_str(out, "{\"topic\":");
    text_add_json_go(out, job->topic);
    buf_add_str(out, ",\"id\":");
    text_add_json_go(out, found->id);
    buf_addf(out, ",\"delay\":%lld,\"ttr\":%lld,\"body\":", (long long)job->due_ms / 1000,
             (long long)job->lease_ms / 1000);
    text_add_json_go(out, job->payload);
    buf_add_str(out, "}");
}

static void on_found(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct httpd_req *req = arg;
    if (code == QUEUE_AWAY || code == QUEUE_NO_ROUTE) {
        trouble(req, code);
    } else if (found == NULL || found->state == QUEUE_ENDED) {
        ok(req, done, (struct slice){NULL, 0});
    } else if (found->job == NULL) {
        error(req, "the record of this job is not readable");
    } else {
        struct buf data = {0};
        add_job(&data, found);
        ok(req, done, buf_slice(&data));
        buf_free(&data);
    }
}

static void get(void *arg, struct httpd_req *req)
{
    struct delayqueue *dq = arg;
    const struct delayqueue_ask *ask = httpd_args(req);
    queue_find(dq->api.src, (struct slice){NULL, 0}, ask->id, on_found, req);
}

static void answer_job(struct httpd_req *req, const struct queue_job *found)
{
    struct buf data = {0};
    if (found->job ==
        NULL) { /* it becomes available again after the lease, until it is deleted */
        buf_addf(&data, "the record of job %.*s is not readable", SLICE_ARG(found->id));
        error(req, buf_str(&data));
        buf_free(&data);
        return;
    }
    buf_add_str(&data, "{\"id\":");
    text_add_json_go(&data, found->id);
    buf_add_str(&data, ",\"body\":");
    text_add_json_go(&data, found->job->payload);
    buf_add_str(&data, "}");
    ok(req, done, buf_slice(&data));
    buf_free(&data);
}

static void on_pulled(void *arg, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    if (code == QUEUE_OK && n > 0)
        answer_job(arg, &jobs[0]);
    else if (code == QUEUE_OK || code == QUEUE_NONE)
        ok(arg, done, (struct slice){NULL, 0});
    else
        trouble(arg, code);
}

/* Returns the first job of the topics, or none after pop_timeout. */
static void pop(void *arg, struct httpd_req *req)
{
    struct delayqueue *dq = arg;
    struct delayqueue_ask *ask = httpd_args(req);
    struct slice topics[DELAYQUEUE_TOPICS_MAX];
    const struct queue_ask pull = {.topics = topics,
                                   .topic_count = delayqueue_split(ask->topic, topics),
                                   .max = 1,
                                   .wait_ms = dq->pop_timeout_ms};
    http_poll_start(&ask->poll, &dq->api, req, &pull, on_pulled, req);
}

static const struct httpd_route rows[] = {
    {"*", "/push", push, HTTPD_OPEN, &delayqueue_push_args},
    {"*", "/pop", pop, HTTPD_OPEN, &delayqueue_pop_args},
    {"*", "/delete", finish, HTTPD_OPEN, &delayqueue_id_args},
    {"*", "/finish", finish, HTTPD_OPEN, &delayqueue_id_args},
    {"*", "/get", get, HTTPD_OPEN, &delayqueue_id_args},
    {"*", "/{*}", not_found, HTTPD_OPEN, NULL},
    {0},
};

static int start(struct source *src, void *self, struct err *err)
{
    return http_api_start(src, self, rows, &delayqueue_dialect, err);
}

static const struct opt opts[] = {
    HTTPD_ROWS(struct delayqueue, api.opts, "127.0.0.1:9277", "16MiB"),
    {"pop_timeout", OPT_MS, offsetof(struct delayqueue, pop_timeout_ms), "178s",
     .help =
         "How long a /pop waits for a job; must be shorter than the clients' timeout.",
     .min = 10, .max = 86400000},
    {0},
};

const struct source_ops source_delayqueue = {
    .name = "delayqueue",
    .help = "Serves the HTTP API of delay-queue: push, pop, finish, delete, get.",
    .size = sizeof(struct delayqueue),
    .opts = opts,
    .answers = true,
    .awaits = true,
    .pulls_by_topic = true,
    .check = http_api_check,
    .warn = http_api_warn,
    .start = start,
    .pause = http_api_pause,
    .stop = http_api_stop,
    .import = delayqueue_import,
};
