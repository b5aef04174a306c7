/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_record.c - the mapping of Kafka records to jobs.
 */
#include "sources/kafka/kafka_record.h"

enum { HEADERS_HINT_BYTES = 256 };

static int add_headers(struct job *job, const rd_kafka_message_t *m, struct err *err)
{
    rd_kafka_headers_t *headers; /* the message's */
    const char *name;
    const void *value;
    size_t n;
    rd_kafka_resp_err_t code = rd_kafka_message_headers(m, &headers);

    if (code == RD_KAFKA_RESP_ERR__NOENT)
        return 0;
    if (code)
        return err_set(err, "headers: %s", rd_kafka_err2str(code));
    for (size_t i = 0; !rd_kafka_header_get_all(headers, i, &name, &value, &n); i++)
        if (job_add_header(job, slice_of(name), (struct slice){value, n}, err) < 0)
            return -1;
    return 0;
}

/* Both are gone from the job's view; its memory keeps them until it is freed. */
static void forget_headers(struct job *job)
{
    job->headers = NULL;
    job->header_count = 0;
}

int64_t kafka_record_ms(const rd_kafka_message_t *m)
{
    rd_kafka_timestamp_type_t type;
    const int64_t ms = rd_kafka_message_timestamp(m, &type);

    return type != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE && ms > 0 ? ms : 0;
}

struct job *kafka_record_job(const rd_kafka_message_t *m, const char **reason,
                             struct err *err)
{
    struct job *job = job_new(m->len + m->key_len + HEADERS_HINT_BYTES);

    job->topic = job_keep(job, slice_of(rd_kafka_topic_name(m->rkt)));
    job->key = job_keep(job, (struct slice){m->key, m->key_len});
    job->payload = job_keep(job, (struct slice){m->payload, m->len});
    job->partition = m->partition;
    job->offset = m->offset;
    job->timestamp_ms = kafka_record_ms(m);
    *reason = NULL;
    if (add_headers(job, m, err) < 0) {
        forget_headers(job);
        *reason = "undecodable";
    }
    return job;
}
