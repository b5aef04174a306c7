/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_mqtt_packet.c - MQTT packets of a broker.
 */
#include "sources/mqtt/mqtt_packet.h"
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
        {SLICE_LIT("\xd0\0"), {.type = 13, .size = 2, .head_bytes = 2}},
        {SLICE_LIT("\x32\x7f"),
         {.type = PACKET_PUBLISH, .qos = 1, .size = 129, .head_bytes = 2}},
        {SLICE_LIT("\x3d\x80\x01"),
         {.type = PACKET_PUBLISH,
          .dup = true,
          .retained = true,
          .qos = 2,
          .size = 131,
          .head_bytes = 3}},
        {SLICE_LIT("\x30\xff\xff\xff\x7f"),
         {.type = PACKET_PUBLISH, .size = 268435460, .head_bytes = 5}},
        {SLICE_LIT("\x40\x04\0\1\x10\0more"),
         {.type = PACKET_PUBACK, .size = 6, .head_bytes = 2}},
    };
    struct packet_head h;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(packet_head(rows[i].in, &h), rows[i].want.head_bytes);
        assert_int_equal(h.type, rows[i].want.type);
        assert_int_equal(h.qos, rows[i].want.qos);
        assert_int_equal(h.dup, rows[i].want.dup);
        assert_int_equal(h.retained, rows[i].want.retained);
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

static struct packet_head head_of(struct slice packet)
{
    struct packet_head h;
    assert_true(packet_head(packet, &h) > 0);
    assert_int_equal(h.size, packet.n);
    return h;
}

static void a_connack_says_whether_the_session_is_resumed(void **state)
{
    static const struct {
        struct slice packet;
        int want;
    } rows[] = {{SLICE_LIT("\x20\2\1\0"), 1},
                {SLICE_LIT("\x20\3\0\0\0"), 0},
                {SLICE_LIT("\x20\3\0\x87\0"), -1}, /* not authorized */
                {SLICE_LIT("\x20\1\1"), -1}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct packet_head h = head_of(rows[i].packet);
        assert_int_equal(packet_connack(rows[i].packet, &h), rows[i].want);
    }
}

static void the_id_of_a_pubrel_is_read_with_and_without_a_reason(void **state)
{
    static const struct {
        struct slice packet;
        unsigned want;
    } rows[] = {{SLICE_LIT("\x62\x02\x12\x34"), 0x1234},
                {SLICE_LIT("\x62\x04\xff\xff\x10\0"), 65535},
                {SLICE_LIT("\x62\x01\1"), 0}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct packet_head h = head_of(rows[i].packet);
        assert_int_equal(packet_id(rows[i].packet, &h), rows[i].want);
    }
}

/* -------------------------------------------------------------------- messages */

#define USER "\x26\0\1n\0\2vw"
#define PROPS USER "\3\0\1c\x08\0\1r\x09\0\2\xff\0\1\1\2\0\0\1\4\x0b\x81\1"
enum { PROPS_BYTES = sizeof(PROPS) - 1, PROPS_COUNT = 7 };

static void a_publish_is_read_with_its_properties(void **state)
{
    struct buf packet = {0};
    struct mqtt_message m;
    struct packet_prop prop;
    unsigned n = 0;
    (void)state;
    const unsigned char lengths[] = {0x3b, 6 + PROPS_BYTES + 3};
    buf_add(&packet, lengths, 2);
    buf_add_slice(&packet, SLICE_LIT("\0\1t\x12\x34"));
    buf_add(&packet, &(char){PROPS_BYTES}, 1);
    buf_add_slice(&packet, SLICE_LIT(PROPS "x\0y"));
    const struct packet_head h = head_of(buf_slice(&packet));
    assert_int_equal(packet_publish(buf_slice(&packet), &h, true, &m), 0);
    assert_true(m.dup && m.retained && m.msgid == 0x1234 && m.whole_bytes == 0);
    assert_true(slice_is(m.topic, "t") && slice_eq(m.payload, SLICE_LIT("x\0y")));
    assert_int_equal(m.expiry_s, 260);
    while (packet_next_prop(&m.props, &prop)) {
        if (n++ > 0)
            continue;
        assert_int_equal(prop.id, PROP_USER);
        assert_true(slice_is(prop.name, "n") && slice_is(prop.value, "vw"));
    }
    assert_int_equal(n, PROPS_COUNT);
    assert_int_equal(m.props.n, 0);
    buf_free(&packet);
}

static void a_publish_of_mqtt_3_1_1_has_no_properties(void **state)
{
    const struct slice packet = SLICE_LIT("\x30\5\0\1t\1x");
    const struct packet_head h = head_of(packet);
    struct mqtt_message m;
    (void)state;
    assert_int_equal(packet_publish(packet, &h, false, &m), 0);
    assert_true(slice_eq(m.payload, SLICE_LIT("\1x")) && m.props.n == 0);
    assert_true(m.msgid == 0 && m.expiry_s == -1);
}

static void an_invalid_publish_is_rejected(void **state)
{
    static const struct slice rows[] = {
        SLICE_LIT("\x30\0"),                          /* no topic */
        SLICE_LIT("\x30\3\0\2t"),                     /* shorter than its topic */
        SLICE_LIT("\x30\3\0\0\0"),                    /* an empty topic */
        SLICE_LIT("\x32\4\0\1t\1"),                   /* half an id */
        SLICE_LIT("\x32\6\0\1t\0\0\0"),               /* id 0 */
        SLICE_LIT("\x36\6\0\1t\0\1\0"),               /* QoS 3 */
        SLICE_LIT("\x30\3\0\1t"),                     /* without a property length */
        SLICE_LIT("\x30\5\0\1t\2\1"),                 /* properties cut off */
        SLICE_LIT("\x30\6\0\1t\2\x11\1"),             /* an unknown property */
        SLICE_LIT("\x30\x0a\0\1t\6\3\0\5abc"),        /* a property cut off */
        SLICE_LIT("\x30\x08\0\1t\x80\x80\x80\x80\0"), /* a length of five bytes */
    };
    struct mqtt_message m;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct packet_head h = head_of(rows[i]);
        assert_int_equal(packet_publish(rows[i], &h, true, &m), -1);
    }
}

static void broken_properties_end_the_list(void **state)
{
    struct packet_prop prop;
    (void)state;
    for (size_t n = 0; n <= PROPS_BYTES; n++) {
        struct slice rest = {PROPS, n};
        unsigned count = 0;
        while (packet_next_prop(&rest, &prop))
            count++;
        assert_true(count <= PROPS_COUNT && (n < PROPS_BYTES || count == PROPS_COUNT));
    }
}

UNIT(mqtt_packet)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_has_type_qos_and_size),
        cmocka_unit_test(an_incomplete_head_waits_and_a_fifth_length_byte_is_rejected),
        cmocka_unit_test(a_connack_says_whether_the_session_is_resumed),
        cmocka_unit_test(the_id_of_a_pubrel_is_read_with_and_without_a_reason),
        cmocka_unit_test(a_publish_is_read_with_its_properties),
        cmocka_unit_test(a_publish_of_mqtt_3_1_1_has_no_properties),
        cmocka_unit_test(an_invalid_publish_is_rejected),
        cmocka_unit_test(broken_properties_end_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
