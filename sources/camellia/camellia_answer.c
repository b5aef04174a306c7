/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_answer.c - writes the answers of the calls, messages as JSON, and HTTP errors
 * in the original's format for requests outside the API.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/camellia/camellia.h"

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

bool camellia_accepts(const struct httpd_req *req, const char *type)
{
    struct slice list = httpd_header(req, "accept");
    bool found = false;
    while (list.n > 0 && !found) {
        struct slice one = text_cut(&list, ',');
        found = slice_is_nocase(text_trim(text_cut(&one, ';')), type);
    }
    return found;
}

void camellia_error(struct httpd_req *req, unsigned status)
{
    struct buf text = {0};
    bool html = camellia_accepts(req, "text/html");
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

void camellia_add_real(struct buf *out, double x)
{
    size_t at = out->n;
    buf_addf(out, "%.15g", x);
    if (memchr(out->p + at, '.', out->n - at) == NULL)
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

struct field {
    const char *before; /* separator and name */
    size_t offset;
    bool text; /* struct slice; else int64_t */
};
#define AT(field) offsetof(struct camellia_msg, field)
static const struct field plain_fields[] = {
    {"{\"topic\":", AT(topic), true},
    {",\"msgId\":", AT(id), true},
    {",\"msg\":", AT(msg), true},
    {",\"produceTime\":", AT(produce_ms), false},
    {",\"triggerTime\":", AT(trigger_ms), false},
    {",\"expireTime\":", AT(expire_ms), false},
    {",\"maxRetry\":", AT(max_retry), false},
    {",\"retry\":", AT(retry), false},
    {",\"status\":", AT(status), false},
    {0},
};
static const struct field sorted_fields[] = {
    {"{\"expireTime\":", AT(expire_ms), false},
    {",\"maxRetry\":", AT(max_retry), false},
    {",\"msg\":", AT(msg), true},
    {",\"msgId\":", AT(id), true},
    {",\"produceTime\":", AT(produce_ms), false},
    {",\"retry\":", AT(retry), false},
    {",\"status\":", AT(status), false},
    {",\"topic\":", AT(topic), true},
    {",\"triggerTime\":", AT(trigger_ms), false},
    {0},
};
#undef AT

void camellia_add_msg(struct buf *out, const struct camellia_msg *m, bool sorted)
{
    for (const struct field *f = sorted ? sorted_fields : plain_fields; f->before; f++) {
        const void *value = (const char *)m + f->offset;
        buf_add_str(out, f->before);
        if (!f->text)
            text_add_decimal(out, *(const int64_t *)value);
        else if (sorted)
            text_add_json_fastjson(out, *(const struct slice *)value);
        else
            text_add_json_jackson(out, *(const struct slice *)value);
    }
    buf_add(out, "}", 1);
}

/* -------------------------------------------------------------------- answers */

static const char *type_of(const struct camellia_call *call)
{
    bool plain = call->op->polls && !camellia_accepts(call->req, CAMELLIA_JSON);
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
    camellia_add_msg(&out, m, false);
    buf_add(&out, "}", 1);
    camellia_answer(call, buf_slice(&out));
    buf_free(&out);
}
