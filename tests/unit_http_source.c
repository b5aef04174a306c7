/* SPDX-License-Identifier: BSD-2-Clause */
/* unit_http_source.c - jobs from JSON lines, and jobs as JSON. */
#include "bridge/http/http_args.h"
#include "bridge/admin/admin.h"
#include "bridge/job/tries.h"
#include "bridge/store/store.h"
#include "sources/http/http_source.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

static const struct http_place orders = {.name = SLICE_LIT("orders")};
static const struct http_place mails = {.name = SLICE_LIT("mails"), .queue = true};

static struct job *read_line_for(struct http_place place, const char *line)
{
    struct err err = {""};
    struct job *job = http_job_from_line(slice_of(line), place, &err);
    if (job == NULL)
        fail_msg("%s: %s", line, err.text);
    return job;
}

static struct job *read_line(const char *line)
{
    return read_line_for(orders, line);
}

static void a_line_becomes_a_job(void **state)
{
    (void)state;
    struct job *job = read_line("{\"payload\":\"a\\u0000b\",\"key\":\"k\",\"id\":\"i\","
                                "\"deliver-after\":\"3s\",\"deliver-at\":1769860800,"
                                "\"headers\":{\"X-A\":\"1\",\"Host\":\"h\","
                                "\"Deliver-After\":\"9s\"}}");
    assert_true(slice_eq(job->payload, (struct slice){"a\0b", 3}));
    assert_true(slice_is(job->key, "k"));
    assert_true(slice_is(job->route, "orders"));
    assert_true(slice_is(job_header(job, "delay-id")->value, "i"));
    assert_true(slice_is(job_header(job, "deliver-after")->value, "3s"));
    assert_true(slice_is(job_header(job, "deliver-at")->value, "1769860800"));
    assert_true(slice_is(job_header(job, "x-a")->name, "X-A"));
    assert_null(job_header(job, "host"));
    job_free(job);
}

/* Spring requires exactly this name: __TypeId__. */
static void header_names_are_stored_as_they_were_sent(void **state)
{
    (void)state;
    struct job *job = read_line(
        "{\"payload\":\"a\",\"headers\":{\"__TypeId__\":\"Order\",\"X-Mixed-Case\":\"1\","
        "\"Content-Type\":\"text/plain\",\"TraceParent\":\"00-1-2-01\"}}");
    assert_true(slice_is(job_header(job, "__typeid__")->name, "__TypeId__"));
    assert_true(slice_is(job_header(job, "x-mixed-case")->name, "X-Mixed-Case"));
    assert_true(slice_is(job_header(job, "content-type")->name, "content-type"));
    assert_true(slice_is(job_header(job, "traceparent")->name, "traceparent"));
    job_free(job);
}

static void a_line_may_contain_every_control_header(void **state)
{
    (void)state;
    static const char *const names[] = {"delay-attempts",     "delay-repeat-count",
                                        "delay-repeat-until", "delay-retry",
                                        "delay-to",           "delay-op"};
    struct job *job =
        read_line("{\"delay-attempts\":3,\"delay-repeat\":\"every 5m\","
                  "\"delay-repeat-count\":3,\"delay-repeat-until\":3,"
                  "\"delay-retry\":\"3\",\"delay-to\":\"3\",\"delay-op\":\"3\","
                  "\"headers\":{\"x\":\"a\\tb\"}}");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_true(slice_is(job_header(job, names[i])->value, "3"));
    assert_true(slice_is(job_header(job, "delay-repeat")->value, "every 5m"));
    assert_true(slice_is(job_header(job, "x")->value, "a\tb"));
    job_free(job);
}

static void a_cloudevent_in_a_line_gets_the_internal_header_names(void **state)
{
    (void)state;
    struct job *job = read_line(
        "{\"headers\":{\"ce-id\":\"a%20b\",\"ce-source\":\"s\",\"ce-type\":\"t\","
        "\"ce-specversion\":\"1.0\"}}");
    assert_true(slice_is(job_header(job, "ce_id")->value, "a b"));
    job_free(job);
}

