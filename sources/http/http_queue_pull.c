/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/http_args.h"
#include "sources/http/http_queue.h"

#include <stdlib.h>

enum { WAIT_MAX_MS = 600000 };

struct pulling { /* a request that waits for jobs */
    struct httpd_req *req;
    struct pull *pull;
};

struct pull_params {
    int64_t max, lease_ms, wait_ms;
};
#define AT(field) offsetof(struct pull_params, field)
static const struct http_param params[] = {
    {"max", HTTP_INT, AT(max), .from = FROM_QUERY, .def = 1, .min = 1,
     .max = HTTP_QUEUE_PULL_MAX},
    {"lease", HTTP_MS, AT(lease_ms), .from = FROM_QUERY, .min = 1,
     .max = HTTP_QUEUE_LEASE_MAX_MS},
    {"wait", HTTP_MS, AT(wait_ms), .from = FROM_QUERY, .max = WAIT_MAX_MS},
    {0}};
#undef AT

struct slice http_queue_name(struct slice list, unsigned n)
{
    for (const char *p = list.p, *end = list.p + list.n; p; n--) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        if (n == 0)
            return (struct slice){p, (size_t)((comma ? comma : end) - p)};
        p = comma ? comma + 1 : NULL;
    }
    return (struct slice){0};
}

static void answer_none(struct httpd_req *req)
{
    httpd_answer(req, 204, NULL, SLICE_LIT(""));
}

static void on_pulled(void *arg, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    struct pulling *pulling = arg;
    struct httpd_req *req = pulling->req;
    free(pulling);
    if (code == QUEUE_NONE) {
        answer_none(req);
        return;
    }
    if (http_queue_failed(req, code))
        return;
    struct slice names = httpd_segment(req, 0);
    struct buf json = {0};
    buf_add_str(&json, "{\"jobs\":[");
    for (unsigned i = 0; i < n; i++) {
        buf_add_str(&json, i ? "," : "");
        http_queue_show_pulled(&json, http_queue_name(names, jobs[i].topic), &jobs[i]);
    }
    buf_add_str(&json, "]}\n");
    httpd_answer(req, 200, "application/json", buf_slice(&json));
    buf_free(&json);
}

/* What waits for a consumer that is not there any more goes to the next. */
static void on_gone(void *arg)
{
    struct pulling *pulling = arg;
    struct httpd_req *req = pulling->req;
    queue_pull_end(pulling->pull);
    free(pulling);
    answer_none(req);
}

/* Gives their number; 0: it has answered. */
static unsigned split(struct httpd_req *req, struct slice *names)
{
    struct slice list = httpd_segment(req, 0), name;
    unsigned n = 0;
    while ((name = http_queue_name(list, n)).p) {
        if (n == HTTP_QUEUE_NAMES_MAX) {
            httpd_error(req, 400, "bad-request", "a pull names at most %d queues",
                        HTTP_QUEUE_NAMES_MAX);
            return 0;
        }
        if (!http_queue_is_name(req, name))
            return 0;
        names[n++] = name;
    }
    return n;
}

void http_queue_pull(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct slice names[HTTP_QUEUE_NAMES_MAX];
    struct pull_params p;
    struct err err;
    if (http_params_read(req, params, &p, &err) < 0) {
        http_queue_bad(req, &err);
        return;
    }
    unsigned count = split(req, names);
    if (count == 0)
        return;
    struct pulling *pulling = mem_alloc(sizeof(*pulling));
    pulling->req = req;
    pulling->pull = queue_pull(s->src,
                               &(struct queue_ask){.topics = names,
                                                   .topic_count = count,
                                                   .max = (unsigned)p.max,
                                                   .lease_ms = p.lease_ms,
                                                   .wait_ms = p.wait_ms},
                               on_pulled, pulling);
    httpd_on_gone(req, on_gone, pulling);
}
