/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jobs.c - lists the jobs of a route page by page, and changes the due time of a job.
 *
 * A page sends a bounded query to each bucket of the route and merges the replies. Its
 * cost does not depend on the number of jobs. A job that is stored, removed or moved
 * between two pages may be listed twice or not at all.
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
    PAGE_DEFAULT = 100,
    PAGE_MAX = 500,
    BYTES_MAX = 4 * 1024 * 1024, /* of all records requested at once */
    BYTES_LEAST = 64 * 1024,     /* minimum of one bucket */
    BYTES_MOST = 512 * 1024,     /* maximum of one bucket: 2-3 ms in Redis */
    EACH_MOST = 250              /* jobs of one bucket: likewise */
};

/* Ready and delayed jobs are the waiting ones that are due, or not due yet. */
enum { WAITING, IN_FLIGHT, HELD, READY, DELAYED };
static const char *const states[] = {
    [WAITING] = "waiting", [IN_FLIGHT] = "in-flight", [HELD] = "held",
    [READY] = "ready",     [DELAYED] = "delayed",     NULL};
static const char whats[] = {[WAITING] = LIST_WHAT_WAITING,
                             [IN_FLIGHT] = LIST_WHAT_IN_FLIGHT,
                             [HELD] = LIST_WHAT_HELD,
                             [READY] = LIST_WHAT_WAITING,
                             [DELAYED] = LIST_WHAT_WAITING};

struct list_args {
    struct slice route, queue, id_prefix, cursor;
    int64_t what, from_ms, to_ms, max;
};
#define AT(field) offsetof(struct list_args, field)
static const struct http_param list_params[] = {
    ADMIN_PATH_ROW("route", AT(route)),
    {"state", HTTP_CHOICE, AT(what), .from = FROM_QUERY, .choices = states},
    ADMIN_GIVEN_ROW("queue", AT(queue)),
    {"from", HTTP_WHEN, AT(from_ms), .from = FROM_QUERY},
    {"to", HTTP_WHEN, AT(to_ms), .from = FROM_QUERY},
    ADMIN_GIVEN_ROW("id_prefix", AT(id_prefix)),
    ADMIN_GIVEN_ROW("cursor", AT(cursor)),
    {"max", HTTP_INT, AT(max), .from = FROM_QUERY, .def = PAGE_DEFAULT, .min = 1,
     .max = PAGE_MAX},
    {0}};
#undef AT

struct row {
    struct list_position place;
    unsigned seq; /* order of arrival: keeps the order of rows from one bucket */
    char *member;
    struct buf json;
};

struct part { /* one bucket */
    struct listing *listing;
    int64_t number;
    bool more;
    struct list_position last;
    char *member;
};

struct listing {
    struct httpd_req *req;
    const struct list_args *args; /* all 0 once the listener has stopped */
    struct route *route;
    bool failed;                /* Redis did not answer */
    struct list_position start; /* where the page starts; after owns its member */
    bool begun;
    struct buf after;
    struct part *parts;
    int64_t part_count;
    unsigned open; /* calls without a reply */
    struct row *rows;
    unsigned count, looked;
};

/* --- the cursor --- */

static int read_cursor(struct listing *l, struct slice cursor)
{
    enum { WHAT, SCORE, ORDINAL, BUCKET, NUMBERS };
    int64_t n[NUMBERS];
    if (cursor_read(cursor, n, NUMBERS, STORE_LIST_MEMBER_MAX, &l->after) < 0 ||
        n[WHAT] != l->args->what)
        return -1;
    l->begun = true;
    l->start = (struct list_position){.score = n[SCORE],
                                      .ordinal = n[ORDINAL] - 1,
                                      .bucket = n[BUCKET],
                                      .member = buf_slice(&l->after)};
    return 0;
}

/* --- the page --- */

static void listing_free(struct listing *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        buf_free(&l->rows[i].json);
        free(l->rows[i].member);
    }
    for (int64_t i = 0; i < l->part_count; i++)
        free(l->parts[i].member);
    l->route->refs--;
    free(l->parts);
    free(l->rows);
    buf_free(&l->after);
    free(l);
}

