/* SPDX-License-Identifier: BSD-2-Clause */
/* Repeats: their text, the next run, and the effect of summer time. The zones are those
 * of the system. Instants are in years whose clock changes are history, except for
 * 2099. */
#include "bridge/base/mem.h"
#include "bridge/base/when.h"
#include "bridge/job/delay.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Copy a text to exactly its length, so that the sanitizer detects an overread. */
static struct slice exactly(const char *text)
{
    size_t n = strlen(text);
    char *copy = mem_alloc(n);
    memcpy(copy, text, n);
    return (struct slice){copy, n};
}

static int read_one(const char *text, struct repeat *r, struct err *err)
{
    struct slice s = exactly(text);
    int rc = repeat_parse(s, r, err);
    free((void *)(uintptr_t)s.p);
    return rc;
}

static struct repeat good(const char *text)
{
    struct repeat r;
    struct err err = {""};
    if (read_one(text, &r, &err) < 0)
        fail_msg("\"%s\": %s", text, err.text);
    return r;
}

static int64_t instant(const char *text)
{
    int64_t ms = -1;
    if (when_instant_ms(slice_of(text), &ms, NULL) < 0)
        fail_msg("the test's own instant \"%s\"", text);
    return ms;
}

struct row { /* after: the following runs, one after the other */
    const char *text, *after, *runs[5];
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct repeat r = good(rows[i].text);
        int64_t at = instant(rows[i].after);
        for (size_t j = 0; j < 5 && rows[i].runs[j]; j++) {
            char text[WHEN_TEXT_BYTES];
            at = repeat_next_ms(&r, at, at);
            when_format_rfc3339(at, text);
            if (at != instant(rows[i].runs[j]))
                fail_msg("\"%s\" after %s, run %zu: %s, not %s", rows[i].text,
                         rows[i].after, j + 1, text, rows[i].runs[j]);
        }
    }
}

static void a_line_runs_when_all_its_fields_fit(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"* * * * *",
         "2026-01-31T23:58:30Z",
         {"2026-01-31T23:59:00Z", "2026-02-01T00:00:00Z"}},
        {"* * * * *", "2026-01-31T23:59:00Z", {"2026-02-01T00:00:00Z"}},
        {"* * * * *", "2026-01-31T23:58:59.999Z", {"2026-01-31T23:59:00Z"}},
        {"*/5 * * * *",
         "2026-03-01T10:52:00Z",
         {"2026-03-01T10:55:00Z", "2026-03-01T11:00:00Z"}},
        {"10-20/5 3 * * *",
         "2026-03-01T03:12:00Z",
         {"2026-03-01T03:15:00Z", "2026-03-01T03:20:00Z", "2026-03-02T03:10:00Z"}},
        {"1,2,30-31,59 23 31 12 *",
         "2026-03-01T03:12:00Z",
         {"2026-12-31T23:01:00Z", "2026-12-31T23:02:00Z", "2026-12-31T23:30:00Z",
          "2026-12-31T23:31:00Z"}},
        {"0 9 * * 1-5",
         "2026-01-02T09:00:00Z",
         {"2026-01-05T09:00:00Z", "2026-01-06T09:00:00Z"}},
        {"0 9 * * mon-FRI", "2026-01-02T09:00:00Z", {"2026-01-05T09:00:00Z"}},
        {"0 0 * * 0", "2026-01-02T09:00:00Z", {"2026-01-04T00:00:00Z"}},
        {"0 0 * * 7", "2026-01-02T09:00:00Z", {"2026-01-04T00:00:00Z"}},
        {"0 0 * * Sun", "2026-01-02T09:00:00Z", {"2026-01-04T00:00:00Z"}},
        {"0 0 * * 5-7",
         "2026-01-02T09:00:00Z",
         {"2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-09T00:00:00Z"}},
        {"0 0 1 jan,Jul *",
         "2026-01-02T09:00:00Z",
         {"2026-07-01T00:00:00Z", "2027-01-01T00:00:00Z"}},
        {"0 0 31 * *",
         "2026-01-31T00:00:00Z",
         {"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"}},
        {"\t 5  4\t* * * ", "2026-01-02T09:00:00Z", {"2026-01-03T04:05:00Z"}},
        {"00 009 * * *", "2026-01-02T09:00:00Z", {"2026-01-03T09:00:00Z"}},
        {"@hourly", "2026-01-02T09:00:00Z", {"2026-01-02T10:00:00Z"}},
        {"@daily", "2026-01-02T09:00:00Z", {"2026-01-03T00:00:00Z"}},
        {"@midnight UTC", "2026-01-02T09:00:00Z", {"2026-01-03T00:00:00Z"}},
        {"@weekly", "2026-01-02T09:00:00Z", {"2026-01-04T00:00:00Z"}},
        {"@monthly Etc/UTC", "2026-01-02T09:00:00Z", {"2026-02-01T00:00:00Z"}},
        {"@yearly", "2026-01-02T09:00:00Z", {"2027-01-01T00:00:00Z"}},
        {"@Annually", "2026-01-02T09:00:00Z", {"2027-01-01T00:00:00Z"}},
    };
    check_rows(rows, COUNT(rows));
}

