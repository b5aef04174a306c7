/* SPDX-License-Identifier: BSD-2-Clause */
/* httpd_refuse.c - the server's own error responses. */
#include "bridge/base/mem.h"
#include "bridge/http/http_args.h"
#include "bridge/http/httpd_internal.h"
#include "bridge/metrics/stats.h"

#include <stdio.h>
#include <sys/socket.h>

/* The responses: {"error": word, "message": why DETAIL after}. */
static const struct {
    unsigned status;
    const char *word, *why, *after; /* after NULL: "" */
    const char *auth;               /* of WWW-Authenticate; NULL: no such header */
    bool close; /* closes the connection, as httpd_refuse_raw() always does */
} refusals[] = {
    [NO_PATH] = {404, "not-found", .why = "there is nothing at this path"},
    [BAD_PATH] = {400, "bad-path",
                  .why = "the path is empty or has a % without two hex digits"},
    [NO_METHOD] = {405, "bad-method", .why = "this path accepts only "},
    [ADMIN_ONLY] = {404, "not-here",
                    .why = "use the admin listener for this call, at the address in "
                           "admin.listen"},
    [NO_TOKEN] = {401, "no-token",
                  .why = "send Authorization: Bearer with a token from tokens: { }, or "
                         "use a client certificate listed there",
                  .auth = ""},
    [BAD_TOKEN] = {401, "bad-token",
                   .why = "the Authorization header contains no Bearer token from "
                          "tokens: { }",
                   .auth = ", error=\"invalid_token\""},
    [NO_ROLE] = {403, "no-role", .why = "this call requires a role that ",
                 .after = " does not have in tokens: { }",
                 .auth = ", error=\"insufficient_scope\""},
    [OTHER_SITE] = {403, "other-site",
                    .why = "the request comes from a page of another site; if that site "
                           "is your own proxy, add its name to the option hosts"},
    [OTHER_HOST] = {421, "other-host",
                    .why = "this listener does not accept the name in Host: use an "
                           "address or localhost, or add the name to the option hosts"},
    [TOO_LARGE] = {413, "oversize", .why = "the body is larger than the ",
                   .after = " bytes allowed"},
    [BODIES_FULL] = {503, "full",
                     .why = "the server is receiving too many request bodies; send the "
                            "request again"},
    [CONNECTIONS_FULL] = {503, "no-connection",
                          .why = "all connections of this listener are in use "
                                 "(connections_max); send the request again",
                          .close = true},
    [STOPPING] = {503, "stopping",
                  .why = "the daemon is stopping; send the request again", .close = true},
    [HEAD_TOO_LARGE] = {431, "head-oversize",
                        .why = "the request line and headers are too large or too many"},
    [BAD_FRAMING] = {400, "bad-framing",
                     .why = "send valid header lines that end with CR LF, one Host, and "
                            "one Content-Length or Transfer-Encoding: chunked"},
    [BAD_VERSION] = {505, "bad-version", .why = "send HTTP/1.1 or HTTP/1.0"},
    [BAD_LINE] = {400, "bad-request-line",
                  .why = "a request must start with a line such as GET /livez HTTP/1.1; "
                         "does the client use another protocol, or TLS?"},
    [TIMED_OUT] = {408, "timeout", .why = "the complete request did not arrive in time"},
    [TOO_MANY_CONNECTIONS] = {429, "too-many-connections",
                              .why = "this client address already has "
                                     "connections_per_address connections"},
    [IDLE_CLOSED] = {0, "idle-closed", .why = ""},
    [NO_REQUEST] = {0, "no-request", .why = ""},
};

static uint64_t counts[REFUSALS]; /* of all listeners */

void httpd_count(enum httpd_refusal what)
{
    counts[what]++;
}

void httpd_print_refusals(struct buf *out)
{
    metric_head(out, "tarry_http_refused_total", "counter",
                "Requests that a listener rejected itself, by reason; no-request: "
                "connections without a request, such as failed TLS handshakes; "
                "idle-closed: idle connections closed to accept new ones.");
    for (size_t i = NOT_REFUSED + 1; i < REFUSALS; i++)
        metric_count(out, "tarry_http_refused_total",
                     LABELS({"reason", refusals[i].word}), counts[i]);
}

/* Lists all methods of the path for Allow. */
static void list_methods(const struct httpd_req *req, struct buf *allow)
{
    struct httpd_path path;
    struct slice took[HTTPD_PATH_PARAMS_MAX];
    struct buf room = {0};
    if (httpd_path_split(&path, req->path, buf_room(&room, req->path.n)) == 0) {
        for (size_t i = 0; i < req->h->rows_n; i++) {
            const struct httpd_row *row = &req->h->rows[i];
            if (httpd_pattern_match(&row->pattern, &path, took) < 0)
                continue;
            buf_addf(allow, "%s%s%s", allow->n ? ", " : "", row->route->method,
                     strcmp(row->route->method, "GET") == 0 ? ", HEAD" : "");
        }
    }
    buf_free(&room);
}

/* Writes the message with detail inserted. */
static void compose(const struct httpd *h, enum httpd_refusal what, const char *detail,
                    char *why, size_t size)
{
    char limit[24];
    if (what == TOO_LARGE) {
        snprintf(limit, sizeof(limit), "%lld", (long long)h->opts.body_max_bytes);
        detail = limit;
    }
    snprintf(why, size, "%s%s%s", refusals[what].why, detail,
             refusals[what].after ? refusals[what].after : "");
}

void httpd_refuse_as(struct httpd_req *req, unsigned status, const char *word,
                     const char *why)
{
    const struct http_dialect *dialect = httpd_dialect(req->h);
    if (dialect->refuse)
        dialect->refuse(req->h->dialect_arg, req, status, word, why);
    else
        httpd_error(req, status, word, "%s", why);
}

void httpd_refuse(struct httpd_req *req)
{
    enum httpd_refusal what = req->refusal;
    char why[512];
    struct buf allow = {0}, auth = {0};
    httpd_count(what);
    if (what == NO_METHOD) {
        list_methods(req, &allow);
        httpd_add(req, "Allow", buf_str(&allow));
    }
    if (refusals[what].status == 503)
        httpd_add(req, "Retry-After", "1");
    if (refusals[what].auth) {
        buf_addf(&auth, "Bearer realm=\"tarry\"%s", refusals[what].auth);
        httpd_add(req, "WWW-Authenticate", buf_str(&auth));
    }
    if (refusals[what].close)
        httpd_add(req, "Connection", "close");
    compose(req->h, what, what == NO_ROLE ? req->token_name : buf_str(&allow), why,
            sizeof(why));
    httpd_refuse_as(req, refusals[what].status, refusals[what].word, why);
    must(req->stage == ANSWERED);
    buf_free(&allow);
    buf_free(&auth);
}

void httpd_refuse_raw(const struct httpd_conn *conn, enum httpd_refusal what)
{
    unsigned status = refusals[what].status;
    char why[256], body[384], text[640];
    compose(conn->h, what, "", why, sizeof(why));
    int n = snprintf(body, sizeof(body), "{\"error\":\"%s\",\"message\":\"%s\"}\n",
                     refusals[what].word, why);
    int m = snprintf(text, sizeof(text),
                     "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: "
                     "application/json\r\nContent-Length: %d\r\n\r\n%s",
                     status, MHD_get_reason_phrase_for(status), n, body);
    httpd_count(what);
    if (conn->session)
        httpd_tls_send(conn->session, text, (size_t)m);
    else if (send(conn->fd, text, (size_t)m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* the client is disconnected or does not read: it sees only the end of
                 * the stream */
}