static void base64_carries_any_bytes_and_no_payload_is_an_empty_one(void **state)
{
    (void)state;
    struct job *job = read_line("{\"payload_base64\":\"/wA=\"}");
    assert_true(slice_eq(job->payload, (struct slice){"\xff\0", 2}));
    assert_null(job->key.p);
    job_free(job);
    job = read_line("{}");
    assert_non_null(job->payload.p);
    assert_int_equal(job->payload.n, 0);
    job_free(job);
}

static void an_invalid_line_is_rejected_with_a_reason(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "{\"payload\":1}",
        "{\"payload\":{}}",
        "{\"payload_base64\":\"*\"}",
        "{\"payload\":\"a\",\"payload_base64\":\"YQ==\"}",
        "{\"deliver-aftr\":\"3s\"}",
        "{\"headers\":[]}",
        "{\"headers\":{\"a\":1}}",
        "{\"key\":1}",
        "{\"delay\":true}",
        "{\"payload\":\"a\",\"payload\":\"b\"}",
        "{} {}",
        "{\"headers\":{\"x\":\"a\\nb\"}}",
        "{\"headers\":{\"x\":\"a\\u0000b\"}}",
        "{\"headers\":{\"x\":\"a\\u007f\"}}",
        "{\"headers\":{\"x y\":\"a\"}}",
        "{\"headers\":{\"\":\"a\"}}",
        "{\"headers\":{\"x\\r\\ny\":\"a\"}}",
        "{\"delay-repeat\":\"every\\n5m\"}",
        "{\"id\":\"a\\u0001\"}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {""};
        assert_null(http_job_from_line(slice_of(bad[i]), orders, &err));
        assert_true(err.text[0]);
    }
}

static void a_job_of_a_queue_sets_tries_and_ttl(void **state)
{
    (void)state;
    struct job *job = read_line_for(
        mails, "{\"tries\":3,\"ttl\":\"1h\",\"lease\":\"90s\",\"headers\":{"
               "\"Delay-Tries\":\"9\",\"Delay-Lease\":\"1s\",\"x\":\"y\"}}");
    assert_true(slice_is(job->topic, "mails") && job->route.n == 0 && job->to_queue);
    assert_int_equal(job->tries_max, 3);
    assert_int_equal(job->lease_ms, 90000);
    assert_true(slice_is(job_header(job, "deliver-before")->value, "1h"));
    assert_int_equal(job->header_count, 2);
    job_free(job);
    job = read_line_for(mails, "{\"headers\":{\"Delay-Tries\":\"9\",\"tries\":\"no\"}}");
    assert_int_equal(job->tries_max, 9);
    assert_int_equal(job->header_count, 1);
    job_free(job);
    job = read_line("{\"headers\":{\"delay-tries\":\"many\"}}");
    assert_int_equal(job->tries_max, 0);
    assert_int_equal(job->header_count, 1);
    job_free(job);
}

static void parameters_that_a_queue_does_not_support_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {"{\"tries\":0}",
                                      "{\"tries\":-1}",
                                      "{\"tries\":\"1.5\"}",
                                      "{\"tries\":99999999999999999999}",
                                      "{\"tries\":\"99999999999999999999\"}",
                                      "{\"ttl\":0}",
                                      "{\"ttl\":30}",
                                      "{\"lease\":\"8d\"}",
                                      "{\"lease\":\"\"}",
                                      "{\"lease\":null}",
                                      "{\"headers\":{\"delay-lease\":\"x\"}}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {""};
        assert_null(http_job_from_line(slice_of(bad[i]), mails, &err));
        assert_true(err.text[0]);
    }
    struct err err = {""};
    assert_null(http_job_from_line(SLICE_LIT("{\"tries\":3}"), orders, &err));
}