static void day_and_weekday_mean_either_unless_one_is_a_star(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0 0 13 * fri",
         "2026-02-01T00:00:00Z",
         {"2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"}},
        {"0 0 13 1 fri",
         "2026-01-09T00:00:00Z",
         {"2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z"}},
        /* A star with a step is a star: then both must match. */
        {"0 0 */13 * fri",
         "2026-02-01T00:00:00Z",
         {"2026-02-27T00:00:00Z", "2026-03-27T00:00:00Z"}},
        {"0 0 13 * */5",
         "2026-02-01T00:00:00Z",
         {"2026-02-13T00:00:00Z", "2026-03-13T00:00:00Z", "2026-09-13T00:00:00Z"}},
        {"0 0 1-31 * fri", "2026-02-01T00:00:00Z", {"2026-02-02T00:00:00Z"}},
    };
    check_rows(rows, COUNT(rows));
}

static void a_rare_day_is_found_years_ahead(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0 0 29 2 *",
         "2026-01-01T00:00:00Z",
         {"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
        {"0 0 29 2 *", "2096-02-29T00:00:00Z", {"2104-02-29T00:00:00Z"}},
        {"0 0 29 2 */7",
         "2088-02-29T00:00:00Z",
         {"2128-02-29T00:00:00Z", "2156-02-29T00:00:00Z"}},
    };
    check_rows(rows, COUNT(rows));
}

static void a_day_that_does_not_exist_has_no_run(void **state)
{
    (void)state;
    static const char *const rows[] = {"0 0 30 2 *", "0 0 31 2,4,6,9,11 *",
                                       "0 0 30 2 * Europe/Berlin"};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct repeat r = good(rows[i]);
        assert_int_equal(repeat_next_ms(&r, 0, instant("2026-01-01T00:00:00Z")), -1);
    }
}

