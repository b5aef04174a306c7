/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_later.c - Later's tasks as jobs, and jobs as Later's answers.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/later/later.h"
#include "tests/unit.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { NOW_S = 1700000000 };
static const int64_t now_ms = NOW_S * INT64_C(1000) + 789;

static int read_body(const struct http_args *args, const char *body,
                     struct later_task *task, struct buf *room)
{
    static const struct http_dialect native;
    struct err err;
    memset(task, 0, sizeof(*task));
    if (http_args_read_json(args, &native, slice_of(body), task, room, &err) < 0)
        return -1;
    later_set_times(task, now_ms);
    return 0;
}

static struct job *job_of(const char *body)
{
    struct later_task task;
    struct buf room = {0};
    if (read_body(&later_create_args, body, &task, &room) < 0)
        fail_msg("refused: %s", body);
    task.id = SLICE_LIT("i");
    struct job *job = later_job_new(&task);
    buf_free(&room);
    return job;
}

static void assert_slice(struct slice s, const char *want)
{
    char text[512];
    snprintf(text, sizeof(text), "%.*s", SLICE_ARG(s));
    assert_string_equal(text, want);
}

static void a_task_becomes_a_job_whose_payload_is_the_callbacks_body(void **state)
{
    (void)state;
    struct job *job = job_of("{\"topic\":\"t\",\"delay\":5,\"retry\":2,"
                             "\"callback\":\"http://a/\",\"content\":\"<\\u2028\\n\"}");
    assert_slice(job->payload, "{\"id\":\"i\",\"topic\":\"t\","
                               "\"content\":\"\\u003c\\u2028\\n\"}");
    assert_slice(job->target, "http://a/");
    assert_slice(job->topic, "t");
    assert_slice(job_header(job, "content-type")->value, "application/json");
    assert_true(job->timed);
    assert_int_equal(job->tries_max, 3);
    assert_int_equal(job->due_ms, now_ms + 5000);
    assert_int_equal(job->timestamp_ms, now_ms);
    job_free(job);
}

static void all_parameters_of_a_create_are_optional(void **state)
{
    (void)state;
    static const char *const bodies[] = {"{}", "null",
                                         " {\"topic\":null,\"delay\":null} ",
                                         "{\"id\":7,\"execute_time\":\"x\"}"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct job *job = job_of(bodies[i]);
        assert_slice(job->payload, "{\"id\":\"i\",\"topic\":\"\",\"content\":\"\"}");
        assert_int_equal(job->tries_max, 1);
        assert_int_equal(job->due_ms, now_ms);
        job_free(job);
    }
}

static void invalid_parameters_are_rejected(void **state)
{
    (void)state;
    static const char *const bodies[] = {"",
                                         "[]",
                                         "1",
                                         "\"\"",
                                         "{",
                                         "{}x",
                                         "{\"delay\":1.0}",
                                         "{\"delay\":\"1\"}",
                                         "{\"delay\":1e2}",
                                         "{\"delay\":9223372036854775808}",
                                         "{\"retry\":true}",
                                         "{\"content\":{}}",
                                         "{\"topic\":1}",
                                         "{\"callback\":[]}",
                                         "{\"topic\":\"\x01\"}",
                                         "{'topic':''}",
                                         "{\"topic\":\"\",}",
                                         "\xef\xbb\xbf{}"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct later_task task;
        struct buf room = {0};
        if (read_body(&later_create_args, bodies[i], &task, &room) == 0)
            fail_msg("taken: %s", bodies[i]);
        buf_free(&room);
    }
}

static void due_in(const char *delay, int64_t want_ms)
{
    char body[64];
    snprintf(body, sizeof(body), "{\"delay\":%s}", delay);
    struct job *job = job_of(body);
    assert_int_equal(job->due_ms, want_ms);
    job_free(job);
}

