/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bulk.c - cancels, moves or runs now many jobs of a route, page by page.
 *
 * A page lists jobs with a bounded query, selects those that match, changes them with one
 * script call, and continues until it has enough matches or has reached its limit. One
 * call is open at a time, so claims and enqueues run between them. The response says
 * where the next page continues. The client decides how fast it requests pages.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/queue_object.h"
#include "bridge/engine/route.h"
#include "bridge/store/store.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    PAGE_MAX = 1000, /* matching jobs of one page */
    PAGE_DEFAULT = 500,
    EXAMINE_MAX = 10000,    /* jobs that one page examines */
    STEP_MAX = 60,          /* jobs of one script call: 1-2 ms in Redis */
    COUNT_STEP_MAX = 500,   /* the same for a dry run */
    BYTES_MAX = 512 * 1024, /* of the records of one list, for a target: 2-3 ms */
};

enum op { OP_CANCEL, OP_MOVE, OP_NOW };

/* A bucket is listed in this order. Held jobs are first: the end of a job can only make
 * held jobs waiting, which the next pass finds. */
static const char passes[] = {LIST_WHAT_HELD, LIST_WHAT_WAITING, LIST_WHAT_IN_FLIGHT};
enum { PASSES = sizeof(passes) };
static const char *const states[] = {"all", "held", "waiting", "in-flight", NULL};
enum { ALL_STATES }; /* else states[i] is pass i - 1 */

struct bulk_args {
    struct slice route, queue, id_prefix, target, cursor;
    int64_t state, from_ms, to_ms, at_ms, after_ms, max, dry_run, all;
};
enum { NOT_GIVEN = -1 };
#define AT(field) offsetof(struct bulk_args, field)
#define SELECTION                                                                        \
    ADMIN_PATH_ROW("route", AT(route)),                                                  \
        {"state",          HTTP_CHOICE,      AT(state), .from = FROM_QUERY,              \
         .def = NOT_GIVEN, .choices = states},                                           \
        ADMIN_GIVEN_ROW("queue", AT(queue)),                                             \
        ADMIN_GIVEN_ROW("id_prefix", AT(id_prefix)),                                     \
        ADMIN_GIVEN_ROW("target", AT(target)),                                           \
        {"from", HTTP_WHEN, AT(from_ms), .from = FROM_QUERY},                            \
        {"to", HTTP_WHEN, AT(to_ms), .from = FROM_QUERY},                                \
        {"all", HTTP_BOOL, AT(all), .from = FROM_QUERY},                                 \
        {"max",    HTTP_INT,       AT(max), .from = FROM_QUERY, .def = PAGE_DEFAULT,     \
         .min = 1, .max = PAGE_MAX},                                                     \
        {"dry_run", HTTP_BOOL, AT(dry_run), .from = FROM_QUERY},                         \
        ADMIN_GIVEN_ROW("cursor", AT(cursor))

static const struct http_param bulk_params[] = {SELECTION, {0}};
static const struct http_param move_params[] = {
    SELECTION,
    {"at", HTTP_WHEN, AT(at_ms), .from = FROM_QUERY, .def = NOT_GIVEN},
    {"after", HTTP_MS, AT(after_ms), .from = FROM_QUERY, .def = NOT_GIVEN,
     .max = WHEN_LAST_MS},
    {0}};
#undef AT

/* A request without a selection is probably a mistake. */
static int check_selection(const void *arguments, struct err *err)
{
    const struct bulk_args *args = arguments;
    bool selects = args->id_prefix.p || args->target.p || args->from_ms > 0 ||
                   args->to_ms > 0 || args->state != NOT_GIVEN;
    if (!selects && !args->all)
        return err_set(err, "select jobs with id_prefix, target, from, to or state; "
                            "all=true selects all");
    return 0;
}

static int check_move(const void *arguments, struct err *err)
{
    const struct bulk_args *args = arguments;
    if ((args->at_ms == NOT_GIVEN) == (args->after_ms == NOT_GIVEN))
        return err_set(err,
                       "pass either at=INSTANT or after=DURATION, such as after=30m");
    return check_selection(arguments, err);
}

struct spot { /* where a page continues */
    int64_t bucket, pass;
    bool begun; /* behind place; else at the start of the pass */
    struct list_position place;
    struct buf member; /* memory of place.member */
};

struct bulk {
    struct httpd_req *req;
    const struct bulk_args *args; /* all 0 once the listener has stopped */
    struct route *route;
    enum op op;
    bool dry_run;
    bool advanced;          /* a step of this request is complete */
    int64_t at_ms;          /* of a move: the new due time */
    struct spot here, next; /* all before here is done; next: behind the open step */
    struct store_alter_want *wants;
    unsigned count, room;  /* of wants */
    struct buf ids;        /* memory of their ids */
    bool dense;            /* the last list was full: the next need not examine more */
    struct bucket *bucket; /* of the open step */
    unsigned done, in_flight, skipped, looked;
};

