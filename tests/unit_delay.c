/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_delay.c - the header contract of bridge/job/delay.h, row by row.
 */
#include "bridge/base/when.h"
#include "bridge/opt.h"
#include "bridge/job/delay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/job_of.h"
#include "tests/unit.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define NOW INT64_C(1769860800000) /* 2026-01-31T12:00:00Z */
#define DAY INT64_C(86400000)

static const struct delay_rules plain = {.max_delay_ms = 30 * DAY, .hops_max = 8};

struct row {
    const char *headers;
    int64_t due_ms, expires_ms;
    const char *reason; /* NULL: fine */
};

static void check(const struct row *row, const struct delay_rules *rules,
                  int64_t timestamp_ms)
{
    struct delay_read read;
    struct job *job = job_of(row->headers);
    job->timestamp_ms = timestamp_ms;
    delay_read(job, rules, NOW, &read);
    if (row->reason && (read.reason == NULL || strcmp(read.reason, row->reason) != 0 ||
                        read.why[0] == '\0'))
        fail_msg("%s: %s, not %s: %s", row->headers, read.reason, row->reason, read.why);
    if (row->reason == NULL && (read.reason || read.why[0] != '\0'))
        fail_msg("%s: %s: %s", row->headers, read.reason, read.why);
    if (row->reason == NULL &&
        (read.due_ms != row->due_ms || read.expires_ms != row->expires_ms))
        fail_msg("%s: due now+%lld, expires now+%lld", row->headers,
                 (long long)(read.due_ms - NOW), (long long)(read.expires_ms - NOW));
    job_free(job);
}

static void expiry_and_id_of_the_source_count_unless_a_header_sets_them(void **state)
{
    static const struct {
        const char *headers, *id;
        int64_t expires_ms;
    } rows[] = {{"", "name", 6000},
                {"deliver-after: 1s", "name", 7000},
                {"deliver-before: 2s", "name", 2000},
                {"delay-id: other", "other", 6000}};
    struct delay_read read;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct job *job = job_of(rows[i].headers);
        job->before = SLICE_LIT("6s");
        job->name = SLICE_LIT("name");
        delay_read(job, &plain, NOW, &read);
        assert_null(read.reason);
        assert_true(slice_is(read.id, rows[i].id));
        assert_int_equal(read.expires_ms, NOW + rows[i].expires_ms);
        job->name = SLICE_LIT("\n");
        delay_read(job, &plain, NOW, &read);
        assert_true(read.reason == NULL || strcmp(read.reason, "bad-id") == 0);
        job_free(job);
    }
}

static void the_due_time_of_the_source_overrides_every_header(void **state)
{
    (void)state;
    struct pair pair = {(char *)"deliver-after", (char *)"my-delay"};
    const struct pairs rename = {&pair, 1};
    struct delay_rules renamed = plain;
    renamed.rename = &rename;
    struct job *job =
        job_of("deliver-at: 2026-03-01T00:00:00Z|my-delay: 1h|deliver-before: 1m");
    struct delay_read read;
    job->after = SLICE_LIT("30s");
    delay_read(job, &renamed, NOW, &read);
    assert_null(read.reason);
    assert_int_equal(read.due_ms, NOW + 30000);
    assert_int_equal(read.expires_ms, NOW + 90000);
    job->after = SLICE_LIT("$delayed/soon/a");
    delay_read(job, &plain, NOW, &read);
    assert_string_equal(read.reason, "bad-delay");
    job_free(job);
}

static void a_due_time_can_be_set_in_several_forms(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"", NOW, 0, NULL},
        {"content-type: text/plain", NOW, 0, NULL},
        {"deliver-after: 30s", NOW + 30000, 0, NULL},
        {"Deliver-After: 1h30m", NOW + 5400000, 0, NULL},
        {"DELAY: PT5M", NOW + 300000, 0, NULL},
        {"x-delay: 1500", NOW + 1500, 0, NULL},
        {"x-delay: 0", NOW, 0, NULL},
        {"deliver-at: 2026-01-31T13:00:00Z", NOW + 3600000, 0, NULL},
        {"deliver-at: 1769860801", NOW + 1000, 0, NULL},
        {"deliver-at: 1769860800001", NOW + 1, 0, NULL},
        {"deliver-after: 30d", NOW + 30 * DAY, 0, NULL},
        {"deliver-at: 2026-03-02T12:00:00Z", NOW + 30 * DAY, 0, NULL},
        /* a time in the past means now, and keeps its value */
        {"deliver-at: 2026-01-31T11:00:00Z", NOW - 3600000, 0, NULL},
        {"deliver-at: 0", 0, 0, NULL},
        {"deliver-at: 0001-01-01T00:00:00Z", 0, 0, NULL},
        /* precedence: absolute, then deliver-after, then x-delay */
        {"deliver-after: 1h|deliver-at: 1769860801", NOW + 1000, 0, NULL},
        {"deliver-at: 1769860801|delay: 1h", NOW + 1000, 0, NULL},
        {"x-delay: 5|deliver-after: 1s", NOW + 1000, 0, NULL},
        /* the same value twice */
        {"delay: 60s|deliver-after: 1m", NOW + 60000, 0, NULL},
        {"deliver-after: 2s|deliver-after: 2s|delay: 2000ms", NOW + 2000, 0, NULL},
        {"deliver-at: 1769860801|deliver-at: 2026-01-31T12:00:01Z", NOW + 1000, 0, NULL},
        {"deliver-before: 5s|deliver-before: 5000ms", NOW, NOW + 5000, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check(&rows[i], &plain, 0);
}