static void a_delay_is_exact_and_never_overflows(void **state)
{
    (void)state;
    due_in("0", now_ms);
    due_in("-0", now_ms);
    due_in("3600", now_ms + 3600000);
    due_in("-3", now_ms - 3000);
    due_in("-1700000001", 1);
    due_in("-9223372036854775808", 1);
    due_in("9223372036854775807", WHEN_LAST_MS);
    due_in("251702300799", now_ms + INT64_C(251702300799000));
    due_in("251702300800", WHEN_LAST_MS);
}

static void retries_are_one_less_than_tries(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int64_t tries_max;
    } rows[] = {{"{\"retry\":0}", 1},
                {"{\"retry\":-5}", 1},
                {"{\"retry\":3}", 4},
                {"{\"retry\":9223372036854775807}", INT64_MAX}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job *job = job_of(rows[i].body);
        assert_int_equal(job->tries_max, rows[i].tries_max);
        job_free(job);
    }
}

static void a_query_shows_the_task_as_created(void **state)
{
    (void)state;
    struct buf out = {0};
    struct job *job = job_of(
        "{\"TOPIC\":\"t\",\"delay\":5,\"retry\":2,\"callback\":\"http://a/?b&c\","
        "\"content\":\"{\\\"id\\\":\\\"\\u0000\\\\\\\"}\",\"Content\":\"\\u0000c\"}");
    later_show(&out, job, 1);
    assert_string_equal(
        buf_str(&out),
        "{\"id\":\"i\",\"topic\":\"t\",\"execute_time\":1700000005,\"max_retry\":2,"
        "\"has_retry\":1,\"callback\":\"http://a/?b\\u0026c\",\"content\":\"\\u0000c\","
        "\"creat_time\":1700000000}");
    buf_clear(&out);
    job->payload = job_copy_slice(job, SLICE_LIT("not ours"));
    job->tries_max = 0;
    later_show(&out, job, 0);
    assert_non_null(strstr(buf_str(&out), "\"content\":\"not ours\""));
    assert_non_null(strstr(buf_str(&out), "\"max_retry\":0"));
    buf_free(&out);
    job_free(job);
}

static void a_query_requires_a_non_empty_id(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "{}",
                                      "null",
                                      "{\"id\":null}",
                                      "{\"id\":\"\"}",
                                      "{\"id\":1}",
                                      "{\"id\":\"a\"} b"};
    struct buf room = {0};
    struct later_task task;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(read_body(&later_id_args, bad[i], &task, &room), -1);
    assert_int_equal(read_body(&later_id_args, "{\"x\":1,\"Id\":\" a \"}", &task, &room),
                     0);
    assert_slice(task.id, " a ");
    buf_free(&room);
}

static void ids_are_uuids_of_version_4(void **state)
{
    (void)state;
    char id[TEXT_UUID_SIZE], other[TEXT_UUID_SIZE];
    text_uuid(other);
    for (unsigned n = 0; n < 100; n++) {
        text_uuid(id);
        assert_int_equal(strlen(id), 36);
        for (unsigned i = 0; i < 36; i++) {
            bool dash = i == 8 || i == 13 || i == 18 || i == 23;
            assert_true(dash ? id[i] == '-' : isxdigit(id[i]) && !isupper(id[i]));
        }
        assert_int_equal(id[14], '4');
        assert_non_null(strchr("89ab", id[19]));
        assert_string_not_equal(id, other);
    }
}

UNIT(later)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_becomes_a_job_whose_payload_is_the_callbacks_body),
        cmocka_unit_test(all_parameters_of_a_create_are_optional),
        cmocka_unit_test(invalid_parameters_are_rejected),
        cmocka_unit_test(a_delay_is_exact_and_never_overflows),
        cmocka_unit_test(retries_are_one_less_than_tries),
        cmocka_unit_test(a_query_shows_the_task_as_created),
        cmocka_unit_test(a_query_requires_a_non_empty_id),
        cmocka_unit_test(ids_are_uuids_of_version_4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
