/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/http/http_source.h"

#include <inttypes.h>

enum {
    PULL_MAX = 100,  /* jobs per answer, which is built in memory */
    NAMES_MAX = 100, /* queues per pull */
    WAIT_MAX_MS = 600000,
    DEAD_LIMIT = 1000,
    DEAD_LIMIT_MAX = 10000,
    LIST_LIMIT = 1000,
    LIST_MAX = 100000
};

/* The parameters of all rows; each row sets some of them. */
struct args {
    struct slice queue, id, of;
    int64_t token, delay_ms, lease_ms, wait_ms, ttl_ms, max, limit, dead, all;
    struct pull *pull; /* while it waits */
};
#define AT(field) offsetof(struct args, field)
#define QUEUE HTTP_QUEUE_ROW(AT(queue))
#define ID                                                                               \
    {                                                                                    \
        "id", HTTP_TEXT, AT(id), .from = FROM_PATH                                       \
    }
#define TOKEN                                                                            \
    {                                                                                    \
        "token", HTTP_INT, AT(token), .from = FROM_QUERY, .min = 1, .max = INT64_MAX     \
    }
#define LEASE(needed)                                                                    \
    {                                                                                    \
        "lease", HTTP_MS, AT(lease_ms), .from = FROM_QUERY, .min = 1,                    \
                                        .max = HTTP_QUEUE_LEASE_MAX_MS,                  \
                                        .required = (needed)                             \
    }
#define LIMIT(most, usual)                                                               \
    {                                                                                    \
        "limit", HTTP_INT, AT(limit), .from = FROM_QUERY, .def = (usual), .min = 1,      \
                                      .max = (most)                                      \
    }
static const char *const parts[] = {"ready", "dead", NULL};
static const struct http_param pull_params[] = {
    {"the queues", HTTP_TEXT, AT(queue), .from = FROM_PATH},
    {"max", HTTP_INT, AT(max), .from = FROM_QUERY, .def = 1, .min = 1, .max = PULL_MAX},
    LEASE(false),
    {"wait", HTTP_MS, AT(wait_ms), .from = FROM_QUERY, .max = WAIT_MAX_MS},
    {0}};
static const struct http_param job_params[] = {QUEUE, ID, {0}};
static const struct http_param delete_params[] = {QUEUE, ID, TOKEN, {0}};
static const struct http_param release_params[] = {
    QUEUE,
    ID,
    TOKEN,
    {"delay", HTTP_MS, AT(delay_ms), .from = FROM_QUERY, .max = HTTP_QUEUE_TIME_MAX_MS},
    {0}};
static const struct http_param touch_params[] = {QUEUE, ID, TOKEN, LEASE(true), {0}};
static const struct http_param peek_params[] = {
    QUEUE, {"part", HTTP_CHOICE, AT(dead), .from = FROM_QUERY, .choices = parts}, {0}};
static const struct http_param list_params[] = {
    LIMIT(LIST_MAX, LIST_LIMIT),
    {"of", HTTP_TEXT, AT(of), .from = FROM_QUERY, .min = 1, .max = JOB_TOPIC_MAX},
    {0}};
static const struct http_param count_params[] = {QUEUE, {0}};
static const struct http_param destroy_params[] = {
    QUEUE, {"all", HTTP_BOOL, AT(all), .from = FROM_QUERY}, {0}};
static const struct http_param respawn_params[] = {
    QUEUE,
    LIMIT(DEAD_LIMIT_MAX, DEAD_LIMIT),
    {"ttl", HTTP_MS, AT(ttl_ms), .from = FROM_QUERY, .max = HTTP_QUEUE_TIME_MAX_MS},
    {0}};
static const struct http_param dead_params[] = {
    QUEUE, LIMIT(DEAD_LIMIT_MAX, DEAD_LIMIT), {0}};

static int check_name(struct slice name, struct err *err)
{
    if (name.n == 0 || name.n > JOB_TOPIC_MAX)
        return err_set(err, "the name of a queue must have 1 to %d bytes", JOB_TOPIC_MAX);
    return 0;
}

/* ------------------------------------------------------------------ answers */

/* Answers the request if code is an error. Returns true if it did. */
static bool failed(struct httpd_req *req, enum queue_code code)
{
    static const struct {
        unsigned status;
        const char *word, *why;
    } rows[] = {
        [QUEUE_NONE] = {404, "not-found", "no such job: it has ended, or never existed"},
        [QUEUE_REFUSED] =
            {409, "not-held",
             "the job is not in flight, or it was delivered again with another token"},
        [QUEUE_NO_ROUTE] = {404, "no-route",
                            "no route leads to this queue: routes: { } must contain a "
                            "route with from = \"http\" and a sink of type \"queue\""},
    };
    if (code == QUEUE_AWAY)
        httpd_busy(req, "Redis did not reply; send the request again");
    else if (code != QUEUE_OK)
        httpd_error(req, rows[code].status, rows[code].word, "%s", rows[code].why);
    return code != QUEUE_OK;
}

