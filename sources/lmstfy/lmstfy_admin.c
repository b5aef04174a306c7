/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_admin.c - the admin API's listener: its routes, who may use them, and the start
 * and the end of the admin half.
 */
#include "bridge/base/text.h"
#include "sources/lmstfy/lmstfy_admin.h"
#include "sources/lmstfy/lmstfy_copy.h"

#include <stdlib.h>

/* Changes are told; this is for those of which the news got lost. */
enum { REFRESH_MS = 10 * 1000, REFRESH_SOON_MS = 1000 };

static const struct lmstfy_admin_row rows[] = {
    {"GET", "/version", false, lmstfy_about_version},
    {"GET", "/pools", false, lmstfy_about_pools},
    {"GET", "/pools/", false, lmstfy_about_pools},
    {"GET", "/info", false, lmstfy_about_info},
    {"GET", "/metrics", false, lmstfy_metrics_get},
    {"GET", "/accesslog", false, lmstfy_accesslog_get},
    {"POST", "/accesslog", true, lmstfy_accesslog_set},
    {"POST", "/token/{}", true, lmstfy_token_new},
    {"GET", "/token/{}", true, lmstfy_token_list},
    {"DELETE", "/token/{}/{}", true, lmstfy_token_delete},
    {"GET", "/limits", true, lmstfy_limit_list},
    {"GET", "/token/{}/{}/limit", true, lmstfy_limit_get},
    {"POST", "/token/{}/{}/limit", true, lmstfy_limit_add},
    {"PUT", "/token/{}/{}/limit", true, lmstfy_limit_set},
    {"DELETE", "/token/{}/{}/limit", true, lmstfy_limit_delete},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* What the HTTP server is given for a row: each is a table of one, with an own arg. */
struct served {
    struct lmstfy *l;
    const struct lmstfy_admin_row *row;
    struct httpd_route table[2];
};

struct lmstfy_admin {
    struct httpd *httpd;
    struct served served[ROWS];
    struct timer *refresh;
    unsigned open; /* requests, and questions to Redis */
    bool stopping;
    loop_cb *stopped;
    void *stopped_arg;
};

/* ------------------------------------------------------------- answers */

static void add_request_id(struct lmstfy *l, struct httpd_req *req,
                           char id[LMSTFY_ULID + 1])
{
    lmstfy_ulid(l, id);
    id[LMSTFY_ULID] = '\0';
    httpd_add(req, "X-Request-Id", id);
}

void lmstfy_call_text(struct lmstfy_call *call, unsigned status, const char *type)
{
    struct lmstfy *l = call->l;
    char id[LMSTFY_ULID + 1];
    add_request_id(l, call->req, id);
    lmstfy_log_access(l, call->row->method, slice_of(call->row->path), SLICE_LIT(""),
                      status, (loop_mono_us() - call->begun_us) / 1000, id);
    httpd_answer(call->req, status, type, buf_slice(&call->out));
    buf_free(&call->out);
    buf_free(&call->key);
    free(call);
    lmstfy_let_go(l);
}

void lmstfy_call_json(struct lmstfy_call *call, unsigned status)
{
    lmstfy_call_text(call, status, lmstfy_json_type);
}

void lmstfy_call_none(struct lmstfy_call *call, unsigned status)
{
    buf_clear(&call->out);
    lmstfy_call_text(call, status, NULL);
}

static void add_error(struct buf *out, const char *text)
{
    buf_add_str(out, "{\"error\":");
    text_add_json_go(out, slice_of(text));
    buf_add_str(out, "}");
}

void lmstfy_call_error(struct lmstfy_call *call, unsigned status, const char *text)
{
    buf_clear(&call->out);
    add_error(&call->out, text);
    lmstfy_call_json(call, status);
}

void lmstfy_call_away(struct lmstfy_call *call)
{
    lmstfy_call_error(call, 500, "internal error");
}

/* ------------------------------------------------------------ who may */

/* Takes as long for a wrong secret as for the right one of that length. */
static bool same_secret(struct slice given, struct slice secret)
{
    volatile unsigned char differs = given.n != secret.n;
    for (size_t i = 0; i < given.n && secret.n > 0; i++)
        differs |= (unsigned char)(given.p[i] ^ secret.p[i % secret.n]);
    return !differs;
}

/* "Basic BASE64(USER:PASSWORD)" of one of the accounts. */
static bool may(const struct lmstfy *l, const struct httpd_req *req)
{
    static const char scheme[] = "Basic ";
    struct slice given = httpd_header(req, "authorization");
    size_t n = sizeof(scheme) - 1;
    struct buf pair = {0}, account = {0};
    bool found = false;
    if (given.n <= n || strncasecmp(given.p, scheme, n) != 0)
        return false;
    given = (struct slice){given.p + n, given.n - n};
    if (text_base64_decode(given, &pair) == 0) {
        for (size_t i = 0; i < l->accounts.n; i++) {
            buf_clear(&account);
            buf_addf(&account, "%s:%s", l->accounts.v[i].name, l->accounts.v[i].value);
            found |= same_secret(buf_slice(&pair), buf_slice(&account));
        }
    }
    buf_free(&pair);
    buf_free(&account);
    return found;
}

/* ------------------------------------------------------------ requests */

static void on_request(void *arg, struct httpd_req *req)
{
    const struct served *served = arg;
    struct lmstfy_call *call = mem_alloc(sizeof(*call));
    *call = (struct lmstfy_call){
        .l = served->l, .row = served->row, .req = req, .begun_us = loop_mono_us()};
    lmstfy_hold(call->l);
    if (call->row->guarded && call->l->accounts.n > 0 && !may(call->l, req)) {
        httpd_add(req, "WWW-Authenticate", "Basic realm=\"Authorization Required\"");
        lmstfy_call_none(call, 401);
        return;
    }
    call->row->handle(call);
}

static void on_rest(void *arg, struct httpd_req *req)
{
    char id[LMSTFY_ULID + 1];
    add_request_id(arg, req, id);
    httpd_answer(req, 404, "text/plain", SLICE_LIT("404 page not found"));
}

static void on_refuse(void *arg, struct httpd_req *req, unsigned status, const char *word,
                      const char *why)
{
    struct buf out = {0};
    char id[LMSTFY_ULID + 1];
    (void)word;
    if (status == 400) { /* before any routing, as in the job API */
        httpd_add(req, "Connection", "close");
        httpd_answer(req, 400, "text/plain; charset=utf-8", SLICE_LIT("400 Bad Request"));
        return;
    }
    add_request_id(arg, req, id);
    add_error(&out, why);
    httpd_answer(req, status, lmstfy_json_type, buf_slice(&out));
    buf_free(&out);
}

static const struct http_dialect dialect = {.refuse = on_refuse};

void lmstfy_add_key(struct buf *out, struct slice pool, struct slice ns,
                    struct slice token)
{
    buf_add_slice(out, pool);
    buf_add(out, "/", 1);
    buf_add_slice(out, ns);
    buf_add(out, "/", 1);
    buf_add_slice(out, token);
}

struct slice lmstfy_call_ns(const struct lmstfy_call *call)
{
    struct slice ns = httpd_segment(call->req, 0);
    return lmstfy_name_is_good(ns) ? ns : SLICE_LIT("");
}

int lmstfy_call_key(struct lmstfy_call *call)
{
    struct slice pool, token;
    lmstfy_cut_token(httpd_segment(call->req, 1), &pool, &token);
    if (!lmstfy_has_pool(call->l, pool)) {
        lmstfy_call_error(call, 400, "the pool was not exists");
        return -1;
    }
    lmstfy_add_key(&call->key, pool, lmstfy_call_ns(call), token);
    return 0;
}

/* ------------------------------------------------------------ start and stop */

static void on_refresh(void *arg)
{
    struct lmstfy *l = arg;
    timer_set(l->admin->refresh, REFRESH_MS);
    lmstfy_copy_refresh(l->tokens, false);
    lmstfy_copy_refresh(l->limits, false);
}

void lmstfy_refresh_soon(struct lmstfy *l)
{
    if (!l->admin->stopping)
        timer_set(l->admin->refresh, REFRESH_SOON_MS);
}

static void on_shelf_changed(void *arg)
{
    struct lmstfy *l = arg;
    lmstfy_copy_refresh(l->tokens, true);
    lmstfy_copy_refresh(l->limits, true);
}

static void serve(struct lmstfy *l)
{
    static const struct httpd_route rest[] = {{"*", "/{*}", on_rest, HTTPD_OPEN, NULL},
                                              {0}};
    struct lmstfy_admin *a = l->admin;
    for (size_t i = 0; i < ROWS; i++) {
        a->served[i] = (struct served){
            .l = l,
            .row = &rows[i],
            .table = {{rows[i].method, rows[i].path, on_request, HTTPD_OPEN, NULL}},
        };
        httpd_serve(a->httpd, a->served[i].table, &a->served[i]);
    }
    httpd_serve(a->httpd, rest, l);
    httpd_set_dialect(a->httpd, &dialect, l);
}

int lmstfy_admin_start(struct lmstfy *l, struct err *err)
{
    struct buf name = {0};
    buf_addf(&name, "%s.admin", source_name(l->src));
    struct httpd *httpd = httpd_open(buf_str(&name), &l->admin_http, err);
    buf_free(&name);
    if (httpd == NULL)
        return err_in(err, "admin_listen");
    l->admin = mem_alloc(sizeof(*l->admin));
    l->admin->httpd = httpd;
    l->admin->refresh = timer_new(on_refresh, l);
    l->tokens = lmstfy_copy_new(l, LMSTFY_TOKENS_SHELF);
    l->limits = lmstfy_copy_new(l, LMSTFY_LIMITS_SHELF);
    lmstfy_metrics_start(l);
    shelf_watch(l->src, on_shelf_changed, l);
    on_refresh(l);
    serve(l);
    return 0;
}

void lmstfy_hold(struct lmstfy *l)
{
    l->admin->open++;
}

static void finish(struct lmstfy *l)
{
    struct lmstfy_admin *a = l->admin;
    lmstfy_copy_free(l->tokens);
    lmstfy_copy_free(l->limits);
    lmstfy_metrics_free(l);
    l->admin = NULL;
    a->stopped(a->stopped_arg);
    loop_defer_free(a);
}

void lmstfy_let_go(struct lmstfy *l)
{
    must(l->admin->open > 0);
    l->admin->open--;
    if (l->admin->open == 0 && l->admin->stopping)
        finish(l);
}

void lmstfy_admin_stop(struct lmstfy *l, loop_cb *stopped, void *arg)
{
    struct lmstfy_admin *a = l->admin;
    a->stopped = stopped;
    a->stopped_arg = arg;
    shelf_watch(l->src, NULL, NULL);
    timer_del(a->refresh);
    a->open++; /* closing the listener may end what is open */
    a->stopping = true;
    lmstfy_metrics_stop(l);
    httpd_stop(a->httpd);
    lmstfy_let_go(l);
}