static void a_list_of_queues_is_split_at_commas(void **state)
{
    (void)state;
    const struct slice list = SLICE_LIT("a,bc,,d"), one = SLICE_LIT("a");
    assert_true(slice_is(http_queue_name(list, 0), "a"));
    assert_true(slice_is(http_queue_name(list, 1), "bc"));
    assert_true(http_queue_name(list, 2).p && http_queue_name(list, 2).n == 0);
    assert_true(slice_is(http_queue_name(list, 3), "d"));
    assert_null(http_queue_name(list, 4).p);
    assert_true(slice_is(http_queue_name(one, 0), "a"));
    assert_null(http_queue_name(one, 1).p);
}

static void a_job_of_a_queue_is_shown_in_each_state(void **state)
{
    (void)state;
    struct buf out = {0};
    struct job *job = job_new(0);
    job->payload = job_copy_slice(job, SLICE_LIT("p"));
    job->due_ms = 1769860800123;
    struct queue_job q = {.job = job,
                          .id = SLICE_LIT("i"),
                          .state = QUEUE_IN_FLIGHT,
                          .attempts = 1,
                          .tries_left = QUEUE_NO_LIMIT,
                          .at_ms = 1769860800124,
                          .lease = 77};
    http_queue_show_pulled(&out, SLICE_LIT("m"), &q);
    assert_string_equal(buf_str(&out),
                        "{\"id\":\"i\",\"queue\":\"m\",\"token\":\"77\","
                        "\"lease_ends\":\"2026-01-31T12:00:00.124Z\","
                        "\"due\":\"2026-01-31T12:00:00.123Z\",\"expires\":null,"
                        "\"attempt\":1,\"tries_left\":null,\"key\":null,"
                        "\"headers\":{},\"payload\":\"p\"}");
    buf_clear(&out);
    q.state = QUEUE_ENDED;
    q.end = QUEUE_END_EXPIRED;
    q.expires_ms = 1769860800124;
    q.tries_left = 2;
    q.job = NULL;
    http_queue_show_found(&out, SLICE_LIT("m"), &q, true);
    assert_string_equal(buf_str(&out),
                        "{\"id\":\"i\",\"queue\":\"m\",\"state\":\"ended\","
                        "\"end\":\"expired\",\"kept_until\":\"2026-01-31T12:00:00.124Z\","
                        "\"due\":null,\"expires\":\"2026-01-31T12:00:00.124Z\","
                        "\"attempts\":1,\"tries_left\":2,\"unreadable\":true}");
    buf_clear(&out);
    q.state = QUEUE_READY;
    q.job = job; /* without the right to see its content, the rest is visible */
    http_queue_show_found(&out, SLICE_LIT("m"), &q, false);
    assert_string_equal(buf_str(&out),
                        "{\"id\":\"i\",\"queue\":\"m\",\"state\":\"ready\","
                        "\"due\":\"2026-01-31T12:00:00.124Z\","
                        "\"expires\":\"2026-01-31T12:00:00.124Z\","
                        "\"attempts\":1,\"tries_left\":2}");
    buf_free(&out);
    job_free(job);
}