static void headers_of_one_meaning_that_contradict_are_refused(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"delay: 1s|deliver-after: 2s", 0, 0, "bad-delay"},
        {"deliver-after: 2s|delay: 1s", 0, 0, "bad-delay"},
        {"deliver-after: 2s|deliver-after: 1s", 0, 0, "bad-delay"},
        {"deliver-after: 2s|deliver-after: rubbish", 0, 0, "bad-delay"},
        {"deliver-at: 1769860801|deliver-after: 1s|deliver-after: 2s", 0, 0, "bad-delay"},
        {"deliver-at: 1769860801|deliver-at: 1769860802", 0, 0, "bad-delay"},
        {"x-delay: 5|x-delay: 6", 0, 0, "bad-delay"},
        {"deliver-before: 5s|deliver-before: 1769860805", 0, 0, "bad-delay"},
        {"delay-id: a|delay-id: b", 0, 0, "bad-id"},
        {"delay-id: a|delay-id: ", 0, 0, "bad-id"},
        {"delay-id: a|delay-op: add|delay-op: cancel", 0, 0, "bad-op"},
        {"delay-to: a|delay-to: b", 0, 0, "bad-target"},
        {"delay-retry: a|delay-retry: b", 0, 0, "bad-retry"},
        {"delay-attempts: 1|delay-attempts: 2", 0, 0, "bad-retry"},
        {"delay-repeat: every 5m|delay-repeat: every 6m", 0, 0, "bad-repeat"},
        {"delay-repeat: every 5m|delay-repeat-count: 1|delay-repeat-count: 2", 0, 0,
         "bad-repeat"},
        {"delay-hops: 1|delay-hops: 2", 0, 0, "loop"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check(&rows[i], &plain, 0);
    struct delay_read read;
    struct job *job = job_of("delay: 1s|x: y|deliver-after: 2s");
    delay_read(job, &plain, NOW, &read);
    assert_non_null(
        strstr(read.why, "deliver-after \"2s\": contradicts an earlier header"));
    job_free(job);
}

static void an_invalid_time_is_rejected_with_a_reason(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"deliver-after: 30", 0, 0, "bad-delay"},
        {"deliver-after: ", 0, 0, "bad-delay"},
        {"deliver-after: -5s", 0, 0, "bad-delay"},
        {"deliver-after: soon", 0, 0, "bad-delay"},
        {"deliver-after: 99999999999999999999d", 0, 0, "bad-delay"},
        {"deliver-at: 2026-01-31", 0, 0, "bad-delay"},
        {"deliver-at: -1", 0, 0, "bad-delay"},
        {"deliver-at: 9223372036854775808", 0, 0, "bad-delay"},
        {"x-delay: 5s", 0, 0, "bad-delay"},
        {"x-delay: -5", 0, 0, "bad-delay"},
        {"x-delay: ", 0, 0, "bad-delay"},
        {"x-delay: 1.5", 0, 0, "bad-delay"},
        {"deliver-before: 12", NOW, 12000, NULL},
        {"deliver-before: x", 0, 0, "bad-delay"},
        {"deliver-before: 2026-02-30T00:00:00Z", 0, 0, "bad-delay"},
        /* an unused header is checked, too */
        {"deliver-at: 1769860801|deliver-after: soon", 0, 0, "bad-delay"},
        {"deliver-after: 1s|deliver-at: soon", 0, 0, "bad-delay"},
        {"deliver-after: 31d", 0, 0, "too-long"},
        {"deliver-after: 2592000001ms", 0, 0, "too-long"},
        {"x-delay: 2592000001", 0, 0, "too-long"},
        {"x-delay: 9223372036854775807", 0, 0, "too-long"},
        {"x-delay: 99999999999999999999999", 0, 0, "too-long"},
        {"deliver-after: 9223372036854775807ms", 0, 0, "too-long"},
        {"deliver-at: 2026-03-02T12:00:00.001Z", 0, 0, "too-long"},
        {"deliver-at: 9999-12-31T23:59:59Z", 0, 0, "too-long"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check(&rows[i], &plain, 0);
}

