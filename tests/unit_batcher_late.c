/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_batcher_late.c - changes that are too late: past a deadline, without enough
 * replicas, returned to Kafka, and in a store that closes.
 */
#include "bridge/base/loop.h"
#include "bridge/store/store.h"
#include "tests/fake_redis.h"
#include "tests/batcher_rig.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* ------------------------------------------------------------------------- deadlines */

static void ask_with_deadline(struct bucket *b, enum batcher_kind kind, const char *name,
                              int64_t deadline_ms)
{
    struct slice id = slice_of(name);
    const struct change how = {.awaited = true,
                               .deadline_us =
                                   deadline_ms ? loop_mono_us() + deadline_ms * 1000 : 0};
    void *arg = (void *)name;
    if (kind == BATCHER_ENQUEUE)
        rig_enqueue(b, name, &how, 0);
    else if (kind == BATCHER_CANCEL)
        rig_cancel(b, name, &how);
    else if (kind == BATCHER_FINISH)
        store_finish(b, id, 5, "acked", 0, deadline_ms, rig_on_result, arg);
    else
        store_release(b, id, 5, 0, true, deadline_ms, rig_on_result, arg);
}

/* The batchers with deadlines. The cancel is in another bucket than the enqueue, since
 * one waits for the other. */
static const struct {
    enum batcher_kind kind;
    const char *id[5], *outcomes[5];
} timed[] = {
    {BATCHER_ENQUEUE,
     {"s1", "s2", "s3", "s4", "s5"},
     {"s1=s ", "s2=s ", "s3=0 ", "s4=s ", "s5=s "}},
    {BATCHER_CANCEL,
     {"c1", "c2", "c3", "c4", "c5"},
     {"c1=c ", "c2=c ", "c3=0 ", "c4=c ", "c5=c "}},
    {BATCHER_FINISH,
     {"f1", "f2", "f3", "f4", "f5"},
     {"f1=f ", "f2=f ", "f3=0 ", "f4=f ", "f5=f "}},
    {BATCHER_RELEASE,
     {"r1", "r2", "r3", "r4", "r5"},
     {"r1=r ", "r2=r ", "r3=0 ", "r4=r ", "r5=r "}},
};
enum { TIMED = sizeof(timed) / sizeof(timed[0]) };

static void ask_all_with_deadline(unsigned nth, int64_t deadline_ms)
{
    for (unsigned i = 0; i < TIMED; i++)
        ask_with_deadline(timed[i].kind == BATCHER_ENQUEUE ? rig.route : rig.queue,
                          timed[i].kind, timed[i].id[nth], deadline_ms);
}

/* Two batches are in flight, so the next one waits. Redis answers a change that was
 * sent. */
static void a_change_not_sent_by_its_deadline_gets_no_result(void **state)
{
    (void)state;
    rig_start(8, 0);
    fake.paused = true;
    ask_all_with_deadline(0, 1);
    assert_true(rig_wait_for(&rig.calls, TIMED));
    ask_all_with_deadline(1, 1);
    assert_true(rig_wait_for(&rig.calls, 2 * TIMED));
    ask_all_with_deadline(2, 1);
    ask_all_with_deadline(3, 60000);
    ask_all_with_deadline(4, 0);
    assert_true(rig_wait_for(&rig.answers, TIMED)); /* the store checks once a second */
    for (unsigned i = 0; i < TIMED; i++)
        assert_non_null(strstr(buf_str(&rig.results), timed[i].outcomes[2]));
    assert_int_equal(rig.answers, TIMED);
    fake_resume();
    assert_true(rig_wait_for(&rig.answers, 5 * TIMED));
    for (unsigned i = 0; i < TIMED; i++)
        for (unsigned nth = 0; nth < 5; nth++)
            assert_non_null(strstr(buf_str(&rig.results), timed[i].outcomes[nth]));
    assert_string_equal(buf_str(&rig.sizes), "1 1 1 1 1 1 1 1 2 2 2 2 ");
    rig_stop();
}

static void pass_deadline(int64_t ms)
{
    int64_t end_ms = loop_mono_ms() + ms + 1;
    while (loop_mono_ms() < end_ms) {
        timer_set(rig.limit, 1);
        loop_run();
    }
}

/* The batch contains one more change, which waits on and receives its own result
 * later. */
static void assert_past_deadline(enum batcher_kind kind, const char *codes,
                                 const char *past)
{
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    const char *const plan[] = {codes, NULL};
    unsigned n = (unsigned)strlen(codes + 1);
    rig_start(16, 1);
    rig.plan = plan;
    rig.pause_at = "WAIT";
    fake.match = "WAIT";
    fake.match_reply = ":0\n";
    for (unsigned i = 0; i < n; i++)
        ask_with_deadline(rig.route, kind, ids[i], i == 1 ? 60000 : 1);
    assert_true(rig_wait_for(&rig.waits, 1));
    pass_deadline(1);
    assert_int_equal(rig.answers, 0);
    rig.pause_at = NULL;
    fake_resume();
    assert_true(rig_wait_for(&rig.answers, n - 1));
    fake.match = NULL;
    assert_true(rig_wait_for(&rig.answers, n));
    assert_string_equal(buf_str(&rig.results), past);
    assert_int_equal(rig.calls, 1); /* it was executed */
    assert_int_equal(store_counters(rig.store)->wait_shortfalls, 1);
    rig_stop();
}

static void
a_change_done_by_its_deadline_but_on_too_few_replicas_is_reported_as_unsafe(void **state)
{
    (void)state;
    assert_past_deadline(BATCHER_ENQUEUE, "=sritce", "a=S c=I d=T e=C f=E b=r ");
    assert_past_deadline(BATCHER_CANCEL, "=cec", "a=C c=C b=e ");
}

