/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/trace/trace.h"
#include "bridge/base/hash.h"
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/conf/conf.h"
#include "bridge/job/job.h"
#include "bridge/trace/exporter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct tracer {
    struct exporter *exporter;
    double sample;  /* share of the jobs without a traceparent */
    uint64_t state; /* of the ids of spans */
};

struct span {
    struct trace_context own;
    uint64_t parent;                  /* 0: none */
    uint64_t receive;                 /* id of the span of the submission */
    bool traced;                      /* the job has a traceparent */
    int64_t began_us;                 /* monotonic */
    char text[TRACEPARENT_BYTES + 1]; /* traceparent with the own id */
};

/* -------------------------------------------------------------------- traceparent */

/* Reads exactly n lower-case digits. */
static int read_hex(const char *p, size_t n, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] >= 'A' && p[i] <= 'F')
            return -1;
        int digit = text_hex_digit(p[i]);
        if (digit < 0)
            return -1;
        *out = *out << 4 | (uint64_t)digit;
    }
    return 0;
}

int trace_context_read(struct slice text, struct trace_context *out)
{
    enum { VERSION_AT = 0, TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53, INVALID = 0xff };
    uint64_t version, flags;
    const char *p = text.p;
    if (text.n < TRACEPARENT_BYTES || p[2] != '-' || p[SPAN_AT - 1] != '-' ||
        p[FLAGS_AT - 1] != '-' || read_hex(p + VERSION_AT, 2, &version) < 0 ||
        version == INVALID || read_hex(p + TRACE_AT, 16, &out->trace[0]) < 0 ||
        read_hex(p + TRACE_AT + 16, 16, &out->trace[1]) < 0 ||
        read_hex(p + SPAN_AT, 16, &out->span) < 0 ||
        read_hex(p + FLAGS_AT, 2, &flags) < 0)
        return -1;
    if (text.n > TRACEPARENT_BYTES && (version == 0 || p[TRACEPARENT_BYTES] != '-'))
        return -1;
    out->sampled = (flags & 1) != 0;
    return (out->trace[0] | out->trace[1]) != 0 && out->span != 0 ? 0 : -1;
}

void trace_context_write(const struct trace_context *c, char out[TRACEPARENT_BYTES + 1])
{
    snprintf(out, TRACEPARENT_BYTES + 1,
             "00-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "-%s", c->trace[0],
             c->trace[1], c->span, c->sampled ? "01" : "00");
}

/* ---------------------------------------------------------------------------- ids */

