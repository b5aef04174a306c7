/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/http_job.h"
#include "bridge/base/text.h"
#include "bridge/http/http_args.h"
#include "bridge/job/cloudevent.h"

#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

enum { NAME_MAX_BYTES = 256 };

/* Headers of the client, a proxy or the connection; consumers must not receive them. */
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

/* HTTP clients vary the case of these names, while consumers of Kafka and MQTT expect
 * exactly this spelling. Other names are stored unchanged. */
static const struct slice standard[] = {
    SLICE_LIT("content-type"),
    SLICE_LIT("traceparent"),
    SLICE_LIT("tracestate"),
    SLICE_LIT("baggage"),
};

static struct slice stored_name(struct slice name)
{
    for (size_t i = 0; i < sizeof(standard) / sizeof(standard[0]); i++)
        if (standard[i].n == name.n && strncasecmp(standard[i].p, name.p, name.n) == 0)
            return standard[i];
    return name;
}

/* Control headers that are also accepted as query parameters and as fields of a JSON
 * line. */
static const char *const controls[] = {
    "deliver-after",      "delay",          "deliver-at",   "x-delay",
    "delay-id",           "delay-op",       "delay-to",     "delay-key",
    "delay-retry",        "delay-attempts", "delay-repeat", "delay-repeat-count",
    "delay-repeat-until", "deliver-before",
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

static struct job *job_begin(struct http_place place, size_t bytes)
{
    struct job *job = job_new(bytes);
    struct slice name = job_copy_slice(job, place.name);
    if (place.queue)
        job->topic = name;
    else
        job->route = name;
    job->to_queue = place.queue;
    return job;
}

/* Rejects invalid header values here, where the producer receives the error; a sink could
 * only omit the header. */
static int add_header(struct job *job, struct slice name, struct slice value,
                      struct err *err)
{
    int shown = name.n < 100 ? (int)name.n : 100;
    if (!text_is_token(name))
        return err_set(err,
                       "invalid header name \"%.*s\"; use only letters, digits and the "
                       "marks that HTTP allows",
                       shown, name.p ? name.p : "");
    if (!text_is_header_value(value))
        return err_set(err, "the header %.*s contains a control character", shown,
                       name.p);
    return job_add_header(job, name, value, err);
}

/* ---------------------------------------------------- controls of queue jobs only */

static int set_tries(struct job *job, int64_t n, struct slice text, struct err *err)
{
    (void)text;
    (void)err;
    if (job->tries_max == 0)
        job->tries_max = n;
    return 0;
}

static int set_lease(struct job *job, int64_t ms, struct slice text, struct err *err)
{
    (void)text;
    (void)err;
    if (job->lease_ms == 0)
        job->lease_ms = ms;
    return 0;
}

/* Relative to the due time, which only the core knows. */
static int set_ttl(struct job *job, int64_t ms, struct slice text, struct err *err)
{
    (void)ms;
    if (job_header(job, "deliver-before"))
        return 0;
    return add_header(job, SLICE_LIT("deliver-before"), text, err);
}

/* If several are present, the first one read counts: header, or field of a line. */
static const struct {
    struct http_param param; /* name as a query parameter and as a field of a JSON line */
    const char *header;
    int (*set)(struct job *job, int64_t n, struct slice text, struct err *err);
} queue_controls[] = {
    {{"tries", HTTP_INT, 0, .from = FROM_QUERY, .min = 1, .max = 1000000},
     "delay-tries",
     set_tries},
    {{"ttl", HTTP_MS, 0, .from = FROM_QUERY, .min = 1, .max = HTTP_QUEUE_TIME_MAX_MS},
     "delay-ttl",
     set_ttl},
    {{"lease", HTTP_MS, 0, .from = FROM_QUERY, .min = 1, .max = HTTP_QUEUE_LEASE_MAX_MS},
     "delay-lease",
     set_lease},
};
enum {
    QUEUE_CONTROLS = sizeof(queue_controls) / sizeof(queue_controls[0]),
    NOT_ONE = -1
};

static int find_queue_control(const struct job *job, struct slice name)
{
    for (int i = 0; job->to_queue && i < QUEUE_CONTROLS; i++) {
        if (slice_is(name, queue_controls[i].param.name) ||
            slice_is_nocase(name, queue_controls[i].header))
            return i;
    }
    return NOT_ONE;
}

static int set_queue_control(struct job *job, int i, struct slice value, struct err *err)
{
    int64_t n = 0;
    if (http_param_set(&queue_controls[i].param, value, &n, err) < 0)
        return -1;
    return queue_controls[i].set(job, n, value, err);
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
    if (t->failed || http_job_is_foreign(name))
        return;
    if (name.n > NAME_MAX_BYTES) {
        t->failed = true;
        err_set(t->err, "a header name is longer than %d bytes", NAME_MAX_BYTES);
        return;
    }
    int i = find_queue_control(t->job, name);
    if (i != NOT_ONE && slice_is_nocase(name, queue_controls[i].header))
        t->failed = set_queue_control(t->job, i, value, t->err) < 0;
    else
        t->failed = add_header(t->job, stored_name(name), value, t->err) < 0;
}

/* Sets a control from a parameter or field. A contradiction to a header is rejected
 * later, when all are read. */
static int set_control(struct job *job, const char *name, struct slice value,
                       struct err *err)
{
    if (strcmp(name, "delay-key") == 0) {
        job->key = job_copy_slice(job, value);
        return 0;
    }
    return add_header(job, slice_of(name), value, err);
}

/* Idempotency-Key names the request; it is the job's id only without a delay-id. */
static int set_idempotency(struct job *job, struct slice value, struct err *err)
{
    return job_header(job, "delay-id") ? 0 : set_control(job, "delay-id", value, err);
}

/* Index i covers both tables in sequence; returns the parameter name and the header
 * name. */
enum { ALL_CONTROLS = CONTROLS + QUEUE_CONTROLS };
static const char *param_of(int i)
{
    return i < CONTROLS ? controls[i] : queue_controls[i - CONTROLS].param.name;
}

static const char *header_of(int i)
{
    return i < CONTROLS ? controls[i] : queue_controls[i - CONTROLS].header;
}

static int take_control(struct job *job, int i, struct slice value, struct err *err)
{
    if (i < CONTROLS)
        return set_control(job, controls[i], value, err);
    return job->to_queue ? set_queue_control(job, i - CONTROLS, value, err) : 0;
}

static int take_controls(const struct httpd_req *req, struct job *job, struct err *err)
{
    struct slice key = httpd_header(req, "delay-key");
    struct slice idempotency = httpd_header(req, "idempotency-key");
    bool asks = httpd_query_text(req).n > 0;
    for (int i = 0; asks && i < ALL_CONTROLS; i++) {
        struct slice value = httpd_query(req, param_of(i));
        if (value.p && take_control(job, i, value, err) < 0)
            return -1;
    }
    if (key.p)
        job->key = job_copy_slice(job, key);
    return idempotency.p ? set_idempotency(job, idempotency, err) : 0;
}

const char *http_job_control(const struct httpd_req *req)
{
    static const char idempotency[] = "idempotency-key";
    for (int i = 0; i < ALL_CONTROLS; i++)
        if (httpd_header(req, header_of(i)).p || httpd_query(req, param_of(i)).p)
            return param_of(i);
    return httpd_header(req, idempotency).p ? idempotency : NULL;
}

/* Sets a control that the path determines. A different header or parameter is an
 * error. */
static int take_named(const struct httpd_req *req, struct job *job, const char *name,
                      struct slice value, struct err *err)
{
    const struct header *h = job_header(job, name);
    struct slice asked = httpd_query(req, name);
    if ((h && !slice_eq(h->value, value)) || (asked.p && !slice_eq(asked, value)))
        return err_set(
            err, "PUT replaces the job whose id is in the path; %s contradicts it", name);
    return h ? 0 : add_header(job, slice_of(name), value, err);
}

static int take_path(const struct httpd_req *req, struct http_place place,
                     struct job *job, struct err *err)
{
    if (place.id.p == NULL)
        return 0;
    if (take_named(req, job, "delay-id", place.id, err) < 0)
        return -1;
    return take_named(req, job, "delay-op", SLICE_LIT("replace"), err);
}

struct job *http_job_from_request(const struct httpd_req *req, struct http_place place,
                                  struct err *err)
{
    struct slice body = httpd_body(req);
    struct taking t = {.job = job_begin(place, body.n + 256), .err = err};
    t.job->payload = job_copy_slice(t.job, body);
    httpd_each_header(req, take_header, &t);
    if (!t.failed && take_path(req, place, t.job, err) == 0 &&
        take_controls(req, t.job, err) == 0) {
        cloudevent_in(t.job, CE_HTTP);
        return t.job;
    }
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
        return err_set(err, "send payload or payload_base64, not both");
    if (!json_is_string(v))
        return err_set(err, "payload must be a string; write JSON into it as text");
    job->payload = job_copy_slice(job, text_of(v));
    return 0;
}

static int set_base64(struct job *job, const json_t *v, struct err *err)
{
    struct buf bytes = {0};
    if (job->payload.n > 0)
        return err_set(err, "send payload or payload_base64, not both");
    if (!json_is_string(v) || text_base64_decode(text_of(v), &bytes) < 0) {
        buf_free(&bytes);
        return err_set(err, "payload_base64 must be a string of base64");
    }
    job->payload = job_copy_slice(job, buf_slice(&bytes));
    buf_free(&bytes);
    return 0;
}

static int set_key(struct job *job, const json_t *v, struct err *err)
{
    if (!json_is_string(v))
        return err_set(err, "key must be a string");
    job->key = job_copy_slice(job, text_of(v));
    return 0;
}

/* Returns a string, or an integer's digits in room; p NULL: another type. */
static struct slice scalar_text(const json_t *v, char room[32])
{
    if (!json_is_integer(v))
        return json_is_string(v) ? text_of(v) : (struct slice){0};
    snprintf(room, 32, "%lld", (long long)json_integer_value(v));
    return slice_of(room);
}

static int set_named(struct job *job, const char *name, const json_t *v, struct err *err)
{
    char room[32];
    struct slice value = scalar_text(v, room);
    int i = find_queue_control(job, slice_of(name));
    if (value.p == NULL)
        return err_set(err, "%s must be a string", name);
    return i == NOT_ONE ? set_control(job, name, value, err)
                        : set_queue_control(job, i, value, err);
}

static int set_id(struct job *job, const json_t *v, struct err *err)
{
    return set_named(job, "delay-id", v, err);
}

/* idempotency-key and delay-key have the same special meaning as in take_controls(). */
static int set_header(struct taking *t, const char *name, struct slice value)
{
    if (strcasecmp(name, "idempotency-key") == 0)
        return set_idempotency(t->job, value, t->err);
    if (strcasecmp(name, "delay-key") == 0 && t->job->key.p == NULL)
        return set_control(t->job, "delay-key", value, t->err);
    take_header(t, slice_of(name), value);
    return t->failed ? -1 : 0;
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
        if (set_header(&t, name, text_of(value)) < 0)
            return -1;
    }
    return 0;
}

/* In this order: a field of the line takes precedence over the header of the same
 * name. */
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
    if (find_queue_control(job, slice_of(name)) != NOT_ONE)
        return set_named(job, name, v, err);
    return err_set(
        err,
        "unknown field \"%.100s\"; valid fields are payload or payload_base64, key, id, "
        "headers, and control headers such as deliver-after",
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
    if (v == NULL)
        return 0;
    if (set_headers(job, v, err) < 0)
        return -1;
    cloudevent_in(job, CE_HTTP);
    return 0;
}

struct job *http_job_from_line(struct slice line, struct http_place place,
                               struct err *err)
{
    json_error_t why;
    json_t *object =
        json_loadb(line.p, line.n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(object)) {
        err_set(err, "the line is not a JSON object%s%s", object ? "" : ": ",
                object ? "" : why.text);
        json_decref(object);
        return NULL;
    }
    struct job *job = job_begin(place, line.n + 64);
    job->payload = job_copy_slice(job, SLICE_LIT(""));
    int rc = set_fields(job, object, err);
    json_decref(object);
    if (rc == 0)
        return job;
    job_free(job);
    return NULL;
}
