/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_read.c - a request from its first line until its handler has it, or it is
 * refused.
 *
 * Called by the library, on the loop thread. The order of its calls: the line, the
 * headers, the body in pieces, the end of the body, then once more when it is resumed.
 */
#include "bridge/httpd_parts.h"
#include "bridge/mem.h"
#include "bridge/text.h"

#include <stdlib.h>

enum {
    BODY_FIRST = 64 * 1024, /* room made for a body that was announced */
    DISCARD_MAX =
        16 * 1024 * 1024 /* of a refused body we read, so that the answer arrives */
};

/* The request line is there: the first that the library tells of a request. */
void *httpd_on_line(void *arg, const char *uri, struct MHD_Connection *mc)
{
    struct httpd_conn *conn = httpd_conn_of(mc);
    conn->req = httpd_req_new(arg, conn, mc);
    conn->req->has_query = strchr(uri, '?') != NULL;
    httpd_conn_enter(conn, READING);
    return conn->req;
}

struct framing {
    unsigned lengths, codings, hosts;
    int64_t length;
    bool bad, expects;
};

static bool begins(struct slice name, const char *with)
{
    return name.n >= strlen(with) && strncasecmp(name.p, with, strlen(with)) == 0;
}

/* Names are matched by their beginning: 0.9.75 takes "Transfer-Encoding :" for a name,
 * and adds what stands on a folded line to the name instead of the value. */
static enum MHD_Result on_framing(void *arg, enum MHD_ValueKind kind, const char *name,
                                  size_t name_n, const char *value, size_t value_n)
{
    struct framing *f = arg;
    struct slice n = {name, name_n}, v = {value, value_n};
    (void)kind;
    f->bad |= !text_is_token(n);
    if (begins(n, "content-length")) {
        f->lengths++;
        f->bad |= !slice_is_nocase(n, "content-length");
        f->length = value ? strtoll(value, NULL, 10) : 0;
    } else if (begins(n, "transfer-encoding")) {
        f->codings++;
        f->bad |=
            !slice_is_nocase(n, "transfer-encoding") || !slice_is_nocase(v, "chunked");
    } else if (slice_is_nocase(n, "host")) {
        f->hosts++;
    } else if (slice_is_nocase(n, "expect")) {
        f->expects = true;
    }
    return MHD_YES;
}

/* "/path" of a target that may be "http://host/path". */
static struct slice path_of(const char *url)
{
    const char *authority = url[0] == '/' ? NULL : strstr(url, "://");
    const char *path = authority ? strchr(authority + 3, '/') : url;
    return slice_of(path ? path : "/");
}

/* HEAD is served as GET; the library leaves the body out. */
static bool serves(const struct httpd_row *row, const char *method)
{
    const char *have = row->route->method;
    return strcmp(have, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(have, "GET") == 0);
}

static enum httpd_refusal find_row(struct httpd_req *req, const char *url,
                                   const char *method)
{
    struct httpd *h = req->h;
    struct slice raw = path_of(url);
    enum httpd_refusal refusal = NO_PATH;
    if (httpd_path_split(&req->path, raw, buf_room(&req->room, raw.n)) < 0)
        return BAD_PATH;
    for (size_t i = 0; i < h->rows_n; i++) {
        int n = httpd_pattern_match(&h->rows[i].pattern, &req->path, req->took);
        if (n < 0)
            continue;
        if (serves(&h->rows[i], method)) {
            req->row = i;
            req->took_n = (unsigned)n;
            return h->rows[i].gone ? DRAINED : NOT_REFUSED;
        }
        refusal = NO_METHOD;
    }
    return refusal;
}

static bool changes_state(const char *method)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE", "PATCH"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(method, methods[i]) == 0)
            return true;
    }
    return false;
}

/* Answers with every method the path has. */
static void refuse_method(struct httpd_req *req)
{
    struct buf allow = {0};
    struct slice took[HTTPD_SEGMENTS_MAX];
    for (size_t i = 0; i < req->h->rows_n; i++) {
        const struct httpd_row *row = &req->h->rows[i];
        if (httpd_pattern_match(&row->pattern, &req->path, took) < 0)
            continue;
        buf_addf(&allow, "%s%s%s", allow.n ? ", " : "", row->route->method,
                 strcmp(row->route->method, "GET") == 0 ? ", HEAD" : "");
    }
    httpd_add(req, "Allow", buf_str(&allow));
    httpd_error(req, 405, "bad-method", "this path takes %s only", buf_str(&allow));
    buf_free(&allow);
}

