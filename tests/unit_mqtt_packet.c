/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_mqtt_packet.c - MQTT packets, and which acknowledgements a worker delays. */
#include "sources/mqtt/mqtt_packet.h"
#include "sources/mqtt/mqtt_window.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void a_head_has_type_qos_and_size(void **state)
{
    static const struct {
        struct slice in;
        struct packet_head want;
    } rows[] = {
        {SLICE_LIT("\xd0\0"), {13, 0, 2, 2}},
        {SLICE_LIT("\x32\x7f"), {PACKET_PUBLISH, 1, 129, 2}},
        {SLICE_LIT("\x3d\x80\x01"), {PACKET_PUBLISH, 2, 131, 3}},
        {SLICE_LIT("\x30\xff\xff\xff\x7f"), {PACKET_PUBLISH, 0, 268435460, 5}},
        {SLICE_LIT("\x40\x04\0\1\x10\0more"), {PACKET_PUBACK, 0, 6, 2}},
    };
    struct packet_head h;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(packet_head(rows[i].in, &h), rows[i].want.head_bytes);
        assert_int_equal(h.type, rows[i].want.type);
        assert_int_equal(h.qos, rows[i].want.qos);
        assert_int_equal(h.size, rows[i].want.size);
    }
}

static void an_incomplete_head_waits_and_a_fifth_length_byte_is_rejected(void **state)
{
    const struct slice in = SLICE_LIT("\x30\xff\xff\xff\xff");
    struct packet_head h;
    (void)state;
    for (size_t n = 0; n < in.n; n++)
        assert_int_equal(packet_head((struct slice){in.p, n}, &h), 0);
    assert_int_equal(packet_head(in, &h), -1);
}

static int acknowledged(struct slice packet)
{
    struct packet_head h;
    assert_true(packet_head(packet, &h) > 0);
    return packet_acknowledged(packet, &h);
}

static void the_id_of_an_acknowledgement_is_read_with_and_without_a_reason(void **state)
{
    (void)state;
    assert_int_equal(acknowledged(SLICE_LIT("\x40\x02\x12\x34")), 0x1234);
    assert_int_equal(acknowledged(SLICE_LIT("\x40\x04\xff\xff\x10\0")), 65535);
    assert_int_equal(acknowledged(SLICE_LIT("\x50\x02\0\1")), 1);
    assert_int_equal(acknowledged(SLICE_LIT("\x70\x02\0\2")), 2);
    assert_int_equal(acknowledged(SLICE_LIT("\x62\x02\0\2")), -1); /* PUBREL */
    assert_int_equal(acknowledged(SLICE_LIT("\x40\x01\1")), -1);
    assert_int_equal(acknowledged(SLICE_LIT("\x40\x02\1")), -1); /* incomplete */
}

/* ------------------------------------------------------------------- the window */

static void add(struct mqtt_window *w, unsigned id, unsigned qos)
{
    window_pass(w, qos);
    assert_int_equal(
        window_add(w, (struct window_message){.id = id, .qos = qos, .bytes = 100}), 0);
}

static int ack(struct mqtt_window *w, unsigned id)
{
    const char packet[] = {0x40, 2, (char)(id >> 8), (char)id};
    return window_ack(w, (struct slice){packet, sizeof(packet)}, id);
}

static size_t released(struct mqtt_window *w)
{
    struct buf out = {0};
    window_release(w, &out);
    size_t n = out.n / 4;
    buf_free(&out);
    return n;
}

static void an_acknowledgement_is_released_when_its_message_is_stored(void **state)
{
    struct mqtt_window w = {0};
    struct buf out = {0};
    (void)state;
    for (unsigned id = 1; id <= 3; id++)
        add(&w, id, 1);
    assert_int_equal(ack(&w, 1), 0);
    assert_int_equal(ack(&w, 2), 0);
    assert_int_equal(released(&w), 0);
    assert_int_equal(window_store(&w, 3), 0);
    window_release(&w, &out);
    assert_true(slice_eq(buf_slice(&out), SLICE_LIT("\x40\2\0\1\x40\2\0\2")));
    assert_false(window_settled(&w)); /* 3 is stored, and paho has not acknowledged it */
    assert_int_equal(ack(&w, 3), 0);
    assert_int_equal(released(&w), 1);
    assert_true(window_settled(&w));
    assert_int_equal(window_open(&w), 0);
    assert_int_equal(w.bytes, 0);
    buf_free(&out);
    window_free(&w);
}

static void messages_of_qos_0_count_as_open_and_need_no_acknowledgement(void **state)
{
    struct mqtt_window w = {0};
    (void)state;
    add(&w, 0, 0);
    add(&w, 7, 1);
    add(&w, 0, 0);
    assert_int_equal(window_open(&w), 3);
    assert_int_equal(w.bytes, 300);
    assert_int_equal(ack(&w, 7), 0);
    assert_int_equal(window_store(&w, 1), 0);
    assert_int_equal(released(&w), 0);
    assert_int_equal(window_store(&w, 2), 0);
    assert_int_equal(released(&w), 1);
    assert_true(window_settled(&w));
    window_free(&w);
}

