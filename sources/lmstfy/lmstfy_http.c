/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_http.c - the common steps of a job API request, and the answers of both APIs.
 *
 * The steps are: find the row of the path, then check the names, the pool, the token and
 * the token's limit. Then the row's function must answer exactly once, at once or later.
 */
#include "bridge/base/text.h"
#include "sources/lmstfy/lmstfy.h"

#include <stdlib.h>

static const char json_type[] = "application/json; charset=utf-8";

/* -------------------------------------------------------------------- answers */

static void add_request_id(struct httpd_req *req, char id[LMSTFY_ULID + 1])
{
    lmstfy_new_ulid(loop_wall_ms(), id);
    id[LMSTFY_ULID] = '\0';
    httpd_add(req, "X-Request-Id", id);
}

/* A request that fails or finds nothing does not count against the token's limit. */
static void count(struct lmstfy_req *r, unsigned status, int64_t latency_ms)
{
    if (r->limited && status != (r->row->produces ? 201 : 200))
        lmstfy_limit_release(r);
    lmstfy_count_http(r, httpd_method(r->req), status, latency_ms);
}

/* Writes the access log line. Omits the query, an unknown path and a path of the admin
 * API, since these may contain a token. */
static void log_access(const struct lmstfy_req *r, unsigned status, int64_t latency_ms,
                       const char *id)
{
    struct slice path = r->row == NULL ? SLICE_LIT("-")
                        : r->admin     ? slice_of(r->row->path)
                                       : httpd_path(r->req);
    const char *method = r->row && r->admin ? r->row->method : httpd_method(r->req);
    log_info(source_name(r->l->api.src),
             "code=%u latency_ms=%lld method=%s path=%.*s pool=%.*s req_id=%s", status,
             (long long)latency_ms, method, SLICE_ARG(path), SLICE_ARG(r->pool), id);
}

void lmstfy_answer_text(struct lmstfy_req *r, unsigned status, const char *type)
{
    struct lmstfy *l = r->l;
    const int64_t latency_ms = loop_mono_ms() - r->begun_ms;
    char id[LMSTFY_ULID + 1];
    add_request_id(r->req, id);
    if (!r->admin)
        count(r, status, latency_ms);
    if (l->access_log)
        log_access(r, status, latency_ms, id);
    httpd_answer(r->req, status, type, buf_slice(&r->out));
    buf_free(&r->path);
    buf_free(&r->out);
    free(r);
}

void lmstfy_answer(struct lmstfy_req *r, unsigned status)
{
    lmstfy_answer_text(r, status, json_type);
}

void lmstfy_answer_none(struct lmstfy_req *r, unsigned status)
{
    buf_clear(&r->out);
    lmstfy_answer_text(r, status, NULL);
}

static void add_member(struct buf *out, const char *key, const char *text)
{
    buf_clear(out);
    buf_addf(out, "{\"%s\":", key);
    text_add_json_go(out, slice_of(text));
    buf_add(out, "}", 1);
}

void lmstfy_answer_member(struct lmstfy_req *r, unsigned status, const char *key,
                          const char *text)
{
    add_member(&r->out, key, text);
    lmstfy_answer(r, status);
}

void lmstfy_error(struct lmstfy_req *r, unsigned status, const char *text)
{
    lmstfy_answer_member(r, status, "error", text);
}

void lmstfy_internal_error(struct lmstfy_req *r)
{
    lmstfy_error(r, 500, "internal error");
}

bool lmstfy_fail_if_unavailable(struct lmstfy_req *r, bool away)
{
    if (away)
        lmstfy_internal_error(r);
    return away;
}

static const char bad_type[] = "text/plain; charset=utf-8";

static void refuse(void *arg, struct httpd_req *req, unsigned status, const char *word,
                   const char *why)
{
    struct buf out = {0};
    char id[LMSTFY_ULID + 1];
    (void)arg, (void)word;
    if (status == 400) { /* before any routing: no request id */
        httpd_add(req, "Connection", "close");
        httpd_answer(req, 400, bad_type, SLICE_LIT("400 Bad Request"));
        return;
    }
    add_request_id(req, id);
    add_member(&out, "error", why);
    httpd_answer(req, status, json_type, buf_slice(&out));
    buf_free(&out);
}

