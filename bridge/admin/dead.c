/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dead.c - the dead letters of a route or of a queue over HTTP: list, group by error,
 * replay, drop.
 *
 * A request examines bucket after bucket until it has enough matches or has reached its
 * limit. The response says where the next request continues. Replayed and dropped letters
 * have left the error bucket, so an interrupted run can be repeated.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/queue_object.h"
#include "bridge/engine/route.h"
#include "bridge/http/http_job.h"
#include "bridge/job/tries.h"
#include "bridge/store/store.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct dead_args {
    struct slice route, queue, id, reason, id_prefix, cursor; /* id.p NULL: many */
    int64_t from_ms, to_ms, max, dry_run, not_before_ms, group;
    double rate;
};
enum {
    DEAD_MAX = 500,
    LIST_DEFAULT = 100,
    RATE_MAX = 1000000,
    GROUP_LOOK_MAX = 10000 /* letters that one request groups */
};
#define AT(field) offsetof(struct dead_args, field)
#define QUEUE ADMIN_GIVEN_ROW("queue", AT(queue))
#define FILTERS(most)                                                                    \
    ADMIN_PATH_ROW("route", AT(route)), QUEUE,                                           \
        {"reason", HTTP_TEXT, AT(reason), .from = FROM_QUERY},                           \
        ADMIN_GIVEN_ROW("id_prefix", AT(id_prefix)),                                     \
        {"from", HTTP_WHEN, AT(from_ms), .from = FROM_QUERY},                            \
        {"to", HTTP_WHEN, AT(to_ms), .from = FROM_QUERY},                                \
        {"max",         HTTP_INT, AT(max),        .from = FROM_QUERY,                    \
         .def = (most), .min = 1, .max = DEAD_MAX},                                      \
        ADMIN_GIVEN_ROW("cursor", AT(cursor))
#define DRY_RUN                                                                          \
    {                                                                                    \
        "dry_run", HTTP_BOOL, AT(dry_run), .from = FROM_QUERY                            \
    }

static const struct http_param one_params[] = {
    ADMIN_PATH_ROW("route", AT(route)), ADMIN_PATH_ROW("id", AT(id)), QUEUE, {0}};
static const struct http_param list_params[] = {
    FILTERS(LIST_DEFAULT), {"group", HTTP_BOOL, AT(group), .from = FROM_QUERY}, {0}};
static const struct http_param drop_params[] = {FILTERS(DEAD_MAX), DRY_RUN, {0}};
static const struct http_param replay_params[] = {
    FILTERS(DEAD_MAX),
    DRY_RUN,
    {"rate", HTTP_NUMBER, AT(rate), .from = FROM_QUERY, .max = RATE_MAX},
    {"not_before", HTTP_WHEN, AT(not_before_ms), .from = FROM_QUERY},
    {0}};

struct run {
    struct httpd_req *req;
    const struct dead_args *args; /* all 0 once the listener has stopped */
    struct route *route;
    char what; /* DEAD_WHAT_...: argument of the script */
    bool one, dry_run, group;
    int64_t bucket;   /* where the next call continues */
    int64_t end_ms;   /* letters buried later are skipped; 0: not known yet */
    int64_t next_us;  /* when the next replayed letter may be due; 0: now */
    int64_t after_ms; /* time of the last letter examined in this bucket */
    struct buf after; /* id of that letter; empty: start of the bucket */
    struct buf items; /* the letters as JSON */
    struct dead_groups groups;
    struct tries tries; /* of the letter read last */
    unsigned count, done, refused, looked;
    size_t bytes; /* of the records in items */
};

/* --------------------------------------------------------------------- showing */

