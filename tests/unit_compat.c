/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_compat.c - the headers of other schedulers, set by set; see bridge/job/compat.c.
 */
#include "bridge/base/when.h"
#include "bridge/job/delay_internal.h"
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
#define NO_KEY "" /* out_key: it is delivered without a key */

struct row {
    const char *headers;                    /* "name: value|name: value" */
    int64_t due_ms;                         /* from NOW on */
    const char *id, *to, *repeat, *out_key; /* NULL: none */
    int64_t count, attempts;
    enum delay_op op;
    const char *reason;
    const char *key; /* of the record; NULL: none */
    bool tombstone;
};

static bool same(struct slice s, const char *want)
{
    return want ? s.p && slice_is(s, want) : s.p == NULL;
}

static struct delay_rules rules_of(const char *set)
{
    struct delay_rules rules = {.max_delay_ms = 30 * DAY, .hops_max = 8};
    rules.compat = delay_compat(set);
    assert_int_not_equal(rules.compat, 0);
    return rules;
}

static void check(const struct row *row, const struct delay_rules *rules)
{
    struct delay_read read;
    struct job *job = job_of(row->headers);
    job->key = slice_of(row->key);
    job->tombstone = row->tombstone;
    delay_read(job, rules, NOW, &read);
    if (row->reason) {
        if (read.reason == NULL || strcmp(read.reason, row->reason) != 0 ||
            read.why[0] == '\0')
            fail_msg("%s: %s, not %s: %s", row->headers, read.reason, row->reason,
                     read.why);
    } else if (read.reason || read.why[0] != '\0') {
        fail_msg("%s: %s: %s", row->headers, read.reason, read.why);
    } else if (read.due_ms != NOW + row->due_ms || read.op != row->op ||
               read.repeat_count != row->count || read.attempts != row->attempts) {
        fail_msg("%s: due now+%lld, op %d, %lld runs, %lld attempts", row->headers,
                 (long long)(read.due_ms - NOW), (int)read.op,
                 (long long)read.repeat_count, (long long)read.attempts);
    } else if (!same(read.id, row->id) || !same(read.to, row->to) ||
               !same(read.repeat, row->repeat) || !same(read.key, row->out_key)) {
        fail_msg("%s: id %.*s, to %.*s, repeat %.*s, key %.*s", row->headers,
                 SLICE_ARG(read.id), SLICE_ARG(read.to), SLICE_ARG(read.repeat),
                 SLICE_ARG(read.key));
    } else if (row->repeat) {
        struct repeat repeat; /* it must be valid for delay.h */
        struct err err = {""};
        if (repeat_parse(read.repeat, &repeat, &err) < 0)
            fail_msg("%s: %s", row->headers, err.text);
    }
    job_free(job);
}

static void check_all(const char *set, const struct row *rows, size_t n)
{
    const struct delay_rules rules = rules_of(set);
    for (size_t i = 0; i < n; i++)
        check(&rows[i], &rules);
}

static void sets_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"rabbitmq", "emqx", "etf1",   "nats",
                                        "artemis",  "dapr", "qstash", "karafka"};
    unsigned all = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        unsigned bit = delay_compat(names[i]);
        assert_true(bit != 0 && (bit & (bit - 1)) == 0 && (all & bit) == 0);
        assert_non_null(strstr(delay_compat_names(), names[i]));
        all |= bit;
    }
    assert_int_equal(all, 0xff);
    static const char *const none[] = {"",      "rabbit", "rabbitmq,", "emqx, etf1",
                                       " emqx", "EMQX",   "karafka2"};
    for (size_t i = 0; i < COUNT(none); i++)
        assert_int_equal(delay_compat(none[i]), 0);
}

static void rabbitmq_delivers_a_negative_delay_at_once(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {.headers = "x-delay: 5000", .due_ms = 5000},
        {.headers = "x-delay: -5000", .due_ms = 0},
        {.headers = "x-delay: -0", .due_ms = 0},
        {.headers = "x-delay: -99999999999999999999", .due_ms = 0},
        {.headers = "x-delay: -", .reason = "bad-delay"},
        {.headers = "x-delay: --5", .reason = "bad-delay"},
        {.headers = "x-delay: -5s", .reason = "bad-delay"},
        {.headers = "x-delay: ", .reason = "bad-delay"},
    };
    check_all("rabbitmq", rows, COUNT(rows));
    const struct delay_rules others = rules_of("emqx");
    check(&(struct row){.headers = "x-delay: -5000", .reason = "bad-delay"}, &others);
}