static void a_dead_letter_is_shown_with_all_fields(void **state)
{
    (void)state;
    struct buf out = {0};
    struct job *job = job_new(0);
    job->payload = job_copy_slice(job, SLICE_LIT("p"));
    job->due_ms = 1769860800123;
    struct tries_answer answer = {.type = "text/plain", .body = "busy"};
    struct tries tries = {.reason = "retries",
                          .error = "HTTP 503\n",
                          .status = 503,
                          .answer = &answer,
                          .attempts = 3,
                          .replays = 1,
                          .first_ms = 1769860800124};
    struct store_dead_item item = {
        .id = SLICE_LIT("i"), .buried_ms = 1769860800125, .due_ms = -1};
    dead_show(&out, &item, job, &tries);
    assert_string_equal(buf_str(&out),
                        "{\"id\":\"i\",\"reason\":\"retries\",\"error\":"
                        "\"HTTP 503\\n\",\"status\":503,\"answer\":\"busy\","
                        "\"answer_type\":\"text/plain\",\"attempts\":3,\"replays\":1,"
                        "\"first\":\"2026-01-31T12:00:00.124Z\",\"last\":null,"
                        "\"buried\":\"2026-01-31T12:00:00.125Z\","
                        "\"due\":\"2026-01-31T12:00:00.123Z\",\"key\":null,"
                        "\"headers\":{},\"payload\":\"p\"}");
    buf_clear(&out);
    item.record = (struct slice){"\xff\0", 2};
    tries = (struct tries){.reason = "undecodable"};
    dead_show(&out, &item, NULL, &tries);
    assert_string_equal(buf_str(&out),
                        "{\"id\":\"i\",\"reason\":\"undecodable\",\"error\":\"\","
                        "\"status\":null,\"answer\":null,\"answer_type\":null,"
                        "\"attempts\":0,\"replays\":0,\"first\":null,"
                        "\"last\":null,\"buried\":\"2026-01-31T12:00:00.125Z\","
                        "\"unreadable\":true,\"raw_base64\":\"/wA=\"}");
    buf_free(&out);
    job_free(job);
}

