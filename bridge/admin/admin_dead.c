/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin_dead.c - the dead letters of a route over HTTP.
 */
#include "bridge/admin/admin.h"
#include "bridge/admin/dead.h"
#include "bridge/base/text.h"
#include "bridge/http/http_job.h"

#include <inttypes.h>

struct dead_args {
    struct slice route, id, reason, id_prefix, cursor;
    int64_t from_ms, to_ms, max, dry_run, not_before_ms;
    double rate;
};
enum { LIST_DEFAULT = 100, REASON_ROOM = 48, RATE_MAX = 1000000 };
#define AT(field) offsetof(struct dead_args, field)
/* What a script's unset variable leaves empty must not mean all of them. */
#define GIVEN(text, field, empty)                                                        \
    {                                                                                    \
        text, HTTP_TEXT, AT(field), .from = FROM_QUERY, .min = 1, .wrong = (empty)       \
    }
#define FILTERS(most)                                                                    \
    ADMIN_PATH_ROW("route", AT(route)),                                                  \
        {"reason", HTTP_TEXT, AT(reason), .from = FROM_QUERY},                           \
        GIVEN("id_prefix", id_prefix, "id_prefix is empty; leave it out to mean any"),   \
        {"from", HTTP_WHEN, AT(from_ms), .from = FROM_QUERY},                            \
        {"to", HTTP_WHEN, AT(to_ms), .from = FROM_QUERY},                                \
        {"max",         HTTP_INT, AT(max),        .from = FROM_QUERY,                    \
         .def = (most), .min = 1, .max = DEAD_MAX},                                      \
        GIVEN("cursor", cursor, "cursor is empty; leave it out to begin")
#define DRY_RUN                                                                          \
    {                                                                                    \
        "dry_run", HTTP_BOOL, AT(dry_run), .from = FROM_QUERY                            \
    }

static const struct http_param one_params[] = {
    ADMIN_PATH_ROW("route", AT(route)), ADMIN_PATH_ROW("id", AT(id)), {0}};
static const struct http_param list_params[] = {FILTERS(LIST_DEFAULT), {0}};
static const struct http_param drop_params[] = {FILTERS(DEAD_MAX), DRY_RUN, {0}};
static const struct http_param replay_params[] = {
    FILTERS(DEAD_MAX),
    DRY_RUN,
    {"rate", HTTP_NUMBER, AT(rate), .from = FROM_QUERY, .max = RATE_MAX},
    {"not_before", HTTP_WHEN, AT(not_before_ms), .from = FROM_QUERY},
    {0}};

/* --------------------------------------------------------------------- showing */

void dead_show(struct buf *out, const struct dead_item *item)
{
    const struct dead_letter *letter = &item->letter;
    buf_add_str(out, "{");
    text_add_json_id(out, item->id);
    buf_add_str(out, ",\"reason\":");
    text_add_json(out, slice_of(letter->reason));
    buf_add_str(out, ",\"error\":");
    text_add_json(out, slice_of(letter->error));
    if (letter->status)
        buf_addf(out, ",\"status\":%d", letter->status);
    else
        buf_add_str(out, ",\"status\":null");
    buf_addf(out, ",\"attempts\":%u,\"replays\":%u", letter->attempts, letter->replays);
    http_add_when(out, "first", letter->first_ms);
    http_add_when(out, "last", letter->last_ms);
    http_add_when(out, "buried", item->buried_ms);
    if (item->job) {
        http_add_when(out, "due", item->job->due_ms);
        http_job_members(out, item->job);
    } else {
        buf_add_str(out, ",\"unreadable\":true,\"raw_base64\":\"");
        text_add_base64(out, item->raw);
        buf_add_str(out, "\"");
    }
    buf_add_str(out, "}");
}

/* What became of one: {"id":...,"reason":...,"due":...} */
static void show_done(struct buf *out, const struct dead_item *item)
{
    buf_add_str(out, "{");
    text_add_json_id(out, item->id);
    buf_add_str(out, ",\"reason\":");
    text_add_json(out, slice_of(item->letter.reason));
    if (item->due_ms >= 0)
        http_add_when(out, "due", item->due_ms);
    if (item->refused)
        buf_add_str(out, ",\"refused\":true");
    buf_add_str(out, "}");
}

static void show_items(struct buf *out, const struct dead_reply *reply,
                       void (*show)(struct buf *out, const struct dead_item *item))
{
    buf_add_str(out, ",\"items\":[");
    for (unsigned i = 0; i < reply->count; i++) {
        buf_add_str(out, i ? "," : "");
        show(out, &reply->items[i]);
    }
    buf_add_str(out, "]");
}

static void answer(struct httpd_req *req, struct buf *json)
{
    buf_add_str(json, "\n");
    httpd_answer_json(req, 200, json);
}

/* ,"looked":...,"cursor":... */
static void add_progress(struct buf *out, const struct dead_reply *reply)
{
    buf_addf(out, "\"looked\":%u,\"cursor\":", reply->looked);
    text_add_json(out, reply->cursor.n ? reply->cursor : (struct slice){NULL, 0});
}

