/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_batcher_again.c - a change that is sent again after a lost reply: what the script
 * receives, and which result the caller receives.
 */
#include "bridge/store/store.h"
#include "tests/fake_redis.h"
#include "tests/batcher_rig.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define NONE ((struct slice){NULL, 0})

/* ------------------------------------------------------------- the first run's result */

/* The script's result for a change that was not sent before, and for one that was. */
static const struct {
    enum batcher_kind kind;
    char code, first, again; /* code: from the script; first, again: for the caller */
} outcomes[] = {
    {BATCHER_ENQUEUE, 's', 's', 's'}, {BATCHER_ENQUEUE, 'r', 'r', 'r'},
    {BATCHER_ENQUEUE, 'x', 'x', 'x'}, {BATCHER_ENQUEUE, 'k', 'k', 'k'},
    {BATCHER_CANCEL, 'c', 'c', 'c'},  {BATCHER_CANCEL, 'n', 'n', 'n'},
    {BATCHER_CANCEL, 'e', 'e', 'e'},  {BATCHER_CANCEL, 'm', 'm', 'm'},
    {BATCHER_ACK, 'a', 'a', 'a'},     {BATCHER_ACK, 'x', 'x', 'a'},
    {BATCHER_ACK, 'y', 'x', 'x'},     {BATCHER_RETRY, 'r', 'r', 'r'},
    {BATCHER_RETRY, 'x', 'x', 'r'},   {BATCHER_RETRY, 'y', 'x', 'x'},
    {BATCHER_RETRY, 'c', 'c', 'c'},   {BATCHER_RETRY, 'k', 'k', 'k'},
    {BATCHER_BURY, 'b', 'b', 'b'},    {BATCHER_BURY, 'x', 'x', 'b'},
    {BATCHER_BURY, 'y', 'x', 'x'},    {BATCHER_BURY, 'c', 'c', 'c'},
    {BATCHER_FINISH, 'f', 'f', 'f'},  {BATCHER_FINISH, 'w', 'w', 'w'},
    {BATCHER_FINISH, 'd', 'd', 'd'},  {BATCHER_FINISH, 'x', 'x', 'x'},
    {BATCHER_FINISH, 'n', 'n', 'f'},  {BATCHER_FINISH, 'e', 'e', 'f'},
    {BATCHER_FINISH, 'E', 'E', 'f'},  {BATCHER_FINISH, 'm', 'm', 'n'},
    {BATCHER_FINISH, 'M', 'M', 'e'},  {BATCHER_FINISH, 'N', 'N', 'E'},
    {BATCHER_RELEASE, 'r', 'r', 'r'}, {BATCHER_RELEASE, 'b', 'b', 'b'},
    {BATCHER_RELEASE, 'x', 'x', 'r'}, {BATCHER_RELEASE, 'n', 'n', 'b'},
    {BATCHER_RENEW, 'r', 'r', 'r'},   {BATCHER_RENEW, 'x', 'x', 'x'},
};
enum { OUTCOMES = sizeof(outcomes) / sizeof(outcomes[0]) };

/* Run one change; code is the reply that counts. */
static void assert_outcome(enum batcher_kind kind, const char *const plan[], char letter)
{
    char expected[8];
    rig_start(8, 0);
    rig.plan = plan;
    rig_send(kind, "a");
    assert_true(rig_wait_for(&rig.answers, 1));
    snprintf(expected, sizeof(expected), "a=%c ", letter);
    assert_string_equal(buf_str(&rig.results), expected);
    rig_stop();
}

static void a_change_sent_once_gets_the_result_of_the_script(void **state)
{
    (void)state;
    for (unsigned i = 0; i < OUTCOMES; i++) {
        char codes[] = {'=', outcomes[i].code, '\0'};
        assert_outcome(outcomes[i].kind, (const char *const[]){codes, NULL},
                       outcomes[i].first);
    }
}

static void a_change_sent_again_is_answered_as_its_first_run_would_have_been(void **state)
{
    (void)state;
    for (unsigned i = 0; i < OUTCOMES; i++) {
        char codes[] = {'=', outcomes[i].code, '\0'};
        assert_outcome(outcomes[i].kind, (const char *const[]){"!", codes, NULL},
                       outcomes[i].again);
    }
}

/* An error means that the change was not executed, so there is no result of its own. */
static void
a_change_sent_again_after_an_error_is_answered_as_the_script_says(void **state)
{
    (void)state;
    for (unsigned i = 0; i < OUTCOMES; i++) {
        char codes[] = {'=', outcomes[i].code, '\0'};
        assert_outcome(outcomes[i].kind,
                       (const char *const[]){"-NOSCRIPT no matching script", codes, NULL},
                       outcomes[i].first);
    }
}

