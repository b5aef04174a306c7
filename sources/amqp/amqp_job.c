/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/amqp/amqp_job.h"

#include "bridge/base/text.h"

#include <inttypes.h>

/* RabbitMQ's plugin delivers a message with a negative x-delay at once, and ignores the
 * fraction of a number. */
static struct slice x_delay_text(struct job *job, const struct amqp_field *f,
                                 struct slice text)
{
    int64_t n;

    if (!slice_is_nocase(f->name, AMQP_X_DELAY_HEADER) || !amqp_field_number(f, &n))
        return text;
    return job_format_number(job, n > 0 ? n : 0);
}

static int add_table(struct job *job, const struct amqp_props *props, struct err *err)
{
    struct slice rest = amqp_props_table(props), text;
    struct amqp_field f;
    char room[AMQP_TEXT_SIZE];

    while (amqp_field_take(&rest, &f))
        if (amqp_field_text(&f, room, &text) &&
            job_add_header(job, f.name, x_delay_text(job, &f, text), err) != 0)
            return -1;
    return 0;
}

static int add_props(struct job *job, const struct amqp_message *m,
                     const struct amqp_props *props, struct err *err)
{
    char room[AMQP_TEXT_SIZE];

    for (unsigned i = 0; i < AMQP_PROPS; i++) {
        const char *name = amqp_prop_header((enum amqp_prop)i);
        struct slice text = amqp_prop_text(props, (enum amqp_prop)i, room);
        if (name && text.p && job_add_header(job, slice_of(name), text, err) != 0)
            return -1;
    }
    if (m->exchange.n == 0)
        return 0;
    return job_add_header(job, slice_of(AMQP_EXCHANGE_HEADER), m->exchange, err);
}

/* An expiration of 0 ms would expire every job when it is due. */
static void set_expiration(struct job *job, const struct amqp_props *props)
{
    char room[AMQP_TEXT_SIZE];
    const struct slice text = amqp_prop_text(props, AMQP_EXPIRATION, room);
    const int64_t ms = text_whole_number(text);

    if (text.n > 0 && ms > 0)
        job->before = job_format(job, "%" PRId64 "ms", ms);
}

static void make_unreadable(struct job *job, const char *reason, const struct err *why)
{
    job->headers = NULL; /* their memory belongs to the job until it is freed */
    job->header_count = 0;
    job->unreadable = reason;
    job->unreadable_why = job_copy_slice(job, slice_of(why->text));
}

struct job *amqp_job_new(const struct amqp_message *m, bool message_id_is_id)
{
    struct job *job =
        job_new(m->body.n + m->key.n + 2 * m->props.n + m->exchange.n + 128);
    struct amqp_props props;
    char room[AMQP_TEXT_SIZE];
    struct err err;

    job->payload = job_copy_slice(job, m->body);
    job->topic = job_copy_slice(job, m->key);
    if (amqp_props_parse(m->props, &props, &err) != 0) {
        make_unreadable(job, "undecodable", &err);
        return job;
    }
    job->native = job_copy_slice(job, m->props);
    if (m->whole_bytes > m->body.n) {
        err_set(&err,
                "the message has %llu bytes, more than message_max; tarry stores the "
                "first %zu bytes of its payload",
                (unsigned long long)m->whole_bytes, m->body.n);
        make_unreadable(job, "oversize", &err);
    } else if (add_props(job, m, &props, &err) != 0 ||
               add_table(job, &props, &err) != 0) {
        make_unreadable(job, "oversize", &err);
    }
    set_expiration(job, &props);
    const struct slice id = amqp_prop_text(&props, AMQP_MESSAGE_ID, room);
    if (message_id_is_id && id.n > 0)
        job->name = job_copy_slice(job, id);
    return job;
}
