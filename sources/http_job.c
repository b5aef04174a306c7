/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/http_job.h"
#include "bridge/text.h"
#include "bridge/when.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

enum { NAME_MAX_BYTES = 256 };

/* What a client, a proxy or the connection adds: it must not reach the consumer. */
static const struct slice foreign[] = {
    SLICE_LIT("host"),
    SLICE_LIT("connection"),
    SLICE_LIT("content-length"),
    SLICE_LIT("transfer-encoding"),
    SLICE_LIT("expect"),
    SLICE_LIT("accept"),
    SLICE_LIT("accept-encoding"),
    SLICE_LIT("accept-language"),
    SLICE_LIT("user-agent"),
    SLICE_LIT("authorization"),
    SLICE_LIT("cookie"),
    SLICE_LIT("te"),
    SLICE_LIT("trailer"),
    SLICE_LIT("upgrade"),
    SLICE_LIT("keep-alive"),
    SLICE_LIT("origin"),
    SLICE_LIT("referer"),
    SLICE_LIT("forwarded"),
    SLICE_LIT("via"),
    SLICE_LIT("x-real-ip"),
    SLICE_LIT("x-request-start"),
    SLICE_LIT("idempotency-key"), /* read as delay-id */
    SLICE_LIT("delay-key"),       /* becomes the job's key */
};
static const struct slice foreign_prefixes[] = {
    SLICE_LIT("proxy-"),
    SLICE_LIT("sec-"),
    SLICE_LIT("x-forwarded-"),
};

/* Control headers that may come as a query parameter or as a field of a JSON line. */
static const char *const controls[] = {
    "deliver-after", "delay",    "deliver-at", "x-delay",     "delay-id",
    "delay-op",      "delay-to", "delay-key",  "delay-retry", "deliver-before",
};
enum { CONTROLS = sizeof(controls) / sizeof(controls[0]) };

bool http_job_is_foreign(struct slice name)
{
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        if (foreign[i].n == name.n && strncasecmp(foreign[i].p, name.p, name.n) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof(foreign_prefixes) / sizeof(foreign_prefixes[0]); i++) {
        struct slice p = foreign_prefixes[i];
        if (name.n >= p.n && strncasecmp(p.p, name.p, p.n) == 0)
            return true;
    }
    return false;
}

static struct job *job_begin(struct slice route, size_t bytes)
{
    struct job *job = job_new(bytes);
    job->route = job_keep(job, route);
    return job;
}

/* ------------------------------------------------------------------ requests */

struct taking {
    struct job *job;
    struct err *err;
    bool failed;
};

static void take_header(void *arg, struct slice name, struct slice value)
{
    struct taking *t = arg;
    char lower[NAME_MAX_BYTES];
    if (t->failed || http_job_is_foreign(name))
        return;
    if (name.n > sizeof(lower)) {
        t->failed = true;
        err_set(t->err, "a header's name is longer than %d bytes", NAME_MAX_BYTES);
        return;
    }
    for (size_t i = 0; i < name.n; i++)
        lower[i] = (char)tolower((unsigned char)name.p[i]);
    t->failed = job_add_header(t->job, (struct slice){lower, name.n}, value, t->err) < 0;
}

/* A control value from elsewhere than a header. What a header says already stays. */
static int set_control(struct job *job, const char *name, struct slice value,
                       struct err *err)
{
    if (strcmp(name, "delay-key") == 0) {
        job->key = job_keep(job, value);
        return 0;
    }
    return job_header(job, name) ? 0 : job_add_header(job, slice_of(name), value, err);
}

static int take_controls(const struct httpd_req *req, struct job *job, struct err *err)
{
    struct slice key = httpd_header(req, "delay-key");
    struct slice idempotency = httpd_header(req, "idempotency-key");
    for (size_t i = 0; i < CONTROLS; i++) {
        struct slice value = httpd_query(req, controls[i]);
        if (value.p && set_control(job, controls[i], value, err) < 0)
            return -1;
    }
    if (key.p)
        job->key = job_keep(job, key);
    return idempotency.p ? set_control(job, "delay-id", idempotency, err) : 0;
}

struct job *http_job_from_request(const struct httpd_req *req, struct slice route,
                                  struct err *err)
{
    struct slice body = httpd_body(req);
    struct taking t = {.job = job_begin(route, body.n + 256), .err = err};
    t.job->payload = job_keep(t.job, body);
    httpd_each_header(req, take_header, &t);
    if (!t.failed && take_controls(req, t.job, err) == 0)
        return t.job;
    job_free(t.job);
    return NULL;
}

/* ------------------------------------------------------------------ JSON lines */

static struct slice text_of(const json_t *v)
{
    return (struct slice){json_string_value(v), json_string_length(v)};
}

static int set_payload(struct job *job, const json_t *v, struct err *err)
{
    if (job->payload.n > 0)
        return err_set(err, "give payload or payload_base64, not both");
    if (!json_is_string(v))
        return err_set(err, "payload must be a string; put JSON into it as text");
    job->payload = job_keep(job, text_of(v));
    return 0;
}

static int set_base64(struct job *job, const json_t *v, struct err *err)
{
    struct buf bytes = {0};
    if (job->payload.n > 0)
        return err_set(err, "give payload or payload_base64, not both");
    if (!json_is_string(v) || text_base64_decode(text_of(v), &bytes) < 0) {
        buf_free(&bytes);
        return err_set(err, "payload_base64 must be a string of base64");
    }
    job->payload = job_keep(job, buf_slice(&bytes));
    buf_free(&bytes);
    return 0;
}