/* Order by score, then slots first, then bucket. Rows of one bucket with the same score
 * are equal: compare_rows() keeps the order of the bucket. */
static int compare(const struct list_position *a, const struct list_position *b)
{
    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    if ((a->ordinal < 0) != (b->ordinal < 0))
        return a->ordinal < 0 ? 1 : -1;
    return a->bucket < b->bucket ? -1 : a->bucket > b->bucket;
}

static int compare_rows(const void *one, const void *other)
{
    const struct row *a = one, *b = other;
    int order = compare(&a->place, &b->place);
    return order ? order : a->seq < b->seq ? -1 : 1;
}

/* Return the last place up to which all buckets have listed their jobs; NULL: all are
 * listed. */
static const struct list_position *last_complete(const struct listing *l)
{
    const struct list_position *least = NULL;
    for (int64_t i = 0; i < l->part_count; i++)
        if (l->parts[i].more && (least == NULL || compare(&l->parts[i].last, least) < 0))
            least = &l->parts[i].last;
    return least;
}

/* Sort the rows and return how many the page may contain: no bucket has unlisted jobs
 * before them. */
static unsigned complete_rows(struct listing *l, const struct list_position *mark)
{
    unsigned n = 0;
    if (l->count > 0)
        qsort(l->rows, l->count, sizeof(*l->rows), compare_rows);
    while (n < l->count && n < l->args->max &&
           (mark == NULL || compare(&l->rows[n].place, mark) <= 0))
        n++;
    return n;
}

/* end: where the next page starts; NULL: there is none. */
static void answer_page(struct listing *l, unsigned n, const struct list_position *end)
{
    struct buf out = {0}, cursor = {0};
    must(n == 0 || l->rows != NULL);
    if (end)
        cursor_add(
            &cursor,
            (const int64_t[]){l->args->what, end->score, end->ordinal + 1, end->bucket},
            4, end->member);
    buf_addf(&out, "{\"looked\":%u", l->looked);
    text_add_json_member(&out, "cursor",
                         cursor.n ? buf_slice(&cursor) : (struct slice){NULL, 0});
    buf_add_str(&out, ",\"jobs\":[");
    for (unsigned i = 0; i < n; i++) {
        buf_add_str(&out, i > 0 ? "," : "");
        buf_add_slice(&out, buf_slice(&l->rows[i].json));
    }
    buf_add_str(&out, "]}\n");
    httpd_answer_json(l->req, 200, &out);
    buf_free(&cursor);
    listing_free(l);
}

/* Called when all buckets have answered. */
static void merge(struct listing *l)
{
    const struct list_position *mark = last_complete(l), *end = mark;
    if (l->failed || l->args->max == 0) {
        httpd_busy(l->req, "Redis did not reply; send the request again");
        listing_free(l);
        return;
    }
    unsigned n = complete_rows(l, mark);
    if (n == l->args->max && (n < l->count || mark))
        end = &l->rows[n - 1].place;
    answer_page(l, n, end);
}

static void add_job(struct buf *out, const struct store_list_item *found,
                    const struct job *job, int64_t what)
{
    bool flies = what == IN_FLIGHT;
    struct tries tries;
    tries_parse(found->tries, &tries);
    buf_add_str(out, "{");
    text_add_json_id(out, found->id);
    buf_addf(out, ",\"state\":\"%s\",\"due_ms\":", states[what]);
    if (!flies || job)
        buf_addf(out, "%" PRId64, flies ? job->due_ms : found->at_ms);
    else
        buf_add_str(out, "null");
    if (flies)
        buf_addf(out, ",\"lease_ends_ms\":%" PRId64, found->at_ms);
    buf_addf(out, ",\"attempts\":%u", tries.attempts);
    text_add_json_member(out, "last_error", slice_of(tries.error));
    text_add_json_member(out, "target", job ? job->target : (struct slice){NULL, 0});
    text_add_json_bytes(out, "key", job ? job->key : (struct slice){NULL, 0});
    text_add_json_member(out, "source", job ? job->source : (struct slice){NULL, 0});
    buf_addf(out, ",\"bytes\":%zu,\"far\":%s,\"named\":%s%s}", found->record.n,
             found->ordinal >= 0 ? "true" : "false", found->named ? "true" : "false",
             job ? "" : ",\"unreadable\":true");
}

