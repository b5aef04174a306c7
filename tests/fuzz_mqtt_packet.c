/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_mqtt_packet.c - libFuzzer: any bytes as packets of a broker or of paho, and any
 * order of messages, acknowledgements and reports in a window.
 */
#include "bridge/base/mem.h"
#include "sources/mqtt/mqtt_packet.h"
#include "sources/mqtt/mqtt_window.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

static void read_packets(struct slice in)
{
    struct packet_head h;

    while (packet_head(in, &h) > 0) {
        must(h.head_bytes >= 2 && h.head_bytes <= 5 && h.head_bytes <= in.n);
        must(h.size >= h.head_bytes && packet_acknowledged(in, &h) < 65536);
        must(packet_connack(in, &h) <= 1);
        if (h.size > in.n)
            return;
        in = (struct slice){in.p + h.size, in.n - h.size};
    }
}

static void check(const struct mqtt_window *w)
{
    must(w->released <= w->stored && w->stored <= w->added);
    must(w->released <= w->acked && w->acked <= w->added);
    must(w->added - w->released <= w->place_count);
    must(w->passed_stored <= w->passed && (w->bytes == 0) == (w->stored == w->added));
}

/* Each byte is a step: its low bits select the step, its high bits the id. */
static void use_window(const unsigned char *bytes, size_t n)
{
    struct mqtt_window w = {.holds_qos_2 = n & 1};
    struct buf out = {0};

    for (size_t i = 0; i < n; i++) {
        const unsigned id = bytes[i] >> 3, qos = id % 3;
        const char packet[] = {0x40, 2, 0, (char)id};
        if ((bytes[i] & 3) == 0) {
            window_pass(&w, qos);
            window_add(&w, (struct window_message){
                               .id = qos ? id : 0, .qos = qos, .bytes = id + 1});
        } else if ((bytes[i] & 3) == 1) {
            window_ack(&w, (struct slice){packet, sizeof(packet)}, id);
        } else if ((bytes[i] & 3) == 2) {
            window_store(&w, id);
        } else {
            window_release(&w, &out);
        }
        check(&w);
    }
    must(out.n % 4 == 0);
    buf_free(&out);
    window_free(&w);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n)
{
    read_packets((struct slice){(const char *)bytes, n});
    use_window(bytes, n);
    return 0;
}