static bool is_queue(const struct bulk *b)
{
    return b->route->sink->rules != NULL;
}

static struct bucket *bucket_of(const struct bulk *b)
{
    return is_queue(b) ? queue_borrow(b->route->sink, b->args->queue)->bucket
                       : b->route->scheds[b->here.bucket]->bucket;
}

static void bulk_free(struct bulk *b)
{
    buf_free(&b->here.member);
    buf_free(&b->next.member);
    buf_free(&b->ids);
    free(b->wants);
    b->route->refs--;
    free(b);
}

/* --------------------------------------------------------------- where it continues */

/* Jobs in flight: a time range means due times, which they no longer have; and a move
 * must not count the jobs that it made due itself. */
static bool has_pass(const struct bulk *b, int64_t pass)
{
    const struct bulk_args *args = b->args;
    bool ranged = args->from_ms > 0 || args->to_ms > 0;
    if (args->state > ALL_STATES)
        return pass == args->state - 1;
    if (passes[pass] == LIST_WHAT_IN_FLIGHT)
        return !ranged && (b->op == OP_CANCEL || b->dry_run);
    return !(is_queue(b) && passes[pass] == LIST_WHAT_HELD);
}

static int64_t bucket_count(const struct bulk *b)
{
    return is_queue(b) ? 1 : b->route->bucket_count;
}

static bool is_over(const struct bulk *b)
{
    return b->here.bucket >= bucket_count(b);
}

/* Moves to the first pass from this one on that the request has. */
static void settle_pass(const struct bulk *b, struct spot *spot)
{
    while (spot->bucket < bucket_count(b)) {
        for (; spot->pass < PASSES; spot->pass++)
            if (has_pass(b, spot->pass))
                return;
        spot->pass = 0;
        spot->bucket++;
    }
}

static void set_next(struct bulk *b, const struct store_list_reply *reply)
{
    struct spot *next = &b->next;
    next->bucket = b->here.bucket;
    next->pass = b->here.pass;
    next->begun = reply->more;
    buf_clear(&next->member);
    if (reply->more) {
        buf_add_slice(&next->member, reply->member);
        next->place = (struct list_position){.score = reply->score,
                                             .ordinal = reply->ordinal,
                                             .member = buf_slice(&next->member)};
    } else {
        next->pass++;
        settle_pass(b, next);
    }
}

static void go_to_next(struct bulk *b)
{
    struct spot was = b->here;
    b->here = b->next;
    b->next = was;
}

enum { OP, PASS, BUCKET, AT_MS, BEGUN, SCORE, ORDINAL, NUMBERS };

/* A cursor of a dry run is not valid for the change, which starts at the beginning. */
static int64_t op_number(const struct bulk *b)
{
    return 2 * (int64_t)b->op + b->dry_run;
}

static void add_cursor(const struct bulk *b, struct buf *out)
{
    const struct spot *at = &b->here;
    const int64_t numbers[NUMBERS] = {[OP] = op_number(b),
                                      [PASS] = at->pass,
                                      [BUCKET] = at->bucket,
                                      [AT_MS] = b->at_ms,
                                      [BEGUN] = at->begun,
                                      [SCORE] = at->begun ? at->place.score : 0,
                                      [ORDINAL] = at->begun ? at->place.ordinal + 1 : 0};
    struct buf cursor = {0};
    if (!is_over(b))
        cursor_add(&cursor, numbers, NUMBERS, buf_slice(&at->member));
    text_add_json_member(out, "cursor",
                         cursor.n ? buf_slice(&cursor) : (struct slice){NULL, 0});
    buf_free(&cursor);
}

static int read_cursor(struct bulk *b, struct slice cursor)
{
    int64_t n[NUMBERS];
    struct spot *at = &b->here;
    if (cursor_read(cursor, n, NUMBERS, STORE_LIST_MEMBER_MAX, &at->member) < 0 ||
        n[OP] != op_number(b) || n[BUCKET] >= bucket_count(b) || n[PASS] >= PASSES ||
        !has_pass(b, n[PASS]) || n[AT_MS] > WHEN_LAST_MS || n[BEGUN] > 1)
        return -1;
    at->pass = n[PASS];
    at->bucket = n[BUCKET];
    at->begun = n[BEGUN];
    at->place = (struct list_position){
        .score = n[SCORE], .ordinal = n[ORDINAL] - 1, .member = buf_slice(&at->member)};
    b->at_ms = n[AT_MS];
    return 0;
}