static void answer_none(struct httpd_req *req)
{
    httpd_answer(req, 204, NULL, SLICE_LIT(""));
}

/* Starts the JSON of the requested job: {"id":... */
static void begin_job(struct buf *json, const struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    buf_add_str(json, "{");
    text_add_json_id(json, a->id);
}

static void answer_number(struct httpd_req *req, enum queue_code code, const char *name,
                          int64_t n)
{
    struct buf json = {0};
    if (failed(req, code))
        return;
    buf_addf(&json, "{\"%s\":%" PRId64 "}\n", name, n);
    httpd_answer_json(req, 200, &json);
}

/* --------------------------------------------------------------------- pull */

struct slice http_queue_name(struct slice list, unsigned n)
{
    struct slice name = text_cut(&list, ',');
    while (name.p && n-- > 0)
        name = text_cut(&list, ',');
    return name;
}

static void on_pulled(void *arg, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    struct httpd_req *req = arg;
    const struct args *a = httpd_args(req);
    if (code == QUEUE_NONE) {
        answer_none(req);
        return;
    }
    if (failed(req, code))
        return;
    struct buf json = {0};
    buf_add_str(&json, "{\"jobs\":[");
    for (unsigned i = 0; i < n; i++) {
        buf_add_str(&json, i ? "," : "");
        http_queue_show_pulled(&json, http_queue_name(a->queue, jobs[i].topic), &jobs[i]);
    }
    buf_add_str(&json, "]}\n");
    httpd_answer_json(req, 200, &json);
}

/* The client has disconnected: its jobs go to the next waiter. */
static void on_gone(void *arg)
{
    const struct args *a = httpd_args(arg);
    queue_pull_end(a->pull);
    answer_none(arg);
}

/* Splits the list into names. Returns their number; -1: a name is invalid. */
static int split(struct slice list, struct slice *names, struct err *err)
{
    int n = 0;
    while (list.p) {
        if (n == NAMES_MAX)
            return err_set(err, "a pull may contain at most %d queues", NAMES_MAX);
        names[n] = text_cut(&list, ',');
        if (check_name(names[n++], err) < 0)
            return -1;
    }
    return n;
}

static void pull(void *arg, struct httpd_req *req)
{
    struct args *a = httpd_args(req);
    struct slice names[NAMES_MAX];
    struct err err;
    int n = split(a->queue, names, &err);
    if (n < 0) {
        httpd_error(req, 400, "bad-request", "%s", err.text);
        return;
    }
    a->pull = queue_pull(arg,
                         &(struct queue_ask){.topics = names,
                                             .topic_count = (unsigned)n,
                                             .max = (unsigned)a->max,
                                             .lease_ms = a->lease_ms,
                                             .wait_ms = a->wait_ms},
                         on_pulled, req);
    httpd_on_gone(req, on_gone, req);
}

/* ------------------------------------------------------------------ one job */

static void on_found(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct httpd_req *req = arg;
    const struct args *a = httpd_args(req);
    struct buf json = {0};
    if (failed(req, code))
        return;
    http_queue_show_found(&json, a->queue, found, httpd_may(req, HTTPD_CONSUME));
    buf_add_str(&json, "\n");
    httpd_answer_json(req, 200, &json);
}

static void get(void *arg, struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    queue_find(arg, a->queue, a->id, on_found, req);
}

static void on_peeked(void *arg, enum queue_code code, const struct queue_job *found)
{
    if (code == QUEUE_NONE)
        answer_none(arg);
    else
        on_found(arg, code, found);
}

static void peek(void *arg, struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    queue_peek(arg, a->queue, a->dead ? QUEUE_DEAD : QUEUE_READY, on_peeked, req);
}

/* Answers a change. was: the previous state. */
static void on_changed(void *arg, enum queue_code code, enum queue_state was)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    if (code == QUEUE_REFUSED && was == QUEUE_ENDED) {
        httpd_error(req, 409, "ended", "the job has already ended");
        return;
    }
    if (code == QUEUE_REFUSED && was != QUEUE_WAITING) {
        httpd_error(req, 409, was == QUEUE_DEAD ? "dead" : "in-flight",
                    "the job is no longer pending; deleting it needs the role consume");
        return;
    }
    if (failed(req, code))
        return;
    begin_job(&json, req);
    buf_addf(&json, ",\"was\":\"%s\"}\n", http_queue_state(was));
    httpd_answer_json(req, 200, &json);
}

static void delete_job(void *arg, struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    bool consumes = httpd_may(req, HTTPD_CONSUME);
    if (a->token && !consumes) {
        httpd_deny(req);
        return;
    }
    const struct queue_finish how = {.lease = a->token,
                                     .end =
                                         a->token ? QUEUE_END_ACKED : QUEUE_END_DELETED,
                                     .alive_only = true,
                                     .pending_only = !consumes};
    queue_finish(arg, a->queue, a->id, &how, on_changed, req);
}

