/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_read.c - reads a request from its first line until its handler is called or it is
 * refused.
 *
 * The library calls these functions on the loop thread, in this order: request line,
 * headers, body in pieces, end of the body, and again when it is resumed.
 */
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/http/http_args.h"
#include "bridge/http/httpd_internal.h"

#include <stdlib.h>

enum {
    LINE_BYTES = 64, /* upper bound of the library's record of a header or parameter */
    FIELDS_MAX = 100,
    ANSWER_ROOM = 1024,     /* of a connection's memory, reserved for response headers */
    BODY_FIRST = 64 * 1024, /* initial allocation for a body of known length */
    DISCARD_MAX = 16 * 1024 * 1024 /* bytes of a refused body that are read so that the
                                    * client receives the response */
};

/* --- is the head unambiguous? ---
 *
 * If two servers in sequence disagree where a request ends, a client can smuggle a
 * request past the first server. Therefore the ambiguities that the library accepts are
 * refused here. */

enum { CRLF = 2 };

struct frame {
    unsigned lines;  /* headers and parameters that the library records */
    unsigned fields; /* headers */
    unsigned lengths, codings, hosts;
    int64_t length;    /* Content-Length; 0: none */
    struct slice host; /* p NULL: absent, which HTTP/1.0 allows */
    bool bad, expects;
    const char *end; /* of the last value */
};

static bool begins_with(struct slice name, const char *with)
{
    return name.n >= strlen(with) && strncasecmp(name.p, with, strlen(with)) == 0;
}

/* Returns whether next follows end with exactly gap bytes between. The library accepts a
 * bare LF as line end, joins folded lines and stops at a NUL; because it parses in place,
 * each of these changes the distance. Version 1.0 and later check this themselves. */
static bool follows(const char *end, size_t gap, const char *next)
{
#if MHD_VERSION < 0x01000000
    return end + gap == next;
#else
    (void)end, (void)gap, (void)next;
    return true;
#endif
}

static bool is_length(struct slice s)
{
    bool digits = s.n > 0;
    for (size_t i = 0; i < s.n; i++)
        digits &= s.p[i] >= '0' && s.p[i] <= '9';
    return digits;
}

/* Compares names by prefix: 0.9.75 accepts "Transfer-Encoding :" as a name. */
static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                 size_t name_n, const char *value, size_t value_n)
{
    struct frame *f = arg;
    struct slice n = {name, name_n}, v = {value ? value : "", value_n};
    const char *end = v.p + v.n;
    f->lines++;
    if (kind != MHD_HEADER_KIND) /* a query parameter */
        return MHD_YES;
    f->fields++;
    f->bad |=
        !text_is_token(n) || !text_is_header_value(v) || !follows(f->end, CRLF, n.p);
    f->end = end;
    v = text_trim(v);
    if (begins_with(n, "content-length")) {
        f->lengths++;
        f->bad |= !slice_is_nocase(n, "content-length") || !is_length(v);
        f->length = v.n <= HTTPD_LENGTH_DIGITS ? strtoll(v.p, NULL, 10) : INT64_MAX;
    } else if (begins_with(n, "transfer-encoding")) {
        f->codings++;
        f->bad |=
            !slice_is_nocase(n, "transfer-encoding") || !slice_is_nocase(v, "chunked");
    } else if (slice_is_nocase(n, "host")) {
        f->hosts++;
        f->host = v;
    } else if (slice_is_nocase(n, "expect")) {
        f->expects = true;
    }
    return MHD_YES;
}

static void frame_read(const struct httpd_req *req, const char *url, const char *method,
                       const char *version, struct frame *f)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->mc, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    *f = (struct frame){.end = version + strlen(version)};
    f->bad = !follows(method + strlen(method), 1, url) ||
             !follows(url + req->target_n, 1, version);
    MHD_get_connection_values_n(req->mc, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND,
                                on_header, f);
    f->bad |= f->codings > 0 && strcmp(version, "HTTP/1.0") == 0; /* HTTP/1.0 has no
                                                                   * Transfer-Encoding */
    f->bad |= f->lengths + f->codings > 1 || f->hosts > 1 ||
              !follows(f->end, 2 * (size_t)CRLF, method + info->header_size);
}

