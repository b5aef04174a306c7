/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/http_message.h"
#include "bridge/text.h"

#include <stdlib.h>

/* What a job may not set. */
static const char *const transport_headers[] = {
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "expect",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
    "proxy-connection",
};

bool http_is_transport_header(struct slice name)
{
    for (size_t i = 0; i < sizeof(transport_headers) / sizeof(transport_headers[0]);
         i++) {
        if (slice_is_nocase(name, transport_headers[i]))
            return true;
    }
    return false;
}

static bool has(const struct opt_pairs *pairs, struct slice name)
{
    for (size_t i = 0; i < pairs->n; i++) {
        if (slice_is_nocase(name, pairs->v[i].name))
            return true;
    }
    return false;
}

static bool is_blank(struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != ' ' && s.p[i] != '\t')
            return false;
    }
    return true;
}

static void begin_line(struct http_lines *lines)
{
    buf_add(&lines->offsets, &lines->text.n, sizeof(lines->text.n));
}

static void add_line(struct http_lines *lines, struct slice name, struct slice value)
{
    begin_line(lines);
    buf_add_slice(&lines->text, name);
    if (is_blank(value)) { /* "name:" would tell curl to leave the header out */
        buf_add(&lines->text, ";", 2);
        return;
    }
    buf_add_str(&lines->text, ": ");
    buf_add_slice(&lines->text, value);
    buf_add(&lines->text, "", 1);
}

/* A header that the job did not set itself. Gives 1 when it had to be left out. */
static unsigned add(struct http_lines *lines, const struct opt_pairs *fixed,
                    struct slice name, struct slice value)
{
    if (http_is_transport_header(name) || has(fixed, name))
        return 0;
    if (!text_is_token(name) || !text_is_header_value(value))
        return 1;
    add_line(lines, name, value);
    return 0;
}

unsigned http_lines_make(struct http_lines *lines, const struct delivery *d,
                         const struct opt_pairs *fixed)
{
    unsigned left_out = 0;
    buf_clear(&lines->text);
    buf_clear(&lines->offsets);
    for (size_t i = 0; i < fixed->n; i++)
        add_line(lines, slice_of(fixed->v[i].name), slice_of(fixed->v[i].value));
    for (unsigned i = 0; i < d->header_count; i++)
        left_out += add(lines, fixed, d->headers[i].name, d->headers[i].value);
    if (!delivery_header(d, "user-agent"))
        add(lines, fixed, SLICE_LIT("User-Agent"), SLICE_LIT("tarry"));
    if (!delivery_header(d, "content-type"))
        add(lines, fixed, SLICE_LIT("Content-Type"),
            SLICE_LIT("application/octet-stream"));
    if (d->job->key.p && !delivery_header(d, "delay-key"))
        left_out += add(lines, fixed, SLICE_LIT("delay-key"), d->job->key);
    if (!delivery_header(d, "webhook-id")) {
        /* Standard Webhooks joins id and time with a dot: there is none in the id. */
        struct buf id = {0};
        text_add_percent(&id, d->job->id, "/:@+=,~");
        add(lines, fixed, SLICE_LIT("webhook-id"), buf_slice(&id));
        buf_free(&id);
    }
    /* Without this line a larger body waits a second for a 100 that few servers send. */
    begin_line(lines);
    buf_add(&lines->text, "Expect:", sizeof("Expect:"));
    return left_out;
}

size_t http_lines_count(const struct http_lines *lines)
{
    return lines->offsets.n / sizeof(size_t);
}

char *http_lines_at(const struct http_lines *lines, size_t i)
{
    size_t at;
    memcpy(&at, lines->offsets.p + i * sizeof(at), sizeof(at));
    return lines->text.p + at;
}

void http_lines_free(struct http_lines *lines)
{
    buf_free(&lines->text);
    buf_free(&lines->offsets);
}

bool http_is_url(struct slice url)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t n = strlen(schemes[i]);
        if (url.n > n && strncasecmp(url.p, schemes[i], n) == 0)
            return url.n <= HTTP_URL_MAX && memchr(url.p, 0, url.n) == NULL;
    }
    return false;
}

static const struct {
    long first, last; /* the first row that holds the status counts */
    enum outcome outcome;
} by_status[] = {
    {200, 299, DELIVERED}, {408, 408, TRY_AGAIN}, {425, 425, TRY_AGAIN},
    {429, 429, TRY_AGAIN}, {300, 499, REJECTED},  {500, 599, TRY_AGAIN},
};

enum outcome http_status_outcome(long status)
{
    for (size_t i = 0; i < sizeof(by_status) / sizeof(by_status[0]); i++) {
        if (status >= by_status[i].first && status <= by_status[i].last)
            return by_status[i].outcome;
    }
    return TRY_AGAIN; /* no status that HTTP knows */
}