static void
what_the_clocks_skip_runs_after_the_gap_and_what_comes_twice_once(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* Germany 2025: 02:00 to 03:00 on 30 March, 03:00 to 02:00 on 26 October. */
        {"30 2 * * * Europe/Berlin",
         "2025-03-29T00:00:00Z",
         {"2025-03-29T01:30:00Z", "2025-03-30T01:00:00Z", "2025-03-31T00:30:00Z"}},
        {"30 2 * * * Europe/Berlin",
         "2025-10-25T00:00:00Z",
         {"2025-10-25T00:30:00Z", "2025-10-26T00:30:00Z", "2025-10-27T01:30:00Z"}},
        {"*/20 * * * * Europe/Berlin",
         "2025-03-30T00:30:00Z",
         {"2025-03-30T00:40:00Z", "2025-03-30T01:00:00Z", "2025-03-30T01:20:00Z"}},
        {"*/20 * * * * Europe/Berlin",
         "2025-10-26T00:20:00Z",
         /* A line with every hour continues through the repeated hour. */
         {"2025-10-26T00:40:00Z", "2025-10-26T01:00:00Z", "2025-10-26T01:20:00Z",
          "2025-10-26T01:40:00Z", "2025-10-26T02:00:00Z"}},
        {"15 * * * * Europe/Berlin",
         "2025-10-26T00:20:00Z",
         {"2025-10-26T01:15:00Z", "2025-10-26T02:15:00Z"}},
        {"*/20 * * * * Europe/Berlin",
         "2025-10-26T01:30:00Z", /* in the middle of the repeated hour */
         {"2025-10-26T01:40:00Z", "2025-10-26T02:00:00Z"}},
        {"*/20 0-12 * * * Europe/Berlin", /* not every hour: once */
         "2025-10-26T00:30:00Z",
         {"2025-10-26T00:40:00Z", "2025-10-26T02:00:00Z"}},
        {"0 9 * * 1-5 Europe/Berlin",
         "2025-03-28T08:00:00Z",
         {"2025-03-31T07:00:00Z", "2025-04-01T07:00:00Z"}},
        /* Three of its times are in the gap: they become one run. */
        {"15,30,45 2 * * * Europe/Berlin",
         "2025-03-29T01:45:00Z",
         {"2025-03-30T01:00:00Z", "2025-03-31T00:15:00Z"}},
        /* The eastern United States 2025: 9 March, 2 November, at two. */
        {"30 2 * * * America/New_York",
         "2025-03-08T12:00:00Z",
         {"2025-03-09T07:00:00Z", "2025-03-10T06:30:00Z"}},
        {"30 1 * * * America/New_York",
         "2025-11-01T12:00:00Z",
         {"2025-11-02T05:30:00Z", "2025-11-03T06:30:00Z"}},
        /* Half an hour on Lord Howe: back on 6 April 2025, on again on 5 October. */
        {"15 2 * * * Australia/Lord_Howe",
         "2025-10-03T15:45:00Z",
         {"2025-10-04T15:30:00Z", "2025-10-05T15:15:00Z"}},
        {"45 1 * * * Australia/Lord_Howe",
         "2025-04-04T15:00:00Z",
         {"2025-04-05T14:45:00Z", "2025-04-06T15:15:00Z"}},
        {"0 2 * * * Australia/Lord_Howe",
         "2025-04-05T14:50:00Z",
         {"2025-04-05T15:30:00Z"}},
        /* Newfoundland: three and a half hours behind. */
        {"30 2 * * * America/St_Johns",
         "2025-03-08T12:00:00Z",
         {"2025-03-09T05:30:00Z", "2025-03-10T05:00:00Z"}},
        {"30 1 * * * America/St_Johns",
         "2025-11-01T12:00:00Z",
         {"2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"}},
        /* Morocco 2025: an hour back for Ramadan, on 23 February, on again on 6 April. */
        {"30 2 * * * Africa/Casablanca",
         "2025-02-22T12:00:00Z",
         {"2025-02-23T01:30:00Z", "2025-02-24T02:30:00Z"}},
        {"30 2 * * * Africa/Casablanca",
         "2025-04-05T12:00:00Z",
         {"2025-04-06T02:00:00Z", "2025-04-07T01:30:00Z"}},
        /* Never, except at a quarter to. */
        {"0 9 * * * Asia/Kathmandu",
         "2025-03-30T00:00:00Z",
         {"2025-03-30T03:15:00Z", "2025-03-31T03:15:00Z"}},
        /* A gap at midnight: 9 March 2025 starts at one in Havana. */
        {"@daily America/Havana",
         "2025-03-08T12:00:00Z",
         {"2025-03-09T05:00:00Z", "2025-03-10T04:00:00Z"}},
        /* A whole day: Samoa had no 30 December 2011. */
        {"0 12 * * * Pacific/Apia",
         "2011-12-29T12:00:00Z",
         {"2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"}},
        /* By the rules, beyond the end of the tables. */
        {"30 2 * * * Europe/Berlin",
         "2099-03-28T12:00:00Z",
         {"2099-03-29T01:00:00Z", "2099-03-30T00:30:00Z"}},
        {"30 2 * * * Europe/Berlin",
         "2099-10-24T12:00:00Z",
         {"2099-10-25T00:30:00Z", "2099-10-26T01:30:00Z"}},
        {"0 9 * * * Australia/Lord_Howe",
         "2099-01-01T00:00:00Z",
         {"2099-01-01T22:00:00Z"}},
        /* Winter time is the exception in Ireland, with a rule that GLib misreads. */
        {"0 9 * * * Europe/Dublin", "2099-01-01T00:00:00Z", {"2099-01-01T09:00:00Z"}},
        {"0 9 * * * Europe/Dublin", "2099-07-01T00:00:00Z", {"2099-07-01T08:00:00Z"}},
        {"30 1 * * * Europe/Dublin",
         "2099-03-28T12:00:00Z",
         {"2099-03-29T01:00:00Z", "2099-03-30T00:30:00Z"}},
    };
    check_rows(rows, COUNT(rows));
}

