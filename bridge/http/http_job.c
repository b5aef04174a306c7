/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/http_job.h"
#include "bridge/base/text.h"
#include "bridge/http/http_args.h"
#include "bridge/job/cloudevent.h"

#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

enum { NAME_MAX_BYTES = 256 };

/* Headers of the client, a proxy or the connection; consumers must not receive them.
 * Idempotency-Key becomes the id. */
static const struct slice foreign[] = {SLICE_LIT("host"),
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
                                       SLICE_LIT("idempotency-key")};
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

/* ------------------------------------------------------------------ controls */

/* A control: part of a request that says how to treat the job. */
struct control {
    const char *name; /* as a query parameter and as a field of a JSON line */
    const char *header;
    int (*set)(struct job *job, const struct control *c, struct slice value,
               struct err *err);
    bool of_queues;          /* ignored in jobs of routes */
    struct http_param param; /* of a number: its range, and its field in struct job */
};

/* A contradiction to another header is rejected later, when all are read. */
static int set_header(struct job *job, const struct control *c, struct slice value,
                      struct err *err)
{
    return add_header(job, slice_of(c->header), value, err);
}

/* Of this and the following, the first one read counts. */
static int set_key(struct job *job, const struct control *c, struct slice value,
                   struct err *err)
{
    (void)c, (void)err;
    if (job->key.p == NULL)
        job->key = job_copy_slice(job, value);
    return 0;
}

static int set_number(struct job *job, const struct control *c, struct slice value,
                      struct err *err)
{
    int64_t n = 0, *field = (int64_t *)(void *)((char *)job + c->param.offset);
    struct http_param param = c->param;
    param.offset = 0;
    if (http_param_set(&param, value, &n, err) < 0)
        return -1;
    if (*field == 0)
        *field = n;
    return 0;
}

/* Relative to the due time, which only the core knows. */
static int set_ttl(struct job *job, const struct control *c, struct slice value,
                   struct err *err)
{
    int64_t ms;
    if (http_param_set(&c->param, value, &ms, err) < 0)
        return -1;
    if (job_header(job, "deliver-before"))
        return 0;
    return add_header(job, SLICE_LIT("deliver-before"), value, err);
}

#define AT(field) offsetof(struct job, field)
#define HEADER(text)                                                                     \
    {                                                                                    \
        .name = text, .header = text, .set = set_header                                  \
    }
static const struct control controls[] = {
    HEADER("deliver-after"),
    HEADER("delay"),
    HEADER("deliver-at"),
    HEADER("x-delay"),
    HEADER("delay-id"),
    HEADER("delay-op"),
    HEADER("delay-to"),
    HEADER("delay-retry"),
    HEADER("delay-attempts"),
    HEADER("delay-repeat"),
    HEADER("delay-repeat-count"),
    HEADER("delay-repeat-until"),
    HEADER("deliver-before"),
    {"delay-key", "delay-key", set_key, false, {0}},
    {"tries",
     "delay-tries",
     set_number,
     true,
     {"tries", HTTP_INT, AT(tries_max), .min = 1, .max = 1000000}},
    {"ttl",
     "delay-ttl",
     set_ttl,
     true,
     {"ttl", HTTP_MS, 0, .min = 1, .max = HTTP_QUEUE_TIME_MAX_MS}},
    {"lease",
     "delay-lease",
     set_number,
     true,
     {"lease", HTTP_MS, AT(lease_ms), .min = 1, .max = HTTP_QUEUE_LEASE_MAX_MS}},
};
#undef AT
#undef HEADER
enum { CONTROLS = sizeof(controls) / sizeof(controls[0]) };

static bool applies(const struct control *c, const struct job *job)
{
    return !c->of_queues || job->to_queue;
}

/* Returns the control of that header or, in a JSON line, of that field; NULL: none. */
static const struct control *find_control(const struct job *job, struct slice name,
                                          bool field)
{
    for (const struct control *c = controls; c < controls + CONTROLS; c++)
        if (applies(c, job) &&
            (field ? slice_is(name, c->name) || slice_is(name, c->header)
                   : slice_is_nocase(name, c->header)))
            return c;
    return NULL;
}

/* ------------------------------------------------------------------ headers */

struct taking {
    struct job *job;
    struct err *err;
    struct slice idempotency; /* Idempotency-Key; p NULL: none */
    bool failed;
};

