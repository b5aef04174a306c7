/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin_jobs.c - the jobs of a route, a page at a time; one of them run now, or moved to
 * another time.
 */
#include "bridge/admin/admin.h"
#include "bridge/admin/job_list.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/bridge.h"
#include "bridge/http/http_args.h"
#include "bridge/http/httpd.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PAGE_DEFAULT = 100 };

static const char *const states[] = {[JOB_LIST_WAITING] = "waiting",
                                     [JOB_LIST_IN_FLIGHT] = "in-flight",
                                     [JOB_LIST_HELD] = "held",
                                     NULL};

/* --------------------------------------------------------------------- the list */

struct listing {
    struct httpd_req *req;
    enum job_list_what what;
};

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
        httpd_add(req, "Retry-After", "1");
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
    struct listing *l = arg;
    struct buf out = {0};
    if (reply->code != JOB_LIST_OK) {
        refuse(l->req, &refusals[reply->code], reply->why);
        free(l);
        return;
    }
    buf_addf(&out, "{\"looked\":%u,\"cursor\":", reply->looked);
    text_add_json(&out, reply->cursor.n > 0 ? reply->cursor : (struct slice){NULL, 0});
    buf_add_str(&out, ",\"jobs\":[");
    for (unsigned i = 0; i < reply->count; i++) {
        buf_add_str(&out, i > 0 ? "," : "");
        add_job(&out, &reply->jobs[i], l->what);
    }
    buf_add_str(&out, "]}\n");
    httpd_answer(l->req, 200, "application/json", buf_slice(&out));
    buf_free(&out);
    free(l);
}

struct list_params {
    struct slice queue, id_prefix, cursor;
    int64_t what, from_ms, to_ms, max;
};
#define AT(field) offsetof(struct list_params, field)
static const struct http_param list_params[] = {
    {"state", HTTP_CHOICE, AT(what), .from = FROM_QUERY, .def = JOB_LIST_WAITING,
     .choices = states},
    {"queue", HTTP_TEXT, AT(queue), .from = FROM_QUERY},
    {"from", HTTP_WHEN, AT(from_ms), .from = FROM_QUERY},
    {"to", HTTP_WHEN, AT(to_ms), .from = FROM_QUERY},
    {"id_prefix", HTTP_TEXT, AT(id_prefix), .from = FROM_QUERY},
    {"cursor", HTTP_TEXT, AT(cursor), .from = FROM_QUERY},
    {"max", HTTP_INT, AT(max), .from = FROM_QUERY, .def = PAGE_DEFAULT, .min = 1,
     .max = JOB_LIST_MAX},
    {0}};
#undef AT

/* What a script's unset variable leaves empty must not mean any. */
static int check_given(const char *name, struct slice value, struct err *err)
{
    if (value.p && value.n == 0)
        return err_set(err, "%s is empty; leave it out instead", name);
    return 0;
}

static int read_list(const struct httpd_req *req, struct list_params *p, struct err *err)
{
    if (http_params_read(req, list_params, p, err) < 0 ||
        check_given("queue", p->queue, err) < 0 ||
        check_given("id_prefix", p->id_prefix, err) < 0)
        return -1;
    return check_given("cursor", p->cursor, err);
}

static void list(void *arg, struct httpd_req *req)
{
    struct bridge *bridge = arg;
    struct list_params p;
    struct err err;
    if (read_list(req, &p, &err) < 0) {
        httpd_error(req, 400, "bad-request", "%s", err.text);
        return;
    }
    const struct job_list_query q = {.what = (enum job_list_what)p.what,
                                     .queue = p.queue,
                                     .id_prefix = p.id_prefix,
                                     .from_ms = p.from_ms,
                                     .to_ms = p.to_ms,
                                     .max = (unsigned)p.max,
                                     .cursor = p.cursor};
    struct listing *l = mem_alloc(sizeof(*l));
    *l = (struct listing){req, q.what};
    job_list(bridge, httpd_segment(req, 0), &q, on_listed, l);
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

static void on_moved(void *arg, enum job_move_code code, int64_t due_ms)
{
    struct httpd_req *req = arg;
    struct buf out = {0};
    if (move_refusals[code].word) {
        refuse(req, &move_refusals[code], move_refusals[code].why);
        return;
    }
    buf_add_str(&out, "{");
    text_add_json_id(&out, httpd_segment(req, 1));
    buf_addf(&out, ",\"due_ms\":%" PRId64 ",\"held\":%s}\n", due_ms,
             code == JOB_MOVE_HELD ? "true" : "false");
    httpd_answer(req, 200, "application/json", buf_slice(&out));
    buf_free(&out);
}

struct move_params {
    struct slice queue;
    int64_t at_ms, after_ms;
};
enum { NOT_GIVEN = -1 };
#define AT(field) offsetof(struct move_params, field)
#define QUEUE                                                                            \
    {                                                                                    \
        "queue", HTTP_TEXT, AT(queue), .from = FROM_QUERY                                \
    }
static const struct http_param now_params[] = {QUEUE, {0}};
static const struct http_param move_params[] = {
    QUEUE,
    {"at", HTTP_WHEN, AT(at_ms), .from = FROM_QUERY, .def = NOT_GIVEN},
    {"after", HTTP_MS, AT(after_ms), .from = FROM_QUERY, .def = NOT_GIVEN,
     .max = WHEN_LAST_MS},
    {0}};
#undef AT
#undef QUEUE

static void move_to(struct bridge *bridge, struct httpd_req *req,
                    const struct move_params *p)
{
    const struct job_move how = {.queue = p->queue,
                                 .id = httpd_segment(req, 1),
                                 .at_ms = p->at_ms,
                                 .after_ms = p->after_ms};
    job_move(bridge, httpd_segment(req, 0), &how, on_moved, req);
}

static bool read_move(struct httpd_req *req, const struct http_param *from,
                      struct move_params *p)
{
    struct err err;
    if (http_params_read(req, from, p, &err) == 0 &&
        check_given("queue", p->queue, &err) == 0)
        return true;
    httpd_error(req, 400, "bad-request", "%s", err.text);
    return false;
}

static void now(void *arg, struct httpd_req *req)
{
    struct move_params p = {0};
    if (read_move(req, now_params, &p))
        move_to(arg, req, &p);
}

static void move(void *arg, struct httpd_req *req)
{
    struct move_params p = {0};
    if (!read_move(req, move_params, &p))
        return;
    if ((p.at_ms == NOT_GIVEN) == (p.after_ms == NOT_GIVEN)) {
        httpd_error(req, 400, "bad-request",
                    "say either at=INSTANT or after=DURATION, such as after=30m");
        return;
    }
    if (p.at_ms == 0) /* of 1970: it is due, as after no time at all */
        p.after_ms = 0;
    p.at_ms = p.at_ms == NOT_GIVEN ? 0 : p.at_ms;
    move_to(arg, req, &p);
}

static const struct httpd_route rows[] = {
    {"GET", "/v1/admin/routes/{}/jobs", list, HTTPD_ADMIN, NULL},
    {"POST", "/v1/admin/routes/{}/jobs/{}/now", now, HTTPD_ADMIN, NULL},
    {"POST", "/v1/admin/routes/{}/jobs/{}/move", move, HTTPD_ADMIN, NULL},
    {0},
};

void admin_jobs_serve(struct bridge *bridge)
{
    httpd_serve(bridge->httpd, rows, bridge);
}