void dead_show(struct buf *out, const struct store_dead_item *item, const struct job *job,
               const struct tries *letter)
{
    buf_add_str(out, "{");
    text_add_json_id(out, item->id);
    text_add_json_member(out, "reason", slice_of(letter->reason));
    text_add_json_member(out, "error", slice_of(letter->error));
    if (letter->status)
        buf_addf(out, ",\"status\":%d", letter->status);
    else
        buf_add_str(out, ",\"status\":null");
    const struct tries_answer *a = letter->answer;
    text_add_json_member(out, "answer",
                         a && a->body[0] ? slice_of(a->body) : (struct slice){0});
    text_add_json_member(out, "answer_type",
                         a && a->type[0] ? slice_of(a->type) : (struct slice){0});
    buf_addf(out, ",\"attempts\":%u,\"replays\":%u", letter->attempts, letter->replays);
    http_add_when(out, "first", letter->first_ms);
    http_add_when(out, "last", letter->last_ms);
    http_add_when(out, "buried", item->buried_ms);
    if (job) {
        http_add_when(out, "due", job->due_ms);
        http_job_members(out, job);
    } else {
        buf_add_str(out, ",\"unreadable\":true,\"raw_base64\":\"");
        text_add_base64(out, item->record);
        buf_add_str(out, "\"");
    }
    buf_add_str(out, "}");
}

/* Show the outcome for one letter: {"id":...,"reason":...,"due":...} */
static void show_done(struct buf *out, const struct store_dead_item *item,
                      const struct tries *letter)
{
    buf_add_str(out, "{");
    text_add_json_id(out, item->id);
    text_add_json_member(out, "reason", slice_of(letter->reason));
    if (item->due_ms >= 0)
        http_add_when(out, "due", item->due_ms);
    if (item->refused)
        buf_add_str(out, ",\"refused\":true");
    buf_add_str(out, "}");
}

/* --------------------------------------------------------------------- the response */

static bool is_queue(const struct run *run)
{
    return run->route->sink->rules != NULL;
}

static int64_t bucket_count(const struct run *run)
{
    return is_queue(run) ? 1 : run->route->bucket_count;
}

static bool is_over(const struct run *run)
{
    return run->one || run->bucket >= bucket_count(run);
}

static void run_free(struct run *run)
{
    buf_free(&run->after);
    buf_free(&run->items);
    dead_groups_free(&run->groups);
    free(run->tries.answer);
    run->route->refs--;
    free(run);
}

static void add_cursor(const struct run *run, struct buf *out)
{
    const int64_t numbers[] = {run->bucket, run->end_ms, run->next_us, run->after_ms};
    struct buf cursor = {0};
    if (!is_over(run))
        cursor_add(&cursor, numbers, 4, buf_slice(&run->after));
    text_add_json_member(out, "cursor",
                         cursor.n ? buf_slice(&cursor) : (struct slice){NULL, 0});
    buf_free(&cursor);
}

static void answer_many(struct run *run)
{
    struct buf json = {0};
    buf_add_str(&json, "{");
    if (run->what != DEAD_WHAT_LIST)
        buf_addf(&json, "\"done\":%u,\"refused\":%u,", run->done, run->refused);
    buf_addf(&json, "\"looked\":%u", run->looked);
    add_cursor(run, &json);
    if (run->what != DEAD_WHAT_LIST)
        http_add_when(&json, "not_before",
                      run->what == DEAD_WHAT_REPLAY ? (run->next_us + 999) / 1000 : 0);
    if (run->group) {
        dead_groups_print(&run->groups, &json);
    } else {
        buf_addf(&json, ",\"items\":[");
        buf_add_slice(&json, buf_slice(&run->items));
        buf_add_str(&json, "]");
    }
    buf_add_str(&json, "}\n");
    httpd_answer_json(run->req, 200, &json);
}

static void answer_one(struct run *run)
{
    if (run->count == 0)
        httpd_error(
            run->req, 404, "not-found",
            "no such dead letter: it was replayed or dropped before, or never existed");
    else if (run->refused > 0 && strcmp(run->tries.reason, "no-route") == 0)
        httpd_error(run->req, 409, "refused",
                    "no route accepted the message, so its target is unknown; correct "
                    "the routes and send the message again");
    else if (run->refused > 0)
        httpd_error(run->req, 409, "refused",
                    "it was replayed %u times, the maximum (replays_max of the route)",
                    run->tries.replays);
    else {
        buf_add_str(&run->items, "\n");
        httpd_answer_json(run->req, 200, &run->items);
    }
}