static void release(void *arg, struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    queue_release(arg, a->queue, a->id, a->token, a->delay_ms, on_changed, req);
}

static void on_touched(void *arg, enum queue_code code, int64_t lease)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    if (failed(req, code))
        return;
    begin_job(&json, req);
    buf_addf(&json, ",\"token\":\"%" PRId64 "\"}\n", lease);
    httpd_answer_json(req, 200, &json);
}

static void touch(void *arg, struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    queue_touch(arg, a->queue, a->id, a->token, a->lease_ms, on_touched, req);
}

/* --------------------------------------------------------------- whole queues */

static void on_counted(void *arg, enum queue_code code, const struct queue_counts *counts)
{
    struct httpd_req *req = arg;
    const struct args *a = httpd_args(req);
    if (failed(req, code))
        return;
    struct buf json = {0};
    buf_add_str(&json, "{\"name\":");
    text_add_json(&json, a->queue);
    buf_addf(&json,
             ",\"ready\":%" PRId64 ",\"waiting\":%" PRId64 ",\"in_flight\":%" PRId64
             ",\"dead\":%" PRId64 ",\"ended\":%" PRId64,
             counts->ready, counts->waiting, counts->in_flight, counts->dead,
             counts->ended);
    http_add_when(&json, "oldest_ready", counts->oldest_ready_ms);
    buf_add_str(&json, "}\n");
    httpd_answer_json(req, 200, &json);
}

static void count(void *arg, struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    queue_count(arg, a->queue, NULL, 0, on_counted, req);
}

static void on_listed(void *arg, enum queue_code code, const struct queue_name *names,
                      unsigned n)
{
    struct httpd_req *req = arg;
    const struct args *a = httpd_args(req);
    char used[WHEN_TEXT_BYTES];
    if (failed(req, code))
        return;
    struct buf json = {0};
    unsigned shown = n < a->limit ? n : (unsigned)a->limit;
    buf_addf(&json, "{\"total\":%u,\"queues\":[", n);
    for (unsigned i = 0; i < shown; i++) { /* most recently used first */
        const struct queue_name *name = &names[n - 1 - i];
        when_format_rfc3339(name->used_ms, used);
        buf_add_str(&json, i ? ",{\"name\":" : "{\"name\":");
        text_add_json(&json, name->name);
        buf_addf(&json, ",\"used\":\"%s\"}", used);
    }
    buf_add_str(&json, "]}\n");
    httpd_answer_json(req, 200, &json);
}

static void list(void *arg, struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    queue_list(arg, a->of, on_listed, req);
}

static void on_deleted(void *arg, enum queue_code code, int64_t n)
{
    answer_number(arg, code, "deleted", n);
}

static void on_respawned(void *arg, enum queue_code code, int64_t n)
{
    answer_number(arg, code, "respawned", n);
}

static void destroy(void *arg, struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    queue_destroy(arg, a->queue, a->all, on_deleted, req);
}

static void respawn(void *arg, struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    queue_respawn(arg, a->queue, a->limit, a->ttl_ms, on_respawned, req);
}

static void drop_dead(void *arg, struct httpd_req *req)
{
    const struct args *a = httpd_args(req);
    queue_drop_dead(arg, a->queue, a->limit, on_deleted, req);
}

#define ARGS(...) HTTP_ARGS(struct args, __VA_ARGS__)
const struct httpd_route http_queue_rows[] = {
    {"POST", "/v1/queues/{}/pull", pull, HTTPD_CONSUME, ARGS(pull_params)},
    {"POST", "/v1/queues/{}/ack", http_ack, HTTPD_CONSUME, &http_ack_args},
    {"GET", "/v1/queues/{}/jobs/{}", get, HTTPD_EITHER, ARGS(job_params)},
    {"DELETE", "/v1/queues/{}/jobs/{}", delete_job, HTTPD_EITHER, ARGS(delete_params)},
    {"POST", "/v1/queues/{}/jobs/{}/release", release, HTTPD_CONSUME,
     ARGS(release_params)},
    {"POST", "/v1/queues/{}/jobs/{}/touch", touch, HTTPD_CONSUME, ARGS(touch_params)},
    {"GET", "/v1/queues/{}/peek", peek, HTTPD_CONSUME, ARGS(peek_params)},
    {"GET", "/v1/queues", list, HTTPD_CONSUME, ARGS(list_params)},
    {"GET", "/v1/queues/{}", count, HTTPD_CONSUME, ARGS(count_params)},
    {"DELETE", "/v1/queues/{}", destroy, HTTPD_ADMIN, ARGS(destroy_params)},
    {"POST", "/v1/queues/{}/dead/respawn", respawn, HTTPD_ADMIN, ARGS(respawn_params)},
    {"DELETE", "/v1/queues/{}/dead", drop_dead, HTTPD_ADMIN, ARGS(dead_params)},
    {0},
};
