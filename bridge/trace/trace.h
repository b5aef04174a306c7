/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace.h - spans for OpenTelemetry: one for each submission, one for each delivery
 * attempt. Loop thread.
 *
 * A job needs no further data in Redis. The header traceparent of the producer is the
 * parent of all spans of the job. The id of the span of the submission is a hash of it,
 * the route and the job's id. So every instance can compute it again, and each attempt
 * links to it. Without a valid traceparent, route, id and due time determine the trace,
 * and the attempts are children of the submission.
 */
#ifndef BRIDGE_TRACE_H
#define BRIDGE_TRACE_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct conf_otlp;
struct job;

/* --- W3C Trace Context, version 00; pure --- */

enum { TRACEPARENT_BYTES = 55 };

struct trace_context {
    uint64_t trace[2]; /* big-endian halves of the trace id; not both 0 */
    uint64_t span;     /* not 0 */
    bool sampled;
};
/* Reads "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"; a later version may
 * have more fields. -1: invalid. */
int trace_context_read(struct slice text, struct trace_context *out);
void trace_context_write(const struct trace_context *c, char out[TRACEPARENT_BYTES + 1]);

/* --- spans --- */

struct tracer;

/* instance: the number of this process among those that share Redis. Returns NULL if
 * conf has no URL. */
struct tracer *tracer_new(const struct conf_otlp *conf, uint64_t instance);
/* Applies a changed configuration with a URL; spans that wait are kept. */
void tracer_apply(struct tracer *t, const struct conf_otlp *conf);
/* flush: first sends the spans that wait, and blocks for at most 2 s, unless the last
 * request failed. NULL is allowed. */
void tracer_free(struct tracer *t, bool flush);
/* Appends its metrics; t may be NULL. */
void tracer_print(const struct tracer *t, struct buf *out);

enum span_step { SPAN_RECEIVE, SPAN_SEND, SPAN_SEND_DEAD };

/* What a span is about. Borrowed. */
struct span_about {
    enum span_step step;
    const char *route;
    const char *part;      /* the source, or the sink */
    const char *part_type; /* "kafka" */
    struct slice id;       /* of the job */
    int64_t due_ms;
    bool calls;       /* the sink sends a request and receives a response */
    unsigned attempt; /* of a sink; from 1 */
};

struct span;
/* Starts a span, to be freed by span_end(), or by free() if the step does not end.
 * Returns NULL if it is not sampled: the producer does not sample its trace, or the
 * option sample decides so. */
struct span *span_begin(struct tracer *t, const struct span_about *about,
                        const struct job *job);
/* Returns the traceparent of what is sent in this step; NULL: the job has none. */
const char *span_traceparent(const struct span *s);

/* How a step ended. */
struct span_end {
    const char *outcome;
    const char *error; /* NULL: success */
    int status;        /* answer of the other end; 0: none */
    bool stored;       /* by SPAN_RECEIVE: attempts will link to this span */
};
/* Queues the span for the collector and frees it. t NULL: only frees it. */
void span_end(struct tracer *t, struct span *s, const struct span_about *about,
              const struct span_end *end);

#endif