static void a_repeated_change_is_distinguished_from_new_ones(void **state)
{
    (void)state;
    rig_start(8, 0);
    RIG_PLAN("", "=xxxx");
    fake.paused = true;
    rig_send_each(BATCHER_ACK, "ab");
    assert_true(rig_wait_for(&rig.calls, 1));
    rig_disconnect();
    rig_send_each(BATCHER_ACK, "cd");
    rig_reconnect();
    assert_true(rig_wait_for(&rig.answers, 4));
    assert_string_equal(buf_str(&rig.sent), "ack a b\nack a b c d\n");
    assert_string_equal(buf_str(&rig.marks), "- -\n+ + - -\n");
    assert_string_equal(buf_str(&rig.results), "a=a b=a c=x d=x ");
    rig_stop();
}

/* The table above must contain a row for each result letter of each batcher. */
static void each_first_result_of_a_batcher_is_tested(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < BATCHERS; kind++) {
        for (const char *p = batcher_rows[kind].resent_answers; p && *p; p += 2) {
            unsigned i = 0;
            while (i < OUTCOMES && (outcomes[i].kind != kind || outcomes[i].code != p[0]))
                i++;
            assert_true(i < OUTCOMES);
        }
    }
}

/* ------------------------------------------------- the script learns of the first run */

static char a[] = "a"; /* the id in all tests */

static void ask_lapse(void)
{
    store_ack(rig.route, SLICE_LIT("a"), 5, ACK_HOW_LAPSED, rig_on_result, a);
}
static void lose(bool dead)
{
    struct job *job = job_new(0);
    job->id = job_copy_slice(job, SLICE_LIT("a@1"));
    const struct failed_run lost = {job, NONE, dead};
    store_fail_run(rig.route, SLICE_LIT("a"), 5, &lost, NULL, 9, rig_on_result, a);
    job_free(job);
}
static void ask_lose_dead(void)
{
    lose(true);
}
static void ask_lose_due(void)
{
    lose(false);
}
static void ask_finish_if_not_ended(void)
{
    store_finish(rig.queue, SLICE_LIT("a"), 5, "acked", 'a', 0, rig_on_result, a);
}
static void ask_finish_if_pending(void)
{
    store_finish(rig.queue, SLICE_LIT("a"), 5, "acked", 'p', 0, rig_on_result, a);
}
static void ask_finish_and_forget(void)
{
    store_finish(rig.queue, SLICE_LIT("a"), 5, "acked", 'f', 0, rig_on_result, a);
}
static void ask_dead(void)
{
    rig_enqueue(rig.route, "a", &(struct change){.how = ENQUEUE_HOW_DEAD}, 0);
}
static void ask_in_flight(void)
{
    rig_enqueue(rig.route, "a", &(struct change){.how = ENQUEUE_HOW_IN_FLIGHT}, 0);
}
static void ask_again(void)
{
    rig_enqueue(rig.route, "a", &(struct change){.how = ENQUEUE_HOW_BACK}, 0);
}
static void ask_unknown(void)
{
    rig_enqueue(rig.route, "a", &(struct change){.how = ENQUEUE_HOW_UNNAMED}, 0);
}
static void ask_plain(void)
{
    rig_enqueue(rig.route, "a", &(struct change){0}, 0);
}
static void ask_ack(void)
{
    rig_send(BATCHER_ACK, "a");
}
static void ask_retry(void)
{
    rig_send(BATCHER_RETRY, "a");
}
static void ask_bury(void)
{
    rig_send(BATCHER_BURY, "a");
}
static void ask_finish(void)
{
    rig_send(BATCHER_FINISH, "a");
}

static void a_repeated_change_has_a_plus_after_its_letter(void **state)
{
    (void)state;
    static const struct {
        void (*ask)(void);
        const char *marks;
    } rows[] = {
        {ask_plain, "-\n+\n"},
        {ask_dead, "d\nd+\n"},
        {ask_in_flight, "f\nf+\n"},
        {ask_again, "b\nb+\n"},
        {ask_unknown, "u\nu+\n"},
        {ask_ack, "-\n+\n"},
        {ask_lapse, "l\nl+\n"},
        {ask_retry, "-\n+\n"},
        {ask_lose_dead, "d\nd+\n"},
        {ask_lose_due, "s\ns+\n"},
        {ask_bury, "b\nb+\n"},
        {ask_finish, "-\n+\n"},
        {ask_finish_if_not_ended, "a\na+\n"},
        {ask_finish_if_pending, "p\np+\n"},
        {ask_finish_and_forget, "f\nf+\n"},
    };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig_start(8, 0);
        RIG_PLAN("!");
        rows[i].ask();
        assert_true(rig_wait_for(&rig.answers, 1));
        assert_string_equal(buf_str(&rig.marks), rows[i].marks);
        rig_stop();
    }
}

