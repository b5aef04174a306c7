/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_batcher_order.c - the order in which a batcher sends changes, also after a lost
 * connection or an error, and the order of cancels among enqueues.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "tests/fake_redis.h"
#include "tests/batcher_rig.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ------------------------------------------------------------- a lost connection */

static const struct {
    enum batcher_kind kind;
    const char *script;
    char letter; /* of a successful result */
} batchers[] = {
    {BATCHER_ENQUEUE, "enqueue", 's'}, {BATCHER_ACK, "ack", 'a'},
    {BATCHER_RETRY, "retry", 'r'},     {BATCHER_BURY, "retry", 'b'},
    {BATCHER_CANCEL, "cancel", 'c'},   {BATCHER_FINISH, "finish", 'f'},
    {BATCHER_RELEASE, "release", 'r'}, {BATCHER_RENEW, "renew", 'r'},
};

/* Returns text with the script's name in place of %. The caller frees it. */
static char *with_script(const char *text, const char *script)
{
    struct buf made = {0};
    for (; *text; text++) {
        if (*text == '%')
            buf_add_str(&made, script);
        else
            buf_add(&made, text, 1);
    }
    char *given = mem_strdup(buf_str(&made));
    buf_free(&made);
    return given;
}

static void assert_sent(const char *text, const char *script)
{
    char *expected = with_script(text, script);
    assert_string_equal(buf_str(&rig.sent), expected);
    free(expected);
}

/* Two batches are in flight, a third one waits; the last one arrives while Redis is
 * down. */
static void
changes_in_flight_when_the_connection_is_lost_leave_first_and_in_order(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(batchers) / sizeof(batchers[0]); i++) {
        char expected[32], l = batchers[i].letter;
        rig_start(2, 0);
        fake.paused = true;
        rig_send_each(batchers[i].kind, "abcde");
        assert_true(rig_wait_for(&rig.calls, 2));
        rig_disconnect();
        assert_int_equal(rig.answers, 0);
        rig_send_each(batchers[i].kind, "f");
        rig_reconnect();
        assert_true(rig_wait_for(&rig.answers, 6));
        assert_sent("% a b\n% c d\n% a b\n% c d\n% e f\n", batchers[i].script);
        snprintf(expected, sizeof(expected), "a=%c b=%c c=%c d=%c e=%c f=%c ", l, l, l, l,
                 l, l);
        assert_string_equal(buf_str(&rig.results), expected);
        rig_stop();
    }
}

static void changes_lost_twice_keep_their_order(void **state)
{
    (void)state;
    rig_start(2, 0);
    RIG_PLAN("", "!", "", "!");
    rig_send_each(BATCHER_ACK, "abcdef");
    assert_true(rig_wait_for(&rig.answers, 6));
    assert_sent("% a b\n% c d\n" /* the second batch is lost, and the batches behind it */
                "% c d\n% e f\n" /* again */
                "% e f\n",
                "ack");
    assert_string_equal(buf_str(&rig.results), "a=a b=a c=a d=a e=a f=a ");
    rig_stop();
}

/* The first batch is executed, but perhaps not replicated yet; the second one is in
 * flight. */
static void a_batch_whose_wait_is_lost_is_repeated_before_later_batches(void **state)
{
    (void)state;
    rig_start(2, 1);
    rig.pause_at = "WAIT";
    rig_send_each(BATCHER_ENQUEUE, "ab");
    assert_true(rig_wait_for(&rig.waits, 1));
    rig_send_each(BATCHER_ENQUEUE, "cd");
    assert_true(rig_wait_for(&rig.calls, 2));
    assert_int_equal(rig.answers, 0);
    rig_disconnect();
    rig_reconnect();
    assert_true(rig_wait_for(&rig.answers, 4));
    assert_sent("% a b\n% c d\n% a b\n% c d\n", "enqueue");
    assert_string_equal(buf_str(&rig.results), "a=s b=s c=s d=s ");
    rig_stop();
}

/* ------------------------------------------------------- a missing previous batch */

static char record_ids[100][8];

static void enqueue_record(const char *partition, int64_t offset, int64_t before)
{
    const struct change how = {.awaited = true,
                               .origin = {partition, offset, before, 0, 0}};
    snprintf(record_ids[offset], sizeof(record_ids[offset]), "%d", (int)offset);
    rig_enqueue(rig.route, record_ids[offset], &how, 0);
}

static void enqueue_records(int64_t first, int64_t last)
{
    for (int64_t i = first; i <= last; i++)
        enqueue_record("t/0", i, i - 1);
}

