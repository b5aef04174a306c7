/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_error.c - HTTP errors, in the form that clients of this API know them: for
 * what is no call at all.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/camellia/camellia_parts.h"

static const struct {
    unsigned status;
    const char *name;
} names[] = {{400, "Bad Request"},           {404, "Not Found"},
             {405, "Method Not Allowed"},    {406, "Not Acceptable"},
             {500, "Internal Server Error"}, {503, "Service Unavailable"}};

static const char *name_of(unsigned status)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].status == status)
            return names[i].name;
    }
    return "Error";
}

static unsigned accepts_one(struct slice type)
{
    static const struct {
        const char *type;
        unsigned means;
    } rows[] = {{"*/*", CAMELLIA_TAKES_JSON},
                {"application/*", CAMELLIA_TAKES_JSON},
                {"application/json", CAMELLIA_TAKES_JSON | CAMELLIA_ASKS_JSON},
                {"text/html", CAMELLIA_ASKS_HTML}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (slice_is_nocase(type, rows[i].type))
            return rows[i].means;
    }
    return 0;
}

unsigned camellia_accepts(const struct httpd_req *req)
{
    struct slice s = httpd_header(req, "accept");
    unsigned accepts = 0;
    bool any = false;
    while (s.n > 0) {
        const char *comma = memchr(s.p, ',', s.n);
        struct slice one = {s.p, comma ? (size_t)(comma - s.p) : s.n};
        s.p += one.n + (comma != NULL);
        s.n -= one.n + (comma != NULL);
        const char *rest = one.n ? memchr(one.p, ';', one.n) : NULL;
        if (rest)
            one.n = (size_t)(rest - one.p);
        while (one.n > 0 && one.p[0] == ' ')
            one.p++, one.n--;
        while (one.n > 0 && one.p[one.n - 1] == ' ')
            one.n--;
        any |= one.n > 0;
        accepts |= accepts_one(one);
    }
    return any ? accepts : CAMELLIA_TAKES_JSON;
}

void camellia_error(struct httpd_req *req, unsigned status)
{
    struct buf text = {0};
    bool html = (camellia_accepts(req) & CAMELLIA_ASKS_HTML) != 0;
    if (html) {
        buf_addf(&text, "<html><body><h1>%u %s</h1></body></html>", status,
                 name_of(status));
    } else {
        char now[WHEN_TEXT_BYTES];
        when_format_rfc3339(loop_wall_ms(), now);
        now[strcspn(now, "Z")] = 0;
        buf_addf(&text,
                 "{\"timestamp\":\"%s+00:00\",\"status\":%u,\"error\":\"%s\",\"path\":",
                 now, status, name_of(status));
        text_add_json(&text, httpd_path(req));
        buf_add_str(&text, "}");
    }
    if (status == 400)
        httpd_add(req, "Connection", "close");
    httpd_answer(req, status, html ? "text/html;charset=UTF-8" : CAMELLIA_JSON,
                 buf_slice(&text));
    buf_free(&text);
}

static void refuse(void *arg, struct httpd_req *req, unsigned status, const char *word,
                   const char *why)
{
    (void)arg, (void)word, (void)why;
    camellia_error(req, status == 413 ? 400 : status); /* too large: nothing was sent */
}

const struct http_dialect camellia_dialect = {.refuse = refuse};

static const struct httpd_route *row_of(struct slice path)
{
    for (const struct httpd_route *row = camellia_routes; row->method; row++) {
        if (slice_is(path, row->path))
            return row;
    }
    return NULL;
}

void camellia_serve_rest(void *arg, struct httpd_req *req)
{
    const struct httpd_route *row = row_of(httpd_path(req));
    (void)arg;
    if (row == NULL) {
        camellia_error(req, 404);
    } else if (strcmp(httpd_method(req), "OPTIONS") == 0) {
        httpd_add(req, "Allow",
                  strcmp(row->method, "GET") == 0 ? "GET,HEAD,OPTIONS" : "POST,OPTIONS");
        httpd_answer(req, 200, NULL, SLICE_LIT(""));
    } else {
        httpd_add(req, "Allow", row->method);
        camellia_error(req, 405);
    }
}