static void etf1_keeps_a_schedule_for_each_key(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {.headers = "scheduler-epoch: 1769860801|scheduler-target-topic: online-videos|"
                    "scheduler-target-key: vid1|customer-header: dummy",
         .key = "vid1-online",
         .due_ms = 1000,
         .id = "vid1-online",
         .op = DELAY_REPLACE,
         .to = "online-videos",
         .out_key = "vid1"},
        {.headers = "Scheduler-Epoch: 1769860801",
         .key = "k",
         .due_ms = 1000,
         .id = "k",
         .op = DELAY_REPLACE,
         .out_key = NO_KEY},
        {.headers = "scheduler-epoch: 1000000000", /* past, and always seconds */
         .key = "k",
         .due_ms = INT64_C(1000000000000) - NOW,
         .id = "k",
         .op = DELAY_REPLACE,
         .out_key = NO_KEY},
        {.headers = "scheduler-epoch: 1769860801", .reason = "bad-id"},
        {.headers = "scheduler-epoch: 1769860801", .key = "", .reason = "bad-id"},
        {.headers = "scheduler-epoch: soon", .key = "k", .reason = "bad-delay"},
        {.headers = "scheduler-epoch: -1", .key = "k", .reason = "bad-delay"},
        {.headers = "scheduler-epoch: 1769860801000", .key = "k", .reason = "bad-delay"},
        {.headers = "scheduler-epoch: 1779860801", .key = "k", .reason = "too-long"},
        {.headers = "scheduler-epoch: 1769860801|scheduler-target-topic: ",
         .key = "k",
         .reason = "bad-target"},
        /* a null value deletes, with or without headers */
        {.headers = "", .key = "k", .tombstone = true, .id = "k", .op = DELAY_CANCEL},
        {.headers = "scheduler-epoch: 1769860801|scheduler-target-topic: t",
         .key = "k",
         .tombstone = true,
         .id = "k",
         .op = DELAY_CANCEL,
         .to = "t",
         .out_key = NO_KEY},
        /* tarry's own headers have precedence */
        {.headers = "scheduler-epoch: 1769860801|delay-id: a|delay-op: add|"
                    "deliver-after: 5s|delay-to: u|scheduler-target-topic: t",
         .key = "k",
         .due_ms = 5000,
         .id = "a",
         .op = DELAY_ADD,
         .to = "u",
         .out_key = NO_KEY},
        {.headers = "scheduler-epoch: 1769860801|deliver-after: 5s",
         .key = "k",
         .tombstone = true,
         .due_ms = 5000,
         .id = "k",
         .op = DELAY_REPLACE,
         .out_key = NO_KEY},
        /* its own output headers are no request */
        {.headers = "scheduler-timestamp: 1607918336|scheduler-key: a|scheduler-topic: b",
         .key = "k"},
    };
    check_all("etf1", rows, COUNT(rows));
}