static void ask_replace(void)
{
    rig_enqueue(rig.route, "a", &(struct change){.how = ENQUEUE_HOW_REPLACE}, 0);
}
static void ask_cancel(void)
{
    rig_send(BATCHER_CANCEL, "a");
}
static void ask_delete(void)
{
    store_finish(rig.queue, SLICE_LIT("a"), 0, "deleted", 0, 0, rig_on_result, a);
}

/* The script recognises its own result by this: lua/lib/late.lua. */
static void a_numbered_change_is_repeated_with_its_number(void **state)
{
    (void)state;
    static const struct {
        void (*ask)(void);
        const char *first, *again; /* before the number */
    } rows[] = {{ask_replace, "r", "r+"}, {ask_cancel, "", ""}, {ask_delete, "", "+"}};
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char expected[80];
        rig_start(8, 0);
        RIG_PLAN("!");
        unsigned long long number = rig.route->next_seq;
        if (rows[i].ask == ask_delete)
            number = rig.queue->next_seq;
        rows[i].ask();
        rows[i].ask();
        assert_true(rig_wait_for(&rig.answers, 2));
        snprintf(expected, sizeof(expected), "%s%llu %s%llu\n%s%llu %s%llu\n",
                 rows[i].first, number, rows[i].first, number + 1, rows[i].again, number,
                 rows[i].again, number + 1);
        assert_string_equal(buf_str(&rig.marks), expected);
        rig_stop();
    }
}

/* -------------------------------------------------------------------- not repeatable */

/* Its lease may belong to anyone: a second run could remove it from the next consumer. */
static void release_from_whoever_has_it(const char *id)
{
    store_release(rig.queue, slice_of(id), 0, 0, true, 0, rig_on_result, (void *)id);
}

static void
a_change_that_is_not_repeatable_is_not_sent_again_after_a_lost_answer(void **state)
{
    (void)state;
    rig_start(8, 0);
    RIG_PLAN("!", "=rr");
    rig_send(BATCHER_RELEASE, "a");
    release_from_whoever_has_it("b");
    rig_send(BATCHER_RELEASE, "c");
    assert_true(rig_wait_for(&rig.answers, 3));
    assert_string_equal(buf_str(&rig.sent), "release a b c\nrelease a c\n");
    assert_string_equal(buf_str(&rig.results), "b=0 a=r c=r ");
    rig_stop();
}

static void a_change_that_is_not_repeatable_is_sent_again_after_an_error(void **state)
{
    (void)state;
    rig_start(8, 0);
    RIG_PLAN("-NOSCRIPT no matching script", "=x");
    release_from_whoever_has_it("a");
    assert_true(rig_wait_for(&rig.answers, 1));
    assert_string_equal(buf_str(&rig.sent), "release a\nrelease a\n");
    assert_string_equal(buf_str(&rig.results), "a=x ");
    rig_stop();
}

static void a_change_that_is_not_repeatable_waits_while_redis_is_unavailable(void **state)
{
    (void)state;
    rig_start(8, 0);
    rig_disconnect();
    release_from_whoever_has_it("a");
    rig_reconnect();
    assert_true(rig_wait_for(&rig.answers, 1));
    assert_string_equal(buf_str(&rig.sent), "release a\n");
    assert_string_equal(buf_str(&rig.results), "a=r ");
    rig_stop();
}

UNIT(batcher_again)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_sent_once_gets_the_result_of_the_script),
        cmocka_unit_test(
            a_change_sent_again_is_answered_as_its_first_run_would_have_been),
        cmocka_unit_test(
            a_change_sent_again_after_an_error_is_answered_as_the_script_says),
        cmocka_unit_test(a_repeated_change_is_distinguished_from_new_ones),
        cmocka_unit_test(each_first_result_of_a_batcher_is_tested),
        cmocka_unit_test(a_repeated_change_has_a_plus_after_its_letter),
        cmocka_unit_test(a_numbered_change_is_repeated_with_its_number),
        cmocka_unit_test(
            a_change_that_is_not_repeatable_is_not_sent_again_after_a_lost_answer),
        cmocka_unit_test(a_change_that_is_not_repeatable_is_sent_again_after_an_error),
        cmocka_unit_test(
            a_change_that_is_not_repeatable_waits_while_redis_is_unavailable),
    };
    return cmocka_run_group_tests(tests, rig_setup, NULL);
}