static void keep(struct part *part, const struct store_list_item *found)
{
    struct listing *l = part->listing;
    struct row *row = &l->rows[l->count++];
    struct job *job = NULL;
    struct err err;
    *row = (struct row){.seq = l->count - 1};
    row->member = mem_alloc(found->member.n + 1);
    slice_put(row->member, found->member);
    row->place = (struct list_position){.score = found->score,
                                        .ordinal = found->ordinal,
                                        .bucket = part->number,
                                        .member = {row->member, found->member.n}};
    if (found->record.n > 0)
        job = job_decode(found->id, found->record, &l->route->names, &err);
    if (job)
        (void)route_target(l->route, job, &err); /* on failure the job is shown without a
                                                  * target */
    add_job(&row->json, found, job, l->args->what);
    job_free(job);
}

static void on_reply(void *arg, const struct store_list_reply *reply)
{
    struct part *part = arg;
    struct listing *l = part->listing;
    if (reply) {
        l->rows = mem_realloc(l->rows, (l->count + reply->count + 1) * sizeof(*l->rows));
        for (unsigned i = 0; i < reply->count; i++)
            keep(part, &reply->items[i]);
        l->looked += (unsigned)reply->looked;
        part->more = reply->more;
        part->member = mem_alloc(reply->member.n + 1);
        slice_put(part->member, reply->member);
        part->last = (struct list_position){.score = reply->score,
                                            .ordinal = reply->ordinal,
                                            .bucket = part->number,
                                            .member = {part->member, reply->member.n}};
    } else {
        l->failed = true;
    }
    if (--l->open == 0)
        merge(l);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Restricts a list of ready or delayed jobs to its side of the current time. to_ms 0: no
 * limit. */
static void set_range(struct store_list_ask *how, int64_t what, int64_t now_ms)
{
    if (what == READY && (how->to_ms == 0 || how->to_ms > now_ms))
        how->to_ms = now_ms;
    else if (what == DELAYED && how->from_ms <= now_ms)
        how->from_ms = now_ms + 1;
}

static void ask(struct part *part, struct bucket *bucket)
{
    struct listing *l = part->listing;
    int64_t n = l->part_count;
    struct store_list_ask how = {
        .what = whats[l->args->what],
        .id_prefix = l->args->id_prefix,
        .from_ms = l->args->from_ms,
        .to_ms = l->args->to_ms,
        .max = (unsigned)least(l->args->max, EACH_MOST),
        .bytes_max =
            BYTES_MAX / n > BYTES_LEAST ? least(BYTES_MAX / n, BYTES_MOST) : BYTES_LEAST,
    };
    set_range(&how, l->args->what, bucket_now_ms(bucket));
    bucket_list(bucket, &how, l->begun ? &l->start : NULL, part->number, on_reply, part);
}

static void ask_all(struct listing *l)
{
    struct route *route = l->route;
    bool queue = route->sink->rules != NULL;
    l->part_count = queue ? 1 : route->bucket_count;
    l->parts = mem_alloc((size_t)l->part_count * sizeof(*l->parts));
    l->open = (unsigned)l->part_count;
    for (int64_t i = 0; i < l->part_count; i++) {
        l->parts[i].listing = l;
        l->parts[i].number = i;
        ask(&l->parts[i], queue ? queue_borrow(route->sink, l->args->queue)->bucket
                                : route->scheds[i]->bucket);
    }
}

static void list(void *arg, struct httpd_req *req)
{
    const struct list_args *args = httpd_args(req);
    struct route *route = admin_job_route(arg, req, args->route, args->queue);
    if (route == NULL)
        return;
    struct listing *l = mem_alloc(sizeof(*l));
    l->req = req;
    l->args = args;
    l->route = route;
    route->refs++; /* the bucket of a queue holds no reference to the route */
    if (args->cursor.n == 0 || read_cursor(l, args->cursor) == 0) {
        ask_all(l);
        return;
    }
    httpd_error(req, 400, "bad-request",
                "invalid cursor for this list; start without a cursor");
    listing_free(l);
}

/* ------------------------------------------ a new due time, in the bucket of the id */

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
    {LOOK_NOT_THERE, ALTER_NOT_THERE, 404, "not-found",
     "no pending job has this id: it was delivered, cancelled or never stored, or it is "
     "a Kafka record due later than redis.horizon, which has no id until shortly before "
     "it is due"},
    {LOOK_IN_FLIGHT, ALTER_IN_FLIGHT, 409, "in-flight",
     "it is in flight; if the attempt fails, the retry option of the route sets the next "
     "one"},
    {LOOK_DEAD, ALTER_DEAD, 409, "dead", "it is a dead letter; replay it instead"},
    {0, ALTER_EXPIRES, 409, "expires",
     "it would expire before that time (deliver-before or time to live); nothing was "
     "changed"},
};