static void nats_schedules_once_by_interval_or_by_line(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {.headers = "Nats-Schedule: @at 2026-01-31T12:00:01Z|"
                    "Nats-Schedule-Target: $SCHED.trigger|Nats-Schedule-TTL: 5m",
         .due_ms = 1000,
         .to = "$SCHED.trigger"},
        {.headers = "nats-schedule: @at 2026-01-31T13:00:01+01:00", .due_ms = 1000},
        {.headers = "Nats-Schedule: @at 2009-11-10T23:00:00Z",
         .due_ms = INT64_C(1257894000000) - NOW},
        {.headers = "Nats-Schedule: @at 1769860801", .reason = "bad-delay"},
        {.headers = "Nats-Schedule: @at tomorrow", .reason = "bad-delay"},
        {.headers = "Nats-Schedule: @at", .reason = "bad-delay"},
        {.headers = "Nats-Schedule: @at 2026-01-31T12:00:01Z|deliver-after: 5s",
         .due_ms = 5000},
        {.headers = "Nats-Schedule: @at 2027-01-31T12:00:01Z", .reason = "too-long"},
        {.headers = "Nats-Schedule: @every 5m", .due_ms = 300000, .repeat = "every 5m"},
        {.headers = "Nats-Schedule:   @every 5m", .due_ms = 300000, .repeat = "every 5m"},
        {.headers = "Nats-Schedule: @every 1h0m0s|deliver-after: 0s",
         .repeat = "every 1h0m0s"},
        {.headers =
             "Nats-Schedule: @every 5m|delay-repeat: every 1h|delay-repeat-count: 2",
         .repeat = "every 1h",
         .count = 2},
        {.headers = "Nats-Schedule: @every 5m|delay-repeat-count: 2",
         .due_ms = 300000,
         .repeat = "every 5m",
         .count = 2},
        {.headers = "Nats-Schedule: @every soon", .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: @every", .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: @hourly", .repeat = "0 * * * *"},
        {.headers = "Nats-Schedule: @annually|Nats-Schedule-Time-Zone: Europe/Berlin",
         .repeat = "0 0 1 1 * Europe/Berlin"},
        {.headers = "Nats-Schedule: 0 30 14 * jan mon-fri",
         .repeat = "30 14 * jan mon-fri"},
        {.headers =
             "Nats-Schedule: 0 0 9 * * *|Nats-Schedule-Time-Zone: Europe/Amsterdam",
         .repeat = "0 9 * * * Europe/Amsterdam"},
        {.headers = "Nats-Schedule: */5 * * * * *", .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: 30 0 9 * * *", .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: 0 9 * * *", .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: 0 0 9 * * * UTC", .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: 0 0 9 * *\t*", .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: @fortnightly", .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: ", .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: @hourly|Nats-Schedule-Time-Zone: a b",
         .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: @every 5m|Nats-Schedule-Time-Zone: UTC",
         .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: @every 5m|Nats-Schedule-Source: sensors.cnc",
         .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: @hourly|delay-op: cancel|delay-id: a",
         .id = "a",
         .op = DELAY_CANCEL,
         .repeat = "0 * * * *"},
        {.headers = "Nats-Schedule-TTL: 5m|Nats-Scheduler: a|Nats-Schedule-Next: purge|"
                    "Nats-Msg-Id: b"},
    };
    check_all("nats", rows, COUNT(rows));
}

static void a_time_zone_name_that_is_too_long_is_rejected(void **state)
{
    (void)state;
    const struct delay_rules rules = rules_of("nats");
    for (int n = 117; n <= 118; n++) { /* behind "0 * * * * " */
        char zone[128], headers[256];
        struct delay_read read;
        memset(zone, 'z', sizeof(zone));
        snprintf(headers, sizeof(headers),
                 "Nats-Schedule: @hourly|Nats-Schedule-Time-Zone: %.*s", n + 1, zone);
        struct job *job = job_of(headers);
        delay_read(job, &rules, NOW, &read);
        assert_int_equal(read.reason == NULL, n == 117);
        if (read.reason == NULL)
            assert_int_equal(read.repeat.n, REPEAT_MAX);
        job_free(job);
    }
}

