/* SPDX-License-Identifier: BSD-2-Clause */
#include "sinks/http/http_sink.h"
#include "bridge/base/json.h"
#include "bridge/base/text.h"
#include "bridge/job/cloudevent.h"

#include <inttypes.h>

#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof((names)[0]))

static bool is_one_of(struct slice name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (slice_is_nocase(name, names[i]))
            return true;
    return false;
}

bool http_is_transport_header(struct slice name)
{
    static const char *const names[] = {"host",
                                        "content-length",
                                        "transfer-encoding",
                                        "connection",
                                        "expect",
                                        "upgrade",
                                        "te",
                                        "trailer",
                                        "keep-alive",
                                        "proxy-connection"};
    return IS_ONE_OF(name, names);
}

bool http_is_webhook_header(struct slice name)
{
    static const char *const names[] = {"webhook-id", "webhook-timestamp",
                                        "webhook-signature"};
    return IS_ONE_OF(name, names);
}

/* Is it a header that must not be sent to another origin? */
static bool is_credential(struct slice name)
{
    static const char *const names[] = {"authorization", "cookie", "cookie2",
                                        "proxy-authorization", "www-authenticate"};
    return IS_ONE_OF(name, names);
}

static bool has(const struct pairs *pairs, struct slice name)
{
    for (size_t i = 0; i < pairs->n; i++) {
        if (slice_is_nocase(name, pairs->v[i].name))
            return true;
    }
    return false;
}

static void begin_line(struct http_lines *lines)
{
    buf_add(&lines->offsets, &lines->text.n, sizeof(lines->text.n));
}

static void add_line(struct http_lines *lines, struct slice name, struct slice value)
{
    begin_line(lines);
    lines->has_type |= slice_is_nocase(name, "content-type");
    buf_add_slice(&lines->text, name);
    if (text_trim(value).n == 0) { /* "name:" would make curl drop the header */
        buf_add(&lines->text, ";", 2);
        return;
    }
    buf_add_str(&lines->text, ": ");
    buf_add_slice(&lines->text, value);
    buf_add(&lines->text, "", 1);
}

/* May the configured headers be sent to this host? */
static bool may_get_own_headers(const struct http_hop *hop)
{
    return !hop->other_origin && !hop->unlisted_host;
}

static bool is_forwarded(struct slice name, const struct http_opts *o,
                         const struct http_hop *hop)
{
    return !http_is_transport_header(name) &&
           !(may_get_own_headers(hop) && has(&o->headers, name)) &&
           (o->delay_headers || name.n <= 6 || strncasecmp(name.p, "delay-", 6) != 0) &&
           !(hop->other_origin && is_credential(name)) &&
           !(hop->without_body && slice_is_nocase(name, "content-type"));
}

/* Adds a header of the job. Returns 1 if the header was dropped. */
static unsigned add(struct http_lines *lines, const struct http_opts *o,
                    const struct http_hop *hop, struct slice name, struct slice value)
{
    if (!is_forwarded(name, o, hop))
        return 0;
    if (!text_is_token(name) || !text_is_header_value(value))
        return 1;
    add_line(lines, name, value);
    return 0;
}

/* Adds the three headers of Standard Webhooks, or only webhook-id without a signature. */
static void add_webhook(struct http_lines *lines, const struct delivery *d,
                        const struct http_opts *o, const struct http_hop *hop)
{
    struct buf id = {0}, text = {0};
    struct slice body = hop->without_body ? (struct slice){0} : d->job->payload;
    /* Without dots, since Standard Webhooks joins id and time with a dot. Percent signs
     * are encoded as well, so that ids stay distinct. */
    text_add_percent(&id, d->job->id, "/:@+=,~");
    if (hop->signer) {
        add_line(lines, SLICE_LIT("webhook-id"), buf_slice(&id));
        buf_addf(&text, "%" PRId64, hop->now_s);
        add_line(lines, SLICE_LIT("webhook-timestamp"), buf_slice(&text));
        buf_clear(&text);
        http_signer_add(hop->signer, buf_slice(&id), hop->now_s, body, &text);
        add_line(lines, SLICE_LIT("webhook-signature"), buf_slice(&text));
    } else if (o->delay_headers && !delivery_header(d, "webhook-id")) {
        add(lines, o, hop, SLICE_LIT("webhook-id"), buf_slice(&id));
    }
    buf_free(&text);
    buf_free(&id);
}

