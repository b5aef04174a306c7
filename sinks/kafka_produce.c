/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_produce.c - records out, and the table of outcomes.
 */
#include "sinks/kafka_produce.h"

enum { ARGS_MAX = 6, FULL_WAIT_MS = 200, REBUILD_WAIT_MS = 1000 };

/* What is not here may change by itself or by the operator's hand: try again. So does a
 * topic that is unknown or forbidden: the route's schedule decides for how long. */
static const struct rule {
    rd_kafka_resp_err_t code;
    enum outcome outcome;
    int64_t after_ms;
} rules[] = {
    {RD_KAFKA_RESP_ERR_NO_ERROR, DELIVERED, 0},
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, REJECTED, 0},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, REJECTED, 0},
    {RD_KAFKA_RESP_ERR_INVALID_MSG, REJECTED, 0}, /* no key for a compacted topic */
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, REJECTED, 0},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, REJECTED, 0},
    {RD_KAFKA_RESP_ERR__QUEUE_FULL, TRY_AGAIN, FULL_WAIT_MS},
    {RD_KAFKA_RESP_ERR__FATAL, TRY_AGAIN, REBUILD_WAIT_MS},
    {RD_KAFKA_RESP_ERR__PURGE_QUEUE, TRY_AGAIN, REBUILD_WAIT_MS},
    {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, TRY_AGAIN, REBUILD_WAIT_MS},
};

enum outcome kafka_outcome(rd_kafka_resp_err_t code, int64_t *after_ms)
{
    *after_ms = 0;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (rules[i].code == code) {
            *after_ms = rules[i].after_ms;
            return rules[i].outcome;
        }
    }
    return TRY_AGAIN;
}

static rd_kafka_headers_t *make_headers(const struct delivery *d)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(d->header_count);

    for (unsigned i = 0; i < d->header_count; i++) {
        const struct header *h = &d->headers[i];
        rd_kafka_header_add(headers, h->name.p, (ssize_t)h->name.n, h->value.p,
                            (ssize_t)h->value.n);
    }
    return headers;
}

rd_kafka_resp_err_t kafka_produce(rd_kafka_t *rk, const struct delivery *d, void *opaque)
{
    const struct job *job = d->job;
    char topic[256];
    must(d->target.n < sizeof(topic));
    memcpy(topic, d->target.p, d->target.n);
    topic[d->target.n] = '\0';

    rd_kafka_headers_t *headers = d->header_count > 0 ? make_headers(d) : NULL;
    rd_kafka_vu_t args[ARGS_MAX] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic},
        {.vtype = RD_KAFKA_VTYPE_KEY,
         .u.mem = {.ptr = (void *)(uintptr_t)job->key.p, .size = job->key.n}},
        {.vtype = RD_KAFKA_VTYPE_VALUE,
         .u.mem = {.ptr = (void *)(uintptr_t)job->payload.p, .size = job->payload.n}},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = opaque},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers}};
    rd_kafka_error_t *error = rd_kafka_produceva(rk, args, headers ? 6 : 5);

    if (error == NULL)
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    if (headers)
        rd_kafka_headers_destroy(
            headers); /* librdkafka owns them only when it succeeds */
    return code;
}