static void artemis_counts_in_ms(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {.headers = "_AMQ_SCHED_DELIVERY: 1769860801000", .due_ms = 1000},
        {.headers = "AMQ_SCHEDULED_TIME: 1769860800005", .due_ms = 5},
        {.headers = "_AMQ_SCHED_DELIVERY: 5000", .due_ms = 5000 - NOW},
        {.headers = "_AMQ_SCHED_DELIVERY: 999999999", .due_ms = 999999999 - NOW},
        {.headers = "_AMQ_SCHED_DELIVERY: 1769860801", .reason = "bad-delay"},
        {.headers = "AMQ_SCHEDULED_TIME: 1769860801", .reason = "bad-delay"},
        {.headers = "amq_scheduled_delay: 60000", .due_ms = 60000},
        {.headers = "AMQ_SCHEDULED_DELAY: 60000|AMQ_SCHEDULED_TIME: 1769860801000",
         .due_ms = 1000},
        {.headers = "AMQ_SCHEDULED_DELAY: 60000|x-delay: 5", .due_ms = 5},
        {.headers = "AMQ_SCHEDULED_DELAY: 1m", .reason = "bad-delay"},
        {.headers = "AMQ_SCHEDULED_DELAY: -1", .reason = "bad-delay"},
        {.headers = "AMQ_SCHEDULED_DELAY: 2592000001", .reason = "too-long"},
        {.headers = "_AMQ_SCHED_DELIVERY: 2026-01-31T12:00:00Z", .reason = "bad-delay"},
        {.headers = "_AMQ_SCHED_DELIVERY: 253402300800000", .reason = "bad-delay"},
        /* after 30 s ten times, 10 s apart */
        {.headers = "AMQ_SCHEDULED_DELAY: 30000|AMQ_SCHEDULED_PERIOD: 10000|"
                    "AMQ_SCHEDULED_REPEAT: 9",
         .due_ms = 30000,
         .repeat = "every 10000ms",
         .count = 10},
        {.headers = "AMQ_SCHEDULED_REPEAT: 9|AMQ_SCHEDULED_PERIOD: 10000",
         .due_ms = 10000,
         .repeat = "every 10000ms",
         .count = 10},
        {.headers = "AMQ_SCHEDULED_PERIOD: 10000|AMQ_SCHEDULED_REPEAT: -1|"
                    "AMQ_SCHEDULED_DELAY: 0",
         .due_ms = 10000,
         .repeat = "every 10000ms"},
        {.headers = "AMQ_SCHEDULED_TIME: 1769860801000|AMQ_SCHEDULED_PERIOD: 10000|"
                    "AMQ_SCHEDULED_REPEAT: 1",
         .due_ms = 1000,
         .repeat = "every 10000ms",
         .count = 2},
        {.headers = "AMQ_SCHEDULED_PERIOD: 10000", .due_ms = 10000},
        {.headers = "AMQ_SCHEDULED_PERIOD: 10000|AMQ_SCHEDULED_DELAY: 5", .due_ms = 5},
        {.headers = "AMQ_SCHEDULED_PERIOD: 10000|delay: 0s", .due_ms = 0},
        {.headers = "AMQ_SCHEDULED_PERIOD: 10000|AMQ_SCHEDULED_REPEAT: 9|"
                    "delay-repeat-count: 4",
         .due_ms = 10000,
         .repeat = "every 10000ms",
         .count = 4},
        {.headers = "AMQ_SCHEDULED_PERIOD: 10000|AMQ_SCHEDULED_REPEAT: 9|"
                    "delay-repeat: every 1h",
         .repeat = "every 1h"},
        {.headers = "AMQ_SCHEDULED_REPEAT: 0"},
        {.headers = "AMQ_SCHEDULED_REPEAT: 9", .reason = "bad-repeat"},
        {.headers = "AMQ_SCHEDULED_REPEAT: often", .reason = "bad-repeat"},
        {.headers = "AMQ_SCHEDULED_REPEAT: -", .reason = "bad-repeat"},
        {.headers = "AMQ_SCHEDULED_REPEAT: 9223372036854775807|AMQ_SCHEDULED_PERIOD: 1",
         .reason = "bad-repeat"},
        {.headers = "AMQ_SCHEDULED_PERIOD: 10s", .reason = "bad-repeat"},
        {.headers = "AMQ_SCHEDULED_CRON: 0 * * * *", .repeat = "0 * * * *"},
        {.headers = "AMQ_SCHEDULED_CRON: 0 * * * *|AMQ_SCHEDULED_DELAY: 0|"
                    "AMQ_SCHEDULED_PERIOD: 0|AMQ_SCHEDULED_REPEAT: 0",
         .repeat = "0 * * * *"},
        {.headers = "AMQ_SCHEDULED_CRON: 0 * * * *|deliver-after: 5s",
         .due_ms = 5000,
         .repeat = "0 * * * *"},
        {.headers = "AMQ_SCHEDULED_CRON: |AMQ_SCHEDULED_DELAY: 5", .due_ms = 5},
        {.headers = "AMQ_SCHEDULED_CRON: 0 * * * *|AMQ_SCHEDULED_DELAY: 1000",
         .reason = "bad-repeat"},
        {.headers = "AMQ_SCHEDULED_CRON: 0 * * * *|AMQ_SCHEDULED_PERIOD: 1000|"
                    "AMQ_SCHEDULED_REPEAT: 9",
         .reason = "bad-repeat"},
        {.headers = "AMQ_SCHEDULED_CRON: 0 * * *", .reason = "bad-repeat"},
        {.headers = "AMQ_SCHEDULED_CRON: 0 * * * * UTC", .reason = "bad-repeat"},
    };
    check_all("artemis", rows, COUNT(rows));
}

