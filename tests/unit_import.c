/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_import.c - the formats that importers read: MessagePack, JSON objects with any
 * keys, entries of lmstfy's lists and timer, values of delay-queue.
 */
#include "bridge/import/import_internal.h"
#include "sources/delayqueue/delayqueue.h"
#include "sources/lmstfy/lmstfy_job.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define BYTES(lit) ((struct slice){lit, sizeof(lit) - 1})

/* --- delay-queue's values --- */

static void check_value(struct slice bytes, int result)
{
    struct delayqueue_value job;
    assert_int_equal(delayqueue_value_read(bytes, &job), result);
    if (result == 0) {
        assert_true(slice_is(job.topic, "order"));
        assert_true(slice_is(job.id, "m1"));
        assert_true(slice_is(job.body, "hello"));
        assert_int_equal(job.due_s, 0x6b003bce);
        assert_int_equal(job.ttr_s, 120);
    }
}

static void a_value_of_delay_queue_is_read_in_each_of_its_forms(void **state)
{
    (void)state;
    check_value(BYTES("\x85\xa1"
                      "1\xa5order\xa1"
                      "2\xa2m1\xa1"
                      "3\xce\x6b\x00\x3b\xce\xa1"
                      "4\x78\xa1"
                      "5\xa5hello"),
                0);
    /* Another order, binaries, wider integers, an unknown key, a nil value. */
    check_value(BYTES("\x86\xa1"
                      "5\xc4\x05hello\xa1"
                      "9\xc3\xa1"
                      "3\xd3\x00\x00\x00\x00\x6b\x00\x3b\xce\xa1"
                      "4\xcd\x00\x78\xa1"
                      "1\xd9\x05order\xa1"
                      "2\xa2m1"),
                0);
    check_value(BYTES("\x95\xa5order\xa2m1\xce\x6b\x00\x3b\xce\xd0\x78\xa5hello"), 0);
    check_value(BYTES("\x82\xa1"
                      "1\xa5order\xa1"
                      "2\xc0"),
                -1); /* without an id */
    check_value(BYTES("\x81\xa1"
                      "1\x05"),
                -1);
    check_value(BYTES("\x94\x01\x02\x03\x04"), -1);
    check_value(BYTES("\xa2m1"), -1);
    check_value(BYTES("\x80"), -1);
}

static void invalid_messagepack_is_rejected(void **state)
{
    (void)state;
    static const struct slice rows[] = {BYTES(""),
                                        BYTES("\xc1"),
                                        BYTES("\xa5hell"),
                                        BYTES("\x92\x01"),
                                        BYTES("\x01\x01"),
                                        BYTES("\xdd\xff\xff\xff\xff"),
                                        BYTES("\xdf\x7f\xff\xff\xff\x01"),
                                        BYTES("\x91\x91\x91\x91\x91\x91\x91"
                                              "\x91\x91\x91\x91\x91\x01")};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_value(rows[i], -1);
}

/* --- lmstfy's entries --- */

static void an_entry_of_a_list_contains_tries_and_id(void **state)
{
    (void)state;
    struct lmstfy_place place;
    assert_int_equal(lmstfy_place_in_list(BYTES("\x02\x01\x03\x00"
                                                "AbC"),
                                          &place),
                     0);
    assert_int_equal(place.tries, 258);
    assert_true(slice_is(place.id, "AbC"));
    static const struct slice bad[] = {BYTES(""),
                                       BYTES("\x01\x00"),
                                       BYTES("\x01\x00\x00\x00"), /* no id */
                                       BYTES("\x01\x00\x04\x00"
                                             "AbC"),
                                       BYTES("\x01\x00\x02\x00"
                                             "AbC"),
                                       BYTES("\x01\x00\x03\x00"
                                             "A/C")};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(lmstfy_place_in_list(bad[i], &place), -1);
}

static void an_entry_of_the_timer_contains_namespace_queue_tries_and_id(void **state)
{
    (void)state;
    struct lmstfy_place place;
    static const struct slice good = BYTES("\x02\x00ns\x01\x00q\x00\x00\x02\x00ID");
    assert_int_equal(lmstfy_place_in_timer(good, &place), 0);
    assert_true(slice_is(place.ns, "ns"));
    assert_true(slice_is(place.queue, "q"));
    assert_true(slice_is(place.id, "ID"));
    assert_int_equal(place.tries, 0);
    for (size_t n = 0; n < good.n; n++)
        assert_int_equal(lmstfy_place_in_timer((struct slice){good.p, n}, &place), -1);
}

static void a_key_names_namespace_queue_and_job(void **state)
{
    (void)state;
    struct lmstfy_place place;
    assert_int_equal(lmstfy_place_in_key(SLICE_LIT("j/n-s/q_1/ID"), true, &place), 0);
    assert_true(slice_is(place.ns, "n-s"));
    assert_true(slice_is(place.queue, "q_1"));
    assert_true(slice_is(place.id, "ID"));
    assert_int_equal(lmstfy_place_in_key(SLICE_LIT("q/ns/q"), false, &place), 0);
    assert_true(slice_is(place.queue, "q"));
    static const char *const bad[] = {"j/ns/q",     "j/ns/q/", "j//q/ID",
                                      "j/ns/q/a/b", "j",       ""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(lmstfy_place_in_key(slice_of(bad[i]), true, &place), -1);
    assert_int_equal(lmstfy_place_in_key(SLICE_LIT("q/ns/q/x"), false, &place), -1);
}

static void a_key_is_reported_as_new_only_once(void **state)
{
    (void)state;
    struct import im = {.seen = g_hash_table_new(NULL, NULL)};
    char text[24];
    for (int i = 0; i < 20000; i++) {
        snprintf(text, sizeof(text), "key %d", i);
        assert_false(import_seen_has(&im, slice_of(text)));
        assert_true(import_seen_add(&im, slice_of(text)));
    }
    for (int i = 0; i < 20000; i++) {
        snprintf(text, sizeof(text), "key %d", i);
        assert_true(import_seen_has(&im, slice_of(text)));
        assert_false(import_seen_add(&im, slice_of(text)));
    }
    g_hash_table_destroy(im.seen);
}

UNIT(import)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_of_delay_queue_is_read_in_each_of_its_forms),
        cmocka_unit_test(invalid_messagepack_is_rejected),
        cmocka_unit_test(an_entry_of_a_list_contains_tries_and_id),
        cmocka_unit_test(an_entry_of_the_timer_contains_namespace_queue_tries_and_id),
        cmocka_unit_test(a_key_names_namespace_queue_and_job),
        cmocka_unit_test(a_key_is_reported_as_new_only_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