/* Hides the query from the library; this file parses it. Before 1.0 the library stores a
 * record of each parameter in the memory of the head. If that is full, it discards the
 * head and then waits for it. It reads the target in place, so it sees an empty query. */
static void hide(const char *query)
{
#if MHD_VERSION < 0x01000000
    *(char *)(uintptr_t)query = 0;
#else
    (void)query;
#endif
}

/* Called with the request line, before all other callbacks of a request. */
void *httpd_on_line(void *arg, const char *uri, struct MHD_Connection *mc)
{
    struct httpd_conn *conn = httpd_conn_of(mc);
    struct httpd_req *req = httpd_req_new(arg, conn, mc);
    const char *query = strchr(uri, '?');
    req->target_n = strlen(uri);
    req->has_query = query != NULL;
    if (query) {
        buf_add_str(&req->query, query + 1);
        buf_room(&req->query, req->query.n); /* for httpd_query() */
        hide(query + 1);
    }
    conn->req = req;
    conn->h->progress++;
    conn->requests++;
    if (conn->state != CLOSING)
        httpd_conn_enter(conn, READING);
    return req;
}

/* Returns "/path" of a target that may be "http://host/path". */
static struct slice path_of(const char *url)
{
    const char *authority = url[0] == '/' ? NULL : strstr(url, "://");
    const char *path = authority ? strchr(authority + 3, '/') : url;
    return slice_of(path ? path : "/");
}

/* A GET row also serves HEAD; the library omits the body. */
static bool serves(const struct httpd_row *row, const char *method)
{
    const char *have = row->route->method;
    return strcmp(have, method) == 0 || strcmp(have, "*") == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(have, "GET") == 0);
}

static enum httpd_refusal find_row(struct httpd_req *req)
{
    struct httpd *h = req->h;
    struct httpd_path path;
    enum httpd_refusal refusal = NO_PATH;
    if (httpd_path_split(&path, req->path, buf_room(&req->path_buf, req->path.n)) < 0)
        return BAD_PATH;
    for (size_t i = 0; i < h->rows_n; i++) {
        int n = httpd_pattern_match(&h->rows[i].pattern, &path, req->path_params);
        if (n < 0)
            continue;
        if (serves(&h->rows[i], req->method)) {
            req->row = i;
            req->path_param_count = (unsigned)n;
            refusal = httpd_guard(req, h->rows[i].route);
            return refusal == NOT_REFUSED && h->rows[i].removed ? STOPPING : refusal;
        }
        refusal = NO_METHOD;
    }
    return refusal;
}

/* Returns whether to refuse a connection above the limit. It becomes a normal connection
 * if there is room again. */
static bool is_over_limit(const struct httpd_req *req)
{
    struct httpd_conn *conn = req->conn;
    conn->over_limit = conn->over_limit && httpd_slots_full(req->h);
    return conn->over_limit && req->h->rows[req->row].route->role != HTTPD_OPEN;
}

/* Returns whether the response headers still fit into the library's memory. Otherwise it
 * would close without a response. */
static bool head_fits(const struct httpd_req *req, const struct frame *f)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->mc, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    size_t used = info->header_size + f->lines * (size_t)LINE_BYTES + ANSWER_ROOM;
    return used <= (size_t)req->h->opts.head_max_bytes;
}

static enum httpd_refusal judge(struct httpd_req *req, const struct frame *f)
{
    const struct httpd *h = req->h;
    enum httpd_refusal refusal =
        httpd_host_is_allowed(req->h, f->host) ? find_row(req) : OTHER_HOST;
    if (refusal != NOT_REFUSED)
        return refusal;
    if (is_over_limit(req))
        return CONNECTIONS_FULL;
    if (h->closing || (h->draining && httpd_changes_state(req->method)))
        return STOPPING;
    if (f->length > h->opts.body_max_bytes)
        return TOO_LARGE;
    return httpd_bodies_fit(f->length) ? NOT_REFUSED : BODIES_FULL;
}