static void dapr_has_dates_and_durations(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {.headers = "deliverAt: 2026-01-31T12:00:01Z", .due_ms = 1000},
        {.headers = "deliverat: 1769860801000", .due_ms = 1000},
        {.headers = "deliverAt: 1769860801", .reason = "bad-delay"}, /* seconds */
        {.headers = "deliverAt: 999999999999", .reason = "bad-delay"},
        {.headers = "deliverAt: 1000000000000", .due_ms = 1000000000000 - NOW},
        {.headers = "deliverAfter: 1h0m0s", .due_ms = 3600000},
        {.headers = "deliverAfter: 1.5s", .due_ms = 1500},
        {.headers = "deliverAfter: 1h|deliverAt: 1769860801000", .due_ms = 1000},
        {.headers = "deliverAfter: 1h|deliver-after: 5s", .due_ms = 5000},
        {.headers = "deliverAfter: 30", .reason = "bad-delay"},
        {.headers = "deliverAfter: -30s", .reason = "bad-delay"},
        {.headers = "deliverAt: -1", .reason = "bad-delay"},
        {.headers = "deliverAt: soon", .reason = "bad-delay"},
        {.headers = "deliverAt: ", .reason = "bad-delay"},
        {.headers = "deliverAt: 253402300800000", .reason = "bad-delay"},
    };
    check_all("dapr", rows, COUNT(rows));
}

static void qstash_has_delays_retries_and_ids(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {.headers = "Upstash-Delay: 1d10h30m", .due_ms = DAY + INT64_C(37800000)},
        {.headers = "upstash-delay: 50s", .due_ms = 50000},
        {.headers = "Upstash-Not-Before: 1769860801", .due_ms = 1000},
        {.headers = "Upstash-Delay: 50s|Upstash-Not-Before: 1769860801", .due_ms = 1000},
        {.headers = "Upstash-Not-Before: 1769860801000", .reason = "bad-delay"},
        {.headers = "Upstash-Not-Before: later", .reason = "bad-delay"},
        {.headers = "Upstash-Delay: 50", .reason = "bad-delay"},
        {.headers = "Upstash-Retries: 0", .attempts = 1},
        {.headers = "Upstash-Retries: 3|Upstash-Deduplication-Id: abc",
         .attempts = 4,
         .id = "abc"},
        {.headers = "Upstash-Retries: 3|delay-attempts: 2", .attempts = 2},
        {.headers = "Upstash-Retries: 999999", .attempts = 1000000},
        {.headers = "Upstash-Retries: 1000000", .reason = "bad-retry"},
        {.headers = "Upstash-Retries: -1", .reason = "bad-retry"},
        {.headers = "Upstash-Deduplication-Id: ", .reason = "bad-id"},
        {.headers = "Upstash-Deduplication-Id: abc|delay-id: a", .id = "a"},
        {.headers = "Upstash-Cron: */5 * * * *", .repeat = "*/5 * * * *"},
        {.headers = "Upstash-Cron: CRON_TZ=America/New_York */5 * * * *",
         .repeat = "*/5 * * * * America/New_York"},
        {.headers = "Upstash-Cron: */5 * * * *|delay-repeat: every 1h",
         .repeat = "every 1h"},
        {.headers = "Upstash-Cron: */5 * * * *|Upstash-Delay: 5s",
         .reason = "bad-repeat"},
        {.headers = "Upstash-Cron: */5 * * *", .reason = "bad-repeat"},
        {.headers = "Upstash-Cron: CRON_TZ=UTC", .reason = "bad-repeat"},
        {.headers = "Upstash-Cron: ", .reason = "bad-repeat"},
    };
    check_all("qstash", rows, COUNT(rows));
}