static void a_rejected_batch_is_repeated_after_its_predecessor(void **state)
{
    (void)state;
    rig_start(2, 0);
    RIG_PLAN("-OOM no memory", "=gg");
    enqueue_records(1, 5);
    assert_true(rig_wait_for(&rig.answers, 5));
    assert_sent("% 1 2\n% 3 4\n% 1 2\n% 3 4\n% 5\n", "enqueue");
    assert_string_equal(buf_str(&rig.results), "1=s 2=s 3=s 4=s 5=s ");
    rig_stop();
}

static void a_batch_rejected_while_its_predecessor_is_sent_again_is_repeated(void **state)
{
    (void)state;
    rig_start(2, 0);
    RIG_PLAN("-OOM no memory", "=gg");
    enqueue_records(1, 2);
    assert_true(rig_wait_for(&rig.calls, 1));
    fake.paused = true;
    enqueue_records(3, 4);
    assert_true(rig_wait_for(&rig.calls, 3));
    fake_resume();
    assert_true(rig_wait_for(&rig.answers, 4));
    assert_sent("% 1 2\n% 3 4\n% 1 2\n% 3 4\n", "enqueue");
    assert_string_equal(buf_str(&rig.results), "1=s 2=s 3=s 4=s ");
    rig_stop();
}

/* Its predecessor was answered: only the source can read it again. A wait would delay the
 * other changes of the bucket. */
static void a_record_whose_predecessor_was_rejected_is_returned_at_once(void **state)
{
    (void)state;
    rig_start(8, 0);
    RIG_PLAN("=ggs");
    enqueue_records(4, 5);
    rig_send(BATCHER_ENQUEUE, "a");
    assert_true(rig_wait_for(&rig.answers, 3));
    assert_sent("% 4 5 a\n", "enqueue");
    assert_string_equal(buf_str(&rig.results), "4=0 5=0 a=s ");
    rig_stop();
}

/* Nothing was stored of it, so there is nothing that replicas could have. */
static void a_rejected_record_does_not_wait_for_replicas(void **state)
{
    (void)state;
    rig_start(2, 1);
    RIG_PLAN("=ss", "=gg");
    rig.pause_at = "WAIT";
    enqueue_records(1, 2);
    enqueue_records(4, 5);
    assert_true(rig_wait_for(&rig.answers, 2));
    assert_string_equal(buf_str(&rig.results), "4=0 5=0 ");
    rig.pause_at = NULL;
    fake_resume();
    assert_true(rig_wait_for(&rig.answers, 4));
    assert_sent("% 1 2\n% 4 5\n", "enqueue");
    assert_int_equal(rig.waits, 1);
    rig_stop();
}

/* Otherwise Redis would not notice that record 3 is missing. */
static void a_record_whose_predecessor_is_missing_is_the_first_of_a_batch(void **state)
{
    (void)state;
    rig_start(8, 0);
    enqueue_records(1, 2);
    enqueue_records(4, 5);
    assert_true(rig_wait_for(&rig.answers, 4));
    assert_sent("% 1 2\n% 4 5\n", "enqueue");
    rig_stop();
}

/* An error is not a lost reply: nothing was executed. */
static void a_rejected_change_is_not_marked_as_repeated(void **state)
{
    (void)state;
    rig_start(2, 0);
    RIG_PLAN("-OOM no memory", "=gg");
    enqueue_records(1, 4);
    assert_true(rig_wait_for(&rig.answers, 4));
    assert_string_equal(buf_str(&rig.marks), "- -\n- -\n- -\n- -\n");
    rig_stop();
}

/* -------------------------------------------------------------- cancels and enqueues */

/* "enqueue a, cancel b": +a-b. The last change, of another bucket, shows that everything
 * that may be sent now has been sent. */
static void ask_in_turn(const char *changes)
{
    unsigned calls = rig.calls;
    for (; *changes; changes += 2)
        rig_send_each(*changes == '+' ? BATCHER_ENQUEUE : BATCHER_CANCEL,
                      (char[]){changes[1], '\0'});
    rig_send_each(BATCHER_FINISH, "z");
    assert_true(rig_wait_for(&rig.calls, calls + 2));
}

static void a_cancel_waits_for_the_answer_to_an_older_enqueue(void **state)
{
    (void)state;
    rig_start(8, 0);
    fake.paused = true;
    ask_in_turn("+a-a");
    assert_sent("enqueue a\nfinish z\n", "");
    fake_resume();
    assert_true(rig_wait_for(&rig.answers, 3));
    assert_sent("enqueue a\nfinish z\ncancel a\n", "");
    assert_string_equal(buf_str(&rig.results), "a=s z=f a=c ");
    rig_stop();
}