static void a_relative_delay_counts_from_the_records_timestamp(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"deliver-after: 30s", NOW - 10000 + 30000, 0, NULL},
        {"x-delay: 5000", NOW - 10000 + 5000, 0, NULL},
        {"deliver-at: 1769860801", NOW + 1000, 0, NULL},
        {"", NOW, 0, NULL},
        {"deliver-after: 30s|deliver-before: 5s", NOW + 20000, NOW + 25000, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check(&rows[i], &plain, NOW - 10000);
    /* If a producer's clock is a little ahead, the longest delay must not become too
     * long. */
    check(&(struct row){"deliver-after: 30d", NOW + 5000 + 30 * DAY, 0, NULL}, &plain,
          NOW + 5000);
    check(&(struct row){"deliver-after: 30d", 0, 0, "too-long"}, &plain, NOW + DAY);
    check(&(struct row){"deliver-after: 1s", 0, 0, "too-long"}, &plain, NOW * 1000);
    check(&(struct row){"deliver-after: 1s", 0, 0, "too-long"}, &plain, INT64_MAX);
    check(&(struct row){"", NOW, 0, NULL}, &plain, NOW + DAY);
}

static void limits_of_the_route_and_source_apply(void **state)
{
    (void)state;
    struct delay_rules rules = plain;
    rules.default_delay_ms = 60000;
    check(&(struct row){"", NOW + 60000, 0, NULL}, &rules, 0);
    check(&(struct row){"", NOW + 59000, 0, NULL}, &rules, NOW - 1000);
    check(&(struct row){"delay: 0s", NOW, 0, NULL}, &rules, 0);
    rules = plain;
    rules.bare_unit = WHEN_S;
    check(&(struct row){"delay: 30", NOW + 30000, 0, NULL}, &rules, 0);
    check(&(struct row){"x-delay: 30", NOW + 30, 0, NULL}, &rules, 0);
    rules.bare_unit = WHEN_MS;
    check(&(struct row){"delay: 30", NOW + 30, 0, NULL}, &rules, 0);
    rules = plain;
    rules.max_delay_ms = 0;
    check(&(struct row){"delay: 36500d", NOW + 36500 * DAY, 0, NULL}, &rules, 0);
    check(&(struct row){"deliver-at: 9999-12-31T23:59:59.999Z", WHEN_LAST_MS, 0, NULL},
          &rules, 0);
    check(&(struct row){"delay: 9223372036854775807ms", 0, 0, "too-long"}, &rules, 0);
    rules.max_delay_ms = INT64_MAX;
    check(&(struct row){"delay: 9223372036854775807ms", 0, 0, "too-long"}, &rules, 0);
}

static void an_expiry_is_an_instant_or_counts_from_due(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"deliver-before: 2026-01-31T13:00:00Z", NOW, NOW + 3600000, NULL},
        {"deliver-before: 1769860801", NOW, NOW + 1000, NULL},
        {"deliver-before: 10s", NOW, NOW + 10000, NULL},
        {"deliver-before: 10s|delay: 1h", NOW + 3600000, NOW + 3610000, NULL},
        {"delay: 1h|deliver-before: PT10S", NOW + 3600000, NOW + 3610000, NULL},
        {"deliver-before: 0", NOW, 1, NULL},
        {"deliver-before: 1960-01-01T00:00:00Z", NOW, 1, NULL},
        {"deliver-before: 9223372036854775807ms", NOW, WHEN_LAST_MS, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check(&rows[i], &plain, 0);
}

