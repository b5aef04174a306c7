/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/http/http_args.h"
#include "sources/http/http_queue.h"

#include <inttypes.h>

struct whole_params {
    int64_t all, limit, ttl_ms;
    struct slice of;
};
enum { DEAD_LIMIT = 1000, DEAD_LIMIT_MAX = 10000, LIST_LIMIT = 1000, LIST_MAX = 100000 };
#define AT(field) offsetof(struct whole_params, field)
#define DEAD_ROW                                                                         \
    {                                                                                    \
        "limit", HTTP_INT, AT(limit), .from = FROM_QUERY, .def = DEAD_LIMIT, .min = 1,   \
                                      .max = DEAD_LIMIT_MAX                              \
    }

static const struct http_param no_params[] = {{0}};
static const struct http_param destroy_params[] = {
    {"all", HTTP_BOOL, AT(all), .from = FROM_QUERY}, {0}};
static const struct http_param respawn_params[] = {
    DEAD_ROW,
    {"ttl", HTTP_MS, AT(ttl_ms), .from = FROM_QUERY, .max = HTTP_QUEUE_TIME_MAX_MS},
    {0}};
static const struct http_param dead_params[] = {DEAD_ROW, {0}};
static const struct http_param list_params[] = {
    {"limit", HTTP_INT, AT(limit), .from = FROM_QUERY, .def = LIST_LIMIT, .min = 1,
     .max = LIST_MAX},
    {"of", HTTP_TEXT, AT(of), .from = FROM_QUERY},
    {0}};

static bool read_params(struct httpd_req *req, const struct http_param *rows,
                        struct whole_params *p)
{
    struct err err;
    *p = (struct whole_params){0};
    if (http_params_read(req, rows, p, &err) == 0)
        return true;
    http_queue_bad(req, &err);
    return false;
}

static bool read_named(struct httpd_req *req, const struct http_param *rows,
                       struct whole_params *p)
{
    return http_queue_is_name(req, httpd_segment(req, 0)) && read_params(req, rows, p);
}

static void answer(struct httpd_req *req, struct buf *json)
{
    httpd_answer(req, 200, "application/json", buf_slice(json));
    buf_free(json);
}

/* ------------------------------------------------------------------ looking */

static void on_counted(void *arg, enum queue_code code, const struct queue_counts *counts)
{
    struct httpd_req *req = arg;
    char oldest[WHEN_TEXT_BYTES];
    if (http_queue_failed(req, code))
        return;
    struct buf json = {0};
    buf_add_str(&json, "{\"name\":");
    text_add_json(&json, httpd_segment(req, 0));
    buf_addf(&json,
             ",\"ready\":%" PRId64 ",\"waiting\":%" PRId64 ",\"in_flight\":%" PRId64
             ",\"dead\":%" PRId64 ",\"ended\":%" PRId64 ",\"oldest_ready\":",
             counts->ready, counts->waiting, counts->in_flight, counts->dead,
             counts->ended);
    when_format_rfc3339(counts->oldest_ready_ms, oldest);
    if (counts->oldest_ready_ms)
        buf_addf(&json, "\"%s\"}\n", oldest);
    else
        buf_add_str(&json, "null}\n");
    answer(req, &json);
}

void http_queue_count(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct whole_params p;
    if (read_named(req, no_params, &p))
        queue_count(s->src, httpd_segment(req, 0), NULL, 0, on_counted, req);
}

static void on_listed(void *arg, enum queue_code code, const struct queue_name *names,
                      unsigned n)
{
    struct httpd_req *req = arg;
    struct whole_params p;
    char used[WHEN_TEXT_BYTES];
    if (http_queue_failed(req, code) || !read_params(req, list_params, &p))
        return;
    struct buf json = {0};
    unsigned shown = n < p.limit ? n : (unsigned)p.limit;
    buf_addf(&json, "{\"total\":%u,\"queues\":[", n);
    for (unsigned i = 0; i < shown; i++) { /* the most recently used first */
        const struct queue_name *name = &names[n - 1 - i];
        when_format_rfc3339(name->used_ms, used);
        buf_add_str(&json, i ? ",{\"name\":" : "{\"name\":");
        text_add_json(&json, name->name);
        buf_addf(&json, ",\"used\":\"%s\"}", used);
    }
    buf_add_str(&json, "]}\n");
    answer(req, &json);
}

void http_queue_list(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct whole_params p;
    if (!read_params(req, list_params, &p))
        return;
    if (p.of.p == NULL || http_queue_is_name(req, p.of))
        queue_list(s->src, p.of, on_listed, req);
}

/* ----------------------------------------------------------------- changing */

static void answer_number(struct httpd_req *req, enum queue_code code, const char *name,
                          int64_t n)
{
    struct buf json = {0};
    if (http_queue_failed(req, code))
        return;
    buf_addf(&json, "{\"%s\":%" PRId64 "}\n", name, n);
    answer(req, &json);
}

static void on_deleted(void *arg, enum queue_code code, int64_t n)
{
    answer_number(arg, code, "deleted", n);
}

static void on_respawned(void *arg, enum queue_code code, int64_t n)
{
    answer_number(arg, code, "respawned", n);
}

void http_queue_destroy(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct whole_params p;
    if (read_named(req, destroy_params, &p))
        queue_destroy(s->src, httpd_segment(req, 0), p.all, on_deleted, req);
}

void http_queue_respawn(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct whole_params p;
    if (read_named(req, respawn_params, &p))
        queue_respawn(s->src, httpd_segment(req, 0), p.limit, p.ttl_ms, on_respawned,
                      req);
}

void http_queue_drop_dead(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct whole_params p;
    if (read_named(req, dead_params, &p))
        queue_drop_dead(s->src, httpd_segment(req, 0), p.limit, on_deleted, req);
}