static void an_enqueue_waits_for_the_answer_to_an_older_cancel(void **state)
{
    (void)state;
    rig_start(8, 0);
    fake.paused = true;
    ask_in_turn("-a+a");
    assert_sent("cancel a\nfinish z\n", "");
    fake_resume();
    assert_true(rig_wait_for(&rig.answers, 3));
    assert_sent("cancel a\nfinish z\nenqueue a\n", "");
    assert_string_equal(buf_str(&rig.results), "a=c z=f a=s ");
    rig_stop();
}

/* Of two calls. */
static void lose_connection_and_hold_again(void)
{
    rig_disconnect();
    rig.pause_at = "EVALSHA";
    rig_reconnect();
    assert_true(rig_wait_for(&rig.calls, 4));
}

static void a_cancel_waits_for_an_older_enqueue_that_is_sent_again(void **state)
{
    (void)state;
    rig_start(8, 0);
    fake.paused = true;
    ask_in_turn("+a-a");
    lose_connection_and_hold_again();
    assert_sent("enqueue a\nfinish z\nenqueue a\nfinish z\n", "");
    fake_resume();
    rig.pause_at = NULL;
    assert_true(rig_wait_for(&rig.answers, 3));
    assert_sent("enqueue a\nfinish z\nenqueue a\nfinish z\ncancel a\n", "");
    rig_stop();
}

static void an_enqueue_waits_for_an_older_cancel_that_is_sent_again(void **state)
{
    (void)state;
    rig_start(8, 0);
    fake.paused = true;
    ask_in_turn("-a+a");
    lose_connection_and_hold_again();
    assert_sent("cancel a\nfinish z\ncancel a\nfinish z\n", "");
    fake_resume();
    rig.pause_at = NULL;
    assert_true(rig_wait_for(&rig.answers, 3));
    assert_sent("cancel a\nfinish z\ncancel a\nfinish z\nenqueue a\n", "");
    rig_stop();
}

/* Executed, but perhaps not replicated yet: it may still be undone. */
static void a_cancel_waits_until_an_older_enqueue_is_on_the_replicas(void **state)
{
    (void)state;
    rig_start(8, 1);
    rig.pause_at = "WAIT";
    rig_send_each(BATCHER_ENQUEUE, "a");
    assert_true(rig_wait_for(&rig.waits, 1));
    rig_send_each(BATCHER_CANCEL, "a");
    rig_send_each(BATCHER_FINISH, "z");
    assert_true(rig_wait_for(&rig.calls, 2));
    assert_sent("enqueue a\nfinish z\n", "");
    fake_resume();
    rig.pause_at = NULL;
    assert_true(rig_wait_for(&rig.answers, 3));
    assert_sent("enqueue a\nfinish z\ncancel a\n", "");
    rig_stop();
}

/* Without a younger change in the batch, however many there are at once. */
static void alternating_cancels_and_enqueues_are_sent_one_kind_at_a_time(void **state)
{
    (void)state;
    rig_start(8, 0);
    ask_in_turn("+a+b-a-b+a-c-a+d");
    assert_true(rig_wait_for(&rig.answers, 9));
    assert_sent("enqueue a b\nfinish z\ncancel a b\nenqueue a\ncancel c a\nenqueue d\n",
                "");
    assert_string_equal(buf_str(&rig.results), "a=s b=s z=f a=c b=c a=s c=c a=c d=s ");
    rig_stop();
}

UNIT(batcher_order)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            changes_in_flight_when_the_connection_is_lost_leave_first_and_in_order),
        cmocka_unit_test(changes_lost_twice_keep_their_order),
        cmocka_unit_test(a_batch_whose_wait_is_lost_is_repeated_before_later_batches),
        cmocka_unit_test(a_rejected_batch_is_repeated_after_its_predecessor),
        cmocka_unit_test(
            a_batch_rejected_while_its_predecessor_is_sent_again_is_repeated),
        cmocka_unit_test(a_record_whose_predecessor_was_rejected_is_returned_at_once),
        cmocka_unit_test(a_rejected_record_does_not_wait_for_replicas),
        cmocka_unit_test(a_record_whose_predecessor_is_missing_is_the_first_of_a_batch),
        cmocka_unit_test(a_rejected_change_is_not_marked_as_repeated),
        cmocka_unit_test(a_cancel_waits_for_the_answer_to_an_older_enqueue),
        cmocka_unit_test(an_enqueue_waits_for_the_answer_to_an_older_cancel),
        cmocka_unit_test(a_cancel_waits_for_an_older_enqueue_that_is_sent_again),
        cmocka_unit_test(an_enqueue_waits_for_an_older_cancel_that_is_sent_again),
        cmocka_unit_test(a_cancel_waits_until_an_older_enqueue_is_on_the_replicas),
        cmocka_unit_test(alternating_cancels_and_enqueues_are_sent_one_kind_at_a_time),
    };
    return cmocka_run_group_tests(tests, rig_setup, NULL);
}