static void refuse(struct httpd_req *req)
{
    switch (req->refusal) {
    case BAD_PATH:
        httpd_error(req, 400, "bad-path",
                    "the path is none, or has a %% without two hex digits");
        return;
    case NO_METHOD:
        refuse_method(req);
        return;
    case TOO_LARGE:
        httpd_error(req, 413, "oversize",
                    "the body is larger than the %lld bytes allowed",
                    (long long)req->h->conf.body_max);
        return;
    case CROWDED:
        httpd_add(req, "Retry-After", "1");
        httpd_error(req, 503, "full",
                    "too many bodies are being received; send it again");
        return;
    case DRAINED:
        httpd_add(req, "Retry-After", "1");
        httpd_add(req, "Connection", "close");
        httpd_error(req, 503, "stopping", "the daemon is stopping; send it again");
        return;
    case NO_PATH:
    case NOT_REFUSED:
        httpd_error(req, 404, "not-found", "there is nothing at this path");
        return;
    }
}

/* The headers are there. MHD_NO closes the connection. */
static enum MHD_Result on_head(struct httpd_req *req, const char *url, const char *method)
{
    struct httpd *h = req->h;
    struct framing f = {0};
    MHD_get_connection_values_n(req->mc, MHD_HEADER_KIND, on_framing, &f);
    if (f.bad || f.lengths + f.codings > 1 || f.hosts > 1) {
        httpd_answer_raw(req->conn->fd, "400 Bad Request", "bad-framing",
                         "send proper header names, one Host, and one Content-Length or "
                         "Transfer-Encoding: chunked");
        return MHD_NO;
    }
    req->stage = BODY;
    req->refusal = find_row(req, url, method);
    if (h->draining && changes_state(method))
        req->refusal = DRAINED;
    if (req->refusal == NOT_REFUSED && f.length > h->conf.body_max)
        req->refusal = TOO_LARGE;
    if (req->refusal == NOT_REFUSED && httpd_body_bytes() + f.length > h->conf.bodies_max)
        req->refusal = CROWDED;
    /* A body that is not sent yet, or too long to be read for nothing: the answer goes
     * out at once, and the connection with it. */
    if (req->refusal != NOT_REFUSED &&
        ((f.expects && (f.length || f.codings)) || f.length > DISCARD_MAX)) {
        httpd_add(req, "Connection", "close");
        refuse(req);
        return httpd_req_queue(req);
    }
    if (f.length && req->refusal == NOT_REFUSED)
        buf_room(&req->body, (size_t)(f.length < BODY_FIRST ? f.length : BODY_FIRST));
    return MHD_YES;
}

static enum MHD_Result on_body(struct httpd_req *req, const char *bytes, size_t *n)
{
    if (req->refusal == NOT_REFUSED &&
        (int64_t)(req->body.n + *n) > req->h->conf.body_max) {
        req->refusal = TOO_LARGE;
        httpd_req_drop_body(req);
    }
    if (req->refusal == NOT_REFUSED &&
        httpd_body_bytes() + (int64_t)*n > req->h->conf.bodies_max) {
        req->refusal = CROWDED;
        httpd_req_drop_body(req);
    }
    if (req->refusal == NOT_REFUSED) {
        httpd_req_add_body(req, bytes, *n);
    } else {
        req->discarded += (int64_t)*n;
    }
    *n = 0;
    if (req->discarded <= DISCARD_MAX)
        return MHD_YES;
    if (req->refusal == TOO_LARGE)
        httpd_answer_raw(req->conn->fd, "413 Payload Too Large", "oversize",
                         "the body is larger than allowed");
    return MHD_NO;
}

static enum MHD_Result on_whole(struct httpd_req *req)
{
    struct httpd_row *row = &req->h->rows[req->row];
    httpd_conn_enter(req->conn, WAITING);
    req->stage = HANDED;
    if (req->refusal == NOT_REFUSED && row->gone)
        req->refusal = DRAINED;
    if (req->refusal != NOT_REFUSED)
        refuse(req);
    else
        row->route->handle(row->arg, req);
    if (req->stage == ANSWERED)
        return httpd_req_queue(req);
    req->stage = SUSPENDED;
    MHD_suspend_connection(req->mc);
    return MHD_YES;
}

enum MHD_Result httpd_on_request(void *arg, struct MHD_Connection *mc, const char *url,
                                 const char *method, const char *version,
                                 const char *bytes, size_t *n, void **context)
{
    struct httpd_req *req = *context;
    (void)arg, (void)mc, (void)version;
    if (req->stage == HEAD)
        return on_head(req, url, method);
    if (req->stage == BODY)
        return *n ? on_body(req, bytes, n) : on_whole(req);
    if (req->response) /* resumed */
        return httpd_req_queue(req);
    *n = 0; /* answered before its body came: the body goes nowhere */
    return MHD_YES;
}

void httpd_on_completed(void *arg, struct MHD_Connection *mc, void **context,
                        enum MHD_RequestTerminationCode why)
{
    struct httpd *h = arg;
    struct httpd_req *req = *context;
    (void)mc, (void)why;
    if (req == NULL)
        return;
    *context = NULL;
    req->conn->req = NULL;
    httpd_conn_enter(req->conn, IDLE);
    if (req->stage == HANDED || req->stage == SUSPENDED)
        req->mc = NULL; /* its handler has it still; httpd_answer() frees it */
    else
        httpd_req_done(h, req);
}
