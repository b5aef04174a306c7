/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_about.c - what the admin API tells of the service: its version, its pools, the
 * queues that there are, and the switch of the access log.
 */
#include "sources/lmstfy/lmstfy_admin.h"
#include "bridge/base/text.h"

#include <stdlib.h>

/* Of the API that is answered for here; scripts of operators look at it. */
#define API_VERSION "1.0.15"

void lmstfy_about_version(struct lmstfy_call *call)
{
    buf_add_str(&call->out,
                "{\n    \"build_commit\": \"tarry\",\n    \"build_date\": \"\",\n"
                "    \"version\": \"" API_VERSION "\"\n}");
    lmstfy_call_json(call, 200);
}

void lmstfy_about_pools(struct lmstfy_call *call)
{
    const struct lmstfy *l = call->l;
    buf_add_str(&call->out, "[");
    for (size_t i = 0; i < l->pools.n; i++) {
        buf_add_str(&call->out, i ? ",\n    " : "\n    ");
        text_add_json_go(&call->out, slice_of(l->pools.v[i]));
    }
    buf_add_str(&call->out, "\n]");
    lmstfy_call_json(call, 200);
}

/* ------------------------------------------------------------ GET /info */

struct queue_row {
    struct slice ns, queue;
};

static int order(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int sign = n > 0 ? memcmp(a.p, b.p, n) : 0;
    return sign ? sign : (a.n > b.n) - (a.n < b.n);
}

static int by_name(const void *a, const void *b)
{
    const struct queue_row *one = a, *other = b;
    int sign = order(one->ns, other->ns);
    return sign ? sign : order(one->queue, other->queue);
}

static void add_info(struct buf *out, const struct queue_row *rows, size_t n)
{
    buf_add_str(out, "{");
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && slice_eq(rows[i].ns, rows[i - 1].ns);
        if (same) {
            buf_add_str(out, ",\n        ");
        } else {
            buf_add_str(out, i ? "\n    ],\n    " : "\n    ");
            text_add_json_go(out, rows[i].ns);
            buf_add_str(out, ": [\n        ");
        }
        text_add_json_go(out, rows[i].queue);
    }
    buf_add_str(out, n ? "\n    ]\n}\n" : "}\n");
}

static struct slice pool_of(const struct lmstfy_call *call)
{
    struct slice pool = httpd_query(call->req, "pool");
    return pool.n ? pool : SLICE_LIT("default");
}

static void on_listed(void *arg, enum queue_code code, const struct queue_name *names,
                      unsigned n)
{
    struct lmstfy_call *call = arg;
    size_t found = 0;
    if (code == QUEUE_AWAY) {
        lmstfy_call_away(call);
        return;
    }
    n = code == QUEUE_OK ? n : 0; /* no route: no queues */
    struct queue_row *rows = mem_alloc((n + 1) * sizeof(*rows));
    for (unsigned i = 0; i < n; i++) {
        struct slice pool;
        if (lmstfy_cut_topic(names[i].name, &pool, &rows[found].ns, &rows[found].queue) ==
                0 &&
            slice_eq(pool, pool_of(call)))
            found++;
    }
    qsort(rows, found, sizeof(*rows), by_name);
    add_info(&call->out, rows, found);
    free(rows);
    lmstfy_call_text(call, 200, "text/plain; charset=utf-8");
}

void lmstfy_any_topic(struct buf *out, struct slice pool)
{
    lmstfy_add_topic(out, pool, SLICE_LIT("-"), SLICE_LIT("-"));
}

void lmstfy_about_info(struct lmstfy_call *call)
{
    struct buf topic = {0};
    if (!lmstfy_has_pool(call->l, pool_of(call))) {
        lmstfy_call_none(call, 200);
        return;
    }
    lmstfy_any_topic(&topic, pool_of(call));
    queue_list(call->l->src, buf_slice(&topic), on_listed, call);
    buf_free(&topic);
}

/* ------------------------------------------------------------ the access log */

static void answer_status(struct lmstfy_call *call)
{
    buf_addf(&call->out, "{\"status\":\"%s\"}",
             call->l->access_log ? "enabled" : "disabled");
    lmstfy_call_json(call, 200);
}

void lmstfy_accesslog_get(struct lmstfy_call *call)
{
    answer_status(call);
}

void lmstfy_accesslog_set(struct lmstfy_call *call)
{
    struct slice status = httpd_query(call->req, "status");
    bool on = slice_is(status, "enable");
    if (!on && !slice_is(status, "disable")) {
        lmstfy_call_error(call, 400, "invalid status");
        return;
    }
    call->l->access_log = on;
    answer_status(call);
}