static void an_interval_counts_from_the_first_run(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t due_ms, after_ms, next_ms;
    } rows[] = {
        {"every 5m", 1000, 1000, 301000},
        {"every 5m", 1000, 300999, 301000},
        {"every 5m", 1000, 301000, 601000},
        {"Every  1s", 500, 86400000, 86400500},
        {"every PT1H", 0, 0, 3600000},
        {"every 1h30m", 7, 5400006, 5400007},
        {"every 1ms", 0, INT64_C(1800000000000), INT64_C(1800000000001)},
        {"every 5m", 301000, 1000, 601000}, /* the previous run is not returned again */
        {"every 5m", -77, -99, 300000},
        {"every 5m", INT64_MIN, INT64_MAX, -1},
        {"every 5m", INT64_MAX, INT64_MIN, -1},
        {"every 1ms", 0, WHEN_LAST_MS - 1, WHEN_LAST_MS},
        {"every 1ms", 0, WHEN_LAST_MS, -1},
        {"every 9223372036854775807ms", 0, 0, -1},
        {"every 9223372036854775807ms", 5, WHEN_LAST_MS, -1},
        {"every 253402300799999ms", 0, 0, WHEN_LAST_MS},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct repeat r = good(rows[i].text);
        int64_t got = repeat_next_ms(&r, rows[i].due_ms, rows[i].after_ms);
        if (got != rows[i].next_ms)
            fail_msg("\"%s\", row %zu: %lld, not %lld", rows[i].text, i, (long long)got,
                     (long long)rows[i].next_ms);
    }
}

static void a_line_has_valid_runs_at_the_limits_of_time(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t after_ms, next_ms;
    } rows[] = {
        {"* * * * *", 0, 60000},
        {"* * * * *", INT64_MIN, 60000},
        {"* * * * *", INT64_MAX, -1},
        {"* * * * *", WHEN_LAST_MS, -1},
        {"59 23 31 12 *", WHEN_LAST_MS - 60000, INT64_C(253402300740000)},
        {"* * * * * Pacific/Kiritimati", WHEN_LAST_MS, -1},
        {"0 0 1 1 * America/Los_Angeles", 0, INT64_C(28800000)},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct repeat r = good(rows[i].text);
        int64_t got = repeat_next_ms(&r, 0, rows[i].after_ms);
        if (got != rows[i].next_ms)
            fail_msg("\"%s\" after %lld: %lld", rows[i].text, (long long)rows[i].after_ms,
                     (long long)got);
    }
}

static void the_shortest_time_between_two_runs_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t least_min;
    } rows[] = {
        {"every 7m", 7},        {"* * * * *", 1},        {"*/15 * * * *", 15},
        {"0 9 * * *", 1440},    {"0 9,17 * * 1-5", 480}, {"5,50 * * * *", 15},
        {"@hourly", 60},        {"0 0,23 * * *", 60},    {"59,0 * * * *", 1},
        {"0,59 0,23 * * *", 1}, {"10,30 12 * * *", 20},  {"0 0 30 2 *", 1440},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct repeat r = good(rows[i].text);
        if (repeat_least_ms(&r) != rows[i].least_min * 60000)
            fail_msg("\"%s\": %lld ms", rows[i].text, (long long)repeat_least_ms(&r));
    }
}

