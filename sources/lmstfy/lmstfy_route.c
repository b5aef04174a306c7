/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_route.c - the job API as a table.
 *
 * The paths are matched here and not by the listener, since an escaped slash parts them,
 * too, and a slash at the end may be there or not.
 */
#include "sources/lmstfy/lmstfy_http.h"

static const struct lmstfy_row rows[] = {
    {"PUT", "/api/:namespace/:queue", lmstfy_publish, .produces = true,
     .publishes = true},
    {"GET", "/api/:namespace/:queue", lmstfy_consume, .consumes = true},
    {"DELETE", "/api/:namespace/:queue/job/:job_id", .run = lmstfy_delete},
    {"PUT", "/api/:namespace/:queue/bulk", lmstfy_bulk, .produces = true,
     .publishes = true},
    {"PUT", "/api/:namespace/:queue/job/:job_id", lmstfy_republish, .publishes = true},
    {"GET", "/api/:namespace/:queue/job/:job_id", .run = lmstfy_peek_job},
    {"GET", "/api/:namespace/:queue/peek", .run = lmstfy_peek_queue},
    {"GET", "/api/:namespace/:queue/size", lmstfy_size, .open = true},
    {"DELETE", "/api/:namespace/:queue", .run = lmstfy_destroy},
    {"GET", "/api/:namespace/:queue/deadletter", .run = lmstfy_dead_head},
    {"GET", "/api/:namespace/:queue/deadletter/size", lmstfy_dead_size, .open = true},
    {"PUT", "/api/:namespace/:queue/deadletter", .run = lmstfy_respawn},
    {"DELETE", "/api/:namespace/:queue/deadletter", .run = lmstfy_drop_dead},
    {0},
};

/* The part up to the next slash, which is taken off with it; p NULL: it was the last. */
static struct slice next_part(struct slice *rest)
{
    const char *slash = rest->n ? memchr(rest->p, '/', rest->n) : NULL;
    const struct slice whole = *rest;
    struct slice part = whole;
    *rest = (struct slice){0};
    if (slash) {
        part.n = (size_t)(slash - part.p);
        *rest = (struct slice){slash + 1, whole.n - part.n - 1};
    }
    return part;
}

/* took: namespace, queue, job id. */
static bool matches(struct slice api, struct slice path, struct slice took[3])
{
    unsigned n = 0;
    bool word = true; /* the pattern's, not a name */
    while (api.p && path.p) {
        struct slice want = next_part(&api), have = next_part(&path);
        word = want.n == 0 || want.p[0] != ':';
        if (word ? !slice_eq(want, have) : have.n == 0)
            return false;
        if (!word)
            took[n++] = have;
    }
    return api.p == NULL && (path.p == NULL || (word && path.n == 0));
}

const struct lmstfy_row *lmstfy_route(const char *method, struct slice path,
                                      struct slice *ns, struct slice *queue,
                                      struct slice *id)
{
    for (const struct lmstfy_row *row = rows; row->method; row++) {
        struct slice took[3] = {{0}};
        if (strcmp(row->method, method) != 0 || !matches(slice_of(row->api), path, took))
            continue;
        *ns = took[0];
        *queue = took[1];
        *id = took[2];
        return row;
    }
    return NULL;
}