static int take(struct taking *t, struct slice name, struct slice value)
{
    /* The others are headers that keep their spelling. */
    bool special = name.n > 6 && strncasecmp(name.p, "delay-", 6) == 0;
    const struct control *c = special ? find_control(t->job, name, false) : NULL;
    if (c && c->set != set_header)
        return c->set(t->job, c, value, t->err);
    if (slice_is_nocase(name, "idempotency-key") && t->idempotency.p == NULL)
        t->idempotency = value;
    if (http_job_is_foreign(name))
        return 0;
    if (name.n > NAME_MAX_BYTES)
        return err_set(t->err, "a header name is longer than %d bytes", NAME_MAX_BYTES);
    return add_header(t->job, stored_name(name), value, t->err);
}

static void take_header(void *arg, struct slice name, struct slice value)
{
    struct taking *t = arg;
    if (!t->failed)
        t->failed = take(t, name, value) < 0;
}

/* Idempotency-Key names the request; it is the job's id only without a delay-id. */
static int take_idempotency(const struct taking *t)
{
    if (t->idempotency.p == NULL || job_header(t->job, "delay-id"))
        return 0;
    return add_header(t->job, SLICE_LIT("delay-id"), t->idempotency, t->err);
}

/* ------------------------------------------------------------------ requests */

static int take_params(const struct httpd_req *req, struct job *job, struct err *err)
{
    bool asks = httpd_query_text(req).n > 0;
    for (const struct control *c = controls; asks && c < controls + CONTROLS; c++) {
        struct slice value = httpd_query(req, c->name);
        if (value.p && applies(c, job) && c->set(job, c, value, err) < 0)
            return -1;
    }
    return 0;
}

const char *http_job_control(const struct httpd_req *req)
{
    static const char idempotency[] = "idempotency-key";
    for (const struct control *c = controls; c < controls + CONTROLS; c++)
        if (httpd_header(req, c->header).p || httpd_query(req, c->name).p)
            return c->name;
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
        take_params(req, t.job, err) == 0 && take_idempotency(&t) == 0) {
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

/* Returns a string, or an integer's digits in room; p NULL: another type. */
static struct slice scalar_text(const json_t *v, char room[32])
{
    if (!json_is_integer(v))
        return json_is_string(v) ? text_of(v) : (struct slice){0};
    snprintf(room, 32, "%lld", (long long)json_integer_value(v));
    return slice_of(room);
}

static int set_payload(struct job *job, const json_t *v, bool base64, struct err *err)
{
    struct buf bytes = {0};
    if (job->payload.n > 0)
        return err_set(err, "send payload or payload_base64, not both");
    if (!base64 && !json_is_string(v))
        return err_set(err, "payload must be a string; write JSON into it as text");
    if (base64 && (!json_is_string(v) || text_base64_decode(text_of(v), &bytes) < 0)) {
        buf_free(&bytes);
        return err_set(err, "payload_base64 must be a string of base64");
    }
    job->payload = job_copy_slice(job, base64 ? buf_slice(&bytes) : text_of(v));
    buf_free(&bytes);
    return 0;
}

static int set_field(struct job *job, const char *name, const json_t *v, struct err *err)
{
    char room[32];
    bool base64 = strcmp(name, "payload_base64") == 0;
    if (base64 || strcmp(name, "payload") == 0)
        return set_payload(job, v, base64, err);
    bool key = strcmp(name, "key") == 0;
    bool id = strcmp(name, "id") == 0;
    const char *control = key ? "delay-key" : id ? "delay-id" : name;
    const struct control *c = find_control(job, slice_of(control), true);
    if (c == NULL)
        return err_set(err,
                       "unknown field \"%.100s\"; valid fields are payload or "
                       "payload_base64, key, id, headers, and control headers such as "
                       "deliver-after",
                       name);
    struct slice value =
        key && !json_is_string(v) ? (struct slice){0} : scalar_text(v, room);
    return value.p ? c->set(job, c, value, err)
                   : err_set(err, "%s must be a string", name);
}

static int set_headers(struct taking *t, json_t *object)
{
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        return err_set(t->err, "headers must be an object of strings");
    json_object_foreach(object, name, value)
    {
        if (!json_is_string(value))
            return err_set(t->err, "headers: \"%.100s\" must be a string", name);
        if (take(t, slice_of(name), text_of(value)) < 0)
            return -1;
    }
    return 0;
}

/* Reads the headers last: a field of the line takes precedence over the header of the
 * same name. */
static int set_fields(struct job *job, json_t *object, struct err *err)
{
    struct taking t = {.job = job, .err = err};
    const char *name;
    json_t *v, *headers = json_object_get(object, "headers");
    json_object_foreach(object, name, v)
    {
        if (v != headers && set_field(job, name, v, err) < 0)
            return -1;
    }
    if (headers == NULL)
        return 0;
    if (set_headers(&t, headers) < 0 || take_idempotency(&t) < 0)
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
