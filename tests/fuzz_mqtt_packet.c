/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_mqtt_packet.c - libFuzzer: any bytes as packets of a broker, up to the job.
 */
#include "bridge/base/mem.h"
#include "sources/mqtt/mqtt_job.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

static void read_publish(struct slice packet, const struct packet_head *h, bool v5)
{
    struct mqtt_message m;

    if (packet_publish(packet, h, v5, &m) != 0)
        return;
    must(m.topic.n > 0 && m.topic.n + m.props.n + m.payload.n < packet.n);
    must((h->qos == 0) == (m.msgid == 0) && m.expiry_s <= UINT32_MAX);
    struct job *job = mqtt_job_new(&m);
    must(job != NULL && job->topic.n <= JOB_TOPIC_MAX);
    job_free(job);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    struct slice in = {(const char *)bytes, n};
    struct packet_head h;

    while (packet_head(in, &h) > 0) {
        must(h.head_bytes >= 2 && h.head_bytes <= 5 && h.head_bytes <= in.n);
        must(h.size >= h.head_bytes);
        if (h.size > in.n)
            return 0;
        const struct slice packet = {in.p, h.size};
        must(packet_connack(packet, &h) <= 1 && packet_id(packet, &h) < 65536);
        read_publish(packet, &h, true);
        read_publish(packet, &h, false);
        in = (struct slice){in.p + h.size, in.n - h.size};
    }
    return 0;
}
