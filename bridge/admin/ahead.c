/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ahead.c - GET /v1/admin/ahead: how many jobs are due in each minute, half hour or three
 * hours to come.
 *
 * A request counts the routes whose counts are older than FRESH_MS, one script call per
 * bucket (lua/ahead.lua), WINDOW at a time, so that claims are not delayed. Requests are
 * served one after the other: the next ones find fresh counts. Without requests nothing
 * is counted. Loop thread.
 */
#include "bridge/admin/admin.h"
#include "bridge/admin/metrics.h"
#include "bridge/base/hash.h"
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/queue_object.h"
#include "bridge/engine/route.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    FRESH_MS = 5000,  /* counts are not repeated earlier */
    WINDOW = 8,       /* calls in flight: about a millisecond of Redis */
    QUEUES_MAX = 1000 /* of a sink; with more its jobs are not counted */
};

struct span {
    const char *name;
    int64_t bin_ms; /* minutes, or half hours */
    int64_t bins;   /* at most ROUTE_AHEAD_BINS */
};
static const struct span spans[ROUTE_AHEADS] = {
    {"hour", 60 * 1000, 60}, {"day", 30 * 60 * 1000, 48}, {"week", 3 * 3600 * 1000, 56}};
static const char *const span_names[] = {"hour", "day", "week", NULL};

struct ahead_args {
    int64_t span; /* index of spans */
    struct slice route;
};

/* A route that a request counts. Its bins replace the old ones when all parts are
 * counted. */
struct subject {
    struct look *look;
    struct route *route; /* refers to it while open > 0 */
    struct route_ahead *sum;
    unsigned open; /* parts that are not counted yet */
    bool torn;     /* a part was not counted */
};

struct part { /* a bucket of a route, or a queue */
    struct subject *of;
    int64_t bucket;
    char *queue; /* its name; NULL: a bucket */
};

struct look { /* a request, until all calls for it have returned */
    TAILQ_ENTRY(look) link;
    struct ahead *ahead;
    struct httpd_req *req; /* NULL: answered */
    unsigned span;
    int64_t asked_ms, from_ms; /* monotonic; start of the first bin */
    struct timer *limit;       /* CENSUS_WAIT_MS after asked_ms */
    struct subject *subjects;
    struct part *parts;
    size_t subject_count, part_count, next;
    unsigned open;   /* calls in flight */
    int64_t open_us; /* monotonic: when the first of them was sent */
    bool torn;       /* Redis does not answer */
};

struct ahead {
    struct bridge *bridge;
    TAILQ_HEAD(, look) looks; /* the first is being counted */
    int64_t cost_us[ROUTE_AHEADS];
};

/* ------------------------------------------------------------------ the response */

/* Return the counts of a route if they are recent and have the bins of the request. */
static const struct route_ahead *counts_of(const struct look *l,
                                           const struct route *route)
{
    const struct route_ahead *a = route->ahead[l->span];
    bool fits = a && a->from_ms == l->from_ms && a->counted_ms > l->asked_ms - FRESH_MS;
    return fits ? a : NULL;
}

static void add_counts(struct buf *out, const struct route_ahead *a, int64_t bins)
{
    if (a == NULL) {
        buf_add_str(out, "\"overdue\":null,\"counts\":null,\"later\":null,\"held\":null");
        return;
    }
    buf_addf(out, "\"overdue\":%" PRId64 ",\"counts\":", a->overdue);
    for (int64_t i = 0; i < bins; i++) {
        buf_add_str(out, i > 0 ? "," : "[");
        text_add_decimal(out, a->bins[i]);
    }
    buf_addf(out, "],\"later\":%" PRId64 ",\"held\":%" PRId64, a->later, a->held);
}

static void add_route(struct buf *out, const struct look *l, const struct route *route)
{
    const struct route *where = census_of(route);
    buf_add_str(out, "{");
    text_add_json_member(out, "route", slice_of(route->conf->name));
    buf_add_str(out, ",");
    add_counts(out, counts_of(l, route), spans[l->span].bins);
    text_add_json_member(out, "counted_with",
                         slice_of(where == route ? NULL : where->conf->name));
    buf_add_str(out, "}");
}

static void add_up(struct route_ahead *sum, const struct route_ahead *one)
{
    sum->overdue += one->overdue;
    sum->later += one->later;
    sum->held += one->held;
    for (unsigned i = 0; i < ROUTE_AHEAD_BINS; i++)
        sum->bins[i] += one->bins[i];
    if (sum->counted_ms == 0 || one->counted_ms < sum->counted_ms)
        sum->counted_ms = one->counted_ms;
}