/* ---------------------------------------------------------------------- the response */

static void answer(struct bulk *b)
{
    struct buf json = {0};
    buf_addf(&json, "{\"done\":%u,\"in_flight\":%u,\"skipped\":%u,\"looked\":%u", b->done,
             b->in_flight, b->skipped, b->looked);
    add_cursor(b, &json);
    buf_add_str(&json, "}\n");
    if (b->op == OP_CANCEL && !b->dry_run)
        b->route->stats.cancelled += b->done;
    httpd_answer_json(b->req, 200, &json);
    bulk_free(b);
}

/* Redis did not reply: the cursor contains the last step, which may be repeated. A cursor
 * that is the one of the request would be repeated for ever. */
static void give_up(struct bulk *b)
{
    if (b->advanced) {
        answer(b);
        return;
    }
    httpd_busy(b->req, "Redis did not execute the change; send the request again");
    bulk_free(b);
}

/* ---------------------------------------------------------------------------- a step */

static void step(struct bulk *b);

static void end_step(struct bulk *b)
{
    go_to_next(b);
    b->advanced = true;
    /* Once the listener has stopped, max is 0, which ends the page. */
    if (is_over(b) || b->looked >= EXAMINE_MAX ||
        (b->args->max <= b->done + b->in_flight + b->skipped && !b->dry_run) ||
        b->args->max == 0)
        answer(b);
    else
        step(b);
}

static void on_altered(void *arg, const struct store_alter_reply *reply)
{
    struct bulk *b = arg;
    if (reply == NULL) {
        give_up(b);
        return;
    }
    for (unsigned i = 0; i < reply->count; i++) {
        char code = reply->items[i].code;
        bool done = code == ALTER_DONE || code == ALTER_HELD;
        ++*(done ? &b->done : code == ALTER_IN_FLIGHT ? &b->in_flight : &b->skipped);
    }
    end_step(b);
}

/* For a queue the script checks the expiry, except in a dry run, which changes nothing.
 * The record does not contain an expiry by the default of the queue. */
static bool checks_expiry(const struct bulk *b)
{
    return b->op == OP_MOVE && (b->dry_run || !is_queue(b));
}

static bool needs_records(const struct bulk *b)
{
    return b->args->target.p != NULL || checks_expiry(b);
}

/* Checks what the script cannot read. Counts a job as skipped that would expire before
 * its new time. Returns whether the job is to be changed. */
static bool is_wanted(struct bulk *b, const struct store_list_item *found, bool flies)
{
    struct err err;
    bool wanted = b->args->target.p == NULL;
    if (!needs_records(b))
        return true;
    struct job *job = job_decode(found->id, found->record, &b->route->names, &err);
    if (job && is_queue(b))
        job->expires_ms = found->expires_ms;
    if (job && !wanted && route_target(b->route, job, &err) == 0)
        wanted = slice_eq(job->target, b->args->target);
    if (wanted && job && !flies && checks_expiry(b) &&
        route_job_expired(b->route, job, b->at_ms)) {
        wanted = false;
        b->skipped++;
    }
    job_free(job);
    return wanted;
}

/* Returns whether the operation would change a job due at that time. */
static bool changes_due(const struct bulk *b, int64_t due_ms, int64_t now_ms)
{
    return b->op == OP_CANCEL ||
           (b->op == OP_MOVE ? due_ms != b->at_ms : due_ms > now_ms);
}

static void want(struct bulk *b, const struct store_list_item *found)
{
    if (b->count == b->room) {
        b->room = b->room ? 2 * b->room : STEP_MAX;
        b->wants = mem_realloc(b->wants, b->room * sizeof(*b->wants));
    }
    bool far = found->ordinal >= 0;
    b->wants[b->count++] = (struct store_alter_want){
        .id = {NULL, found->id.n},
        .slot = far ? found->score / (is_queue(b) ? 1000 : 1) : 0,
        .ordinal = far ? found->ordinal : 0};
    buf_add_slice(&b->ids, found->id);
}

/* Collects the jobs of a list that match. */
static void collect(struct bulk *b, const struct store_list_reply *reply)
{
    bool flies = passes[b->here.pass] == LIST_WHAT_IN_FLIGHT;
    int64_t now_ms = bucket_now_ms(b->bucket);
    size_t at = 0;
    b->count = 0;
    buf_clear(&b->ids);
    for (unsigned i = 0; i < reply->count; i++) {
        const struct store_list_item *found = &reply->items[i];
        if ((flies || changes_due(b, found->at_ms, now_ms)) && is_wanted(b, found, flies))
            want(b, found);
    }
    for (unsigned i = 0; i < b->count; i++) {
        b->wants[i].id.p = b->ids.p + at;
        at += b->wants[i].id.n;
    }
}