static void count_changes(const struct run *run)
{
    struct route *route = run->route;
    if (run->dry_run)
        return;
    if (run->what == DEAD_WHAT_REPLAY)
        route->stats.replayed += run->done;
    else if (run->what == DEAD_WHAT_DROP && is_queue(run))
        route->sink->queue_stats.dropped += run->done;
    else if (run->what == DEAD_WHAT_DROP)
        route->stats.dropped_dead += run->done;
}

static void answer(struct run *run)
{
    count_changes(run);
    if (run->one)
        answer_one(run);
    else
        answer_many(run);
    run_free(run);
}

/* --------------------------------------------------------------------- the buckets */

static void add_item(struct run *run, const struct store_dead_item *found)
{
    struct err err;
    struct job *job = NULL;
    free(run->tries.answer);
    tries_parse(found->tries, &run->tries);
    run->tries.answer = tries_parse_answer(found->tries);
    if (run->group) {
        dead_groups_add(&run->groups, found, &run->tries);
        return;
    }
    if (found->record.n > 0)
        job = job_decode(found->id, found->record, &run->route->names, &err);
    buf_add_str(&run->items, run->count++ ? "," : "");
    if (run->what == DEAD_WHAT_LIST)
        dead_show(&run->items, found, job, &run->tries);
    else
        show_done(&run->items, found, &run->tries);
    run->bytes += found->record.n;
    job_free(job);
}

static void ask(struct run *run);

/* Returns whether the response is complete. Once the listener has stopped, max is 0. */
static bool is_full(const struct run *run, bool more)
{
    if (run->group && run->args->max > 0)
        return run->looked >= GROUP_LOOK_MAX;
    return more || run->count >= run->args->max || run->looked >= STORE_DEAD_MAX ||
           run->bytes >= STORE_DEAD_BYTES;
}

static void on_reply(void *arg, const struct store_dead_reply *reply)
{
    struct run *run = arg;
    if (reply == NULL && run->looked == 0) {
        httpd_busy(run->req, "Redis did not reply; send the request again");
        run_free(run);
        return;
    }
    if (reply == NULL) { /* the cursor contains the bucket that did not answer */
        answer(run);
        return;
    }
    for (unsigned i = 0; i < reply->count; i++)
        add_item(run, &reply->items[i]);
    run->looked += (unsigned)reply->looked;
    run->done += (unsigned)reply->done;
    run->refused += (unsigned)reply->refused;
    run->end_ms = reply->end_ms;
    run->next_us = reply->next_us;
    run->after_ms = reply->more ? reply->after_ms : 0;
    buf_clear(&run->after);
    if (reply->more)
        buf_add_slice(&run->after, reply->after);
    else
        run->bucket++;
    if (is_over(run) || is_full(run, reply->more))
        answer(run);
    else
        ask(run);
}

static struct bucket *bucket_of(const struct run *run)
{
    return is_queue(run) ? queue_borrow(run->route->sink, run->args->queue)->bucket
                         : run->route->scheds[run->bucket]->bucket;
}

static void ask(struct run *run)
{
    const struct dead_args *args = run->args;
    const struct store_dead_ask how = {
        /* The dry run of a drop returns no records. */
        .what = run->group ? DEAD_WHAT_DROP : run->what,
        .dry_run = run->dry_run || run->group,
        .id_whole = run->one,
        .id = run->one ? args->id : args->id_prefix,
        .reason = args->reason,
        .from_ms = args->from_ms,
        .to_ms = run->end_ms,
        .ahead = args->to_ms == 0,
        .after_ms = run->after_ms,
        .after = buf_slice(&run->after),
        .max = run->one     ? 1
               : run->group ? STORE_DEAD_MAX
                            : (unsigned)args->max - run->count,
        .look = run->group ? STORE_DEAD_MAX : STORE_DEAD_MAX - run->looked,
        .replays_max = run->route->conf->replays_max,
        .step_us = args->rate > 0 ? (int64_t)ceil(1e6 / args->rate) : 0,
        .next_us = run->next_us,
        .bytes_max = STORE_DEAD_BYTES,
    };
    store_dead(bucket_of(run), &how, on_reply, run);
}