static void karafka_has_types_of_records(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {.headers = "schedule_schema_version: 1.0.0|schedule_source_type: schedule|"
                    "schedule_target_epoch: 1769860801|schedule_target_topic: t|"
                    "schedule_target_key: k1|schedule_target_partition: 3",
         .key = "t-8f1",
         .due_ms = 1000,
         .id = "t-8f1",
         .op = DELAY_REPLACE,
         .to = "t",
         .out_key = "k1"},
        {.headers = "schedule_source_type: schedule|schedule_target_epoch: 1769860801",
         .key = "t-8f1",
         .due_ms = 1000,
         .id = "t-8f1",
         .op = DELAY_REPLACE,
         .out_key = NO_KEY},
        {.headers = "schedule_target_epoch: 1769860801",
         .key = "t-8f1",
         .due_ms = 1000,
         .id = "t-8f1",
         .op = DELAY_REPLACE,
         .out_key = NO_KEY},
        {.headers = "schedule_schema_version: 1.0.0|schedule_source_type: cancel",
         .key = "t-8f1",
         .tombstone = true,
         .id = "t-8f1",
         .op = DELAY_CANCEL,
         .out_key = NO_KEY},
        {.headers = "schedule_source_type: tombstone|schedule_target_epoch: 1769860801",
         .key = "t-8f1",
         .tombstone = true,
         .id = "t-8f1",
         .op = DELAY_CANCEL,
         .out_key = NO_KEY},
        /* a null payload that is scheduled */
        {.headers = "schedule_source_type: schedule|schedule_target_epoch: 1769860801",
         .key = "t-8f1",
         .tombstone = true,
         .due_ms = 1000,
         .id = "t-8f1",
         .op = DELAY_REPLACE,
         .out_key = NO_KEY},
        {.headers = "schedule_source_type: schedule|delay-op: add|delay-id: a|"
                    "deliver-after: 5s|schedule_target_epoch: 1769860801",
         .key = "t-8f1",
         .due_ms = 5000,
         .id = "a",
         .op = DELAY_ADD,
         .out_key = NO_KEY},
        {.headers = "schedule_source_type: schedule", .reason = "bad-id"},
        {.headers = "schedule_source_type: cancel", .reason = "bad-id"},
        {.headers = "schedule_source_type: event", .key = "k", .reason = "bad-op"},
        {.headers = "schedule_target_epoch: x", .key = "k", .reason = "bad-delay"},
        {.headers = "schedule_source_type: schedule|schedule_target_topic: a\nb",
         .key = "k",
         .reason = "bad-target"},
        {.headers = "schedule_schema_version: 1.0.0", .key = "k"},
    };
    check_all("karafka", rows, COUNT(rows));
}

static void headers_of_a_disabled_set_are_ordinary_headers(void **state)
{
    (void)state;
    static const struct {
        const char *set, *headers;
    } rows[] = {
        {"etf1", "scheduler-epoch: x|scheduler-target-topic: t|scheduler-target-key: k|"
                 "scheduler-timestamp: 1|scheduler-key: k|scheduler-topic: t"},
        {"nats",
         "Nats-Schedule: x|NATS-SCHEDULE-TARGET: t|Nats-Schedule-Time-Zone: z|"
         "Nats-Schedule-Source: s|Nats-Schedule-TTL: 5m|Nats-Schedule-Rollup: sub|"
         "Nats-Schedule-Next: purge|Nats-Scheduler: s"},
        {"artemis", "_AMQ_SCHED_DELIVERY: x|AMQ_SCHEDULED_TIME: x|amq_scheduled_delay: x|"
                    "AMQ_SCHEDULED_PERIOD: x|AMQ_SCHEDULED_REPEAT: x|"
                    "AMQ_SCHEDULED_CRON: x"},
        {"dapr", "deliverAt: x|deliverafter: x"},
        {"qstash", "Upstash-Delay: x|Upstash-Not-Before: x|Upstash-Retries: x|"
                   "Upstash-Deduplication-Id: a\nb|Upstash-Cron: x"},
        {"karafka", "schedule_target_epoch: x|schedule_target_topic: t|"
                    "schedule_target_key: k|schedule_source_type: x|schedule_anything: x|"
                    "schedule_and_a_name_that_is_longer_than_all_others: x"},
    };
    struct delay_rules plain = {.max_delay_ms = 30 * DAY, .hops_max = 8};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct delay_rules on = rules_of(rows[i].set), others = on;
        struct delay_read read;
        struct job *job = job_of(rows[i].headers);
        others.compat = 0xff & ~on.compat;
        for (unsigned h = 0; h < job->header_count; h++) {
            assert_true(delay_is_control(job->headers[h].name, &on));
            assert_false(delay_is_control(job->headers[h].name, &others));
            assert_false(delay_is_control(job->headers[h].name, &plain));
        }
        delay_read(job, &on, NOW, &read);
        assert_non_null(read.reason);
        delay_read(job, &others, NOW, &read);
        assert_null(read.reason);
        assert_true(read.undelayed && read.op == DELAY_ADD && read.to.p == NULL &&
                    read.key.p == NULL && read.repeat.p == NULL && read.id.p == NULL);
        job_free(job);
    }
    static const char *const common[] = {"",
                                         "schedule",
                                         "scheduled_by",
                                         "scheduler",
                                         "Nats-Msg-Id",
                                         "_AMQ",
                                         "deliver",
                                         "Upstash-",
                                         "AMQ_ID",
                                         "content-type",
                                         "upstash-forward-x-delay"};
    plain.compat = 0xff;
    for (size_t i = 0; i < COUNT(common); i++)
        assert_false(delay_is_control(slice_of(common[i]), &plain));
    assert_false(delay_is_control((struct slice){NULL, 0}, &plain));
}

