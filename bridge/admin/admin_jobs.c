/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin_jobs.c - the jobs of a route, a page at a time; one of them run now, or moved to
 * another time.
 */
#include "bridge/admin/admin.h"
#include "bridge/admin/job_list.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/engine/bridge.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PAGE_DEFAULT = 100 };

static const char *const states[] = {[JOB_LIST_WAITING] = "waiting",
                                     [JOB_LIST_IN_FLIGHT] = "in-flight",
                                     [JOB_LIST_HELD] = "held",
                                     NULL};

/* --------------------------------------------------------------------- the list */

struct list_args {
    struct slice route, queue, id_prefix, cursor;
    int64_t what, from_ms, to_ms, max;
};
/* What a script's unset variable leaves empty must not mean any. */
#define GIVEN(text, field)                                                               \
    {                                                                                    \
        text, HTTP_TEXT, AT(field), .from = FROM_QUERY, .min = 1,                        \
                                    .wrong = text " is empty; leave it out instead"      \
    }
#define AT(field) offsetof(struct list_args, field)
static const struct http_param list_params[] = {
    ADMIN_PATH_ROW("route", AT(route)),
    {"state", HTTP_CHOICE, AT(what), .from = FROM_QUERY, .choices = states},
    GIVEN("queue", queue),
    {"from", HTTP_WHEN, AT(from_ms), .from = FROM_QUERY},
    {"to", HTTP_WHEN, AT(to_ms), .from = FROM_QUERY},
    GIVEN("id_prefix", id_prefix),
    GIVEN("cursor", cursor),
    {"max", HTTP_INT, AT(max), .from = FROM_QUERY, .def = PAGE_DEFAULT, .min = 1,
     .max = JOB_LIST_MAX},
    {0}};
#undef AT

static void add_job(struct buf *out, const struct job_listed *listed,
                    enum job_list_what what)
{
    const struct job *job = listed->job;
    bool flies = what == JOB_LIST_IN_FLIGHT;
    buf_add_str(out, "{");
    text_add_json_id(out, listed->id);
    buf_addf(out, ",\"state\":\"%s\",\"due_ms\":", states[what]);
    if (!flies || job)
        buf_addf(out, "%" PRId64, flies ? job->due_ms : listed->at_ms);
    else
        buf_add_str(out, "null");
    if (flies)
        buf_addf(out, ",\"lease_ends_ms\":%" PRId64, listed->at_ms);
    buf_addf(out, ",\"attempts\":%u,\"last_error\":", listed->tries.attempts);
    text_add_json(out, slice_of(listed->tries.error));
    buf_add_str(out, ",\"target\":");
    text_add_json(out, job ? job->target : (struct slice){NULL, 0});
    text_add_json_bytes(out, "key", job ? job->key : (struct slice){NULL, 0});
    buf_add_str(out, ",\"source\":");
    text_add_json(out, job ? job->source : (struct slice){NULL, 0});
    buf_addf(out, ",\"bytes\":%zu,\"far\":%s,\"named\":%s%s}", listed->bytes,
             listed->far ? "true" : "false", listed->named ? "true" : "false",
             job ? "" : ",\"unreadable\":true");
}

/* What is no success. word NULL: it is one. */
struct refusal {
    unsigned status;
    const char *word, *why;
};

static void refuse(struct httpd_req *req, const struct refusal *with, const char *why)
{
    if (with->status == 503)
        httpd_busy(req, why);
    else
        httpd_error(req, with->status, with->word, "%s", why);
}

static void on_listed(void *arg, const struct job_list_reply *reply)
{
    static const struct refusal refusals[] = {
        [JOB_LIST_NO_ROUTE] = {404, "no-route", NULL},
        [JOB_LIST_IS_QUEUE] = {409, "is-queue", NULL},
        [JOB_LIST_NO_QUEUE] = {400, "bad-request", NULL},
        [JOB_LIST_BAD_CURSOR] = {400, "bad-request", NULL},
        [JOB_LIST_AWAY] = {503, "unavailable", NULL},
    };
    struct httpd_req *req = arg;
    const struct list_args *args = httpd_args(req);
    struct buf out = {0};
    if (reply->code != JOB_LIST_OK) {
        refuse(req, &refusals[reply->code], reply->why);
        return;
    }
    buf_addf(&out, "{\"looked\":%u,\"cursor\":", reply->looked);
    text_add_json(&out, reply->cursor.n > 0 ? reply->cursor : (struct slice){NULL, 0});
    buf_add_str(&out, ",\"jobs\":[");
    for (unsigned i = 0; i < reply->count; i++) {
        buf_add_str(&out, i > 0 ? "," : "");
        add_job(&out, &reply->jobs[i], (enum job_list_what)args->what);
    }
    buf_add_str(&out, "]}\n");
    httpd_answer_json(req, 200, &out);
}