static void on_listed(void *arg, const struct store_list_reply *reply)
{
    struct bulk *b = arg;
    if (reply == NULL) {
        give_up(b);
        return;
    }
    if (b->args->max == 0) { /* the listener has stopped */
        answer(b);
        return;
    }
    bool flies = passes[b->here.pass] == LIST_WHAT_IN_FLIGHT;
    collect(b, reply);
    b->dense = reply->count >= STEP_MAX;
    b->looked += (unsigned)reply->looked;
    set_next(b, reply);
    if (b->count > 0 && !b->dry_run && !(flies && b->op != OP_CANCEL)) {
        store_alter(b->bucket, b->op == OP_CANCEL ? ALTER_WHAT_CANCEL : ALTER_WHAT_MOVE,
                    b->at_ms, 0, b->wants, b->count, on_altered, b);
        return;
    }
    *(flies ? &b->in_flight : &b->done) += b->count;
    end_step(b);
}

static unsigned step_max(const struct bulk *b)
{
    int64_t left = b->args->max - b->done - b->in_flight - b->skipped;
    return b->dry_run ? COUNT_STEP_MAX : left < STEP_MAX ? (unsigned)left : STEP_MAX;
}

static void step(struct bulk *b)
{
    const struct bulk_args *args = b->args;
    struct store_list_ask how = {
        .what = passes[b->here.pass],
        .id_prefix = args->id_prefix,
        .from_ms = args->from_ms,
        .to_ms = args->to_ms,
        .max = step_max(b),
        .look = b->dense && !b->dry_run ? 2 * STEP_MAX : 0,
        .bytes_max = BYTES_MAX,
        .brief = !needs_records(b),
    };
    b->bucket = bucket_of(b);
    bucket_list(b->bucket, &how, b->here.begun ? &b->here.place : NULL, 0, on_listed, b);
}

/* ----------------------------------------------------------------------- the request */

static void note(const struct bulk *b)
{
    static const char *const verbs[] = {
        [OP_CANCEL] = "cancels", [OP_MOVE] = "moves", [OP_NOW] = "runs now"};
    const struct slice prefix = b->args->id_prefix, queue = b->args->queue;
    struct buf text = {0};
    buf_addf(&text, "%s jobs of the route %s", verbs[b->op], b->route->conf->name);
    if (queue.p)
        buf_addf(&text, ", queue %.*s", SLICE_ARG(queue));
    if (prefix.p)
        buf_addf(&text, ", ids that start with %.*s", SLICE_ARG(prefix));
    log_info("admin", "%s", buf_str(&text));
    buf_free(&text);
}

static void begin(struct bridge *bridge, struct httpd_req *req, enum op op)
{
    const struct bulk_args *args = httpd_args(req);
    struct route *route = admin_job_route(bridge, req, args->route, args->queue);
    if (route == NULL)
        return;
    struct bulk *b = mem_alloc(sizeof(*b));
    *b = (struct bulk){.req = req,
                       .args = args,
                       .route = route,
                       .op = op,
                       .dry_run = args->dry_run != 0,
                       .at_ms = op == OP_MOVE ? args->at_ms : 0};
    route->refs++;
    settle_pass(b, &b->here);
    if (op == OP_MOVE && args->after_ms != NOT_GIVEN)
        b->at_ms = store_now_ms(route_store(route)) + args->after_ms;
    if (args->cursor.n > 0 && read_cursor(b, args->cursor) < 0) {
        httpd_error(req, 400, "bad-request",
                    "invalid cursor for this request; start without a cursor");
        bulk_free(b);
        return;
    }
    if (args->cursor.n == 0 && !b->dry_run)
        note(b);
    step(b);
}

static void cancel(void *arg, struct httpd_req *req)
{
    begin(arg, req, OP_CANCEL);
}

static void move(void *arg, struct httpd_req *req)
{
    begin(arg, req, OP_MOVE);
}

static void run_now(void *arg, struct httpd_req *req)
{
    begin(arg, req, OP_NOW);
}

const struct httpd_route admin_bulk_rows[] = {
    {"POST", "/v1/admin/routes/{}/jobs/cancel", cancel, HTTPD_ADMIN,
     HTTP_ARGS(struct bulk_args, bulk_params, .check = check_selection)},
    {"POST", "/v1/admin/routes/{}/jobs/move", move, HTTPD_ADMIN,
     HTTP_ARGS(struct bulk_args, move_params, .check = check_move)},
    {"POST", "/v1/admin/routes/{}/jobs/now", run_now, HTTPD_ADMIN,
     HTTP_ARGS(struct bulk_args, bulk_params, .check = check_selection)},
    {0},
};