static void an_id_is_short_and_printable(void **state)
{
    (void)state;
    static char long_id[DELAY_ID_MAX + 1];
    memset(long_id, 'i', sizeof(long_id));
    const struct {
        struct slice id;
        bool good;
    } rows[] = {
        {SLICE_LIT("order-17"), true},   {SLICE_LIT("a/b:c {d} \xc3\xa4"), true},
        {{long_id, DELAY_ID_MAX}, true}, {{long_id, DELAY_ID_MAX + 1}, false},
        {SLICE_LIT(""), false},          {{NULL, 0}, false},
        {SLICE_LIT("a\0b"), false},      {SLICE_LIT("a\nb"), false},
        {SLICE_LIT("\x7f"), false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct delay_read read;
        struct job *job = job_new(0);
        job_add_header(job, SLICE_LIT("Delay-Id"), rows[i].id, NULL);
        delay_read(job, &plain, NOW, &read);
        assert_int_equal(read.reason == NULL, rows[i].good);
        if (rows[i].good)
            assert_true(slice_eq(read.id, rows[i].id));
        else
            assert_string_equal(read.reason, "bad-id");
        job_free(job);
    }
}

static void an_operation_is_one_of_three(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        enum delay_op op;
        const char *reason;
    } rows[] = {
        {"delay-id: a", DELAY_ADD, NULL},
        {"delay-id: a|delay-op: add", DELAY_ADD, NULL},
        {"delay-id: a|delay-op: replace", DELAY_REPLACE, NULL},
        {"delay-op: Cancel|delay-id: a", DELAY_CANCEL, NULL},
        {"delay-id: a|delay-op: delete", DELAY_ADD, "bad-op"},
        {"delay-id: a|delay-op: ", DELAY_ADD, "bad-op"},
        {"delay-op: add", DELAY_ADD, NULL},
        {"delay-op: cancel", DELAY_CANCEL, "bad-id"},
        {"delay-op: replace", DELAY_REPLACE, "bad-id"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct delay_read read;
        struct job *job = job_of(rows[i].headers);
        delay_read(job, &plain, NOW, &read);
        assert_int_equal(read.op, rows[i].op);
        if (rows[i].reason)
            assert_string_equal(read.reason, rows[i].reason);
        else
            assert_null(read.reason);
        job_free(job);
    }
    struct delay_read read; /* a source that names the job itself */
    struct job *job = job_of("delay-op: cancel");
    job->id = SLICE_LIT("known");
    delay_read(job, &plain, NOW, &read);
    assert_null(read.reason);
    job_free(job);
}

static void target_and_schedule_are_copied_to_the_job(void **state)
{
    (void)state;
    struct delay_read read;
    struct job *job = job_of("delay-to: a/b|delay-retry: slow|delay-hops: 3");
    delay_read(job, &plain, NOW, &read);
    assert_null(read.reason);
    assert_true(slice_is(read.to, "a/b"));
    assert_true(slice_is(read.retry, "slow"));
    assert_int_equal(read.hops, 3);
    job_free(job);
    job = job_of("");
    delay_read(job, &plain, NOW, &read);
    assert_null(read.to.p);
    assert_null(read.retry.p);
    assert_null(read.id.p);
    assert_int_equal(read.hops, 0);
    job_free(job);
    check(&(struct row){"delay-to: a\nb", 0, 0, "bad-target"}, &plain, 0);
    check(&(struct row){"delay-to: ", 0, 0, "bad-target"}, &plain, 0);
    check(&(struct row){"delay-retry: ", 0, 0, "bad-retry"}, &plain, 0);
}

static void too_many_hops_are_a_loop(void **state)
{
    (void)state;
    check(&(struct row){"delay-hops: 7", NOW, 0, NULL}, &plain, 0);
    check(&(struct row){"delay-hops: 8", 0, 0, "loop"}, &plain, 0);
    check(&(struct row){"delay-hops: 99999999999999999999", 0, 0, "loop"}, &plain, 0);
    check(&(struct row){"delay-hops: -1", 0, 0, "loop"}, &plain, 0);
    check(&(struct row){"delay-hops: many", 0, 0, "loop"}, &plain, 0);
}

static void the_first_error_is_the_reason_and_later_headers_are_still_read(void **state)
{
    (void)state;
    struct delay_read read;
    struct job *job = job_of("deliver-after: soon|delay-hops: 99|delay-id: a");
    delay_read(job, &plain, NOW, &read);
    assert_string_equal(read.reason, "bad-delay");
    assert_true(slice_is(read.id, "a"));
    job_free(job);
}

static void the_error_quotes_the_value_truncated_and_escaped(void **state)
{
    (void)state;
    struct delay_read read;
    struct job *job = job_of("Deliver-After: so\"on\x1b\n");
    delay_read(job, &plain, NOW, &read);
    assert_non_null(
        strstr(read.why, "Deliver-After \"so\\x22on\\x1b\\x0a\": not a duration"));
    assert_non_null(strstr(read.why, "1h30m"));
    job_free(job);
    job = job_of("deliver-at: aaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbc");
    delay_read(job, &plain, NOW, &read);
    assert_non_null(strstr(read.why, "\"aaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbb...\""));
    job_free(job);
}

static void a_source_may_rename_a_header(void **state)
{
    (void)state;
    struct pair pairs[] = {
        {(char[]){"deliver-after"}, (char[]){"X-Wait"}},
        {(char[]){"DELAY-ID"}, (char[]){"message-id"}},
        {(char[]){"delay-hops"}, (char[]){"hops"}},
        {(char[]){"deliver-at"}, (char[]){"x-delay"}},
    };
    const struct pairs rename = {pairs, COUNT(pairs)};
    struct delay_rules rules = plain;
    struct delay_read read;
    rules.rename = &rename;
    check(&(struct row){"x-wait: 5s", NOW + 5000, 0, NULL}, &rules, 0);
    check(&(struct row){"deliver-after: rubbish", NOW, 0, NULL}, &rules, 0);
    check(&(struct row){"delay: 5s", NOW + 5000, 0, NULL}, &rules, 0);
    check(&(struct row){"x-delay: 1769860801", NOW + 1000, 0, NULL}, &rules, 0);
    check(&(struct row){"deliver-at: rubbish", NOW, 0, NULL}, &rules, 0);
    /* The hop count prevents loops through several instances: it has one name. */
    check(&(struct row){"delay-hops: 8", 0, 0, "loop"}, &rules, 0);
    check(&(struct row){"hops: 8", NOW, 0, NULL}, &rules, 0);
    struct job *job = job_of("delay-id: a|Message-Id: b");
    delay_read(job, &rules, NOW, &read);
    assert_true(slice_is(read.id, "b"));
    job_free(job);
    assert_true(delay_is_control(SLICE_LIT("x-wait"), &rules));
    assert_true(delay_is_control(SLICE_LIT("message-id"), &rules));
    assert_true(delay_is_control(SLICE_LIT("delay-id"), &rules));
    assert_false(delay_is_control(SLICE_LIT("deliver-after"), &rules));
    assert_false(delay_is_control(SLICE_LIT("deliver-at"), &rules));
    assert_false(delay_is_control(SLICE_LIT("hops"), &rules));
}

static void control_headers_are_distinguished_from_ordinary_headers(void **state)
{
    (void)state;
    static const char *const control[] = {"deliver-after",
                                          "delay",
                                          "deliver-at",
                                          "x-delay",
                                          "delay-id",
                                          "delay-op",
                                          "delay-to",
                                          "delay-retry",
                                          "delay-due",
                                          "delay-emitted",
                                          "delay-attempt",
                                          "delay-source",
                                          "delay-hops",
                                          "deliver-before",
                                          "DELAY-DUE",
                                          "X-Delay",
                                          "delay-attempts",
                                          "delay-repeat",
                                          "delay-repeat-count",
                                          "delay-repeat-until",
                                          "delay-replays",
                                          "delay-run",
                                          "delay-route",
                                          "delay-dead-reason",
                                          "delay-dead-error",
                                          "delay-dead-status",
                                          "delay-dead-attempts",
                                          "delay-dead-first",
                                          "delay-dead-last"};
    static const char *const common[] = {"",
                                         "d",
                                         "date",
                                         "delays",
                                         "delay-",
                                         "x-delay2",
                                         "content-type",
                                         "x-id",
                                         "delay_id",
                                         "deliver",
                                         "deliver-befor",
                                         "key",
                                         "delay-attemptz",
                                         "xdelay",
                                         "eelay",
                                         "dnt",
                                         "x-forwarded-for"};
    static const char *const fixed[] = {
        "delay-due", "delay-hops",        "delay-source", "delay-replays",
        "delay-run", "delay-dead-reason", "content-type"};
    for (size_t i = 0; i < COUNT(control); i++)
        assert_true(delay_is_control(slice_of(control[i]), &plain));
    for (size_t i = 0; i < COUNT(common); i++)
        assert_false(delay_is_control(slice_of(common[i]), &plain));
    assert_false(delay_is_control((struct slice){NULL, 0}, &plain));
    assert_false(delay_is_control(SLICE_LIT("delay-\0d"), &plain));
    for (size_t i = 0; i < COUNT(fixed); i++)
        assert_false(delay_may_rename(fixed[i]));
    assert_true(delay_may_rename("Delay"));
    assert_true(delay_may_rename("delay-id"));
}

static void attempts_and_repetition_are_copied_to_the_job(void **state)
{
    (void)state;
    struct delay_read read;
    struct job *job = job_of("delay-attempts: 1000000|delay-repeat: every 5m|"
                             "delay-repeat-count: 3|delay-repeat-until: 1769860801");
    delay_read(job, &plain, NOW, &read);
    assert_null(read.reason);
    assert_int_equal(read.attempts, 1000000);
    assert_true(slice_is(read.repeat, "every 5m"));
    assert_int_equal(read.repeat_count, 3);
    assert_int_equal(read.repeat_until_ms, NOW + 1000);
    assert_true(read.undelayed);
    job_free(job);
    job = job_of("delay-repeat: anything|delay-repeat-until: 1960-01-01T00:00:00Z");
    delay_read(job, &plain, NOW, &read);
    assert_null(read.reason);
    assert_int_equal(read.repeat_until_ms, 1);
    assert_int_equal(read.attempts, 0);
    job_free(job);
    static const struct row rows[] = {
        {"delay-attempts: 0", 0, 0, "bad-retry"},
        {"delay-attempts: 1000001", 0, 0, "bad-retry"},
        {"delay-attempts: -1", 0, 0, "bad-retry"},
        {"delay-attempts: ", 0, 0, "bad-retry"},
        {"delay-attempts: many", 0, 0, "bad-retry"},
        {"delay-repeat: ", 0, 0, "bad-repeat"},
        {"delay-repeat: every\t5m", 0, 0, "bad-repeat"},
        {"delay-repeat: every 5m|delay-repeat-count: 0", 0, 0, "bad-repeat"},
        {"delay-repeat: every 5m|delay-repeat-count: x", 0, 0, "bad-repeat"},
        {"delay-repeat: every 5m|delay-repeat-until: 5m", 0, 0, "bad-repeat"},
        {"delay-repeat-count: 3", 0, 0, "bad-repeat"},
        {"delay-repeat-until: 1769860801", 0, 0, "bad-repeat"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check(&rows[i], &plain, 0);
    static char long_text[REPEAT_MAX + 1];
    memset(long_text, '5', sizeof(long_text));
    for (size_t n = REPEAT_MAX; n <= REPEAT_MAX + 1; n++) {
        job = job_new(0);
        job_add_header(job, SLICE_LIT("delay-repeat"), (struct slice){long_text, n},
                       NULL);
        delay_read(job, &plain, NOW, &read);
        assert_int_equal(read.reason == NULL, n == REPEAT_MAX);
        job_free(job);
    }
}

static void a_delay_too_long_may_become_the_longest(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        int64_t timestamp_ms, max_ms, due_ms;
        bool clamped;
    } rows[] = {
        {"delay: 30d", 0, 30 * DAY, NOW + 30 * DAY, false},
        {"delay: 31d", 0, 30 * DAY, NOW + 30 * DAY, true},
        {"delay: 31d", NOW - DAY, 30 * DAY, NOW + 30 * DAY, true},
        {"x-delay: 99999999999999999999", 0, 30 * DAY, NOW + 30 * DAY, true},
        {"deliver-at: 9999-12-31T23:59:59Z", 0, 30 * DAY, NOW + 30 * DAY, true},
        {"delay: 1s", INT64_MAX, 30 * DAY, NOW + 30 * DAY, true},
        {"delay: 9223372036854775807ms", 0, 0, WHEN_LAST_MS, true},
        {"delay: 9223372036854775807ms", 0, INT64_MAX, WHEN_LAST_MS, true},
        {"", 0, 30 * DAY, NOW, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct delay_rules rules = {
            .clamp = true, .hops_max = 8, .max_delay_ms = rows[i].max_ms};
        struct delay_read read;
        struct job *job = job_of(rows[i].headers);
        job->timestamp_ms = rows[i].timestamp_ms;
        delay_read(job, &rules, NOW, &read);
        assert_null(read.reason);
        assert_int_equal(read.due_ms, rows[i].due_ms);
        assert_int_equal(read.clamped, rows[i].clamped);
        job_free(job);
    }
    struct delay_rules rules = plain;
    rules.clamp = true;
    check(&(struct row){"delay: 31d|deliver-before: 5s", NOW + 30 * DAY,
                        NOW + 30 * DAY + 5000, NULL},
          &rules, 0);
    check(&(struct row){"delay: soon", 0, 0, "bad-delay"}, &rules, 0);
}

/* Eight bytes, as Java's ByteBuffer.putLong() writes them. */
static struct slice big_endian(int64_t n, char bytes[8])
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)((uint64_t)n >> (56 - 8 * i));
    return (struct slice){bytes, 8};
}

static void eight_bytes_may_be_an_integer(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t n;
        int bare_unit;
        int64_t due_ms, expires_ms;
        const char *reason;
    } rows[] = {
        {"deliver-at", 1769860801, WHEN_NO_UNIT, NOW + 1000, 0, NULL},
        {"deliver-at", NOW + 5, WHEN_NO_UNIT, NOW + 5, 0, NULL},
        {"deliver-at", -5, WHEN_NO_UNIT, 0, 0, "bad-delay"},
        {"deliver-at", INT64_MIN, WHEN_NO_UNIT, 0, 0, "bad-delay"},
        {"deliver-at", INT64_MAX, WHEN_NO_UNIT, 0, 0, "bad-delay"},
        {"x-delay", 5000, WHEN_NO_UNIT, NOW + 5000, 0, NULL},
        {"x-delay", -5000, WHEN_NO_UNIT, 0, 0, "bad-delay"},
        {"deliver-after", 5, WHEN_S, NOW + 5000, 0, NULL},
        {"delay", 5, WHEN_MS, NOW + 5, 0, NULL},
        {"delay", -5, WHEN_MS, 0, 0, "bad-delay"},
        {"delay", 5, WHEN_NO_UNIT, 0, 0, "bad-delay"},
        {"deliver-before", 1769860801, WHEN_NO_UNIT, NOW, NOW + 1000, NULL},
        {"delay-attempts", 7, WHEN_NO_UNIT, NOW, 0, NULL},
        {"delay-attempts", -7, WHEN_NO_UNIT, 0, 0, "bad-retry"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct delay_rules rules = plain;
        struct delay_read read;
        char bytes[8];
        struct job *job = job_new(0);
        job_add_header(job, slice_of(rows[i].name), big_endian(rows[i].n, bytes), NULL);
        rules.bare_unit = rows[i].bare_unit;
        delay_read(job, &rules, NOW, &read);
        assert_non_null(read.reason); /* such bytes are no text */
        rules.binary_ints = true;
        delay_read(job, &rules, NOW, &read);
        if (rows[i].reason) {
            assert_string_equal(read.reason, rows[i].reason);
        } else {
            assert_null(read.reason);
            assert_int_equal(read.due_ms, rows[i].due_ms);
            assert_int_equal(read.expires_ms, rows[i].expires_ms);
        }
        job_free(job);
    }
    struct delay_rules rules = plain; /* a text of eight bytes remains text */
    rules.binary_ints = true;
    check(&(struct row){"delay: 1h30m15s", NOW + 5415000, 0, NULL}, &rules, 0);
    check(&(struct row){"x-delay: 00005000", NOW + 5000, 0, NULL}, &rules, 0);
    check(&(struct row){"x-delay: 5000", NOW + 5000, 0, NULL}, &rules, 0);
    struct delay_read read; /* and an invalid number is not read as eight bytes either */
    struct job *job = job_of("delay-id: \xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4");
    delay_read(job, &rules, NOW, &read);
    assert_null(read.reason);
    assert_int_equal(read.id.n, 8);
    job_free(job);
    job = job_new(0);
    char bytes[8];
    job_add_header(job, SLICE_LIT("x-delay"), big_endian(-5000, bytes), NULL);
    delay_read(job, &rules, NOW, &read);
    assert_non_null(strstr(read.why, "x-delay \"-5000\": not a whole number"));
    job_free(job);
}

static void the_key_may_name_the_job(void **state)
{
    (void)state;
    static char long_key[DELAY_ID_MAX + 1];
    memset(long_key, 'k', sizeof(long_key));
    const struct {
        const char *headers;
        struct slice key;
        bool key_is_id;
        const char *id; /* NULL: none */
        const char *reason;
    } rows[] = {
        {"", SLICE_LIT("k1"), true, "k1", NULL},
        {"", SLICE_LIT("k1"), false, NULL, NULL},
        {"delay-id: a", SLICE_LIT("k1"), true, "a", NULL},
        {"delay-id: ", SLICE_LIT("k1"), true, NULL, "bad-id"},
        {"", SLICE_LIT(""), true, NULL, NULL},
        {"", {NULL, 0}, true, NULL, NULL},
        {"", {long_key, sizeof(long_key)}, true, NULL, "bad-id"},
        {"", {long_key, sizeof(long_key)}, false, NULL, NULL},
        {"", SLICE_LIT("a\nb"), true, NULL, "bad-id"},
        {"delay-op: cancel", SLICE_LIT("k1"), true, "k1", NULL},
        {"delay-op: cancel", SLICE_LIT("k1"), false, NULL, "bad-id"},
        {"delay-op: replace", SLICE_LIT("k1"), true, "k1", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct delay_rules rules = plain;
        struct delay_read read;
        struct job *job = job_of(rows[i].headers);
        job->key = rows[i].key;
        rules.key_is_id = rows[i].key_is_id;
        delay_read(job, &rules, NOW, &read);
        if (rows[i].reason) {
            assert_string_equal(read.reason, rows[i].reason);
        } else {
            assert_null(read.reason);
            assert_true(slice_eq(read.id, slice_of(rows[i].id)));
        }
        job_free(job);
    }
    struct delay_rules rules = plain; /* a source that names the job has precedence */
    struct delay_read read;
    struct job *job = job_of("");
    rules.key_is_id = true;
    job->id = SLICE_LIT("known");
    job->key = SLICE_LIT("k1");
    delay_read(job, &rules, NOW, &read);
    assert_null(read.reason);
    assert_null(read.id.p);
    job_free(job);
}

static void a_null_value_cancels_unless_it_has_an_operation_or_a_due_time(void **state)
{
    (void)state;
    static const struct {
        const char *headers, *key; /* key NULL: none */
        enum delay_op op;
        const char *id, *reason;
        const char *after; /* the deliver-after that the source knows */
    } rows[] = {
        {"", "k1", DELAY_CANCEL, "k1", NULL, NULL},
        {"delay-id: a", "k1", DELAY_CANCEL, "a", NULL, NULL},
        {"delay-id: a", NULL, DELAY_CANCEL, "a", NULL, NULL},
        {"", NULL, DELAY_CANCEL, NULL, "bad-id", NULL},
        {"", "", DELAY_CANCEL, NULL, "bad-id", NULL},
        {"", "a\nb", DELAY_CANCEL, NULL, "bad-id", NULL},
        {"deliver-after: 5s", "k1", DELAY_ADD, NULL, NULL, NULL},
        {"deliver-at: 1769860801", "k1", DELAY_ADD, NULL, NULL, NULL},
        {"x-delay: 5", "k1", DELAY_ADD, NULL, NULL, NULL},
        {"delay-repeat: every 5m", "k1", DELAY_ADD, NULL, NULL, NULL},
        {"", "k1", DELAY_ADD, NULL, NULL, "5s"},
        {"delay-op: add", "k1", DELAY_ADD, NULL, NULL, NULL},
        {"delay-op: add|delay-id: a", NULL, DELAY_ADD, "a", NULL, NULL},
        {"delay-op: replace", "k1", DELAY_REPLACE, NULL, "bad-id", NULL},
        {"delay-op: cancel|delay-id: a", "k1", DELAY_CANCEL, "a", NULL, NULL},
        /* neither an end nor a target is a time */
        {"deliver-before: 1h|delay-to: t", "k1", DELAY_CANCEL, "k1", NULL, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct delay_read read;
        struct job *job = job_of(rows[i].headers);
        job->tombstone = true;
        job->key = slice_of(rows[i].key);
        job->after = slice_of(rows[i].after);
        delay_read(job, &plain, NOW, &read);
        assert_int_equal(read.op, rows[i].op);
        if (rows[i].reason)
            assert_string_equal(read.reason, rows[i].reason);
        else
            assert_null(read.reason);
        if (rows[i].reason == NULL)
            assert_true(slice_eq(read.id, slice_of(rows[i].id)));
        job_free(job);
    }
    struct delay_rules rules = plain; /* without a requested delay there is none */
    struct delay_read read;
    struct job *job = job_of("");
    rules.default_delay_ms = 60000;
    job->tombstone = true;
    job->key = SLICE_LIT("k1");
    delay_read(job, &rules, NOW, &read);
    assert_int_equal(read.op, DELAY_CANCEL);
    job_free(job);
    job = job_of("");
    job->tombstone = true;
    delay_read(job, &rules, NOW, &read);
    assert_non_null(strstr(read.why, "a null value cancels"));
    job_free(job);
}

UNIT(delay)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_due_time_of_the_source_overrides_every_header),
        cmocka_unit_test(a_due_time_can_be_set_in_several_forms),
        cmocka_unit_test(an_invalid_time_is_rejected_with_a_reason),
        cmocka_unit_test(a_relative_delay_counts_from_the_records_timestamp),
        cmocka_unit_test(limits_of_the_route_and_source_apply),
        cmocka_unit_test(an_expiry_is_an_instant_or_counts_from_due),
        cmocka_unit_test(an_id_is_short_and_printable),
        cmocka_unit_test(an_operation_is_one_of_three),
        cmocka_unit_test(target_and_schedule_are_copied_to_the_job),
        cmocka_unit_test(too_many_hops_are_a_loop),
        cmocka_unit_test(headers_of_one_meaning_that_contradict_are_refused),
        cmocka_unit_test(the_first_error_is_the_reason_and_later_headers_are_still_read),
        cmocka_unit_test(the_error_quotes_the_value_truncated_and_escaped),
        cmocka_unit_test(a_source_may_rename_a_header),
        cmocka_unit_test(control_headers_are_distinguished_from_ordinary_headers),
        cmocka_unit_test(attempts_and_repetition_are_copied_to_the_job),
        cmocka_unit_test(expiry_and_id_of_the_source_count_unless_a_header_sets_them),
        cmocka_unit_test(a_delay_too_long_may_become_the_longest),
        cmocka_unit_test(eight_bytes_may_be_an_integer),
        cmocka_unit_test(the_key_may_name_the_job),
        cmocka_unit_test(a_null_value_cancels_unless_it_has_an_operation_or_a_due_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
