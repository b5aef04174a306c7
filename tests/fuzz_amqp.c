/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_amqp.c - libFuzzer: any bytes as frames of a broker, up to the job and to the
 * message that an AMQP sink sends for it; any bytes as an URL.
 */
#include "sinks/amqp/amqp_sink.h"
#include "sources/amqp/amqp_job.h"
#include "tests/fuzz.h"

#include <stdlib.h>

enum { FRAME_MAX = 4096, BODY_MAX = 64 };

static struct amqp_composer composer;

/* The message must be valid, and must contain all properties of the original but the user
 * id. */
static void compose(struct job *job)
{
    const struct delivery d = {
        .job = job, .headers = job->headers, .header_count = job->header_count};
    struct amqp_props before, after;
    bool dropped;

    const struct slice out = amqp_compose(&composer, &d, NULL, &dropped);
    must(amqp_props_parse(out, &after, NULL) == 0);
    if (job->native.p == NULL)
        return;
    must(amqp_props_parse(job->native, &before, NULL) == 0);
    for (unsigned i = 0; i < AMQP_PROPS; i++)
        if (i != AMQP_HEADERS && i != AMQP_USER_ID && before.raw[i].p)
            must(slice_eq(before.raw[i], after.raw[i]));
    if (job->unreadable == NULL)
        must(amqp_props_table(&after).n >= amqp_props_table(&before).n);
}

static void check_message(struct amqp_message *m)
{
    must(m->body.n <= m->whole_bytes &&
         m->body.n <= (m->whole_bytes > BODY_MAX ? AMQP_BODY_KEPT : BODY_MAX));
    struct job *job = amqp_job_new(m, true);
    must(job->topic.n <= JOB_TOPIC_MAX && job->payload.n == m->body.n);
    compose(job);
    job_free(job);
    free(m);
}

static void take_method(struct amqp_content *c, amqp_pool_t *pool,
                        const struct amqp_frame *f)
{
    void *method;

    if (f->payload.n < 4)
        return;
    const amqp_method_number_t id = (amqp_method_number_t)amqp_number(f->payload.p, 4);
    const struct slice args = {f->payload.p + 4, f->payload.n - 4};
    if (id != AMQP_BASIC_DELIVER_METHOD && id != AMQP_BASIC_RETURN_METHOD)
        return; /* librabbitmq decodes the others, which is not ours to test */
    if (amqp_decode_method(id, pool, amqp_bytes_of(args), &method) >= 0)
        amqp_content_begin(c, f->channel, id, method);
    recycle_amqp_pool(pool);
}

static void take_url(struct slice in)
{
    struct amqp_peer peer;
    char *text = fuzz_text(in);

    if (amqp_url_parse(text, &peer, NULL) == 0) {
        must(*peer.host && *peer.port && *peer.vhost);
        amqp_peer_free(&peer);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice in = {(const char *)bytes, n};
    struct amqp_content c = {0};
    struct amqp_frame f;
    amqp_pool_t pool;

    take_url(in);
    init_amqp_pool(&pool, 4096);
    while (amqp_frame_take(&in, FRAME_MAX, &f, NULL) > 0) {
        must(f.payload.n <= FRAME_MAX - AMQP_FRAME_EXTRA_BYTES);
        if (f.type == AMQP_METHOD)
            take_method(&c, &pool, &f);
        else if (f.type == AMQP_HEADER)
            amqp_content_header(&c, f.payload, BODY_MAX);
        else if (f.type == AMQP_BODY)
            amqp_content_body(&c, f.payload);
        struct amqp_message *m = amqp_content_take(&c);
        if (m)
            check_message(m);
    }
    amqp_content_drop(&c);
    empty_amqp_pool(&pool);
    return 0;
}