static int set_key(struct job *job, const json_t *v, struct err *err)
{
    if (!json_is_string(v))
        return err_set(err, "key must be a string");
    job->key = job_keep(job, text_of(v));
    return 0;
}

static int set_named(struct job *job, const char *name, const json_t *v, struct err *err)
{
    char digits[32];
    if (json_is_integer(v)) {
        snprintf(digits, sizeof(digits), "%lld", (long long)json_integer_value(v));
        return set_control(job, name, slice_of(digits), err);
    }
    if (!json_is_string(v))
        return err_set(err, "%s must be a string", name);
    return set_control(job, name, text_of(v), err);
}

static int set_id(struct job *job, const json_t *v, struct err *err)
{
    return set_named(job, "delay-id", v, err);
}

static int set_headers(struct job *job, const json_t *v, struct err *err)
{
    struct taking t = {.job = job, .err = err};
    const char *name;
    json_t *value;
    if (!json_is_object(v))
        return err_set(err, "headers must be an object of strings");
    json_object_foreach((json_t *)(uintptr_t)v, name, value)
    {
        if (!json_is_string(value))
            return err_set(err, "headers: \"%.100s\" must be a string", name);
        take_header(&t, slice_of(name), text_of(value));
        if (t.failed)
            return -1;
    }
    return 0;
}

/* In this order: a field of the line beats the header of the same name. */
static const struct {
    const char *name;
    int (*set)(struct job *job, const json_t *v, struct err *err);
} fields[] = {
    {"id", set_id},
    {"key", set_key},
    {"payload", set_payload},
    {"payload_base64", set_base64},
};

static int set_field(struct job *job, const char *name, const json_t *v, struct err *err)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(name, fields[i].name) == 0)
            return fields[i].set(job, v, err);
    }
    for (size_t i = 0; i < CONTROLS; i++) {
        if (strcmp(name, controls[i]) == 0)
            return set_named(job, name, v, err);
    }
    return err_set(err,
                   "unknown field \"%.100s\"; a line has payload or payload_base64, key, "
                   "id, headers, and control headers such as deliver-after",
                   name);
}

static int set_fields(struct job *job, json_t *object, struct err *err)
{
    const char *name;
    json_t *v;
    json_object_foreach(object, name, v)
    {
        if (strcmp(name, "headers") != 0 && set_field(job, name, v, err) < 0)
            return -1;
    }
    v = json_object_get(object, "headers");
    return v ? set_headers(job, v, err) : 0;
}

struct job *http_job_from_line(struct slice line, struct slice route, struct err *err)
{
    json_error_t why;
    json_t *object =
        json_loadb(line.p, line.n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(object)) {
        err_set(err, "the line is no JSON object%s%s", object ? "" : ": ",
                object ? "" : why.text);
        json_decref(object);
        return NULL;
    }
    struct job *job = job_begin(route, line.n + 64);
    job->payload = job_keep(job, SLICE_LIT(""));
    int rc = set_fields(job, object, err);
    json_decref(object);
    if (rc == 0)
        return job;
    job_free(job);
    return NULL;
}

/* --------------------------------------------------------------------- showing */

/* {"name":"value","again":["a","b"]} */
static void show_headers(struct buf *out, const struct job *job)
{
    buf_add_str(out, ",\"headers\":{");
    const char *comma = "";
    for (unsigned i = 0; i < job->header_count; i++) {
        struct slice name = job->headers[i].name;
        unsigned first = 0, more = 0;
        while (!slice_eq(job->headers[first].name, name))
            first++;
        if (first < i)
            continue; /* shown with the first of its name */
        for (unsigned j = i + 1; j < job->header_count; j++)
            more += slice_eq(job->headers[j].name, name);
        buf_add_str(out, comma);
        text_add_json(out, name);
        buf_add_str(out, more ? ":[" : ":");
        text_add_json(out, job->headers[i].value);
        for (unsigned j = i + 1; more && j < job->header_count; j++) {
            if (!slice_eq(job->headers[j].name, name))
                continue;
            buf_add_str(out, ",");
            text_add_json(out, job->headers[j].value);
        }
        buf_add_str(out, more ? "]" : "");
        comma = ",";
    }
    buf_add_str(out, "}");
}

/* As text where it is text, else as base64 under another name. */
static void show_bytes(struct buf *out, const char *name, struct slice bytes)
{
    bool text = text_is_utf8(bytes);
    buf_addf(out, ",\"%s%s\":", name, text ? "" : "_base64");
    if (text) {
        text_add_json(out, bytes);
        return;
    }
    buf_add_str(out, "\"");
    text_add_base64(out, bytes);
    buf_add_str(out, "\"");
}

void http_job_show(struct buf *out, struct slice id, const struct found_reply *found)
{
    static const char *const states[] = {[FOUND_WAITING] = "waiting",
                                         [FOUND_IN_FLIGHT] = "in-flight",
                                         [FOUND_DEAD] = "dead"};
    char due[WHEN_TEXT_BYTES];
    when_format_rfc3339(found->due_ms, due);
    buf_add_str(out, "{\"id\":");
    text_add_json(out, id);
    buf_addf(out, ",\"state\":\"%s\",\"due\":\"%s\",\"attempts\":%u,\"last_error\":",
             states[found->state], due, found->attempts);
    text_add_json(out, slice_of(found->last_error));
    if (found->job) {
        show_bytes(out, "key", found->job->key);
        show_headers(out, found->job);
        show_bytes(out, "payload", found->job->payload);
    }
    buf_add_str(out, "}\n");
}