/* --------------------------------------------------------------------- the request */

/* Answers the request with an error if word is no reason. */
static bool refuse_reason(struct httpd_req *req, struct slice word)
{
    struct buf names = {0};
    bool known = false;
    for (int i = 0; i < REASONS; i++) {
        known |= slice_is(word, reason_name((enum reason)i));
        buf_addf(&names, " %s", reason_name((enum reason)i));
    }
    if (!known)
        httpd_error(req, 400, "bad-request", "unknown reason \"%.*s\"; known:%s",
                    (int)(word.n < 40 ? word.n : 40), word.p, buf_str(&names));
    buf_free(&names);
    return !known;
}

/* Return the route, or NULL after answering the request with an error. */
static struct route *check(struct bridge *bridge, struct httpd_req *req)
{
    const struct dead_args *args = httpd_args(req);
    if (httpd_body(req).n > 0) { /* Ignored filters in a body would select too many
                                  * letters. */
        httpd_error(req, 400, "bad-request",
                    "this request must not have a body; put the filters into the query");
        return NULL;
    }
    struct route *route = admin_job_route(bridge, req, args->route, args->queue);
    if (route && args->reason.p && refuse_reason(req, args->reason))
        return NULL;
    return route;
}

static int read_cursor(struct run *run, struct slice text)
{
    int64_t numbers[4];
    if (cursor_read(text, numbers, 4, JOB_ID_MAX, &run->after) < 0)
        return -1;
    run->bucket = numbers[0];
    run->end_ms = numbers[1];
    run->next_us = numbers[2];
    run->after_ms = numbers[3];
    return run->bucket < bucket_count(run) && run->end_ms <= WHEN_LAST_MS &&
                   run->next_us <= WHEN_LAST_MS * 1000 && run->after_ms <= WHEN_LAST_MS
               ? 0
               : -1;
}

static void begin(struct bridge *bridge, struct httpd_req *req, char what)
{
    const struct dead_args *args = httpd_args(req);
    struct route *route = check(bridge, req);
    if (route == NULL)
        return;
    struct run *run = mem_alloc(sizeof(*run));
    *run = (struct run){.req = req,
                        .args = args,
                        .route = route,
                        .what = what,
                        .one = args->id.p != NULL,
                        .dry_run = args->dry_run != 0,
                        .group = args->group != 0,
                        .end_ms = args->to_ms};
    route->refs++;
    if (args->cursor.n > 0 && read_cursor(run, args->cursor) < 0) {
        httpd_error(req, 400, "bad-request",
                    "invalid cursor for the route %s; start without a cursor",
                    route->conf->name);
        run_free(run);
        return;
    }
    if (run->one && !is_queue(run))
        run->bucket = route_bucket_number(route, args->id);
    if (run->next_us < args->not_before_ms * 1000)
        run->next_us = args->not_before_ms * 1000;
    ask(run);
}

static void list(void *arg, struct httpd_req *req)
{
    begin(arg, req, DEAD_WHAT_LIST);
}

static void replay(void *arg, struct httpd_req *req)
{
    begin(arg, req, DEAD_WHAT_REPLAY);
}

static void drop(void *arg, struct httpd_req *req)
{
    begin(arg, req, DEAD_WHAT_DROP);
}

const struct httpd_route admin_dead_rows[] = {
    {"GET", "/v1/routes/{}/dead", list, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, list_params)},
    {"POST", "/v1/routes/{}/dead/replay", replay, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, replay_params)},
    {"POST", "/v1/routes/{}/dead/drop", drop, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, drop_params)},
    {"GET", "/v1/routes/{}/dead/{}", list, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, one_params)},
    {"DELETE", "/v1/routes/{}/dead/{}", drop, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, one_params)},
    {"POST", "/v1/routes/{}/dead/{}/replay", replay, HTTPD_ADMIN,
     HTTP_ARGS(struct dead_args, one_params)},
    {0},
};
