/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_answer.c - writes the answers of the calls, messages as JSON, and HTTP errors
 * in the original's format for requests outside the API.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/camellia/camellia.h"

#include <stdio.h>
#include <stdlib.h>

/* -------------------------------------------------------------------- errors */

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
        struct slice one = text_cut(&s, ',');
        one = text_trim(text_cut(&one, ';'));
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

/* -------------------------------------------------------------------- JSON */

static void add_unit(struct buf *out, unsigned unit)
{
    buf_addf(out, "\\u%04X", unit);
}

static void add_escape(struct buf *out, unsigned char c)
{
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *l = letters; *l; l += 2) {
        if ((unsigned char)l[0] == c) {
            buf_add(out, (char[]){'\\', l[1]}, 2);
            return;
        }
    }
    add_unit(out, c);
}

/* Appends a character that begins with a byte above 0x7e. Returns the bytes consumed. */
static size_t add_wide(struct buf *out, const char *p, size_t left,
                       enum camellia_json how)
{
    uint32_t c;
    size_t n = text_character((struct slice){p, left}, &c);
    bool escaped = how == CAMELLIA_SORTED &&
                   ((c >= 0x7f && c <= 0x9f) || c == 0x2028 || c == 0x2029);
    if (n == 0) {
        buf_add_str(out, "\xef\xbf\xbd");
        return 1;
    }
    if (escaped) {
        add_unit(out, c);
    } else if (c > 0xffff && how == CAMELLIA_PLAIN) {
        add_unit(out, 0xd800 + ((c - 0x10000) >> 10));
        add_unit(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
    } else {
        buf_add(out, p, n);
    }
    return n;
}

void camellia_add_text(struct buf *out, struct slice s, enum camellia_json how)
{
    size_t plain = 0; /* start of the bytes that need no escape */
    buf_add(out, "\"", 1);
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            i++;
            continue;
        }
        buf_add(out, s.p + plain, i - plain);
        if (c < 0x7f) {
            add_escape(out, c);
            i++;
        } else {
            i += add_wide(out, s.p + i, s.n - i, how);
        }
        plain = i;
    }
    buf_add(out, s.p + plain, s.n - plain);
    buf_add(out, "\"", 1);
}

void camellia_add_real(struct buf *out, double x)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    buf_add_str(out, text);
    if (strpbrk(text, ".en") == NULL)
        buf_add_str(out, ".0");
}

void camellia_add_repaired(struct buf *out, struct slice s)
{
    uint32_t c;
    for (size_t i = 0, n; i < s.n; i += n ? n : 1) {
        n = text_character((struct slice){s.p + i, s.n - i}, &c);
        if (n > 0)
            buf_add(out, s.p + i, n);
        else
            buf_add_str(out, "\xef\xbf\xbd");
    }
}

/* ---------------------------------------------------------------- messages */

enum field_type { TEXT, NUMBER };
struct field {
    const char *before; /* separator and name */
    enum field_type type;
    size_t offset;
};
#define AT(field) offsetof(struct camellia_msg, field)
static const struct field plain_fields[] = {
    {"{\"topic\":", TEXT, AT(topic)},
    {",\"msgId\":", TEXT, AT(id)},
    {",\"msg\":", TEXT, AT(msg)},
    {",\"produceTime\":", NUMBER, AT(produce_ms)},
    {",\"triggerTime\":", NUMBER, AT(trigger_ms)},
    {",\"expireTime\":", NUMBER, AT(expire_ms)},
    {",\"maxRetry\":", NUMBER, AT(max_retry)},
    {",\"retry\":", NUMBER, AT(retry)},
    {",\"status\":", NUMBER, AT(status)},
    {0},
};
static const struct field sorted_fields[] = {
    {"{\"expireTime\":", NUMBER, AT(expire_ms)},
    {",\"maxRetry\":", NUMBER, AT(max_retry)},
    {",\"msg\":", TEXT, AT(msg)},
    {",\"msgId\":", TEXT, AT(id)},
    {",\"produceTime\":", NUMBER, AT(produce_ms)},
    {",\"retry\":", NUMBER, AT(retry)},
    {",\"status\":", NUMBER, AT(status)},
    {",\"topic\":", TEXT, AT(topic)},
    {",\"triggerTime\":", NUMBER, AT(trigger_ms)},
    {0},
};
#undef AT

void camellia_add_msg(struct buf *out, const struct camellia_msg *m,
                      enum camellia_json how)
{
    const struct field *f = how == CAMELLIA_PLAIN ? plain_fields : sorted_fields;
    for (; f->before; f++) {
        const void *value = (const char *)m + f->offset;
        buf_add_str(out, f->before);
        if (f->type == TEXT)
            camellia_add_text(out, *(const struct slice *)value, how);
        else
            text_add_decimal(out, *(const int64_t *)value);
    }
    buf_add(out, "}", 1);
}

/* -------------------------------------------------------------------- answers */

static const char *type_of(const struct camellia_call *call)
{
    bool plain = call->op->polls && !(camellia_accepts(call->req) & CAMELLIA_ASKS_JSON);
    return plain ? CAMELLIA_PLAIN_TEXT : CAMELLIA_JSON;
}

void camellia_answer(struct camellia_call *call, struct slice json)
{
    struct camellia *c = call->c;
    struct buf list = call->list; /* may be the storage of json */
    if (call->poller)
        camellia_poll_ended(&c->stats, call->poller);
    httpd_answer(call->req, 200, type_of(call), json);
    buf_free(&list);
}

void camellia_failed(struct camellia_call *call, int code)
{
    struct buf out = {0};
    buf_addf(&out, "{\"code\":%d%s", code, call->op->failed);
    camellia_answer(call, buf_slice(&out));
    buf_free(&out);
}

void camellia_succeeded(struct camellia_call *call)
{
    camellia_answer(call, SLICE_LIT("{\"code\":200,\"msg\":\"success\"}"));
}

void camellia_show(struct camellia_call *call, const struct camellia_msg *m)
{
    struct buf out = {0};
    buf_add_str(&out, "{\"code\":200,\"msg\":\"success\",\"delayMsg\":");
    camellia_add_msg(&out, m, CAMELLIA_PLAIN);
    buf_add(&out, "}", 1);
    camellia_answer(call, buf_slice(&out));
    buf_free(&out);
}