static void add_total(struct buf *out, const struct look *l,
                      const struct route_ahead *sum, unsigned unknown)
{
    buf_add_str(out, "],\"total\":{");
    add_counts(out, sum->counted_ms > 0 ? sum : NULL, spans[l->span].bins);
    buf_addf(out, ",\"uncounted\":%u}", unknown);
    admin_add_trouble(l->ahead->bridge, out);
    buf_addf(out, ",\"redis_us\":%" PRId64 ",\"age_ms\":", l->ahead->cost_us[l->span]);
    if (sum->counted_ms > 0)
        buf_addf(out, "%" PRId64 "}\n", loop_mono_ms() - sum->counted_ms);
    else
        buf_add_str(out, "null}\n");
}

/* only: the route that was asked for; NULL: all. */
static void print(const struct look *l, const struct route *only, struct buf *out)
{
    const struct span *span = &spans[l->span];
    const struct bridge *bridge = l->ahead->bridge;
    struct route_ahead sum = {0};
    unsigned unknown = 0;
    const char *comma = "";
    buf_addf(out,
             "{\"now_ms\":%" PRId64 ",\"span\":\"%s\",\"bin_ms\":%" PRId64
             ",\"from_ms\":%" PRId64 ",\"routes\":[",
             store_now_ms(bridge->store), span->name, span->bin_ms, l->from_ms);
    EACH_ROUTE (bridge, route) {
        if (only && route != only)
            continue;
        const struct route_ahead *counts = counts_of(l, route);
        if (counts)
            add_up(&sum, counts);
        else if (census_of(route) == route)
            unknown++;
        buf_add_str(out, comma);
        add_route(out, l, route);
        comma = ",";
    }
    add_total(out, l, &sum, unknown);
}

/* A reload may have removed the route meanwhile. */
static void answer(struct look *l)
{
    struct httpd_req *req = l->req;
    const struct ahead_args *args = httpd_args(req);
    const struct route *only = NULL;
    struct buf out = {0};
    l->req = NULL;
    if (args->route.n > 0 &&
        (only = admin_route(l->ahead->bridge, req, args->route)) == NULL)
        return;
    print(l, only, &out);
    httpd_answer_json(req, 200, &out);
}

/* -------------------------------------------------------------------- the counting */

static void look_next(struct ahead *ahead);

static void look_free(struct look *l)
{
    TAILQ_REMOVE(&l->ahead->looks, l, link);
    for (size_t i = 0; i < l->part_count; i++)
        free(l->parts[i].queue);
    free(l->parts);
    free(l->subjects);
    timer_del(l->limit);
    free(l);
}

static void subject_end(struct subject *s)
{
    struct route *route = s->route;
    struct route_ahead **place = &route->ahead[s->look->span];
    route->refs--;
    if (!s->torn) {
        free(*place);
        *place = s->sum;
    } else {
        free(s->sum);
    }
}

static void part_end(struct part *part)
{
    if (--part->of->open == 0)
        subject_end(part->of);
}

static void look_end(struct look *l)
{
    struct ahead *ahead = l->ahead;
    for (; l->next < l->part_count; l->next++) {
        l->parts[l->next].of->torn = true;
        part_end(&l->parts[l->next]);
    }
    bool torn = l->torn;
    if (l->req)
        answer(l);
    look_free(l);
    struct look *other;
    while (torn && (other = TAILQ_FIRST(&ahead->looks)) != NULL) {
        answer(other); /* Redis would not answer these either */
        look_free(other);
    }
    look_next(ahead);
}

static void send_more(struct look *l);

static void on_counted(void *arg, const struct store_ahead_reply *reply)
{
    struct part *part = arg;
    struct look *l = part->of->look;
    struct route_ahead *sum = part->of->sum;
    if (reply == NULL) {
        l->torn = part->of->torn = true;
    } else {
        sum->overdue += reply->overdue;
        sum->later += reply->later;
        sum->held += reply->held;
        for (unsigned i = 0; i < reply->count && i < ROUTE_AHEAD_BINS; i++)
            sum->bins[i] += reply->items[i].jobs;
    }
    part_end(part);
    if (--l->open == 0)
        l->ahead->cost_us[l->span] += loop_mono_us() - l->open_us;
    send_more(l);
}

static struct bucket *bucket_of(const struct part *part)
{
    struct route *route = part->of->route;
    return part->queue ? queue_borrow(route->sink, slice_of(part->queue))->bucket
                       : route->scheds[part->bucket]->bucket;
}

static void send_more(struct look *l)
{
    const struct span *span = &spans[l->span];
    while (!l->torn && l->open < WINDOW && l->next < l->part_count) {
        struct part *part = &l->parts[l->next++];
        if (l->open++ == 0)
            l->open_us = loop_mono_us();
        store_ahead(bucket_of(part), l->from_ms, span->bin_ms, span->bins, on_counted,
                    part);
    }
    if (l->open == 0)
        look_end(l);
}

static size_t count_parts(const struct route *route)
{
    return route->sink->rules ? HASH_COUNT(route->sink->sweep.names)
                              : (size_t)route->bucket_count;
}