/* Adds the message's headers, with the HTTP names of CloudEvents attributes. Returns how
 * many were dropped. */
static unsigned add_headers(struct http_lines *lines, const struct delivery *d,
                            const struct http_opts *o, const struct http_hop *hop)
{
    unsigned left_out = 0;
    bool event = cloudevent_is(d->job);
    struct buf name = {0}, value = {0};
    for (unsigned i = 0; i < d->header_count; i++) {
        const struct header *h = &d->headers[i];
        buf_clear(&name);
        buf_clear(&value);
        if (hop->signer && http_is_webhook_header(h->name))
            continue;
        if (event && cloudevent_out(h, CE_HTTP, &name, &value))
            left_out += add(lines, o, hop, buf_slice(&name), buf_slice(&value));
        else
            left_out += add(lines, o, hop, h->name, h->value);
    }
    buf_free(&name);
    buf_free(&value);
    return left_out;
}

/* Adds a line that makes curl omit one of its default headers. */
static void add_without(struct http_lines *lines, const char *line)
{
    begin_line(lines);
    buf_add(&lines->text, line, strlen(line) + 1);
}

unsigned http_lines_make(struct http_lines *lines, const struct delivery *d,
                         const struct http_opts *o, const struct http_hop *hop)
{
    unsigned left_out = 0;
    buf_clear(&lines->text);
    buf_clear(&lines->offsets);
    lines->has_type = false;
    for (size_t i = 0; i < o->headers.n && may_get_own_headers(hop); i++)
        add_line(lines, slice_of(o->headers.v[i].name), slice_of(o->headers.v[i].value));
    left_out += add_headers(lines, d, o, hop);
    if (!delivery_header(d, "user-agent"))
        add(lines, o, hop, SLICE_LIT("User-Agent"), slice_of(o->user_agent));
    if (!hop->without_body && !lines->has_type) /* or curl would label it as a form */
        add_line(lines, SLICE_LIT("Content-Type"), SLICE_LIT("application/octet-stream"));
    if (d->job->key.p && !delivery_header(d, "delay-key"))
        left_out += add(lines, o, hop, SLICE_LIT("delay-key"), d->job->key);
    add_webhook(lines, d, o, hop);
    if (hop->referer.n)
        add(lines, o, hop, SLICE_LIT("Referer"), hop->referer);
    if (!delivery_header(d, "accept"))
        add_without(lines, "Accept:");
    /* Without this line curl waits a second before a larger body for a 100 response,
     * which few servers send. */
    add_without(lines, "Expect:");
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

bool http_is_code100(struct slice body)
{
    struct answer {
        int64_t code;
    } answer = {0};
    static const struct json_field fields[] = {
        {"code", JSON_INT, offsetof(struct answer, code), 0, 0}, {0}};
    struct buf none = {0}; /* unused: no field is a text */
    bool read = json_read(body, fields, &answer, &none) == 0;
    buf_free(&none);
    return read && answer.code == 100;
}

enum http_redirect http_status_redirect(long status)
{
    if (status >= 301 && status <= 303)
        return HTTP_AS_GET;
    return status == 307 || status == 308 ? HTTP_AS_IT_IS : HTTP_NO_REDIRECT;
}

const char *http_permanent_error(CURLcode code)
{
    if (code == CURLE_LOGIN_DENIED) /* CURLOPT_DISALLOW_USERNAME_IN_URL */
        return "the URL contains a user name, which requires userinfo = true in the sink";
    return code == CURLE_URL_MALFORMAT ? "the URL is malformed" : NULL;
}