static void count_and_refuse(void *arg, struct httpd_req *req, unsigned status,
                             const char *word, const char *why)
{
    struct lmstfy_req unread = {.l = arg};
    lmstfy_count_http(&unread, httpd_method(req), status, 0);
    refuse(arg, req, status, word, status == 413 ? "body too large" : why);
}

const struct http_dialect lmstfy_dialect = {.refuse = count_and_refuse};
const struct http_dialect lmstfy_admin_dialect = {.refuse = refuse};

/* ------------------------------------------------------------------------- paths */

/* Paths are matched here and not by the listener, since an escaped slash is a separator,
 * too, and a trailing slash is optional. */
const struct lmstfy_row lmstfy_rows[] = {
    {"PUT", "/api/:namespace/:queue", lmstfy_publish, .produces = true,
     .publishes = true},
    {"GET", "/api/:namespace/:queue", lmstfy_consume, .consumes = true},
    {"DELETE", "/api/:namespace/:queue/job/:job_id", .run = lmstfy_delete},
    {"PUT", "/api/:namespace/:queue/bulk", lmstfy_bulk, .produces = true,
     .publishes = true},
    {"PUT", "/api/:namespace/:queue/job/:job_id", lmstfy_publish, .publishes = true},
    {"GET", "/api/:namespace/:queue/job/:job_id", .run = lmstfy_peek_job},
    {"GET", "/api/:namespace/:queue/peek", .run = lmstfy_peek_queue},
    {"GET", "/api/:namespace/:queue/size", lmstfy_size, .open = true},
    {"DELETE", "/api/:namespace/:queue", .run = lmstfy_destroy},
    {"GET", "/api/:namespace/:queue/deadletter", .run = lmstfy_dead_head},
    {"GET", "/api/:namespace/:queue/deadletter/size", lmstfy_size, .open = true,
     .dead = true},
    {"PUT", "/api/:namespace/:queue/deadletter", .run = lmstfy_respawn},
    {"DELETE", "/api/:namespace/:queue/deadletter", .run = lmstfy_drop_dead},
    {0},
};

/* took receives the parameters of the path. */
static bool matches(struct slice api, struct slice path, struct slice took[3])
{
    unsigned n = 0;
    bool word = true; /* a fixed word of the pattern, not a parameter */
    while (api.p && path.p) {
        struct slice want = text_cut(&api, '/'), have = text_cut(&path, '/');
        word = want.n == 0 || want.p[0] != ':';
        if (word ? !slice_eq(want, have) : have.n == 0)
            return false;
        if (!word)
            took[n++] = have;
    }
    return api.p == NULL && (path.p == NULL || (word && path.n == 0));
}

const struct lmstfy_row *lmstfy_route(const struct lmstfy_row *rows, const char *method,
                                      struct slice path, struct slice took[3])
{
    for (const struct lmstfy_row *row = rows; row->method; row++) {
        memset(took, 0, 3 * sizeof(*took));
        if (strcmp(row->method, method) == 0 && matches(slice_of(row->path), path, took))
            return row;
    }
    return NULL;
}

struct lmstfy_req *lmstfy_req_new(struct lmstfy *l, struct httpd_req *req,
                                  const struct lmstfy_row *rows, bool admin)
{
    struct lmstfy_req *r = mem_alloc(sizeof(*r));
    struct slice path = httpd_path(req), took[3];
    char *decoded = buf_room(&r->path, path.n + 1);
    long n = text_percent_decode(path, decoded);
    if (n < 0) {
        buf_free(&r->path);
        free(r);
        refuse(NULL, req, 400, "", "");
        return NULL;
    }
    r->l = l;
    r->req = req;
    r->admin = admin;
    r->begun_ms = loop_mono_ms();
    r->row =
        lmstfy_route(rows, httpd_method(req), (struct slice){decoded, (size_t)n}, took);
    if (r->row) {
        r->ns = took[0];
        r->queue = took[1];
        r->id = took[2];
    }
    return r;
}

/* ------------------------------------------------------- what all have in common */

