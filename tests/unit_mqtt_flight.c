/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_mqtt_flight.c - which messages of an MQTT broker are duplicates of earlier ones.
 */
#include "bridge/base/mem.h"
#include "sources/mqtt/mqtt_flight.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct flight_message *add(struct mqtt_flight *f, unsigned msgid, bool dup,
                                  const char *payload, bool *again)
{
    const struct mqtt_message m = {.dup = dup,
                                   .msgid = msgid,
                                   .topic = SLICE_LIT("t"),
                                   .payload = slice_of(payload)};
    return flight_add(f, &m, again);
}

static struct mqtt_flight *flight(void)
{
    return mem_alloc(sizeof(struct mqtt_flight));
}

static void end(struct mqtt_flight *f)
{
    flight_forget(f);
    free(f);
}

static void stored_messages_are_reported_in_order_and_once(void **state)
{
    struct mqtt_flight *f = flight();
    bool again;
    (void)state;
    struct flight_message *a = add(f, 1, false, "a", &again);
    struct flight_message *b = add(f, 2, false, "b", &again);
    struct flight_message *c = add(f, 3, false, "c", &again);
    flight_settle(b, true);
    assert_int_equal(flight_take_stored(f), 0);
    flight_settle(a, true);
    assert_int_equal(flight_take_stored(f), 2);
    assert_int_equal(flight_take_stored(f), 0);
    flight_settle(c, true);
    assert_int_equal(flight_take_stored(f), 1);
    end(f);
}

/* All 65,535 at once, in each state. */
static void every_message_in_flight_is_recognised_after_a_reconnection(void **state)
{
    enum { IDS = 65535 };
    struct mqtt_flight *f = flight();
    struct flight_message **open = mem_alloc((IDS + 1) * sizeof(struct flight_message *));
    char text[16];
    bool again;
    (void)state;
    for (unsigned id = 1; id <= IDS; id++) {
        snprintf(text, sizeof(text), "%u", id);
        open[id] = add(f, id, false, text, &again);
        if (id > 1 && id % 2 == 0)
            flight_settle(open[id], true);
    }
    assert_int_equal(flight_take_stored(f), 0); /* the first is not stored */
    flight_end_run(f);
    for (unsigned id = 1; id <= IDS; id++) {
        snprintf(text, sizeof(text), "%u", id);
        assert_ptr_equal(add(f, id, true, text, &again), open[id]);
        assert_true(again);
    }
    for (unsigned id = 1; id <= IDS; id += 2)
        flight_settle(open[id], true);
    assert_int_equal(flight_take_stored(f), IDS);
    free(open);
    end(f);
}

static void another_message_with_the_same_id_is_new(void **state)
{
    static const struct {
        bool dup;
        const char *payload;
        bool not_stored;
    } rows[] = {{true, "other", false}, {false, "same", false}, {true, "same", true}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct mqtt_flight *f = flight();
        bool again;
        struct flight_message *m = add(f, 9, false, "same", &again);
        flight_end_run(f);
        if (rows[i].not_stored)
            flight_settle(m, false);
        struct flight_message *next = add(f, 9, rows[i].dup, rows[i].payload, &again);
        assert_false(again);
        if (!rows[i].not_stored)
            flight_settle(m, true); /* the earlier one; it is removed */
        assert_int_equal(flight_take_stored(f), 0);
        flight_settle(next, true);
        assert_int_equal(flight_take_stored(f), 1);
        end(f);
    }
}

/* The broker counts the expiry interval down until it sends the message again. */
static void a_message_with_another_expiry_interval_is_the_same(void **state)
{
    static const struct {
        struct slice props;
        bool again;
    } rows[] = {{SLICE_LIT("\2\0\0\0\7\x26\0\1n\0\1v"), true},
                {SLICE_LIT("\2\0\0\0\7\x26\0\1n\0\1w"), false}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct mqtt_flight *f = flight();
        bool again;
        struct mqtt_message m = {.msgid = 9,
                                 .topic = SLICE_LIT("t"),
                                 .payload = SLICE_LIT("p"),
                                 .props = SLICE_LIT("\2\0\0\1\0\x26\0\1n\0\1v")};
        struct flight_message *first = flight_add(f, &m, &again);
        flight_end_run(f);
        m.dup = true;
        m.props = rows[i].props;
        struct flight_message *second = flight_add(f, &m, &again);
        assert_int_equal(again, rows[i].again);
        flight_settle(first, true);
        if (second != first)
            flight_settle(second, true);
        end(f);
    }
}

static void an_acknowledged_message_is_not_recognised(void **state)
{
    struct mqtt_flight *f = flight();
    bool again;
    (void)state;
    flight_settle(add(f, 9, false, "same", &again), true);
    assert_int_equal(flight_take_stored(f), 1);
    flight_end_run(f);
    flight_settle(add(f, 9, true, "same", &again), true);
    assert_false(again);
    end(f);
}

static void a_new_session_forgets_everything(void **state)
{
    struct mqtt_flight *f = flight();
    bool again;
    (void)state;
    struct flight_message *open = add(f, 1, false, "a", &again);
    flight_settle(add(f, 2, false, "b", &again), true);
    flight_end_run(f);
    flight_forget(f);
    for (unsigned id = 1; id <= 2; id++) {
        flight_settle(add(f, id, true, id == 1 ? "a" : "b", &again), true);
        assert_false(again);
    }
    flight_settle(open, true);
    assert_int_equal(flight_take_stored(f), 2);
    end(f);
}

static void a_message_of_qos_0_is_forgotten_with_its_run(void **state)
{
    struct mqtt_flight *f = flight();
    bool again;
    (void)state;
    struct flight_message *m = add(f, 0, false, "a", &again);
    flight_end_run(f);
    flight_settle(add(f, 0, true, "a", &again), true);
    assert_false(again);
    flight_settle(m, true);
    assert_int_equal(flight_take_stored(f), 1);
    end(f);
}

UNIT(mqtt_flight)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_messages_are_reported_in_order_and_once),
        cmocka_unit_test(every_message_in_flight_is_recognised_after_a_reconnection),
        cmocka_unit_test(another_message_with_the_same_id_is_new),
        cmocka_unit_test(a_message_with_another_expiry_interval_is_the_same),
        cmocka_unit_test(an_acknowledged_message_is_not_recognised),
        cmocka_unit_test(a_new_session_forgets_everything),
        cmocka_unit_test(a_message_of_qos_0_is_forgotten_with_its_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