static void an_invalid_repetition_is_rejected_with_an_error_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"", "empty; write five fields"},
        {" \t ", "empty"},
        {"every", "every: empty; write a number and its unit"},
        {"every 5", "a number without a unit"},
        {"every 0s", "the interval must not be 0"},
        {"every -5s", "the duration is negative"},
        {"every 5m Europe/Berlin", "it has no time zone"},
        {"every day", "every: not a duration"},
        {"5m", "minute \"5m\": write *, a number from 0 to 59"},
        {"0 9 * *", "the field weekday is missing; write five fields"},
        {"0", "the field hour is missing"},
        {"60 * * * *", "minute \"60\""},
        {"* 24 * * *", "hour \"24\": write *, a number from 0 to 23"},
        {"* * 0 * *", "day \"0\": write *, a number from 1 to 31"},
        {"* * 32 * *", "day \"32\""},
        {"* * * 13 *",
         "month \"13\": write *, a number from 1 to 12, a name of three letters"},
        {"* * * 0 *", "month \"0\""},
        {"* * * * 8", "weekday \"8\": write *, a number from 0 to 7"},
        {"-1 * * * *", "minute \"-1\""},
        {"+1 * * * *", "minute \"+1\""},
        {"1.5 * * * *", "minute \"1.5\""},
        {"99999999999999999999 * * * *", "minute \"9999"},
        {"4294967296 * * * *", "minute \"4294967296\""},
        {"jan * * * *", "minute \"jan\""},
        {"* * * january *", "month \"january\""},
        {"* * * ja *", "month \"ja\""},
        {"* * * anf *", "month \"anf\""},
        {"* * * * mo", "weekday \"mo\""},
        {"? * * * *", "minute \"?\""},
        {"* * L * *", "day \"L\""},
        {"* * * * 5#2", "weekday \"5#2\""},
        {"5/15 * * * *", "minute \"5/15\": a step requires * or a range; write 5-59/15"},
        {"*/0 * * * *", "minute \"*/0\": a step must be from 1 to 59"},
        {"*/90 * * * *", "minute \"*/90\": a step must be from 1 to 59"},
        {"*/ * * * *", "minute \"*/\""},
        {"*/* * * * *", "minute \"*/*\""},
        {"*/2/3 * * * *", "minute \"*/2/3\""},
        {"*5 * * * *", "minute \"*5\""},
        {"*-5 * * * *", "minute \"*-5\""},
        {"20-10 * * * *", "minute \"20-10\": write the smaller number first"},
        {"* * * * fri-sun", "weekday \"fri-sun\": write the smaller number first; at the "
                            "end of a range, Sunday is 7"},
        {"1-2-3 * * * *", "minute \"1-2-3\""},
        {"1- * * * *", "minute \"1-\""},
        {"10-60 * * * *", "minute \"10-60\""},
        {"1,,2 * * * *", "minute \"\""},
        {"1, * * * *", "minute \"\""},
        {", * * * *", "minute \"\""},
        {"@reboot", "\"@reboot\" is unknown; write @hourly"},
        {"@every 5m", "\"@every\""},
        {"@", "\"@\""},
        {"@daily @daily", "not the name of a time zone"},
        {"* * * * * *", "a sixth field; seconds and years are not supported"},
        {"0 0 9 * * 1-5", "a sixth field"},
        {"0 9 * * * 2026", "a sixth field"},
        {"0 9 * * * Europe/Berlin x", "unexpected text after the time zone"},
        {"0 9 * * * Europe/Atlantis", "no time zone \"Europe/Atlantis\" in /"},
        {"0 9 * * * Berlin", "no time zone \"Berlin\""},
        {"0 9 * * * Europe", "no time zone \"Europe\""},
        {"0 9 * * * Europe/Berlin/X", "no time zone \"Europe/Berlin/X\""},
        {"0 9 * * * europe/berlin", "not the name of a time zone; write one such as"},
        {"0 9 * * * ../../etc/passwd", "not the name of a time zone"},
        {"0 9 * * * /etc/localtime", "not the name of a time zone"},
        {"0 9 * * * /usr/share/zoneinfo/Europe/Berlin", "not the name of a time zone"},
        {"0 9 * * * Europe/../Europe/Berlin", "not the name of a time zone"},
        {"0 9 * * * Europe/./Berlin", "not the name of a time zone"},
        {"0 9 * * * Europe//Berlin", "not the name of a time zone"},
        {"0 9 * * * Europe/", "not the name of a time zone"},
        {"0 9 * * * :Europe/Berlin", "not the name of a time zone"},
        {"0 9 * * * :", "not the name of a time zone"},
        {"0 9 * * * posix/Europe/Berlin", "not the name of a time zone"},
        {"0 9 * * * right/Europe/Berlin", "not the name of a time zone"},
        {"0 9 * * * localtime", "not the name of a time zone"},
        {"0 9 * * * zone.tab", "not the name of a time zone"},
        {"0 9 * * * +01:00", "not the name of a time zone"},
        {"0 9 * * * Z", "no time zone \"Z\""},
        {"0 9 * * * ABC5", "no time zone \"ABC5\""},
        {"0 9 * * * ABC5DEF,M3.2.0,M11.1.0", "not the name of a time zone"},
        {"0 9 * * * "
         "Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "not the name of a time zone"},
        {"0 9\n* * *", "byte 4 is not printable ASCII"},
        {"0 9 * * \xc3\xa4", "byte 9 is not printable ASCII"},
        {"0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
         "0,"
         "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 * * * *",
         "longer than 128 bytes"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct repeat r;
        struct err err = {""};
        if (read_one(rows[i].text, &r, &err) == 0)
            fail_msg("\"%s\" is taken", rows[i].text);
        if (strstr(err.text, rows[i].words) == NULL)
            fail_msg("\"%s\": %s", rows[i].text, err.text);
    }
}