struct slice lmstfy_topic(struct lmstfy_req *r)
{
    struct buf *topic = &r->l->topic;
    buf_clear(topic);
    lmstfy_add_topic(topic, r->pool, r->ns, r->queue);
    return buf_slice(topic);
}

int lmstfy_param(struct lmstfy_req *r, const char *name, int64_t min, int64_t max,
                 int64_t *n)
{
    const struct http_param row = {name, HTTP_INT, .min = min, .max = max};
    struct slice text = httpd_query(r->req, name);
    struct buf error = {0};
    if (text.p == NULL || http_param_set(&row, text, n, NULL) == 0)
        return 0;
    buf_addf(&error, "invalid %s", name);
    lmstfy_error(r, 400, buf_str(&error));
    buf_free(&error);
    return -1;
}

int lmstfy_span(struct lmstfy_req *r, const char *name, int64_t def_ms, int64_t *ms)
{
    int64_t s = -1;
    if (lmstfy_param(r, name, 0, UINT32_MAX, &s) < 0)
        return -1;
    *ms = s < 0 ? def_ms : s * 1000;
    return 0;
}

void lmstfy_run(struct lmstfy_req *r)
{
    if (r->row->publishes && r->l->api.paused)
        lmstfy_internal_error(r);
    else
        r->row->run(r);
}

static void take_limit(struct lmstfy_req *r)
{
    if ((r->row->produces || r->row->consumes) && r->token.n > 0)
        lmstfy_limit_acquire(r);
    else
        lmstfy_run(r);
}

static void on_token(void *arg, enum kv_code code, struct slice description)
{
    struct lmstfy_req *r = arg;
    (void)description;
    r->known = code == KV_OK;
    if (code == KV_OK)
        take_limit(r);
    else if (code == KV_NOT)
        lmstfy_error(r, 401, "invalid token");
    else
        lmstfy_internal_error(r);
}

static void check_token(struct lmstfy_req *r)
{
    if (r->l->skip_token_check || r->row->open) {
        r->known = r->l->skip_token_check;
        take_limit(r);
    } else if (r->token.n == 0) {
        lmstfy_error(r, 401, "token not found");
    } else {
        lmstfy_look_up(r, &r->l->tokens, on_token);
    }
}

/* Returns the error of an invalid name, or NULL. A list of queues is split later. */
static const char *bad_names(const struct lmstfy_req *r)
{
    bool many = r->row->consumes;
    if (r->ns.n > LMSTFY_NAME_MAX || (!many && r->queue.n > LMSTFY_NAME_MAX))
        return "namespace or queue name too long";
    if (!lmstfy_name_is_valid(r->ns))
        return "namespace name contains forbidden characters";
    if (!many &&
        (r->queue.n == 0 || r->queue.p[0] == '_' || !lmstfy_name_is_valid(r->queue)))
        return "queue name contains forbidden characters";
    for (size_t i = 0; many && i < r->queue.n; i++) {
        if (r->queue.p[i] != ',' &&
            !lmstfy_name_is_valid((struct slice){r->queue.p + i, 1}))
            return "queue name contains forbidden characters";
    }
    return NULL;
}

static void read_token(struct lmstfy_req *r, struct slice text)
{
    struct slice pool;
    lmstfy_split_token(text, &pool, &r->token);
    if (!lmstfy_has_pool(r->l, pool)) {
        lmstfy_error(r, 404, "pool not found");
        return;
    }
    r->pool = pool;
    check_token(r);
}

void lmstfy_serve(void *arg, struct httpd_req *req)
{
    struct lmstfy_req *r = lmstfy_req_new(arg, req, lmstfy_rows, false);
    if (r == NULL)
        return;
    if (r->row == NULL) {
        lmstfy_error(r, 404, "api not found");
        return;
    }
    struct slice token = httpd_header(req, "x-token");
    const char *bad = bad_names(r);
    if (bad) {
        r->ns = SLICE_LIT(""); /* also no label in the statistics */
        lmstfy_error(r, 400, bad);
    } else {
        read_token(r, token.n > 0 ? token : httpd_query(req, "token"));
    }
}