/* Answers what is no success, and says whether it did. */
static bool failed(struct httpd_req *req, const struct dead_reply *reply)
{
    static const struct {
        unsigned status;
        const char *word;
    } rows[] = {[DEAD_NO_ROUTE] = {404, "no-route"},
                [DEAD_IS_QUEUE] = {409, "is-queue"},
                [DEAD_BAD_REASON] = {400, "bad-request"},
                [DEAD_BAD_CURSOR] = {400, "bad-request"}};
    if (reply->code == DEAD_AWAY)
        httpd_busy(req, reply->why);
    else if (reply->code != DEAD_OK)
        httpd_error(req, rows[reply->code].status, rows[reply->code].word, "%s",
                    reply->why);
    return reply->code != DEAD_OK;
}

/* The same for one letter that was asked for. */
static bool failed_one(struct httpd_req *req, const struct dead_reply *reply)
{
    if (failed(req, reply))
        return true;
    if (reply->count > 0)
        return false;
    httpd_error(req, 404, "not-found",
                "no such dead letter: replayed or dropped before, or never there");
    return true;
}

/* --------------------------------------------------------------------- asking */

static void ask(struct bridge *bridge, struct httpd_req *req, enum dead_do what,
                dead_cb *cb)
{
    const struct dead_args *args = httpd_args(req);
    char reason[REASON_ROOM];
    if (httpd_body(req).n > 0) { /* filters that are not read must not mean any */
        httpd_error(req, 400, "bad-request",
                    "no body is read here; put its filters into the query");
        return;
    }
    size_t n = args->reason.n < REASON_ROOM ? args->reason.n : REASON_ROOM - 1;
    memcpy(reason, args->reason.p ? args->reason.p : "", n);
    reason[n] = '\0';
    const bool one = args->id.p != NULL;
    const struct dead_query q = {.what = what,
                                 .dry_run = args->dry_run != 0,
                                 .id_prefix = one ? args->id : args->id_prefix,
                                 .id_whole = one,
                                 .reason = args->reason.p ? reason : NULL,
                                 .from_ms = args->from_ms,
                                 .to_ms = args->to_ms,
                                 .max = one ? 1 : (unsigned)args->max,
                                 .rate = args->rate,
                                 .not_before_ms = args->not_before_ms,
                                 .cursor = args->cursor};
    dead_ask(bridge, args->route, &q, cb, req);
}

static void on_listed(void *arg, const struct dead_reply *reply)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    if (failed(req, reply))
        return;
    buf_add_str(&json, "{");
    add_progress(&json, reply);
    show_items(&json, reply, dead_show);
    buf_add_str(&json, "}");
    answer(req, &json);
}

static void list(void *arg, struct httpd_req *req)
{
    ask(arg, req, DEAD_LIST, on_listed);
}

static void on_done(void *arg, const struct dead_reply *reply)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    if (failed(req, reply))
        return;
    buf_addf(&json, "{\"done\":%u,\"refused\":%u,", reply->done, reply->refused);
    add_progress(&json, reply);
    http_add_when(&json, "not_before", reply->not_before_ms);
    show_items(&json, reply, show_done);
    buf_add_str(&json, "}");
    answer(req, &json);
}

static void replay(void *arg, struct httpd_req *req)
{
    ask(arg, req, DEAD_REPLAY, on_done);
}

static void drop(void *arg, struct httpd_req *req)
{
    ask(arg, req, DEAD_DROP, on_done);
}

/* --------------------------------------------------------------------- one letter */

static void on_shown(void *arg, const struct dead_reply *reply)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    if (failed_one(req, reply))
        return;
    dead_show(&json, &reply->items[0]);
    answer(req, &json);
}

static void show(void *arg, struct httpd_req *req)
{
    ask(arg, req, DEAD_LIST, on_shown);
}

static void on_one_done(void *arg, const struct dead_reply *reply)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    if (failed_one(req, reply))
        return;
    const struct dead_item *item = &reply->items[0];
    if (item->refused && strcmp(item->letter.reason, "no-route") == 0) {
        httpd_error(req, 409, "refused",
                    "no route took it, and nobody knows where it was to go: mend the "
                    "routes, and send the message again");
        return;
    }
    if (item->refused) {
        httpd_error(req, 409, "refused",
                    "it was replayed %u times, which is the most that replays_max of the "
                    "route allows",
                    item->letter.replays);
        return;
    }
    show_done(&json, item);
    answer(req, &json);
}

static void replay_one(void *arg, struct httpd_req *req)
{
    ask(arg, req, DEAD_REPLAY, on_one_done);
}

static void drop_one(void *arg, struct httpd_req *req)
{
    ask(arg, req, DEAD_DROP, on_one_done);
}

const struct httpd_route admin_dead_rows[] = {
    {"GET", "/v1/routes/{}/dead", list, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, list_params)},
    {"POST", "/v1/routes/{}/dead/replay", replay, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, replay_params)},
    {"POST", "/v1/routes/{}/dead/drop", drop, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, drop_params)},
    {"GET", "/v1/routes/{}/dead/{}", show, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, one_params)},
    {"DELETE", "/v1/routes/{}/dead/{}", drop_one, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, one_params)},
    {"POST", "/v1/routes/{}/dead/{}/replay", replay_one, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, one_params)},
    {0},
};