static void a_nul_is_no_part_of_a_repeat(void **state)
{
    (void)state;
    struct repeat r;
    assert_int_equal(repeat_parse(SLICE_LIT("every 5m\0"), &r, NULL), -1);
    assert_int_equal(repeat_parse(SLICE_LIT("0 9 * * * Europe/Berlin\0"), &r, NULL), -1);
    assert_int_equal(repeat_parse((struct slice){NULL, 0}, &r, NULL), -1);
}

static void a_zone_is_read_once(void **state)
{
    (void)state;
    struct zone *one = NULL, *two = NULL, *other = NULL;
    assert_int_equal(zone_named(SLICE_LIT("Europe/Berlin"), &one, NULL), 0);
    assert_int_equal(zone_named(SLICE_LIT("Asia/Tokyo"), &other, NULL), 0);
    assert_int_equal(zone_named(SLICE_LIT("Europe/Berlin"), &two, NULL), 0);
    assert_ptr_equal(one, two);
    assert_ptr_not_equal(one, other);
    assert_int_equal(zone_offset_s(other, 0), 9 * 3600);
    assert_int_equal(zone_offset_s(NULL, 0), 0);
}

static void without_installed_zones_an_error_names_them_and_utc_works(void **state)
{
    (void)state;
    struct repeat r;
    struct err err = {""};
    setenv("TZDIR", "/nowhere/at/all", 1);
    int rc = read_one("0 9 * * * Europe/Oslo", &r, &err);
    good("0 9 * * * UTC");
    unsetenv("TZDIR");
    assert_int_equal(rc, -1);
    assert_string_equal(
        err.text,
        "there are no time zones in /nowhere/at/all; install tzdata, or write UTC");
    good("0 9 * * * Europe/Oslo"); /* the absence of a zone is not cached */
}

/* A file of the folder that is not a zone, about which GLib would complain. */
static void an_invalid_time_zone_file_is_rejected(void **state)
{
    (void)state;
    char folder[] = "/tmp/tarry-zone-XXXXXX", path[64];
    struct repeat r;
    struct err err = {""};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/README", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("Not a zone, but as long as the head of one.........", file);
    fclose(file);
    setenv("TZDIR", folder, 1);
    int rc = read_one("0 9 * * * README", &r, &err);
    unsetenv("TZDIR");
    unlink(path);
    rmdir(folder);
    assert_int_equal(rc, -1);
    assert_non_null(strstr(err.text, "no time zone \"README\""));
}

UNIT(repeat)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_runs_when_all_its_fields_fit),
        cmocka_unit_test(day_and_weekday_mean_either_unless_one_is_a_star),
        cmocka_unit_test(a_rare_day_is_found_years_ahead),
        cmocka_unit_test(a_day_that_does_not_exist_has_no_run),
        cmocka_unit_test(
            what_the_clocks_skip_runs_after_the_gap_and_what_comes_twice_once),
        cmocka_unit_test(an_interval_counts_from_the_first_run),
        cmocka_unit_test(a_line_has_valid_runs_at_the_limits_of_time),
        cmocka_unit_test(the_shortest_time_between_two_runs_is_known),
        cmocka_unit_test(an_invalid_repetition_is_rejected_with_an_error_text),
        cmocka_unit_test(a_nul_is_no_part_of_a_repeat),
        cmocka_unit_test(a_zone_is_read_once),
        cmocka_unit_test(without_installed_zones_an_error_names_them_and_utc_works),
        cmocka_unit_test(an_invalid_time_zone_file_is_rejected),
    };
    g_log_set_always_fatal(G_LOG_LEVEL_CRITICAL); /* no name may make GLib complain */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
