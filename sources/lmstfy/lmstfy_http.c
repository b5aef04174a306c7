/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/lmstfy/lmstfy_http.h"
#include "bridge/base/text.h"
#include "sources/lmstfy/lmstfy_id.h"

#include <stdlib.h>

enum {
    IDLE_REQUESTS = 256,   /* request objects kept for reuse */
    KEPT_BYTES = 16 * 1024 /* of a buffer of one */
};

const char lmstfy_json_type[] = "application/json; charset=utf-8";

/* ------------------------------------------------------------- request objects */

static void empty(struct buf *b)
{
    if (b->cap > KEPT_BYTES)
        buf_free(b);
    else
        buf_clear(b);
}

static struct lmstfy_req *req_new(struct lmstfy *l, struct httpd_req *req)
{
    struct lmstfy_req *r = l->idle;
    if (r) {
        l->idle = r->next;
        l->idle_count--;
    } else {
        r = mem_alloc(sizeof(*r));
    }
    const struct lmstfy_req fresh = {
        .l = l, .req = req, .begun_ms = loop_mono_ms(), .room = r->room, .out = r->out};
    *r = fresh;
    l->open++;
    return r;
}

static void req_free(struct lmstfy_req *r)
{
    buf_free(&r->room);
    buf_free(&r->out);
    free(r);
}

static void req_done(struct lmstfy_req *r)
{
    struct lmstfy *l = r->l;
    empty(&r->room);
    empty(&r->out);
    if (l->idle_count < IDLE_REQUESTS) {
        r->next = l->idle;
        l->idle = r;
        l->idle_count++;
    } else {
        req_free(r);
    }
    if (--l->open == 0 && l->stopping)
        lmstfy_all_answered(l);
}

void lmstfy_requests_free(struct lmstfy *l)
{
    while (l->idle) {
        struct lmstfy_req *next = l->idle->next;
        req_free(l->idle);
        l->idle = next;
    }
    l->idle_count = 0;
}

/* -------------------------------------------------------------------- answers */

void lmstfy_log_access(const struct lmstfy *l, const char *method, struct slice path,
                       struct slice pool, unsigned status, int64_t latency_ms,
                       const char request_id[LMSTFY_ULID])
{
    if (l->access_log)
        log_info(source_name(l->src),
                 "code=%u latency_ms=%lld method=%s path=%.*s pool=%.*s req_id=%.*s",
                 status, (long long)latency_ms, method, SLICE_ARG(path), SLICE_ARG(pool),
                 (int)LMSTFY_ULID, request_id);
}

static void add_request_id(struct lmstfy *l, struct httpd_req *req,
                           char id[LMSTFY_ULID + 1])
{
    lmstfy_ulid(l, id);
    id[LMSTFY_ULID] = '\0';
    httpd_add(req, "X-Request-Id", id);
}

/* What finds nothing, or fails, does not count against the token's limit. */
static bool counts(const struct lmstfy_req *r, unsigned status)
{
    return status == (r->row->produces ? 201 : 200);
}

static void finish(struct lmstfy_req *r, unsigned status, const char *type)
{
    struct lmstfy *l = r->l;
    const char *method = httpd_method(r->req);
    int64_t latency_ms = loop_mono_ms() - r->begun_ms;
    char id[LMSTFY_ULID + 1];
    add_request_id(l, r->req, id);
    if (r->limited && !counts(r, status))
        lmstfy_limit_give_back(l, r->pool, r->ns, r->token,
                               r->row->produces ? LMSTFY_PRODUCE : LMSTFY_CONSUME);
    lmstfy_count_http(l, &(struct lmstfy_seen){.api = r->row ? r->row->api : "",
                                               .method = method,
                                               .ns = r->ns,
                                               .pool = r->pool,
                                               .status = status,
                                               .latency_ms = latency_ms,
                                               .known = r->known});
    /* A path of no row may hold a token: that of the admin API has one in its midst. */
    struct slice shown = r->row ? r->path : SLICE_LIT("-");
    lmstfy_log_access(l, method, shown, r->pool, status, latency_ms, id);
    httpd_answer(r->req, status, type, buf_slice(&r->out));
    req_done(r);
}

