/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_mqtt_frame.c - libFuzzer: any bytes from a worker of the MQTT source, until the
 * job is built, and any bytes as a topic.
 */
#include "bridge/base/mem.h"
#include "sources/mqtt/mqtt_frame.h"
#include "sources/mqtt/mqtt_job.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

static void read_body(const struct frame *f)
{
    struct mqtt_setup setup;
    struct mqtt_message m;
    struct err err;
    uint32_t number;

    if (f->type == FRAME_SETUP && frame_get_setup(f->body, &setup, &err) == 0)
        mqtt_setup_free(&setup);
    if (f->type == FRAME_CONNECTED || f->type == FRAME_STORED)
        frame_get_number(f->body, &number, &err);
    if (f->type == FRAME_MESSAGE && frame_get_message(f->body, &m, &err) == 0) {
        struct job *job = mqtt_job_new(&m);
        must(job != NULL && job->topic.n <= JOB_TOPIC_MAX);
        job_free(job);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice in = {(const char *)bytes, n};
    struct frame f;
    ssize_t used;

    if (mqtt_topic_check(in, NULL) == 0)
        must(mqtt_filter_check(in, NULL) == 0);
    must(mqtt_delayed_split(in).rest.n <= n);
    while ((used = frame_take(in, FRAME_SMALL_MAX, &f, NULL)) > 0) {
        must((size_t)used <= in.n);
        read_body(&f);
        in = (struct slice){in.p + used, in.n - (size_t)used};
    }
    return 0;
}