static void binary_integers_count_in_the_units_of_the_set(void **state)
{
    (void)state;
    static const struct {
        const char *set, *name;
        int64_t n, due_ms;
        const char *reason;
    } rows[] = {
        {"etf1", "scheduler-epoch", 1769860801, 1000, NULL},
        {"etf1", "scheduler-epoch", NOW, 0, "bad-delay"},
        {"karafka", "schedule_target_epoch", 1769860801, 1000, NULL},
        {"artemis", "_AMQ_SCHED_DELIVERY", NOW + 5, 5, NULL},
        {"artemis", "AMQ_SCHEDULED_DELAY", 5000, 5000, NULL},
        {"artemis", "AMQ_SCHEDULED_DELAY", -5000, 0, "bad-delay"},
        {"dapr", "deliverAt", NOW + 5, 5, NULL},
        {"dapr", "deliverAt", -5, 0, "bad-delay"},
        {"qstash", "Upstash-Not-Before", 1769860801, 1000, NULL},
        {"rabbitmq", "x-delay", -5000, 0, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct delay_rules rules = rules_of(rows[i].set);
        struct delay_read read;
        char bytes[8];
        struct job *job = job_new(0);
        for (int b = 0; b < 8; b++)
            bytes[b] = (char)((uint64_t)rows[i].n >> (56 - 8 * b));
        job_add_header(job, slice_of(rows[i].name), (struct slice){bytes, 8}, NULL);
        job->key = SLICE_LIT("k");
        rules.binary_ints = true;
        delay_read(job, &rules, NOW, &read);
        if (rows[i].reason)
            assert_string_equal(read.reason, rows[i].reason);
        else
            assert_null(read.reason);
        if (rows[i].reason == NULL)
            assert_int_equal(read.due_ms, NOW + rows[i].due_ms);
        job_free(job);
    }
}

/* All sets at once: two foreign headers with the same meaning must have the same
 * value. */
static void several_sets_can_be_enabled(void **state)
{
    (void)state;
    struct delay_rules rules = {.max_delay_ms = 30 * DAY, .hops_max = 8, .compat = 0xff};
    static const struct row rows[] = {
        {.headers = "Upstash-Delay: 5s|AMQ_SCHEDULED_DELAY: 5000", .due_ms = 5000},
        {.headers = "Upstash-Delay: 5s|AMQ_SCHEDULED_DELAY: 7", .reason = "bad-delay"},
        {.headers = "AMQ_SCHEDULED_DELAY: 7|Upstash-Delay: 5s", .reason = "bad-delay"},
        {.headers = "AMQ_SCHEDULED_DELAY: 7|AMQ_SCHEDULED_DELAY: x",
         .reason = "bad-delay"},
        {.headers = "Nats-Schedule: @every 5m|Nats-Schedule: @every 6m",
         .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: @hourly|Nats-Schedule: @hourly",
         .repeat = "0 * * * *"},
        /* tarry's header has precedence, without a comparison */
        {.headers = "deliver-after: 1s|Upstash-Delay: 5s", .due_ms = 1000},
        {.headers = "AMQ_SCHEDULED_DELAY: 7|deliverAt: 1769860801000", .due_ms = 1000},
        {.headers = "Nats-Schedule: @every 5m|Upstash-Cron: */5 * * * *",
         .reason = "bad-repeat"},
        {.headers = "Nats-Schedule: @hourly|Upstash-Cron: CRON_TZ=UTC */5 * * * *",
         .repeat = "0 * * * *"},
        {.headers = "x-delay: 5|Upstash-Delay: 5s|scheduler-target-topic: t",
         .due_ms = 5,
         .key = "k",
         .id = "k",
         .op = DELAY_REPLACE,
         .to = "t",
         .out_key = NO_KEY},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check(&rows[i], &rules);
    struct delay_read read; /* a source that knows the time itself */
    struct job *job = job_of("scheduler-epoch: 1769860805|Nats-Schedule: @every 1h|"
                             "AMQ_SCHEDULED_TIME: 1|deliverAfter: 7s");
    job->after = SLICE_LIT("5s");
    job->key = SLICE_LIT("k");
    delay_read(job, &rules, NOW, &read);
    assert_null(read.reason);
    assert_int_equal(read.due_ms, NOW + 5000);
    job_free(job);
}

static void the_error_contains_the_name_of_the_foreign_header(void **state)
{
    (void)state;
    const struct delay_rules rules = rules_of("etf1");
    struct delay_read read;
    struct job *job = job_of("scheduler-epoch: 1769860801000");
    delay_read(job, &rules, NOW, &read);
    assert_non_null(strstr(read.why, "scheduler-epoch \"1769860801000\": after the year "
                                     "9999; this header is in seconds since 1970"));
    job_free(job);
    job = job_of("scheduler-epoch: 1769860801");
    delay_read(job, &rules, NOW, &read);
    assert_non_null(strstr(read.why, "the key of the record must contain the id"));
    job_free(job);
    const struct delay_rules artemis = rules_of("artemis");
    job = job_of("_AMQ_SCHED_DELIVERY: 1769860801");
    delay_read(job, &artemis, NOW, &read);
    assert_non_null(
        strstr(read.why, "these are seconds; this header is in ms since 1970"));
    job_free(job);
    const struct delay_rules nats = rules_of("nats");
    job = job_of("Nats-Schedule: 0 0 9 * * * UTC");
    delay_read(job, &nats, NOW, &read);
    assert_non_null(
        strstr(read.why, "Nats-Schedule \"0 0 9 * * * UTC\": not a schedule"));
    assert_non_null(strstr(read.why, "six fields"));
    job_free(job);
}

static void a_row_is_found_whatever_its_first_letter_and_length(void **state)
{
    (void)state;
    static const struct delay_row rows[] = {
        {SLICE_LIT("x-later"), SLOT_AFTER, 0, 1, NULL, NULL},
        {SLICE_LIT("q"), SLOT_AFTER, 0, 2, NULL, NULL},
        {SLICE_LIT("_a-name-of-thirty-one-bytes-all"), SLOT_AFTER, 0, 2, NULL, NULL},
        {SLICE_LIT("9-Days"), SLOT_AFTER, 0, 0, NULL, NULL},
    };
    struct delay_table t = {.rows = rows, .count = COUNT(rows)};
    delay_table_init(&t);
    assert_ptr_equal(delay_table_find(&t, SLICE_LIT("X-Later"), 1), &rows[0]);
    assert_ptr_equal(delay_table_find(&t, SLICE_LIT("Q"), 3), &rows[1]);
    assert_ptr_equal(delay_table_find(&t, rows[2].name, 2), &rows[2]);
    assert_ptr_equal(delay_table_find(&t, SLICE_LIT("9-dayS"), 0), &rows[3]);
    assert_null(delay_table_find(&t, SLICE_LIT("x-later"), 2)); /* another set */
    assert_null(delay_table_find(&t, SLICE_LIT("x-latex"), 3));
    assert_null(delay_table_find(&t, SLICE_LIT("x-"), 3));
    assert_null(delay_table_find(&t, SLICE_LIT(""), 3));
    char name[64]; /* longer than any name by a whole turn of the bits */
    memset(name, 'x', sizeof(name));
    assert_null(delay_table_find(&t, (struct slice){name, 33}, 3));
}

UNIT(compat)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_have_names),
        cmocka_unit_test(rabbitmq_delivers_a_negative_delay_at_once),
        cmocka_unit_test(etf1_keeps_a_schedule_for_each_key),
        cmocka_unit_test(nats_schedules_once_by_interval_or_by_line),
        cmocka_unit_test(a_time_zone_name_that_is_too_long_is_rejected),
        cmocka_unit_test(artemis_counts_in_ms),
        cmocka_unit_test(dapr_has_dates_and_durations),
        cmocka_unit_test(qstash_has_delays_retries_and_ids),
        cmocka_unit_test(karafka_has_types_of_records),
        cmocka_unit_test(headers_of_a_disabled_set_are_ordinary_headers),
        cmocka_unit_test(binary_integers_count_in_the_units_of_the_set),
        cmocka_unit_test(several_sets_can_be_enabled),
        cmocka_unit_test(the_error_contains_the_name_of_the_foreign_header),
        cmocka_unit_test(a_row_is_found_whatever_its_first_letter_and_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
