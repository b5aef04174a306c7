/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/mqtt/mqtt_job.h"

#include "bridge/base/text.h"
#include "bridge/job/cloudevent.h"

/* ------------------------ names: MQTT 3.1.1 and 5, sections 1.5.4 and 4.7 */

enum { DIGITS_MAX = 15 };
static const int64_t EPOCH_FROM = 1000000000;

/* Rejects control characters U+0000..U+001F and U+007F..U+009F, non-characters
 * U+FDD0..U+FDEF and the last two code points of each plane. */
static bool code_point_ok(uint32_t code)
{
    return code >= 0x20 && !(code >= 0x7f && code <= 0x9f) &&
           !(code >= 0xfdd0 && code <= 0xfdef) && (code & 0xfffe) != 0xfffe;
}

bool mqtt_text_ok(struct slice text)
{
    if (text.n > MQTT_TEXT_MAX)
        return false;
    while (text.n > 0) {
        uint32_t code;
        const size_t n = text_character(text, &code);
        if (n == 0 || !code_point_ok(code))
            return false;
        text = (struct slice){text.p + n, text.n - n};
    }
    return true;
}

static bool has_any(struct slice s, char a, char b)
{
    return s.n > 0 && (memchr(s.p, a, s.n) || memchr(s.p, b, s.n));
}

static int common_check(struct slice name, struct err *err)
{
    if (name.n == 0)
        return err_set(err, "an MQTT topic must not be empty");
    if (name.n > MQTT_TEXT_MAX)
        return err_set(err, "an MQTT topic has at most %d bytes, this one has %zu",
                       MQTT_TEXT_MAX, name.n);
    if (!mqtt_text_ok(name))
        return err_set(err, "an MQTT topic must be UTF-8 without control characters");
    return 0;
}

int mqtt_topic_check(struct slice topic, struct err *err)
{
    if (common_check(topic, err) != 0)
        return -1;
    if (has_any(topic, '+', '#'))
        return err_set(err,
                       "a topic to publish to must not contain the wildcards + and #; "
                       "remove them");
    return 0;
}

/* A + must be a whole level, a # the whole last level. */
static bool level_ok(struct slice level, bool last)
{
    if (!has_any(level, '+', '#'))
        return true;
    return level.n == 1 && (level.p[0] == '+' || last);
}

int mqtt_filter_check(struct slice filter, struct err *err)
{
    if (common_check(filter, err) != 0)
        return -1;
    for (struct slice rest = filter; rest.p;) {
        struct slice level = text_cut(&rest, '/');
        if (!level_ok(level, rest.p == NULL))
            return err_set(err,
                           "topic filter \"%.*s\" has a wildcard in the wrong place; "
                           "write + as a whole level, and # as the whole last level",
                           SLICE_ARG(filter));
    }
    return 0;
}

struct mqtt_delayed mqtt_delayed_split(struct slice topic)
{
    const struct slice prefix = SLICE_LIT("$delayed/");
    const struct slice level = {prefix.p,
                                prefix.n - 1}; /* "$delayed/#" matches it as well */
    struct mqtt_delayed d = {.form = MQTT_NOT_DELAYED, .rest = topic};

    if (topic.n < prefix.n ? !slice_eq(topic, level)
                           : memcmp(topic.p, prefix.p, prefix.n) != 0)
        return d;
    d.form = MQTT_DELAYED_BAD;
    if (topic.n < prefix.n)
        return d;
    topic = (struct slice){topic.p + prefix.n, topic.n - prefix.n};
    const size_t digits = text_take_digits(&topic, &d.number);
    /* At least one digit, a slash, and at least one byte of a topic after it. */
    if (digits == 0 || digits > DIGITS_MAX || topic.n < 2 || topic.p[0] != '/')
        return d;
    d.form = d.number < EPOCH_FROM ? MQTT_DELAYED_AFTER : MQTT_DELAYED_AT;
    d.rest = (struct slice){topic.p + 1, topic.n - 1};
    return d;
}

/* -------------------------------------------------------------------- jobs */

/* Makes the header of a property. false: it has none. */
static bool to_header(const struct packet_prop *prop, struct header *h)
{
    *h = (struct header){prop->name, prop->value};
    switch (prop->id) {
    case PROP_USER:
        return true;
    case PROP_CONTENT_TYPE:
        h->name = SLICE_LIT("content-type");
        return true;
    case PROP_RESPONSE_TOPIC:
        h->name = SLICE_LIT(MQTT_RESPONSE_TOPIC_HEADER);
        return true;
    case PROP_CORRELATION:
        h->name = SLICE_LIT(MQTT_CORRELATION_HEADER);
        return true;
    case PROP_PAYLOAD_FORMAT:
        h->name = SLICE_LIT(MQTT_PAYLOAD_FORMAT_HEADER);
        h->value = *prop->value.p == 1 ? SLICE_LIT("1") : SLICE_LIT("0");
        return true;
    default:
        return false;
    }
}

/* The delay in the topic overrides every user property. */
void mqtt_job_topic(struct job *job)
{
    const struct mqtt_delayed d = mqtt_delayed_split(job->topic);

    job->topic = d.rest;
    switch (d.form) {
    case MQTT_NOT_DELAYED:
        break;
    case MQTT_DELAYED_AFTER:
        job->after = job_format(job, "%llds", (long long)d.number);
        break;
    case MQTT_DELAYED_AT:
        job->at = job_format(job, "%lld", (long long)d.number);
        break;
    case MQTT_DELAYED_BAD:
        job->after =
            job->topic; /* not a valid duration, so the job is buried as bad-delay */
        break;
    }
}

static int add_props(struct job *job, const struct mqtt_message *m, struct err *err)
{
    struct slice props = m->props;
    struct packet_prop prop;
    struct header h;

    while (packet_next_prop(&props, &prop))
        if (to_header(&prop, &h) && job_add_header(job, h.name, h.value, err) != 0)
            return -1;
    if (m->retained)
        return job_add_header(job, slice_of(MQTT_RETAIN_HEADER), SLICE_LIT("1"), err);
    return 0;
}

static struct job *copy_of(const struct mqtt_message *m, struct slice topic)
{
    struct job *job = job_new(m->payload.n + m->props.n + topic.n + 64);

    job->payload = job_copy_slice(job, m->payload);
    job->topic = job_copy_slice(job, topic);
    return job;
}

/* Makes the job for a message that cannot be converted. */
static struct job *raw_job(const struct mqtt_message *m, const struct err *why)
{
    struct slice topic = m->topic;

    if (topic.n > JOB_TOPIC_MAX)
        topic.n = JOB_TOPIC_MAX;
    struct job *job = copy_of(m, topic);
    job->unreadable = "oversize";
    job->unreadable_why = job_copy_slice(job, slice_of(why->text));
    return job;
}

struct job *mqtt_job_new(const struct mqtt_message *m)
{
    struct err err;

    if (m->whole_bytes > 0) {
        err_set(&err,
                "the message has %llu bytes, more than message_max; tarry stores the "
                "first %zu bytes of its payload",
                (unsigned long long)m->whole_bytes, m->payload.n);
        return raw_job(m, &err);
    }
    if (m->topic.n > JOB_TOPIC_MAX) {
        err_set(&err, "the topic has %zu bytes; the limit is %d", m->topic.n,
                JOB_TOPIC_MAX);
        return raw_job(m, &err);
    }
    struct job *job = copy_of(m, m->topic);
    mqtt_job_topic(job);
    if (add_props(job, m, &err) != 0) {
        job_free(job);
        return raw_job(m, &err);
    }
    cloudevent_in(job, CE_MQTT);
    return job;
}
