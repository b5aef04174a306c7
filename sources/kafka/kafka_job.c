/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_part.h"

enum { HEADERS_HINT_BYTES = 256 };

static int add_headers(struct job *job, const rd_kafka_message_t *m, struct err *err)
{
    rd_kafka_headers_t *headers; /* owned by the message */
    const char *name;
    const void *value;
    size_t n;
    rd_kafka_resp_err_t code = rd_kafka_message_headers(m, &headers);

    if (code == RD_KAFKA_RESP_ERR__NOENT)
        return 0;
    if (code)
        return err_set(err, "cannot read the headers of the record: %s",
                       rd_kafka_err2str(code));
    for (size_t i = 0; !rd_kafka_header_get_all(headers, i, &name, &value, &n); i++)
        if (job_add_header(job, slice_of(name), (struct slice){value, n}, err) < 0)
            return -1;
    return 0;
}

int64_t kafka_record_ms(const rd_kafka_message_t *m)
{
    rd_kafka_timestamp_type_t type;
    const int64_t ms = rd_kafka_message_timestamp(m, &type);

    return type != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE && ms > 0 ? ms : 0;
}

struct job *kafka_job_new(const struct kafka_part *part, const rd_kafka_message_t *m)
{
    struct job *job = job_new(m->len + m->key_len + HEADERS_HINT_BYTES);
    struct err err;

    job->topic = job_copy_slice(job, slice_of(rd_kafka_topic_name(m->rkt)));
    job->key = job_copy_slice(job, (struct slice){m->key, m->key_len});
    job->payload = job_copy_slice(job, (struct slice){m->payload, m->len});
    job->partition = m->partition;
    job->offset = m->offset;
    job->incarnation = part->incarnation;
    if (*part->rewinds_done)
        job->rewinds = job_copy_slice(job, slice_of(part->rewinds_done));
    job->timestamp_ms = kafka_record_ms(m);
    if (add_headers(job, m, &err) < 0) {
        job->headers = NULL; /* their memory belongs to the job until it is freed */
        job->header_count = 0;
        job->unreadable = "undecodable";
        job->unreadable_why = job_copy_slice(job, slice_of(err.text));
    }
    return job;
}