void lmstfy_answer(struct lmstfy_req *r, unsigned status)
{
    finish(r, status, lmstfy_json_type);
}

void lmstfy_no_content(struct lmstfy_req *r)
{
    buf_clear(&r->out);
    finish(r, 204, NULL);
}

static void answer_member(struct lmstfy_req *r, unsigned status, const char *key,
                          const char *text)
{
    buf_clear(&r->out);
    buf_addf(&r->out, "{\"%s\":", key);
    text_add_json_go(&r->out, slice_of(text));
    buf_add(&r->out, "}", 1);
    lmstfy_answer(r, status);
}

void lmstfy_error(struct lmstfy_req *r, unsigned status, const char *error)
{
    answer_member(r, status, "error", error);
}

void lmstfy_internal_error(struct lmstfy_req *r)
{
    lmstfy_error(r, 500, "internal error");
}

void lmstfy_drop(struct lmstfy_req *r)
{
    buf_clear(&r->out);
    finish(r, 404, NULL);
}

static void refuse(void *arg, struct httpd_req *req, unsigned status, const char *word,
                   const char *why)
{
    struct lmstfy *l = arg;
    char id[LMSTFY_ULID + 1];
    struct buf out = {0};
    (void)word;
    lmstfy_count_http(l, &(struct lmstfy_seen){.api = "",
                                               .method = httpd_method(req),
                                               .ns = SLICE_LIT(""),
                                               .pool = SLICE_LIT(""),
                                               .status = status});
    if (status == 400) { /* before any routing: no request id */
        httpd_add(req, "Connection", "close");
        httpd_answer(req, 400, "text/plain; charset=utf-8", SLICE_LIT("400 Bad Request"));
        return;
    }
    add_request_id(l, req, id);
    buf_add_str(&out, "{\"error\":");
    text_add_json_go(&out, slice_of(status == 413 ? "body too large" : why));
    buf_add_str(&out, "}");
    httpd_answer(req, status, lmstfy_json_type, buf_slice(&out));
    buf_free(&out);
}

const struct http_dialect lmstfy_dialect = {.refuse = refuse};

/* ------------------------------------------------------- what all have in common */

struct slice lmstfy_topic(struct lmstfy_req *r)
{
    struct buf *topic = &r->l->topic;
    buf_clear(topic);
    lmstfy_add_topic(topic, r->pool, r->ns, r->queue);
    return buf_slice(topic);
}

int lmstfy_param(struct lmstfy_req *r, enum lmstfy_param param, int64_t max, int64_t *n,
                 const char *error)
{
    if (r->params[param].p == NULL || lmstfy_number(r->params[param], max, n) == 0)
        return 0;
    lmstfy_error(r, 400, error);
    return -1;
}

static void run(struct lmstfy_req *r)
{
    if (r->row->publishes && r->l->paused)
        lmstfy_internal_error(r);
    else
        r->row->run(r);
}

static void refuse_for_limit(struct lmstfy_req *r)
{
    struct buf text = {0};
    buf_addf(&text, "token(%.*s) %s reach the limit rate, please retry later",
             SLICE_ARG(r->token), r->row->produces ? "produce" : "consume");
    answer_member(r, 429, "msg", buf_str(&text));
    buf_free(&text);
}

static void on_limit(void *arg, enum lmstfy_answer answer)
{
    struct lmstfy_req *r = arg;
    if (answer == LMSTFY_YES) {
        r->limited = true;
        run(r);
    } else if (answer == LMSTFY_NO) {
        refuse_for_limit(r);
    } else {
        answer_member(r, 500, "err", "the limits cannot be read");
    }
}

static void take_limit(struct lmstfy_req *r)
{
    if ((!r->row->produces && !r->row->consumes) || r->token.n == 0) {
        run(r);
        return;
    }
    enum lmstfy_answer answer = lmstfy_limit_take(
        r->l, r->pool, r->ns, r->token,
        r->row->produces ? LMSTFY_PRODUCE : LMSTFY_CONSUME, on_limit, r);
    if (answer == LMSTFY_YES)
        run(r); /* there is no limit, and nothing was counted */
    else if (answer != LMSTFY_LATER)
        on_limit(r, answer);
}