static void an_acknowledgement_before_its_message_is_released_after_it(void **state)
{
    struct mqtt_window w = {0};
    (void)state;
    add(&w, 1, 1);
    assert_int_equal(ack(&w, 1), 0);
    assert_int_equal(ack(&w, 2), 0); /* early */
    assert_int_equal(window_store(&w, 1), 0);
    assert_int_equal(released(&w), 1);
    add(&w, 0, 0);
    add(&w, 2, 1);
    assert_int_equal(w.early_bytes, 0);
    assert_int_equal(released(&w), 0);
    assert_int_equal(window_store(&w, 2), 0);
    assert_int_equal(released(&w), 1);
    assert_true(window_settled(&w));
    window_free(&w);
}

static void a_puback_without_its_message_is_wrong(void **state)
{
    struct mqtt_window w = {0};
    (void)state;
    assert_int_equal(ack(&w, 1), 0);
    assert_int_equal(ack(&w, 2), -1); /* paho calls back for 1 before it acknowledges 2 */
    assert_int_equal(window_add(&w, (struct window_message){.id = 2, .qos = 1}), -1);
    add(&w, 1, 1);
    assert_int_equal(window_store(&w, 1), 0);
    assert_int_equal(released(&w), 1);
    add(&w, 2, 1);
    add(&w, 3, 1);
    assert_int_equal(ack(&w, 3), -1);
    assert_int_equal(ack(&w, 2), 0);
    assert_int_equal(ack(&w, 2), -1);
    window_free(&w);
}

/* paho calls back with MQTT 5 at PUBLISH, and with 3.1.1 at PUBREL. */
static void at_qos_2_mqtt_5_delays_the_acknowledgement_and_3_1_1_does_not(void **state)
{
    struct mqtt_window w = {.holds_qos_2 = true}, older = {0};
    (void)state;
    assert_int_equal(window_ack(&w, SLICE_LIT("\x50\2\0\5"), 5), 0);
    add(&w, 5, 2);
    assert_int_equal(window_open(&w), 0); /* may be repeated: not counted */
    assert_int_equal(released(&w), 0);
    assert_int_equal(window_store(&w, 1), 0);
    assert_int_equal(released(&w), 1);
    add(&older, 5, 2);
    add(&older, 6, 1);
    assert_int_equal(ack(&older, 6), 0);
    assert_int_equal(window_store(&older, 2), 0);
    assert_int_equal(released(&older), 1);
    assert_true(window_settled(&older));
    window_free(&older);
    window_free(&w);
}

static void more_stored_messages_than_added_ones_are_rejected(void **state)
{
    struct mqtt_window w = {0};
    (void)state;
    assert_int_equal(window_store(&w, 1), -1);
    add(&w, 1, 1);
    assert_int_equal(window_store(&w, 2), -1);
    assert_int_equal(window_store(&w, UINT64_MAX), -1);
    assert_int_equal(window_store(&w, 1), 0);
    window_free(&w);
}

static void the_window_grows_and_keeps_the_order(void **state)
{
    struct mqtt_window w = {0};
    struct buf out = {0};
    unsigned next = 0;
    (void)state;
    for (unsigned id = 0; id < 65536; id++) {
        add(&w, id, 1);
        assert_int_equal(ack(&w, id), 0);
        if (id % 3 == 0)
            assert_int_equal(window_store(&w, 1), 0);
        window_release(&w, &out);
    }
    assert_int_equal(window_open(&w), 65536 - 21846);
    assert_int_equal(window_store(&w, window_open(&w)), 0);
    window_release(&w, &out);
    assert_int_equal(out.n, 65536 * 4);
    for (size_t at = 0; at < out.n; at += 4)
        assert_int_equal((unsigned char)out.p[at + 2] << 8 | (unsigned char)out.p[at + 3],
                         next++);
    buf_free(&out);
    window_free(&w);
}

UNIT(mqtt_packet)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_has_type_qos_and_size),
        cmocka_unit_test(an_incomplete_head_waits_and_a_fifth_length_byte_is_rejected),
        cmocka_unit_test(the_id_of_an_acknowledgement_is_read_with_and_without_a_reason),
        cmocka_unit_test(an_acknowledgement_is_released_when_its_message_is_stored),
        cmocka_unit_test(messages_of_qos_0_count_as_open_and_need_no_acknowledgement),
        cmocka_unit_test(an_acknowledgement_before_its_message_is_released_after_it),
        cmocka_unit_test(a_puback_without_its_message_is_wrong),
        cmocka_unit_test(at_qos_2_mqtt_5_delays_the_acknowledgement_and_3_1_1_does_not),
        cmocka_unit_test(more_stored_messages_than_added_ones_are_rejected),
        cmocka_unit_test(the_window_grows_and_keeps_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
