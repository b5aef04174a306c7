/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_req.c - request and response objects for handlers.
 *
 * Objects are reused. One outlives its connection only if the listener is stopped while
 * the handler holds it; its accessors then return empty values and its response is
 * dropped.
 */
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/http/httpd_url.h"
#include "bridge/http/httpd_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BODY_KEPT = 64 * 1024, /* larger buffers are freed when a request object is kept */
    IDLE_REQUESTS = 256    /* request objects kept for reuse */
};

static int64_t body_held;                             /* over all listeners */
static int64_t bodies_max_bytes = 64LL * 1024 * 1024; /* of body_held */

struct httpd_req *httpd_req_new(struct httpd *h, struct httpd_conn *conn,
                                struct MHD_Connection *mc)
{
    struct httpd_req *req = h->idle;
    if (req) {
        h->idle = req->next_idle;
        h->idle_n--;
    } else {
        req = mem_alloc(sizeof(*req));
    }
    req->h = h;
    req->conn = conn;
    req->mc = mc;
    req->stage = HEAD;
    req->refusal = NOT_REFUSED;
    req->row = 0;
    req->method = "";
    req->path = SLICE_LIT("");
    req->path_param_count = 0;
    req->discarded = 0;
    req->roles = ~0U;
    req->token_name[0] = 0;
    return req;
}

static void empty(struct buf *b)
{
    if (b->cap > BODY_KEPT)
        buf_free(b);
    else
        buf_clear(b);
}

void httpd_req_drop_body(struct httpd_req *req)
{
    body_held -= (int64_t)req->body.n;
    empty(&req->body);
}

/* Frees the request's data. The connection and the listener may no longer exist. */
static void release(struct httpd_req *req)
{
    httpd_req_drop_body(req);
    buf_clear(&req->response_headers);
    buf_clear(&req->args);
    empty(&req->query);
    empty(&req->path_buf);
    while (req->texts_n > 0)
        buf_free(&req->texts[--req->texts_n]);
    free(req->texts);
    req->texts = NULL;
    if (req->response)
        MHD_destroy_response(req->response);
    req->response = NULL;
}

void httpd_req_free(struct httpd_req *req)
{
    buf_free(&req->body);
    buf_free(&req->query);
    buf_free(&req->path_buf);
    buf_free(&req->response_headers);
    buf_free(&req->args);
    free(req);
}

void httpd_req_settle(struct httpd_req *req)
{
    struct buf *const bufs[] = {&req->body, &req->query, &req->path_buf,
                                &req->response_headers, &req->args};
    /* For an escaped path room contains the segments, but its length is 0. */
    if (memchr(req->path.p, '%', req->path.n))
        buf_grew(&req->path_buf, req->path.n);
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++) {
        if (bufs[i]->n == 0)
            buf_free(bufs[i]);
    }
}

void httpd_req_done(struct httpd *h, struct httpd_req *req)
{
    release(req);
    if (h->idle_n >= IDLE_REQUESTS) {
        httpd_req_free(req);
        return;
    }
    req->next_idle = h->idle;
    h->idle = req;
    h->idle_n++;
}

void httpd_req_add_body(struct httpd_req *req, const char *bytes, size_t n)
{
    buf_add(&req->body, bytes, n);
    body_held += (int64_t)n;
}

const struct httpd_route *httpd_route_of(const struct httpd_req *req)
{
    return req->mc ? req->h->rows[req->row].route : NULL;
}

const char *httpd_method(const struct httpd_req *req)
{
    return req->mc ? req->method : "";
}

struct slice httpd_path(const struct httpd_req *req)
{
    return req->mc ? req->path : SLICE_LIT("");
}

struct slice httpd_query_text(const struct httpd_req *req)
{
    return req->mc && req->has_query ? buf_slice(&req->query) : (struct slice){0};
}

struct slice httpd_segment(const struct httpd_req *req, unsigned n)
{
    return req->mc && n < req->path_param_count ? req->path_params[n] : (struct slice){0};
}

static bool has(struct slice s, char c)
{
    return s.n && memchr(s.p, c, s.n);
}

struct slice httpd_query(const struct httpd_req *req, const char *name)
{
    struct slice rest = httpd_query_text(req), n, value;
    while (form_next(&rest, &n, &value)) {
        if (has(n, ';') || has(value, ';') || !form_is(n, name))
            continue;
        if (!has(value, '%') && !has(value, '+'))
            return value;
        /* The buffer has as much room again, for decoded values. */
        char *room = req->query.p + req->query.n + (value.p - req->query.p);
        long decoded = form_decode(value, room);
        if (decoded >= 0)
            return (struct slice){room, (size_t)decoded};
    }
    return (struct slice){0};
}

