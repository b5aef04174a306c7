/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job_move.c - changes the due time of a job over HTTP, in the bucket of its id.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/route.h"
#include "bridge/engine/queue_object.h"
#include "bridge/store/store.h"

#include <inttypes.h>
#include <stdlib.h>

struct move_args {
    struct slice route, id, queue;
    int64_t at_ms, after_ms;
};
enum { NOT_GIVEN = -1 };
#define AT(field) offsetof(struct move_args, field)
static const struct http_param now_params[] = {ADMIN_PATH_ROW("route", AT(route)),
                                               ADMIN_PATH_ROW("id", AT(id)),
                                               ADMIN_GIVEN_ROW("queue", AT(queue)),
                                               {0}};
static const struct http_param move_params[] = {
    ADMIN_PATH_ROW("route", AT(route)),
    ADMIN_PATH_ROW("id", AT(id)),
    ADMIN_GIVEN_ROW("queue", AT(queue)),
    {"at", HTTP_WHEN, AT(at_ms), .from = FROM_QUERY, .def = NOT_GIVEN},
    {"after", HTTP_MS, AT(after_ms), .from = FROM_QUERY, .def = NOT_GIVEN,
     .max = WHEN_LAST_MS},
    {0}};
#undef AT

static int check_move(const void *arguments, struct err *err)
{
    const struct move_args *args = arguments;
    if ((args->at_ms == NOT_GIVEN) == (args->after_ms == NOT_GIVEN))
        return err_set(err,
                       "pass either at=INSTANT or after=DURATION, such as after=30m");
    return 0;
}

struct moving {
    struct httpd_req *req;
    const struct move_args *args; /* all 0 once the listener has stopped */
    struct route *route;
    struct bucket *bucket;
    int64_t at_ms, after_ms; /* at_ms 0: after_ms after the current time */
};

static void moving_free(struct moving *m)
{
    m->route->refs--;
    free(m);
}

/* The reasons why a job cannot be moved. */
static const struct refusal {
    char look, moved; /* result codes of the two scripts; 0: not of this script */
    unsigned status;
    const char *word, *why;
} refusals[] = {
    {LOOK_NOT_THERE, MOVE_DUE_NOT_THERE, 404, "not-found",
     "no pending job has this id: it was delivered, cancelled or never stored, or it is "
     "a Kafka record due later than redis.horizon, which has no id until shortly before "
     "it is due"},
    {LOOK_IN_FLIGHT, MOVE_DUE_IN_FLIGHT, 409, "in-flight",
     "it is in flight; if the attempt fails, the retry option of the route sets the next "
     "one"},
    {LOOK_DEAD, MOVE_DUE_DEAD, 409, "dead", "it is a dead letter; replay it instead"},
    {0, MOVE_DUE_EXPIRES, 409, "expires",
     "it would expire before that time (deliver-before or time to live); nothing was "
     "changed"},
};

static const struct refusal *find_refusal(char look, char moved)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        if ((look && refusals[i].look == look) || (moved && refusals[i].moved == moved))
            return &refusals[i];
    return NULL;
}

/* Answer that the job was not moved. look, moved: the result code of one script; 0 for
 * the other. Both 0: Redis did not answer. */
static void refuse(struct moving *m, char look, char moved)
{
    const struct refusal *r = find_refusal(look, moved);
    if (r)
        httpd_error(m->req, r->status, r->word, "%s", r->why);
    else
        httpd_busy(m->req, "Redis did not reply, so it is unknown whether the job was "
                           "moved; check the job and try again");
    moving_free(m);
}

static void on_moved(void *arg, const struct store_move_due_reply *reply)
{
    struct moving *m = arg;
    struct buf out = {0};
    bool held = reply && reply->code == MOVE_DUE_HELD;
    if (!held && (reply == NULL || reply->code != MOVE_DUE_MOVED)) {
        refuse(m, 0, reply ? reply->code : 0);
        return;
    }
    buf_add_str(&out, "{");
    text_add_json_id(&out, m->args->id);
    buf_addf(&out, ",\"due_ms\":%" PRId64 ",\"held\":%s}\n", reply->due_ms,
             held ? "true" : "false");
    httpd_answer_json(m->req, 200, &out);
    moving_free(m);
}

/* Check the expiry in the record. For a queue, the script also checks the time to
 * live. */
static bool would_expire(const struct moving *m, struct slice record)
{
    struct err err;
    struct job *job = job_decode(m->args->id, record, &m->route->names, &err);
    int64_t now_ms = clock_now_ms(bucket_clock(m->bucket), loop_mono_us());
    int64_t due_ms = m->at_ms > 0 ? m->at_ms : now_ms + m->after_ms;
    bool ends = job && job->expires_ms > 0 && job->expires_ms < due_ms;
    job_free(job);
    return ends;
}

static void on_found(void *arg, const struct store_look_reply *look)
{
    struct moving *m = arg;
    char state = look ? look->state : 0;
    if (state == LOOK_ENDED)
        state = LOOK_NOT_THERE;
    if (state != LOOK_WAITS && state != LOOK_READY)
        refuse(m, state, 0);
    else if (would_expire(m, look->record))
        refuse(m, 0, MOVE_DUE_EXPIRES);
    else
        store_move_due(m->bucket, m->args->id, m->at_ms, m->after_ms, on_moved, m);
}

/* "now" sets neither time, so the job is due after 0 ms. */
static void move(void *arg, struct httpd_req *req)
{
    const struct move_args *args = httpd_args(req);
    struct route *route = admin_job_route(arg, req, args->route, args->queue);
    if (route == NULL)
        return;
    struct moving *m = mem_alloc(sizeof(*m));
    *m = (struct moving){.req = req,
                         .args = args,
                         .route = route,
                         .bucket = route->sink->rules
                                       ? queue_borrow(route->sink, args->queue)->bucket
                                       : route_bucket(route, args->id)->bucket,
                         .at_ms = args->at_ms > 0 ? args->at_ms : 0,
                         .after_ms = args->after_ms > 0 ? args->after_ms : 0};
    route->refs++; /* the bucket of a queue holds no reference to the route */
    store_look(m->bucket, LOOK_WHICH_ID, args->id, on_found, m);
}

const struct httpd_route admin_move_rows[] = {
    {"POST", "/v1/admin/routes/{}/jobs/{}/now", move, HTTPD_ADMIN,
     HTTP_ARGS(struct move_args, now_params)},
    {"POST", "/v1/admin/routes/{}/jobs/{}/move", move, HTTPD_ADMIN,
     HTTP_ARGS(struct move_args, move_params, .check = check_move)},
    {0},
};
