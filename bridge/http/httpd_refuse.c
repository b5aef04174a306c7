/* SPDX-License-Identifier: BSD-2-Clause */
/* httpd_refuse.c - the server's own error responses. */
#include "bridge/base/mem.h"
#include "bridge/http/http_args.h"
#include "bridge/http/httpd_internal.h"
#include "bridge/metrics/stats.h"

#include <stdio.h>
#include <sys/socket.h>

/* The responses: {"error": word, "message": before DETAIL after}. */
static const struct {
    const char *word, *before, *after;
    const char *header, *value; /* NULL: none */
    unsigned status;
    bool close; /* closes the connection */
} refusals[] = {
    [NO_PATH] = {"not-found", "there is nothing at this path", "", NULL, NULL, 404,
                 false},
    [BAD_PATH] = {"bad-path", "the path is empty or has a % without two hex digits", "",
                  NULL, NULL, 400, false},
    [NO_METHOD] = {"bad-method", "this path accepts only ", "", NULL, NULL, 405, false},
    [ADMIN_ONLY] =
        {"not-here",
         "use the admin listener for this call, at the address in admin.listen", "", NULL,
         NULL, 404, false},
    [NO_TOKEN] = {"no-token",
                  "send Authorization: Bearer with a token from tokens: { }, or use a "
                  "client certificate listed there",
                  "", "WWW-Authenticate", "Bearer realm=\"tarry\"", 401, false},
    [BAD_TOKEN] = {"bad-token",
                   "the Authorization header contains no Bearer token from tokens: { }",
                   "", "WWW-Authenticate",
                   "Bearer realm=\"tarry\", error=\"invalid_token\"", 401, false},
    [NO_ROLE] = {"no-role", "this call requires a role that ",
                 " does not have in tokens: { }", "WWW-Authenticate",
                 "Bearer realm=\"tarry\", error=\"insufficient_scope\"", 403, false},
    [OTHER_SITE] = {"other-site",
                    "the request comes from a page of another site; if that site is your "
                    "own proxy, add its name to the option hosts",
                    "", NULL, NULL, 403, false},
    [OTHER_HOST] = {"other-host",
                    "this listener does not accept the name in Host: use an address or "
                    "localhost, or add the name to the option hosts",
                    "", NULL, NULL, 421, false},
    [TOO_LARGE] = {"oversize", "the body is larger than the ", " bytes allowed", NULL,
                   NULL, 413, false},
    [BODIES_FULL] =
        {"full",
         "the server is receiving too many request bodies; send the request again", "",
         "Retry-After", "1", 503, false},
    [CONNECTIONS_FULL] =
        {"no-connection",
         "all connections of this listener are in use (connections_max); send "
         "the request again",
         "", "Retry-After", "1", 503, true},
    [STOPPING] = {"stopping", "the daemon is stopping; send the request again", "",
                  "Retry-After", "1", 503, true},
    [HEAD_TOO_LARGE] = {"head-oversize",
                        "the request line and headers are too large or too many", "",
                        NULL, NULL, 431, true},
    [BAD_FRAMING] = {"bad-framing",
                     "send valid header lines that end with CR LF, one Host, and one "
                     "Content-Length or Transfer-Encoding: chunked",
                     "", NULL, NULL, 400, true},
    [BAD_VERSION] = {"bad-version", "send HTTP/1.1 or HTTP/1.0", "", NULL, NULL, 505,
                     true},
    [BAD_LINE] = {"bad-request-line",
                  "a request must start with a line such as GET /livez HTTP/1.1; does "
                  "the client use another protocol, or TLS?",
                  "", NULL, NULL, 400, true},
    [TIMED_OUT] = {"timeout", "the complete request did not arrive in time", "", NULL,
                   NULL, 408, true},
    [TOO_MANY_CONNECTIONS] =
        {"too-many-connections",
         "this client address already has connections_per_address connections", "", NULL,
         NULL, 429, true},
    [IDLE_CLOSED] = {"idle-closed", "", "", NULL, NULL, 0, true},
    [NO_REQUEST] = {"no-request", "", "", NULL, NULL, 0, true},
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
    snprintf(why, size, "%s%s%s", refusals[what].before, detail, refusals[what].after);
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
    struct buf allow = {0};
    httpd_count(what);
    if (what == NO_METHOD) {
        list_methods(req, &allow);
        httpd_add(req, "Allow", buf_str(&allow));
    }
    if (refusals[what].header)
        httpd_add(req, refusals[what].header, refusals[what].value);
    if (refusals[what].close)
        httpd_add(req, "Connection", "close");
    compose(req->h, what, what == NO_ROLE ? req->token_name : buf_str(&allow), why,
            sizeof(why));
    httpd_refuse_as(req, refusals[what].status, refusals[what].word, why);
    must(req->stage == ANSWERED);
    buf_free(&allow);
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