/* Return whether its buckets are known, and not too many. The first route to a queue sink
 * counts the jobs of all. */
static bool can_count(const struct route *route)
{
    if (route->sink->rules == NULL)
        return route->bucket_count > 0;
    return route->sink->sum_ms > 0 && census_of(route) == route &&
           count_parts(route) <= QUEUES_MAX;
}

static void add_part(struct look *l, struct subject *s, int64_t bucket,
                     struct slice queue)
{
    struct part *part = &l->parts[l->part_count++];
    *part = (struct part){.of = s, .bucket = bucket};
    if (queue.p)
        part->queue = mem_strndup(queue.p, queue.n);
    s->open++;
}

static void add_subject(struct look *l, struct route *route)
{
    struct subject *s = &l->subjects[l->subject_count++];
    *s = (struct subject){.look = l, .route = route};
    s->sum = mem_alloc(sizeof(*s->sum));
    s->sum->counted_ms = loop_mono_ms();
    s->sum->from_ms = l->from_ms;
    route->refs++;
    if (route->sink->rules)
        for (const struct queue_listed *q = route->sink->sweep.names; q; q = q->hh.next)
            add_part(l, s, 0, (struct slice){q->name, q->name_n});
    else
        for (int64_t i = 0; i < route->bucket_count; i++)
            add_part(l, s, i, (struct slice){NULL, 0});
    if (s->open == 0)
        subject_end(s); /* there are no queues */
}

static void set_from(struct look *l)
{
    int64_t now_ms = store_now_ms(l->ahead->bridge->store);
    l->from_ms = now_ms - now_ms % spans[l->span].bin_ms;
}

/* Collect the buckets whose counts are missing or old. */
static void collect(struct look *l)
{
    const struct bridge *bridge = l->ahead->bridge;
    const struct ahead_args *args = httpd_args(l->req);
    size_t routes = 0, parts = 0;
    EACH_ROUTE (bridge, route) {
        routes++;
        parts += can_count(route) ? count_parts(route) : 0;
    }
    l->subjects = mem_alloc((routes + 1) * sizeof(*l->subjects));
    l->parts = mem_alloc((parts + 1) * sizeof(*l->parts));
    EACH_ROUTE (bridge, route)
        if ((args->route.n == 0 || slice_is(args->route, route->conf->name)) &&
            can_count(route) && counts_of(l, route) == NULL)
            add_subject(l, route);
}

/* Answer the requests in the queue up to the first that needs calls, and send these. */
static void look_next(struct ahead *ahead)
{
    struct look *l;
    while ((l = TAILQ_FIRST(&ahead->looks)) != NULL) {
        set_from(l);
        collect(l);
        if (l->part_count > 0) {
            ahead->cost_us[l->span] = 0;
            send_more(l);
            return;
        }
        answer(l);
        look_free(l);
    }
}

/* Answers a request, and frees it if it is in the queue. The first request continues to
 * count, so that the next one finds its counts. */
static void on_limit(void *arg)
{
    struct look *l = arg;
    if (l->req)
        answer(l);
    if (l != TAILQ_FIRST(&l->ahead->looks))
        look_free(l);
}

static void ahead_get(void *arg, struct httpd_req *req)
{
    struct bridge *bridge = arg;
    const struct ahead_args *args = httpd_args(req);
    if (args->route.n > 0 && admin_route(bridge, req, args->route) == NULL)
        return;
    struct ahead *ahead = bridge->ahead;
    if (ahead == NULL) {
        ahead = bridge->ahead = mem_alloc(sizeof(*ahead));
        ahead->bridge = bridge;
        TAILQ_INIT(&ahead->looks);
    }
    struct look *l = mem_alloc(sizeof(*l));
    l->ahead = ahead;
    l->req = req;
    l->span = (unsigned)args->span;
    l->asked_ms = loop_mono_ms();
    l->limit = timer_new(on_limit, l);
    timer_set(l->limit, CENSUS_WAIT_MS);
    set_from(l);
    TAILQ_INSERT_TAIL(&ahead->looks, l, link);
    if (TAILQ_FIRST(&ahead->looks) == l)
        look_next(ahead);
}

#define AT(field) offsetof(struct ahead_args, field)
static const struct http_param params[] = {
    {"span", HTTP_CHOICE, AT(span), .from = FROM_QUERY, .choices = span_names},
    ADMIN_GIVEN_ROW("route", AT(route)),
    {0}};
#undef AT

void ahead_free(struct ahead *ahead)
{
    must(ahead == NULL || TAILQ_EMPTY(&ahead->looks));
    free(ahead);
}

const struct httpd_route admin_ahead_rows[] = {
    {"GET", "/v1/admin/ahead", ahead_get, HTTPD_ADMIN,
     HTTP_ARGS(struct ahead_args, params)},
    {0},
};