/* A result like k, of a record that an earlier batch has stored: its outcome is
 * unknown. */
static void a_change_not_done_by_its_deadline_gets_no_result(void **state)
{
    (void)state;
    assert_past_deadline(BATCHER_ENQUEUE, "=kxskz", "a=0 c=S d=0 e=0 b=x ");
    assert_past_deadline(BATCHER_CANCEL, "=ncfm", "a=0 c=0 d=0 b=c ");
}

static void a_change_without_deadline_waits_for_the_replicas(void **state)
{
    (void)state;
    rig_start(8, 1);
    fake.match = "WAIT";
    fake.match_reply = ":0\n";
    rig_send_each(BATCHER_ENQUEUE, "ab");
    assert_true(rig_wait_for(&rig.waits, 2));
    assert_int_equal(rig.answers, 0);
    fake.match = NULL;
    assert_true(rig_wait_for(&rig.answers, 2));
    assert_string_equal(buf_str(&rig.results), "a=s b=s ");
    assert_int_equal(rig.calls, 1);
    rig_stop();
}

/* A lost ack is repeated by the next delivery; no caller waits for it. */
static void changes_of_other_batchers_do_not_wait_for_replicas(void **state)
{
    (void)state;
    static const enum batcher_kind kinds[] = {BATCHER_ACK,     BATCHER_RETRY,
                                              BATCHER_BURY,    BATCHER_FINISH,
                                              BATCHER_RELEASE, BATCHER_RENEW};
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        rig_start(8, 1);
        rig_send(kinds[i], "a");
        assert_true(rig_wait_for(&rig.answers, 1));
        assert_int_equal(rig.waits, 0);
        rig_stop();
    }
}

/* ------------------------------------------------------------------------ returned */

static const struct origin record = {"t/0", 7, 6, 0, 0};

static void ask_of_kafka_and_others(const char *ids)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    const struct change of_kafka = {.awaited = true, .origin = record},
                        of_others = {.awaited = true};
    rig_enqueue(rig.route, names[ids[0] - 'a'], &of_kafka, 0);
    rig_enqueue(rig.route, names[ids[1] - 'a'], &of_others, 0);
    rig_cancel(rig.route, names[ids[2] - 'a'], &of_kafka);
    rig_cancel(rig.route, names[ids[3] - 'a'], &of_others);
}

static void queued_kafka_changes_are_returned_by_store_give_back(void **state)
{
    (void)state;
    rig_start(8, 0);
    rig_disconnect();
    ask_of_kafka_and_others("abcd");
    rig_send_each(BATCHER_ACK, "x");
    assert_int_equal(store_open_count(rig.store), 5);
    store_reject_kafka_changes(rig.store);
    assert_string_equal(buf_str(&rig.results), "a=0 c=0 ");
    assert_int_equal(store_open_count(rig.store), 3);
    store_reject_kafka_changes(rig.store);
    assert_int_equal(rig.answers, 2);
    rig_reconnect();
    assert_true(rig_wait_for(&rig.answers, 5));
    assert_null(strstr(buf_str(&rig.sent), " a"));
    assert_null(strstr(buf_str(&rig.sent), " c"));
    assert_non_null(strstr(buf_str(&rig.results), "b=s "));
    assert_non_null(strstr(buf_str(&rig.results), "d=c "));
    assert_non_null(strstr(buf_str(&rig.results), "x=a "));
    rig_stop();
}

/* Redis has executed it, or will: its reply decides. */
static void changes_in_flight_are_not_returned(void **state)
{
    (void)state;
    rig_start(8, 0);
    fake.paused = true;
    ask_of_kafka_and_others("abcd"); /* the cancels wait for the enqueues */
    assert_true(rig_wait_for(&rig.calls, 1));
    store_reject_kafka_changes(rig.store);
    assert_string_equal(buf_str(&rig.results), "c=0 ");
    fake_resume();
    assert_true(rig_wait_for(&rig.answers, 4));
    assert_string_equal(buf_str(&rig.results), "c=0 a=s b=s d=c ");
    rig_stop();
}

/* The store is closed: no reply will arrive. */
static void all_changes_get_no_result_when_the_store_is_freed(void **state)
{
    (void)state;
    rig_start(8, 0);
    fake.paused = true;
    rig_send_each(BATCHER_ENQUEUE, "ab");
    assert_true(rig_wait_for(&rig.calls, 1));
    rig_send_each(BATCHER_CANCEL, "c");
    store_free(rig.store);
    assert_string_equal(buf_str(&rig.results), "a=0 b=0 c=0 ");
    rig.store = NULL;
    rig_stop();
}

UNIT(batcher_late)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_not_sent_by_its_deadline_gets_no_result),
        cmocka_unit_test(
            a_change_done_by_its_deadline_but_on_too_few_replicas_is_reported_as_unsafe),
        cmocka_unit_test(a_change_not_done_by_its_deadline_gets_no_result),
        cmocka_unit_test(a_change_without_deadline_waits_for_the_replicas),
        cmocka_unit_test(changes_of_other_batchers_do_not_wait_for_replicas),
        cmocka_unit_test(queued_kafka_changes_are_returned_by_store_give_back),
        cmocka_unit_test(changes_in_flight_are_not_returned),
        cmocka_unit_test(all_changes_get_no_result_when_the_store_is_freed),
    };
    return cmocka_run_group_tests(tests, rig_setup, NULL);
}
