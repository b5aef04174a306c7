/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_produce.c - produces records; contains the table of outcomes.
 */
#include "sinks/kafka/kafka_produce.h"

enum { ARGS_MAX = 6, DLT_HEADERS = 5, FULL_WAIT_MS = 200, REBUILD_WAIT_MS = 1000 };

/* Codes outside this table are retried: the cause may disappear or the operator may fix
 * it. This includes an unknown or forbidden topic; the route's schedule limits the
 * retries. */
static const struct rule {
    rd_kafka_resp_err_t code;
    enum outcome outcome;
    int64_t after_ms;
    bool of_record; /* a single record of the batch can be the cause */
} rules[] = {
    {RD_KAFKA_RESP_ERR_NO_ERROR, DELIVERED, 0, false},
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, REJECTED, 0, true}, /* or the batch is too
                                                                * large */
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, REJECTED, 0, true},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, REJECTED, 0, true},
    {RD_KAFKA_RESP_ERR_INVALID_MSG, REJECTED, 0, true},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, REJECTED, 0, true}, /* for example no key in a
                                                            * compacted topic */
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, REJECTED, 0, false},
    {RD_KAFKA_RESP_ERR__QUEUE_FULL, TRY_AGAIN, FULL_WAIT_MS, false},
    {RD_KAFKA_RESP_ERR__FATAL, TRY_AGAIN, REBUILD_WAIT_MS, false},
    {RD_KAFKA_RESP_ERR__PURGE_QUEUE, TRY_AGAIN, REBUILD_WAIT_MS, false},
    {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, TRY_AGAIN, REBUILD_WAIT_MS, false},
};

static const struct rule *rule_of(rd_kafka_resp_err_t code)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].code == code)
            return &rules[i];
    return NULL;
}

bool kafka_is_of_record(rd_kafka_resp_err_t code)
{
    const struct rule *rule = rule_of(code);
    return rule && rule->of_record;
}

enum outcome kafka_outcome(rd_kafka_resp_err_t code, int64_t *after_ms)
{
    const struct rule *rule = rule_of(code);

    *after_ms = rule ? rule->after_ms : 0;
    return rule ? rule->outcome : TRY_AGAIN;
}

/* -------------------------------------------------------------------- dead letters */

#define DLT "kafka_dlt-"
#define DLT_MESSAGE DLT "exception-message"

static void add(rd_kafka_headers_t *headers, struct slice name, struct slice value)
{
    rd_kafka_header_add(headers, name.p, (ssize_t)name.n, value.p, (ssize_t)value.n);
}

/* Adds a big-endian number, like Java's int or long. */
static void add_number(rd_kafka_headers_t *headers, const char *name, int64_t v,
                       size_t bytes)
{
    char text[sizeof(v)];

    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)((uint64_t)v >> 8 * (bytes - 1 - i));
    add(headers, slice_of(name), (struct slice){text, bytes});
}

static bool is_dead_record(const struct delivery *d)
{
    return d->dead && d->job->partition >= 0 && d->job->offset >= 0;
}

/* Adds the record's origin in the headers of Spring Kafka's
 * DeadLetterPublishingRecoverer, which replay tools read. A record that was a dead letter
 * before has each header twice, and the last one counts. The exception message exists
 * only once. */
static void add_origin(rd_kafka_headers_t *headers, const struct delivery *d)
{
    const struct job *job = d->job;
    const char *error = d->dead->error[0] ? d->dead->error : d->dead->reason;

    add(headers, SLICE_LIT(DLT "original-topic"), job->topic);
    add_number(headers, DLT "original-partition", job->partition, sizeof(int32_t));
    add_number(headers, DLT "original-offset", job->offset, sizeof(int64_t));
    if (job->timestamp_ms > 0)
        add_number(headers, DLT "original-timestamp", job->timestamp_ms, sizeof(int64_t));
    add(headers, SLICE_LIT(DLT_MESSAGE), slice_of(error));
}

static rd_kafka_headers_t *make_headers(const struct delivery *d)
{
    const bool dead = is_dead_record(d);
    rd_kafka_headers_t *headers = rd_kafka_headers_new(d->header_count + DLT_HEADERS);

    for (unsigned i = 0; i < d->header_count; i++)
        if (!dead || !slice_is(d->headers[i].name, DLT_MESSAGE))
            add(headers, d->headers[i].name, d->headers[i].value);
    if (dead)
        add_origin(headers, d);
    return headers;
}

/* --------------------------------------------------------------------------- records */

/* Returns a handle of the topic. librdkafka (2.0.2) queries the leaders at once when a
 * handle is created, but only within a second for a topic given by name. */
static rd_kafka_topic_t *topic_of(rd_kafka_t *rk, rd_kafka_topic_t **last,
                                  struct slice name)
{
    char text[256];

    if (*last && slice_is(name, rd_kafka_topic_name(*last)))
        return *last;
    must(name.n < sizeof(text));
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    if (*last)
        rd_kafka_topic_destroy(*last);
    *last = rd_kafka_topic_new(rk, text, NULL);
    return *last;
}

rd_kafka_resp_err_t kafka_produce(rd_kafka_t *rk, rd_kafka_topic_t **last,
                                  const struct delivery *d, void *opaque)
{
    const struct job *job = d->job;
    rd_kafka_topic_t *topic = topic_of(rk, last, d->target);

    if (topic == NULL)
        return rd_kafka_last_error();
    rd_kafka_headers_t *headers = d->header_count > 0 || d->dead ? make_headers(d) : NULL;
    rd_kafka_vu_t args[ARGS_MAX] = {
        {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic},
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
        rd_kafka_headers_destroy(headers); /* librdkafka owns them only on success */
    return code;
}