static void on_auth(void *arg, enum lmstfy_answer answer)
{
    struct lmstfy_req *r = arg;
    r->known = answer == LMSTFY_YES;
    if (answer == LMSTFY_YES)
        take_limit(r);
    else if (answer == LMSTFY_NO)
        lmstfy_error(r, 401, "invalid token");
    else
        lmstfy_internal_error(r);
}

static void check_token(struct lmstfy_req *r)
{
    struct lmstfy *l = r->l;
    if (l->skip_token_check || r->row->open) {
        r->known = l->skip_token_check;
        take_limit(r);
        return;
    }
    if (r->token.n == 0) {
        lmstfy_error(r, 401, "token not found");
        return;
    }
    enum lmstfy_answer answer = lmstfy_auth(l, r->pool, r->ns, r->token, on_auth, r);
    if (answer != LMSTFY_LATER)
        on_auth(r, answer);
}

/* The reason why these can't be names, or NULL. A list of queues is cut up later. */
static const char *bad_names(const struct lmstfy_req *r)
{
    bool many = r->row->consumes;
    if (r->ns.n > LMSTFY_NAME_MAX || (!many && r->queue.n > LMSTFY_NAME_MAX))
        return "namespace or queue name too long";
    if (!lmstfy_name_is_good(r->ns))
        return "namespace name contains forbidden characters";
    if (!many && (r->queue.p[0] == '_' || !lmstfy_name_is_good(r->queue)))
        return "queue name contains forbidden characters";
    for (size_t i = 0; many && i < r->queue.n; i++) {
        if (r->queue.p[i] != ',' &&
            !lmstfy_name_is_good((struct slice){r->queue.p + i, 1}))
            return "queue name contains forbidden characters";
    }
    return NULL;
}

static void read_token(struct lmstfy_req *r, struct slice text)
{
    struct slice pool;
    lmstfy_cut_token(text, &pool, &r->token);
    if (!lmstfy_has_pool(r->l, pool)) {
        lmstfy_error(r, 404, "pool not found");
        return;
    }
    r->pool = pool;
    check_token(r);
}

/* ---------------------------------------------------------------- from the listener */

static struct slice keep(struct buf *room, struct slice s)
{
    char *p = room->p + room->n;
    slice_put(p, s);
    buf_grew(room, s.n);
    return (struct slice){p, s.n};
}

/* Reads path, parameters and token into its own memory. -1: a bad escape in the path. */
static int read_line(struct lmstfy_req *r, struct slice *path, struct slice *token)
{
    struct slice query = httpd_query_text(r->req);
    *token = httpd_header(r->req, "x-token");
    r->path = httpd_path(r->req);
    buf_room(&r->room, 2 * r->path.n + query.n + token->n + 1); /* it does not move */
    r->path = keep(&r->room, r->path);
    if (token->n > 0)
        *token = keep(&r->room, *token);
    char *at = r->room.p + r->room.n;
    long n = text_percent_decode(r->path, at);
    if (n < 0)
        return -1;
    *path = (struct slice){at, (size_t)n};
    buf_grew(&r->room, path->n);
    lmstfy_query_read(query, r->params, r->room.p + r->room.n);
    if (token->n == 0)
        *token = r->params[PARAM_TOKEN];
    return 0;
}

void lmstfy_take(void *arg, struct httpd_req *req)
{
    struct lmstfy *l = arg;
    struct slice path, token, ns, queue, id;
    struct lmstfy_req *r = req_new(l, req);
    if (read_line(r, &path, &token) < 0) {
        buf_add_str(&r->out, "400 Bad Request");
        httpd_add(req, "Connection", "close");
        finish(r, 400, "text/plain; charset=utf-8");
        return;
    }
    r->row = lmstfy_route(httpd_method(req), path, &ns, &queue, &id);
    if (r->row == NULL) {
        lmstfy_error(r, 404, "api not found");
        return;
    }
    r->ns = ns;
    r->queue = queue;
    r->id = id;
    const char *bad = bad_names(r);
    if (bad) {
        r->ns = SLICE_LIT(""); /* no label of the statistics either */
        lmstfy_error(r, 400, bad);
    } else if (l->stopping) {
        httpd_add(req, "Connection", "close");
        lmstfy_error(r, 503, "the server is stopping");
    } else {
        read_token(r, token);
    }
}