static void list(void *arg, struct httpd_req *req)
{
    const struct list_args *args = httpd_args(req);
    const struct job_list_query q = {.what = (enum job_list_what)args->what,
                                     .queue = args->queue,
                                     .id_prefix = args->id_prefix,
                                     .from_ms = args->from_ms,
                                     .to_ms = args->to_ms,
                                     .max = (unsigned)args->max,
                                     .cursor = args->cursor};
    job_list(arg, args->route, &q, on_listed, req);
}

/* --------------------------------------------------------------------- one job */

static const struct refusal move_refusals[] = {
    [JOB_MOVE_OK] = {0, NULL, NULL},
    [JOB_MOVE_HELD] = {0, NULL, NULL},
    [JOB_MOVE_NO_ROUTE] = {404, "no-route",
                           "there is no route of that name; routes are configured under "
                           "routes: { }"},
    [JOB_MOVE_IS_QUEUE] = {409, "is-queue",
                           "the route ends at queues: name the job's with queue=NAME "
                           "(of the command line, --queue NAME)"},
    [JOB_MOVE_NO_QUEUE] = {400, "bad-request", "no queue can be called so"},
    [JOB_MOVE_NONE] = {404, "not-found",
                       "no job of that id waits there: it was delivered, cancelled or "
                       "never stored, or it is a Kafka record that is due later than "
                       "redis.horizon, which can be named when its time is near"},
    [JOB_MOVE_IN_FLIGHT] = {409, "in-flight",
                            "it is being delivered; its next attempt comes by retry of "
                            "the route"},
    [JOB_MOVE_DEAD] = {409, "dead", "it is a dead letter: replay it instead"},
    [JOB_MOVE_EXPIRES] = {409, "expires",
                          "it would expire before that, by its deliver-before or its "
                          "time to live; nothing was changed"},
    [JOB_MOVE_AWAY] = {503, "unavailable",
                       "Redis did not answer, so it is not known whether it was moved; "
                       "look at the job and ask again"},
};

struct move_args {
    struct slice route, id, queue;
    int64_t at_ms, after_ms;
};
enum { NOT_GIVEN = -1 };
#define AT(field) offsetof(struct move_args, field)
static const struct http_param now_params[] = {ADMIN_PATH_ROW("route", AT(route)),
                                               ADMIN_PATH_ROW("id", AT(id)),
                                               GIVEN("queue", queue),
                                               {0}};
static const struct http_param move_params[] = {
    ADMIN_PATH_ROW("route", AT(route)),
    ADMIN_PATH_ROW("id", AT(id)),
    GIVEN("queue", queue),
    {"at", HTTP_WHEN, AT(at_ms), .from = FROM_QUERY, .def = NOT_GIVEN},
    {"after", HTTP_MS, AT(after_ms), .from = FROM_QUERY, .def = NOT_GIVEN,
     .max = WHEN_LAST_MS},
    {0}};
#undef AT

static int check_move(const void *arguments, struct err *err)
{
    const struct move_args *args = arguments;
    if ((args->at_ms == NOT_GIVEN) == (args->after_ms == NOT_GIVEN))
        return err_set(err, "say either at=INSTANT or after=DURATION, such as after=30m");
    return 0;
}

static void on_moved(void *arg, enum job_move_code code, int64_t due_ms)
{
    struct httpd_req *req = arg;
    struct buf out = {0};
    const struct move_args *args = httpd_args(req);
    if (move_refusals[code].word) {
        refuse(req, &move_refusals[code], move_refusals[code].why);
        return;
    }
    buf_add_str(&out, "{");
    text_add_json_id(&out, args->id);
    buf_addf(&out, ",\"due_ms\":%" PRId64 ",\"held\":%s}\n", due_ms,
             code == JOB_MOVE_HELD ? "true" : "false");
    httpd_answer_json(req, 200, &out);
}

/* "now" has neither time: it is due after no time at all. */
static void move(void *arg, struct httpd_req *req)
{
    const struct move_args *args = httpd_args(req);
    const struct job_move how = {.queue = args->queue,
                                 .id = args->id,
                                 .at_ms = args->at_ms > 0 ? args->at_ms : 0,
                                 .after_ms = args->after_ms > 0 ? args->after_ms : 0};
    job_move(arg, args->route, &how, on_moved, req);
}

const struct httpd_route admin_job_rows[] = {
    {"GET", "/v1/admin/routes/{}/jobs", list, HTTPD_ADMIN,
     HTTP_ARGS(struct list_args, list_params)},
    {"POST", "/v1/admin/routes/{}/jobs/{}/now", move, HTTPD_ADMIN,
     HTTP_ARGS(struct move_args, now_params)},
    {"POST", "/v1/admin/routes/{}/jobs/{}/move", move, HTTPD_ADMIN,
     HTTP_ARGS(struct move_args, move_params, .check = check_move)},
    {0},
};