static void instants_and_fractions_are_parsed_by_their_parameter_rows(void **state)
{
    (void)state;
    static const struct http_param when = {"from", HTTP_WHEN, 0, .from = FROM_QUERY};
    static const struct http_param rate = {"rate", HTTP_NUMBER, 0, .from = FROM_QUERY,
                                           .max = 1000};
    static const struct {
        const struct http_param *row;
        const char *text;
        double wanted; /* -1: rejected */
    } cases[] = {
        {&when, "2026-01-31T13:00:00+01:00", 1769860800000.0},
        {&when, "1769860800", 1769860800000.0},
        {&when, "-1", -1},
        {&when, "1969-12-31T00:00:00Z", -1},
        {&when, "soon", -1},
        {&when, "", -1},
        {&rate, "50", 50},
        {&rate, "2.5", 2.5},
        {&rate, "0.001", 0.001},
        {&rate, "0.0009", -1},
        {&rate, "0", -1},
        {&rate, "1000.5", -1},
        {&rate, "1e3", -1},
        {&rate, "-1", -1},
        {&rate, ".5", -1},
        {&rate, "5.", -1},
        {&rate, "1.2.3", -1},
        {&rate, "", -1},
        {&rate, "nan", -1},
        {&rate, "99999999999999999999999999", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        union {
            int64_t ms;
            double number;
        } got = {0};
        struct err err = {""};
        int rc = http_param_set(cases[i].row, slice_of(cases[i].text), &got, &err);
        double value = cases[i].row == &when ? (double)got.ms : got.number;
        if (cases[i].wanted < 0 ? rc == 0 || !err.text[0]
                                : rc < 0 || value < cases[i].wanted * 0.999999 ||
                                      value > cases[i].wanted * 1.000001)
            fail_msg("%s \"%s\": %d, %f", cases[i].row->name, cases[i].text, rc, value);
    }
}

static void hop_by_hop_headers_are_not_stored(void **state)
{
    (void)state;
    static const char *const foreign[] = {"Host",
                                          "Cookie",
                                          "Authorization",
                                          "X-Forwarded-For",
                                          "Sec-Fetch-Mode",
                                          "Idempotency-Key",
                                          "TE",
                                          "proxy-connection"};
    static const char *const kept[] = {"content-type", "deliver-after", "traceparent",
                                       "x-a",          "ce-id",         "hosts",
                                       "x-forwarded"};
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        assert_true(http_job_is_foreign(slice_of(foreign[i])));
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        assert_false(http_job_is_foreign(slice_of(kept[i])));
}

static void a_job_is_shown_with_all_fields(void **state)
{
    (void)state;
    struct buf out = {0};
    struct job *job = job_new(0);
    job->payload = job_copy_slice(job, (struct slice){"\xff\0", 2});
    job->key = job_copy_slice(job, SLICE_LIT("k"));
    job_add_header(job, SLICE_LIT("a"), SLICE_LIT("1"), NULL);
    job_add_header(job, SLICE_LIT("b"), SLICE_LIT("2"), NULL);
    job_add_header(job, SLICE_LIT("a"), (struct slice){0}, NULL);
    const struct found_reply found = {.state = FOUND_IN_FLIGHT,
                                      .job = job,
                                      .attempts = 2,
                                      .last_error = "HTTP 503",
                                      .blocked_by = "a pause",
                                      .due_ms = 1769860800123};
    http_job_show(&out, SLICE_LIT("i"), &found);
    assert_string_equal(buf_str(&out),
                        "{\"id\":\"i\",\"state\":\"in-flight\","
                        "\"due\":\"2026-01-31T12:00:00.123Z\",\"attempts\":2,"
                        "\"last_error\":\"HTTP 503\",\"blocked_by\":\"a pause\","
                        "\"key\":\"k\","
                        "\"headers\":{\"a\":[\"1\",null],\"b\":\"2\"},"
                        "\"payload_base64\":\"/wA=\"}\n");
    buf_free(&out);
    job_free(job);
}

/* Return CPU time in ns per header of a job with this many: the minimum of several
 * rounds. */
static int64_t shown_ns(unsigned count, unsigned names)
{
    int64_t least_ns = INT64_MAX;
    struct job *job = job_new(0);
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        int n = snprintf(name, sizeof(name), "a-header-%08u", i % names);
        job_add_header(job, (struct slice){name, (size_t)n}, SLICE_LIT("v"), NULL);
    }
    for (unsigned round = 0; round < 9; round++) {
        struct timespec from, to;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        for (unsigned i = 0; i < 8192 / count; i++) {
            struct buf out = {0};
            http_job_members(&out, job);
            buf_free(&out);
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        int64_t ns =
            (to.tv_sec - from.tv_sec) * INT64_C(1000000000) + to.tv_nsec - from.tv_nsec;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    job_free(job);
    return least_ns / (8192 / count * count);
}

static void time_to_show_a_header_does_not_depend_on_their_number(void **state)
{
    (void)state;
    for (unsigned names = 1; names <= 256; names *= 16) {
        int64_t few_ns = shown_ns(16, names), many_ns = shown_ns(JOB_HEADERS_MAX, names);
        print_message("%u names: %lld ns each of 16 headers, %lld of 256\n", names,
                      (long long)few_ns, (long long)many_ns);
        assert_true(many_ns < 3 * few_ns);
    }
}

UNIT(http_source)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_becomes_a_job),
        cmocka_unit_test(header_names_are_stored_as_they_were_sent),
        cmocka_unit_test(a_line_may_contain_every_control_header),
        cmocka_unit_test(a_cloudevent_in_a_line_gets_the_internal_header_names),
        cmocka_unit_test(a_dead_letter_is_shown_with_all_fields),
        cmocka_unit_test(instants_and_fractions_are_parsed_by_their_parameter_rows),
        cmocka_unit_test(base64_carries_any_bytes_and_no_payload_is_an_empty_one),
        cmocka_unit_test(an_invalid_line_is_rejected_with_a_reason),
        cmocka_unit_test(a_job_of_a_queue_sets_tries_and_ttl),
        cmocka_unit_test(parameters_that_a_queue_does_not_support_are_rejected),
        cmocka_unit_test(a_list_of_queues_is_split_at_commas),
        cmocka_unit_test(a_job_of_a_queue_is_shown_in_each_state),
        cmocka_unit_test(hop_by_hop_headers_are_not_stored),
        cmocka_unit_test(a_job_is_shown_with_all_fields),
        cmocka_unit_test(time_to_show_a_header_does_not_depend_on_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
