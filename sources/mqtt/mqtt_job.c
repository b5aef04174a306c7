/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_job.c - the mapping of MQTT messages to jobs.
 */
#include "sources/mqtt/mqtt_job.h"

#include "bridge/job/cloudevent.h"
#include "sources/mqtt/mqtt_topic.h"

/* Indexed by enum mqtt_prop_kind; a user property has a name of its own. */
static const char *const header_names[PROP_KINDS] = {
    NULL, "content-type", MQTT_RESPONSE_TOPIC_HEADER, MQTT_CORRELATION_HEADER,
    MQTT_PAYLOAD_FORMAT_HEADER};

static struct slice none(void)
{
    return (struct slice){NULL, 0};
}

/* What the topic says of the delay beats any user property. */
void mqtt_job_topic(struct job *job)
{
    const struct mqtt_delayed d = mqtt_delayed_split(job->topic);

    job->topic = d.rest;
    switch (d.form) {
    case MQTT_NOT_DELAYED:
        break;
    case MQTT_DELAYED_AFTER:
        job->after = job_keepf(job, "%llds", (long long)d.number);
        break;
    case MQTT_DELAYED_AT:
        job->at = job_keepf(job, "%lld", (long long)d.number);
        break;
    case MQTT_DELAYED_BAD:
        job->after =
            job->topic; /* no duration looks like this: it is buried as bad-delay */
        break;
    }
}

static int add_props(struct job *job, const struct mqtt_message *m, struct err *err)
{
    struct slice props = m->props;
    struct mqtt_prop p;

    while (frame_next_prop(&props, &p)) {
        struct slice name = p.kind == PROP_USER ? p.name : slice_of(header_names[p.kind]);
        if (job_add_header(job, name, p.value.p ? p.value : SLICE_LIT(""), err) != 0)
            return -1;
    }
    if (m->retained)
        return job_add_header(job, slice_of(MQTT_RETAIN_HEADER), SLICE_LIT("1"), err);
    return 0;
}

/* What is kept of a message that cannot be a job. */
static struct job *raw_job(const struct mqtt_message *m)
{
    struct job *job = job_new(m->payload.n + JOB_TOPIC_MAX);
    struct slice topic = m->topic;

    if (topic.n > JOB_TOPIC_MAX)
        topic.n = JOB_TOPIC_MAX;
    job->topic = job_keep(job, topic);
    job->key = none();
    job->payload = job_keep(job, m->payload);
    job->offset = job->partition = -1;
    return job;
}

struct job *mqtt_job_new(const struct mqtt_message *m, const char **reason,
                         struct err *err)
{
    *reason = "oversize";
    if (m->whole_bytes > 0) {
        err_set(
            err,
            "a message of %llu bytes is above message_max; the first %zu bytes of its "
            "payload are kept",
            (unsigned long long)m->whole_bytes, m->payload.n);
        return raw_job(m);
    }
    if (m->topic.n > JOB_TOPIC_MAX) {
        err_set(err, "a topic of %zu bytes; the limit is %d", m->topic.n, JOB_TOPIC_MAX);
        return raw_job(m);
    }
    struct job *job = job_new(m->payload.n + m->props.n + m->topic.n + 64);
    job->key = none();
    job->offset = job->partition = -1;
    job->payload = job_keep(job, m->payload);
    job->topic = job_keep(job, m->topic);
    mqtt_job_topic(job);
    if (add_props(job, m, err) != 0) {
        job_free(job);
        return raw_job(m);
    }
    cloudevent_in(job, CE_MQTT);
    *reason = NULL;
    return job;
}