int httpd_each_param(struct httpd_req *req, httpd_param_cb *cb, void *arg)
{
    struct slice type = httpd_header(req, "content-type");
    if (form_each(httpd_query_text(req), cb, arg) < 0)
        return -1;
    if (form_type_is(type, "application/x-www-form-urlencoded"))
        return form_each(httpd_body(req), cb, arg);
    if (form_type_is(type, "multipart/form-data"))
        return multipart_each(httpd_body(req), type, cb, arg);
    return 0;
}

struct each {
    httpd_header_cb *cb;
    void *arg;
};

static enum MHD_Result on_each(void *arg, enum MHD_ValueKind kind, const char *name,
                               size_t name_n, const char *value, size_t value_n)
{
    struct each *e = arg;
    (void)kind;
    e->cb(e->arg, (struct slice){name, name_n},
          text_trim(value ? (struct slice){value, value_n} : SLICE_LIT("")));
    return MHD_YES;
}

void httpd_each_header(const struct httpd_req *req, httpd_header_cb *cb, void *arg)
{
    struct each e = {cb, arg};
    if (req->mc)
        MHD_get_connection_values_n(req->mc, MHD_HEADER_KIND, on_each, &e);
}

struct slice httpd_header(const struct httpd_req *req, const char *name)
{
    return req->mc ? httpd_lookup(req->mc, slice_of(name)) : (struct slice){0};
}

struct slice httpd_body(const struct httpd_req *req)
{
    return buf_slice(&req->body);
}

int64_t httpd_body_bytes(void)
{
    return body_held;
}

void httpd_set_bodies_max(int64_t bytes)
{
    bodies_max_bytes = bytes;
}

bool httpd_bodies_fit(int64_t n)
{
    return body_held + n <= bodies_max_bytes;
}

void httpd_add(struct httpd_req *req, const char *name, const char *value)
{
    buf_add(&req->response_headers, name, strlen(name) + 1);
    buf_add(&req->response_headers, value, strlen(value) + 1);
}

void httpd_answer(struct httpd_req *req, unsigned status, const char *type,
                  struct slice body)
{
    must(req->stage != ANSWERED);
    req->on_gone = NULL;
    if (req->mc == NULL) { /* the listener was stopped in the meantime */
        release(req);
        httpd_req_free(req);
        return;
    }
    req->status = status;
    httpd_log_change(req);
    req->response = MHD_create_response_from_buffer(body.n, (void *)(uintptr_t)body.p,
                                                    MHD_RESPMEM_MUST_COPY);
    must(req->response != NULL);
    if (type && status != MHD_HTTP_NO_CONTENT)
        MHD_add_response_header(req->response, "Content-Type", type);
    for (size_t at = 0; at < req->response_headers.n;) {
        const char *name = req->response_headers.p + at, *value = name + strlen(name) + 1;
        MHD_add_response_header(req->response, name, value);
        at = (size_t)(value + strlen(value) + 1 - req->response_headers.p);
    }
    const struct httpd_conn *conn = req->conn;
    int64_t most = req->h->opts.requests_max;
    if (conn->over_limit || (most > 0 && conn->requests >= most))
        MHD_add_response_header(req->response, "Connection", "close");
    httpd_req_drop_body(req);
    bool suspended = req->stage == SUSPENDED;
    req->stage = ANSWERED;
    if (suspended) {
        MHD_resume_connection(req->mc);
        req->h->run_again = true;
    }
}

void httpd_answer_json(struct httpd_req *req, unsigned status, struct buf *json)
{
    httpd_answer(req, status, "application/json", buf_slice(json));
    buf_free(json);
}

void httpd_busy(struct httpd_req *req, const char *why)
{
    httpd_add(req, "Retry-After", "1");
    httpd_error(req, 503, "unavailable", "%s", why);
}

void httpd_error(struct httpd_req *req, unsigned status, const char *word,
                 const char *fmt, ...)
{
    char message[512];
    struct buf json = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    buf_add_str(&json, "{");
    text_add_json_member(&json, "error", slice_of(word));
    text_add_json_member(&json, "message", slice_of(message));
    buf_add_str(&json, "}\n");
    httpd_answer_json(req, status, &json);
}

enum MHD_Result httpd_req_queue(struct httpd_req *req)
{
    httpd_conn_enter(req->conn, ANSWERING);
    enum MHD_Result queued = MHD_queue_response(req->mc, req->status, req->response);
    MHD_destroy_response(req->response); /* the library has its own reference */
    req->response = NULL;
    return queued;
}