/* Called with the complete headers. MHD_NO closes the connection. */
static enum MHD_Result on_head(struct httpd_req *req, const char *url, const char *method,
                               const char *version)
{
    struct frame f = {0};
    frame_read(req, url, method, version, &f);
    if (!head_fits(req, &f) || f.fields > FIELDS_MAX) {
        httpd_refuse_raw(req->conn, HEAD_TOO_LARGE);
        return MHD_NO;
    }
    if (f.bad) {
        httpd_refuse_raw(req->conn, BAD_FRAMING);
        return MHD_NO;
    }
    req->stage = BODY;
    req->method = method;
    req->path = path_of(url);
    req->refusal = judge(req, &f);
    /* If the body is not sent yet, or too long to discard: respond at once and close the
     * connection. */
    if (req->refusal != NOT_REFUSED &&
        ((f.expects && (f.length || f.codings)) || f.length > DISCARD_MAX)) {
        httpd_add(req, "Connection", "close");
        httpd_refuse(req);
        return httpd_req_queue(req);
    }
    if (f.length && req->refusal == NOT_REFUSED)
        buf_room(&req->body, (size_t)(f.length < BODY_FIRST ? f.length : BODY_FIRST));
    return MHD_YES;
}

static enum MHD_Result on_body(struct httpd_req *req, const char *bytes, size_t *n)
{
    bool large = (int64_t)(req->body.n + *n) > req->h->opts.body_max_bytes;
    req->conn->body_received_bytes += (int64_t)*n;
    if (req->refusal == NOT_REFUSED && (large || !httpd_bodies_fit((int64_t)*n))) {
        req->refusal = large ? TOO_LARGE : BODIES_FULL;
        httpd_req_drop_body(req);
    }
    if (req->refusal == NOT_REFUSED)
        httpd_req_add_body(req, bytes, *n);
    else
        req->discarded += (int64_t)*n;
    *n = 0;
    if (req->discarded <= DISCARD_MAX)
        return MHD_YES;
    if (req->refusal == TOO_LARGE)
        httpd_refuse_raw(req->conn, TOO_LARGE);
    return MHD_NO;
}

static void hand_over(struct httpd_req *req)
{
    const struct httpd_row *row = &req->h->rows[req->row];
    struct err err;
    /* The row may have been removed since the headers were read. */
    if (req->refusal == NOT_REFUSED && (row->removed || req->h->closing))
        req->refusal = STOPPING;
    if (req->refusal != NOT_REFUSED)
        httpd_refuse(req);
    else if (row->route->args && httpd_read_args(req, row->route->args, &err) < 0)
        httpd_refuse_as(req, 400, "bad-request", err.text);
    else
        row->route->handle(row->arg, req);
}

static enum MHD_Result on_whole(struct httpd_req *req)
{
    httpd_conn_enter(req->conn, WAITING);
    req->stage = HANDLING;
    hand_over(req);
    if (req->stage == ANSWERED)
        return httpd_req_queue(req);
    req->stage = SUSPENDED;
    httpd_req_settle(req);
    MHD_suspend_connection(req->mc);
    return MHD_YES;
}

enum MHD_Result httpd_on_request(void *arg, struct MHD_Connection *mc, const char *url,
                                 const char *method, const char *version,
                                 const char *bytes, size_t *n, void **context)
{
    struct httpd_req *req = *context;
    (void)arg, (void)mc;
    req->h->progress++;
    if (req->conn->state == CLOSING) /* tarry has closed it: ignore everything that
                                      * follows */
        return MHD_NO;
    if (req->stage == HEAD)
        return on_head(req, url, method, version);
    if (req->stage == BODY)
        return *n ? on_body(req, bytes, n) : on_whole(req);
    if (req->response) /* resumed */
        return httpd_req_queue(req);
    *n = 0; /* answered before its body: discard the body */
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
    h->progress++;
    httpd_conn_enter(req->conn, IDLE);
    httpd_gone_check(req->conn);
    if (req->stage == HANDLING || req->stage == SUSPENDED) {
        req->on_gone = NULL;
        if (req->args.n > 0) /* parts of it are the library's memory */
            memset(req->args.p, 0, req->args.n);
        req->mc = NULL; /* its handler still holds req; httpd_answer() frees it */
    } else {
        httpd_req_done(h, req);
    }
}
