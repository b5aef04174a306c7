/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queues.c - the queues of a route to a queue sink, with their counts in Redis and the
 * consumers that wait at this instance.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/queue_object.h"
#include "bridge/engine/route.h"
#include "bridge/store/store.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LIST_MAX = 1000, AT_ONCE = 32 /* counts in flight */ };

struct queue_args {
    struct slice route, queue;
    int64_t counts, max;
};
#define AT(field) offsetof(struct queue_args, field)
static const struct http_param list_params[] = {
    ADMIN_PATH_ROW("route", AT(route)),
    {"counts", HTTP_BOOL, AT(counts), .from = FROM_QUERY},
    {"max", HTTP_INT, AT(max), .from = FROM_QUERY, .def = LIST_MAX, .min = 1,
     .max = LIST_MAX},
    {0}};
static const struct http_param one_params[] = {
    ADMIN_PATH_ROW("route", AT(route)), ADMIN_PATH_ROW("queue", AT(queue)), {0}};
#undef AT

struct listed {
    struct listing *listing;
    struct slice name; /* memory: names of the listing */
    int64_t used_ms;
    bool known; /* Redis has counted it */
    unsigned consumers;
    struct queue_counts counts;
};
struct listing {
    struct httpd_req *req;
    struct route *route;
    bool one, counts; /* one: the response is one queue */
    struct buf names;
    struct listed *queues;
    size_t n, next; /* next: index of the next queue to count */
    unsigned open;
};

static void listing_free(struct listing *l)
{
    l->route->refs--;
    buf_free(&l->names);
    free(l->queues);
    free(l);
}

/* --- the response --- */

static void add_counts(struct buf *out, const struct listed *q)
{
    const struct queue_counts *c = &q->counts;
    buf_addf(out,
             ",\"ready\":%" PRId64 ",\"delayed\":%" PRId64 ",\"in_flight\":%" PRId64
             ",\"dead\":%" PRId64 ",\"ended\":%" PRId64 ",\"far\":%" PRId64
             ",\"consumers\":%u,\"oldest_ready_ms\":",
             c->ready, c->waiting, c->in_flight, c->dead, c->ended, c->far, q->consumers);
    if (c->oldest_ready_ms > 0)
        buf_addf(out, "%" PRId64, c->oldest_ready_ms);
    else
        buf_add_str(out, "null");
}

static void add_queue(struct buf *out, const struct listing *l, const struct listed *q)
{
    buf_add_str(out, "{");
    text_add_json_member(out, "name", q->name);
    if (!l->one)
        buf_addf(out, ",\"used_ms\":%" PRId64, q->used_ms);
    if (q->known)
        add_counts(out, q);
    buf_add_str(out, "}");
}

static void answer(struct listing *l)
{
    struct buf out = {0};
    if (l->one && !l->queues[0].known) {
        httpd_busy(l->req, "Redis did not reply; send the request again");
        listing_free(l);
        return;
    }
    buf_add_str(&out, l->one ? "" : "{\"queues\":[");
    for (size_t i = 0; i < l->n; i++) {
        buf_add_str(&out, i > 0 ? "," : "");
        add_queue(&out, l, &l->queues[i]);
    }
    buf_add_str(&out, l->one ? "\n" : "]}\n");
    httpd_answer_json(l->req, 200, &out);
    listing_free(l);
}

/* --- counts, a few at a time --- */

static void count_more(struct listing *l);

static void on_count(void *arg, const struct store_measure_reply *reply)
{
    struct listed *q = arg;
    q->known = reply != NULL;
    q->counts = measure_counts(reply);
    q->listing->open--;
    count_more(q->listing);
}

static void count_more(struct listing *l)
{
    while (l->counts && l->next < l->n && l->open < AT_ONCE) {
        struct listed *q = &l->queues[l->next++];
        const struct queue *queue = queue_borrow(l->route->sink, q->name);
        q->consumers = queue->waiters;
        l->open++;
        store_measure(queue->bucket, NULL, 0, on_count, q);
    }
    if (l->open == 0)
        answer(l);
}

/* --- the requests --- */

/* Returns the route, or NULL after answering with an error. */
static struct route *queue_route(struct bridge *bridge, struct httpd_req *req)
{
    const struct queue_args *args = httpd_args(req);
    struct route *route = admin_route(bridge, req, args->route);
    if (route && route->sink->rules == NULL) {
        httpd_error(req, 404, "no-queue", "the route does not lead to queues");
        return NULL;
    }
    return route;
}

static struct listing *listing_new(struct httpd_req *req, struct route *route)
{
    struct listing *l = mem_alloc(sizeof(*l));
    *l = (struct listing){.req = req, .route = route};
    route->refs++; /* the bucket of a queue holds no reference to the route */
    return l;
}

static void on_names(void *arg, const struct redisReply *reply)
{
    struct listing *l = arg;
    size_t n = redis_items(reply) / 2, at = 0;
    if (reply == NULL || redis_error(reply) != REDIS_NO_ERROR) {
        httpd_busy(l->req, "Redis did not reply; send the request again");
        listing_free(l);
        return;
    }
    l->queues = mem_alloc((n + 1) * sizeof(*l->queues));
    for (size_t i = 0; i < n; i++)
        buf_add_slice(&l->names, redis_text(redis_item(reply, 2 * i)));
    for (size_t i = 0; i < n; i++) {
        struct slice name = redis_text(redis_item(reply, 2 * i));
        l->queues[l->n++] =
            (struct listed){.listing = l,
                            .name = {l->names.p + at, name.n},
                            .used_ms = redis_score(redis_item(reply, 2 * i + 1))};
        at += name.n;
    }
    count_more(l);
}

/* Lists the queues used last: their number is unlimited. */
static void list(void *arg, struct httpd_req *req)
{
    const struct queue_args *args = httpd_args(req);
    struct route *route = queue_route(arg, req);
    struct buf key = {0};
    char last[24];
    if (route == NULL)
        return;
    struct listing *l = listing_new(req, route);
    l->counts = args->counts != 0;
    queue_sink_key(route->sink, "queues", &key);
    snprintf(last, sizeof(last), "%" PRId64, args->max - 1);
    const struct slice command[] = {SLICE_LIT("ZRANGE"), buf_slice(&key),
                                    SLICE_LIT("0"),      slice_of(last),
                                    SLICE_LIT("REV"),    SLICE_LIT("WITHSCORES")};
    store_command(route->sink->store, command, 6, on_names, l);
    buf_free(&key);
}

static void one(void *arg, struct httpd_req *req)
{
    const struct queue_args *args = httpd_args(req);
    struct route *route = queue_route(arg, req);
    if (route == NULL || admin_job_route(arg, req, args->route, args->queue) == NULL)
        return;
    struct listing *l = listing_new(req, route);
    l->one = l->counts = true;
    l->n = 1;
    l->queues = mem_alloc(sizeof(*l->queues));
    buf_add_slice(&l->names, args->queue);
    l->queues[0] = (struct listed){.listing = l, .name = buf_slice(&l->names)};
    count_more(l);
}

const struct httpd_route admin_queue_rows[] = {
    {"GET", "/v1/admin/routes/{}/queues", list, HTTPD_ADMIN,
     HTTP_ARGS(struct queue_args, list_params)},
    {"GET", "/v1/admin/routes/{}/queues/{}", one, HTTPD_ADMIN,
     HTTP_ARGS(struct queue_args, one_params)},
    {0},
};