/* Answer that the job was not moved. look, moved: the result code of one script; 0 for
 * the other. Both 0: Redis did not answer. */
static void refuse(struct moving *m, char look, char moved)
{
    const struct refusal *r = refusals, *end = r + sizeof(refusals) / sizeof(*r);
    while (r < end && (look ? r->look != look : r->moved != moved))
        r++;
    if (r < end && (look || moved))
        httpd_error(m->req, r->status, r->word, "%s", r->why);
    else
        httpd_busy(m->req, "Redis did not reply, so it is unknown whether the job was "
                           "moved; check the job and try again");
    moving_free(m);
}

static void on_moved(void *arg, const struct store_alter_reply *reply)
{
    struct moving *m = arg;
    struct buf out = {0};
    char code = reply && reply->count == 1 ? reply->items[0].code : 0;
    bool held = code == ALTER_HELD;
    if (!held && code != ALTER_DONE) {
        refuse(m, 0, code);
        return;
    }
    buf_add_str(&out, "{");
    text_add_json_id(&out, m->args->id);
    buf_addf(&out, ",\"due_ms\":%" PRId64 ",\"held\":%s}\n", reply->due_ms,
             held ? "true" : "false");
    httpd_answer_json(m->req, 200, &out);
    moving_free(m);
}

/* Check the expiry in the record. For a queue the script checks it. */
static bool would_expire(const struct moving *m, struct slice record)
{
    struct err err;
    struct job *job = job_decode(m->args->id, record, &m->route->names, &err);
    int64_t now_ms = bucket_now_ms(m->bucket);
    int64_t due_ms = m->at_ms > 0 ? m->at_ms : now_ms + m->after_ms;
    bool ends = job && route_job_expired(m->route, job, due_ms);
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
    else if (m->route->sink->rules == NULL && would_expire(m, look->record))
        refuse(m, 0, ALTER_EXPIRES);
    else
        store_alter(m->bucket, ALTER_WHAT_MOVE, m->at_ms, m->after_ms,
                    &(struct store_alter_want){.id = m->args->id}, 1, on_moved, m);
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

const struct httpd_route admin_job_rows[] = {
    {"GET", "/v1/admin/routes/{}/jobs", list, HTTPD_ADMIN,
     HTTP_ARGS(struct list_args, list_params)},
    {"POST", "/v1/admin/routes/{}/jobs/{}/now", move, HTTPD_ADMIN,
     HTTP_ARGS(struct move_args, now_params)},
    {"POST", "/v1/admin/routes/{}/jobs/{}/move", move, HTTPD_ADMIN,
     HTTP_ARGS(struct move_args, move_params, .check = check_move)},
    {0},
};