/* Spreads the bits of n (the finalizer of SplitMix64); never 0. */
static uint64_t mix(uint64_t n)
{
    n = (n ^ n >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    n = (n ^ n >> 27) * UINT64_C(0x94d049bb133111eb);
    n ^= n >> 31;
    return n ? n : 1;
}

static uint64_t hash_number(uint64_t from, uint64_t n)
{
    return hash_fnv1a(from, (struct slice){(const char *)&n, sizeof(n)});
}

/* The hash of what names the job, the same in every instance. */
static uint64_t hash_job(const struct span_about *about)
{
    uint64_t hash = hash_fnv1a(HASH_FNV1A, slice_of(about->route));
    return hash_fnv1a(hash_number(hash, 0), about->id);
}

/* Determines the trace of a job without a traceparent. */
static void derive(const struct tracer *t, const struct span_about *about,
                   struct trace_context *c)
{
    uint64_t hash = hash_number(hash_job(about), (uint64_t)about->due_ms);
    c->trace[0] = mix(hash);
    c->trace[1] = mix(hash_number(hash, 1));
    c->span = 0;
    /* The upper 53 bits are exact in a double. */
    c->sampled = (double)(c->trace[1] >> 11) < t->sample * 0x1p53;
}

static uint64_t next_id(struct tracer *t)
{
    return mix(t->state += UINT64_C(0x9e3779b97f4a7c15));
}

struct span *span_begin(struct tracer *t, const struct span_about *about,
                        const struct job *job)
{
    const struct header *header = job_header(job, "traceparent");
    struct trace_context c;
    bool traced = header && trace_context_read(header->value, &c) == 0;
    if (!traced)
        derive(t, about, &c);
    if (!c.sampled)
        return NULL;
    struct span *s = mem_alloc(sizeof(*s));
    s->receive = mix(hash_number(hash_number(hash_job(about), c.trace[1]), c.span));
    s->traced = traced;
    s->parent = traced || about->step == SPAN_RECEIVE ? c.span : s->receive;
    s->own = c;
    s->own.span = next_id(t);
    s->began_us = loop_mono_us();
    trace_context_write(&s->own, s->text);
    return s;
}

const char *span_traceparent(const struct span *s)
{
    return s->traced ? s->text : NULL;
}

/* ----------------------------------------------------------------- the JSON of a span
 *
 * opentelemetry-proto, "JSON Protobuf Encoding": ids are hexadecimal, 64-bit numbers are
 * texts. */

enum { KIND_CLIENT = 3, KIND_PRODUCER = 4, KIND_CONSUMER = 5, STATUS_ERROR = 2 };

static void add_text(struct buf *out, const char *key, struct slice value)
{
    if (value.p == NULL)
        return;
    buf_addf(out, "%s{\"key\":\"%s\",\"value\":{\"stringValue\":",
             out->p[out->n - 1] == '[' ? "" : ",", key);
    text_add_json(out, value);
    buf_add_str(out, "}}");
}

static void add_number(struct buf *out, const char *key, int64_t value)
{
    buf_addf(out, ",{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRId64 "\"}}", key,
             value);
}

static void add_attributes(struct buf *out, const struct span_about *about,
                           const struct span_end *end, const char *error)
{
    bool receives = about->step == SPAN_RECEIVE;
    buf_add_str(out, ",\"attributes\":[");
    add_text(out, "tarry.route", slice_of(about->route));
    add_text(out, receives ? "tarry.source" : "tarry.sink", slice_of(about->part));
    add_text(out, "tarry.job_id", about->id);
    if (about->due_ms > 0)
        add_number(out, "tarry.due_ms", about->due_ms);
    if (!receives)
        add_number(out, "tarry.attempt", about->attempt);
    add_text(out, "tarry.outcome", slice_of(end->outcome));
    if (error)
        add_text(out, "tarry.error", slice_of(error));
    if (end->status != 0)
        add_number(out, "tarry.status", end->status);
    if (!about->calls)
        add_text(out, "messaging.system", slice_of(about->part_type));
    add_text(out, "messaging.operation.type", slice_of(receives ? "receive" : "send"));
    buf_add_str(out, "]");
}

static void add_ids(struct buf *out, const struct span *s, const struct span_about *about)
{
    buf_addf(out, "{\"traceId\":\"%.32s\",\"spanId\":\"%016" PRIx64 "\"", s->text + 3,
             s->own.span);
    if (s->parent)
        buf_addf(out, ",\"parentSpanId\":\"%016" PRIx64 "\"", s->parent);
    if (s->traced && about->step != SPAN_RECEIVE)
        buf_addf(out,
                 ",\"links\":[{\"traceId\":\"%.32s\",\"spanId\":\"%016" PRIx64 "\"}]",
                 s->text + 3, s->receive);
}

static void add_span(struct buf *out, const struct span *s,
                     const struct span_about *about, const struct span_end *end)
{
    static const char *const names[] = {[SPAN_RECEIVE] = "receive",
                                        [SPAN_SEND] = "send",
                                        [SPAN_SEND_DEAD] = "send dead letter"};
    char error[256], name[160];
    int64_t end_us = loop_wall_ms() * 1000;
    int64_t began_us = end_us - (loop_mono_us() - s->began_us);
    int kind = about->step == SPAN_RECEIVE ? KIND_CONSUMER
               : about->calls              ? KIND_CLIENT
                                           : KIND_PRODUCER;
    if (end->error)
        redact_text(error, sizeof(error), end->error);
    add_ids(out, s, about);
    snprintf(name, sizeof(name), "%s %s", names[about->step], about->route);
    text_add_json_member(out, "name", slice_of(name));
    buf_addf(out,
             ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRId64
             "000\",\"endTimeUnixNano\":\"%" PRId64 "000\"",
             kind, began_us, end_us);
    add_attributes(out, about, end, end->error ? error : NULL);
    if (end->error) {
        buf_addf(out, ",\"status\":{\"code\":%d", STATUS_ERROR);
        text_add_json_member(out, "message", slice_of(error));
        buf_add_str(out, "}");
    }
    buf_add_str(out, "}");
}

void span_end(struct tracer *t, struct span *s, const struct span_about *about,
              const struct span_end *end)
{
    struct buf *out = t ? exporter_room(t->exporter) : NULL;
    if (out) {
        if (about->step == SPAN_RECEIVE && end->stored)
            s->own.span = s->receive;
        add_span(out, s, about, end);
        exporter_added(t->exporter);
    }
    free(s);
}

/* --------------------------------------------------------------------------- life */

struct tracer *tracer_new(const struct conf_otlp *conf, uint64_t instance)
{
    char name[24];
    if (*conf->url == '\0')
        return NULL;
    struct tracer *t = mem_alloc(sizeof(*t));
    text_random(&t->state, sizeof(t->state));
    snprintf(name, sizeof(name), "%010" PRIx64, instance);
    t->exporter = exporter_new(conf, name);
    t->sample = conf->sample;
    return t;
}

void tracer_apply(struct tracer *t, const struct conf_otlp *conf)
{
    t->sample = conf->sample;
    exporter_apply(t->exporter, conf);
}

void tracer_free(struct tracer *t, bool flush)
{
    if (t == NULL)
        return;
    exporter_free(t->exporter, flush);
    free(t);
}

void tracer_print(const struct tracer *t, struct buf *out)
{
    if (t)
        exporter_print(t->exporter, out);
}
