/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit_when.c - durations and instants of bridge/base/when.h, row by row.
 */
#include "bridge/base/when.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define H INT64_C(3600000)
#define D (24 * H)

struct good {
    const char *text;
    enum when_unit bare;
    int64_t ms;
};

/* Copy a text without a NUL behind it, so that the sanitizer detects an overread. */
static struct slice exactly(const char *text)
{
    size_t n = strlen(text);
    char *p = malloc(n ? n : 1);
    assert_non_null(p);
    memcpy(p, text, n);
    return (struct slice){p, n};
}

static void check_duration(const struct good *row)
{
    struct slice s = exactly(row->text);
    struct err err = {""};
    int64_t ms = -7;
    if (when_duration_ms(s, row->bare, &ms, &err) < 0 || ms != row->ms)
        fail_msg("\"%s\": %lld, not %lld: %s", row->text, (long long)ms,
                 (long long)row->ms, err.text);
    free((void *)(uintptr_t)s.p);
}

static void a_duration_is_numbers_with_units(void **state)
{
    (void)state;
    static const struct good rows[] = {
        {"1500ms", WHEN_NO_UNIT, 1500},
        {"30s", WHEN_NO_UNIT, 30000},
        {"5m", WHEN_NO_UNIT, 300000},
        {"1h30m", WHEN_NO_UNIT, H + H / 2},
        {"7d", WHEN_NO_UNIT, 7 * D},
        {"1w", WHEN_NO_UNIT, 7 * D},
        {"1w2d3h4m5s6ms", WHEN_NO_UNIT, 9 * D + 3 * H + 245006},
        {"90m", WHEN_NO_UNIT, H + H / 2},
        {"0s", WHEN_NO_UNIT, 0},
        {"007s", WHEN_NO_UNIT, 7000},
        {"9223372036854775807ms", WHEN_NO_UNIT, INT64_MAX},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_duration(&rows[i]);
}

static void a_fraction_is_rounded_up_and_exact(void **state)
{
    (void)state;
    static const struct good rows[] = {
        {"1.5s", WHEN_NO_UNIT, 1500},
        {"1.5h", WHEN_NO_UNIT, H + H / 2},
        {"1h1.5m", WHEN_NO_UNIT, H + 90000},
        {"0.0001s", WHEN_NO_UNIT, 1},
        {"0.001s", WHEN_NO_UNIT, 1},
        {"0.0010s", WHEN_NO_UNIT, 1},
        {"0.00100000000000000000000000000000000001s", WHEN_NO_UNIT, 2},
        {"1.0000000000000000000000000000s", WHEN_NO_UNIT, 1000},
        {"0.1ms", WHEN_NO_UNIT, 1},
        {"0.999999999999999999999w", WHEN_NO_UNIT, 7 * D},
        {"0.3s", WHEN_NO_UNIT, 300},
        {"PT0.5S", WHEN_NO_UNIT, 500},
        {"PT0,5S", WHEN_NO_UNIT, 500},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_duration(&rows[i]);
}

static void iso_8601_durations_are_read_too(void **state)
{
    (void)state;
    static const struct good rows[] = {
        {"PT5M", WHEN_NO_UNIT, 300000},  {"P1DT12H", WHEN_NO_UNIT, D + 12 * H},
        {"P1D", WHEN_NO_UNIT, D},        {"P2W", WHEN_NO_UNIT, 14 * D},
        {"pt5m", WHEN_NO_UNIT, 300000},  {"PT1H2M3S", WHEN_NO_UNIT, H + 123000},
        {"PT0S", WHEN_NO_UNIT, 0},       {"P1W1DT1H", WHEN_NO_UNIT, 8 * D + H},
        {"PT36H", WHEN_NO_UNIT, 36 * H},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_duration(&rows[i]);
}

static void a_bare_integer_uses_the_configured_unit(void **state)
{
    (void)state;
    static const struct good rows[] = {
        {"30", WHEN_S, 30000},   {"30", WHEN_MS, 30},  {"0", WHEN_S, 0},
        {"30s", WHEN_MS, 30000}, {"30ms", WHEN_S, 30},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_duration(&rows[i]);
}

static void an_invalid_duration_is_rejected_with_an_error_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum when_unit bare;
    } rows[] = {
        {"", WHEN_S},
        {"30", WHEN_NO_UNIT},
        {"0", WHEN_NO_UNIT},
        {"-5s", WHEN_NO_UNIT},
        {"-5", WHEN_S},
        {"+5s", WHEN_NO_UNIT},
        {" 5s", WHEN_NO_UNIT},
        {"5s ", WHEN_NO_UNIT},
        {"5 s", WHEN_NO_UNIT},
        {"5S", WHEN_NO_UNIT},
        {"5M", WHEN_NO_UNIT},
        {"5y", WHEN_NO_UNIT},
        {"5sec", WHEN_NO_UNIT},
        {"s", WHEN_NO_UNIT},
        {"1m1h", WHEN_NO_UNIT},
        {"1s1s", WHEN_NO_UNIT},
        {"1h30", WHEN_S},
        {"1.5h30m", WHEN_NO_UNIT},
        {"1.s", WHEN_NO_UNIT},
        {".5s", WHEN_NO_UNIT},
        {"1,5s", WHEN_NO_UNIT},
        {"1..5s", WHEN_NO_UNIT},
        {"1e3s", WHEN_NO_UNIT},
        {"0x10s", WHEN_NO_UNIT},
        {"P", WHEN_S},
        {"PT", WHEN_S},
        {"P1", WHEN_S},
        {"PT5", WHEN_S},
        {"P1DT", WHEN_NO_UNIT},
        {"P1M", WHEN_NO_UNIT},
        {"P1Y", WHEN_NO_UNIT},
        {"PT1D", WHEN_NO_UNIT},
        {"P1H", WHEN_NO_UNIT},
        {"PT1S1M", WHEN_NO_UNIT},
        {"PT1HT1M", WHEN_NO_UNIT},
        {"PT0.5M1S", WHEN_NO_UNIT},
        {"P-1D", WHEN_NO_UNIT},
        {"-P1D", WHEN_NO_UNIT},
        {"PT5M ", WHEN_NO_UNIT},
        {"9223372036854775808ms", WHEN_NO_UNIT},
        {"9223372036854775807s", WHEN_NO_UNIT},
        {"99999999999999999999999w", WHEN_NO_UNIT},
        {"9223372036854775s807.5ms", WHEN_NO_UNIT},
        {"9223372036854775808", WHEN_MS},
        {"30s\n", WHEN_NO_UNIT},
        {"drei", WHEN_NO_UNIT},
        {"\xc2\xa0"
         "5s",
         WHEN_NO_UNIT},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice s = exactly(rows[i].text);
        struct err err = {""};
        int64_t ms = -7;
        if (when_duration_ms(s, rows[i].bare, &ms, &err) == 0 || ms != -7 ||
            err.text[0] == '\0')
            fail_msg("\"%s\" is read as %lld", rows[i].text, (long long)ms);
        free((void *)(uintptr_t)s.p);
    }
}

static void a_nul_is_no_part_of_a_time(void **state)
{
    (void)state;
    int64_t ms;
    assert_int_equal(when_duration_ms(SLICE_LIT("5s\0"), WHEN_S, &ms, NULL), -1);
    assert_int_equal(when_duration_ms(SLICE_LIT("5\0s"), WHEN_S, &ms, NULL), -1);
    assert_int_equal(when_duration_ms(SLICE_LIT("\0"), WHEN_S, &ms, NULL), -1);
    assert_int_equal(when_instant_ms(SLICE_LIT("2026-01-31\00012:00:00Z"), &ms, NULL),
                     -1);
    assert_int_equal(when_instant_ms(SLICE_LIT("17\0"), &ms, NULL), -1);
    assert_int_equal(when_instant_ms((struct slice){NULL, 0}, &ms, NULL), -1);
}

static void an_instant_is_rfc_3339_or_an_epoch(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-01-31T12:00:00Z", INT64_C(1769860800000)},
        {"2026-01-31t12:00:00z", INT64_C(1769860800000)},
        {"2026-01-31 12:00:00Z", INT64_C(1769860800000)},
        {"2026-01-31T13:00:00+01:00", INT64_C(1769860800000)},
        {"2026-01-31T06:30:00-05:30", INT64_C(1769860800000)},
        {"2026-02-01T11:59:00+23:59", INT64_C(1769860800000)},
        {"2026-01-31T12:00:00-00:00", INT64_C(1769860800000)},
        {"2026-01-31T12:00:00.123Z", INT64_C(1769860800123)},
        {"2026-01-31T12:00:00.5Z", INT64_C(1769860800500)},
        {"2026-01-31T12:00:00.1230001Z", INT64_C(1769860800124)},
        {"2026-01-31T12:00:00.123000000Z", INT64_C(1769860800123)},
        {"2026-01-31T23:59:59.9999Z", INT64_C(1769904000000)},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000)},
        {"2017-01-01T00:59:60.5+01:00", INT64_C(1483228800500)},
        {"2024-02-29T00:00:00Z", INT64_C(1709164800000)},
        {"2000-02-29T00:00:00Z", INT64_C(951782400000)},
        {"1969-12-31T23:59:59.999Z", -1},
        {"0001-01-01T00:00:00Z", INT64_C(-62135596800000)},
        {"0000-01-01T00:00:00Z", INT64_C(-62167219200000)},
        {"9999-12-31T23:59:59.999Z", WHEN_LAST_MS},
        {"0", 0},
        {"1769860800", INT64_C(1769860800000)},
        {"1769860800123", INT64_C(1769860800123)},
        {"1000000000000", INT64_C(1000000000000)},
        {"253402300799", INT64_C(253402300799000)},
        {"253402300799999", WHEN_LAST_MS},
        {"20260131", INT64_C(20260131000)},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice s = exactly(rows[i].text);
        struct err err = {""};
        int64_t ms = -7;
        if (when_instant_ms(s, &ms, &err) < 0 || ms != rows[i].ms)
            fail_msg("\"%s\": %lld, not %lld: %s", rows[i].text, (long long)ms,
                     (long long)rows[i].ms, err.text);
        free((void *)(uintptr_t)s.p);
    }
}

static void an_invalid_instant_is_rejected_with_an_error_text(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "-1",
        "-1769860800",
        "+1769860800",
        "1769860800.5",
        "1e9",
        "tomorrow",
        " 0",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00Z",
        "2026-01-31T12:00:00+01",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00 +01:00",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00ZZ",
        "2026-01-31T12:00:00Z ",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+01:60",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:61Z",
        "2026-02-29T12:00:00Z",
        "1900-02-29T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "2026-00-10T12:00:00Z",
        "2026-13-10T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-01-32T12:00:00Z",
        "26-01-31T12:00:00Z",
        "02026-01-31T12:00:00Z",
        "2026-1-31T12:00:00Z",
        "2026/01/31T12:00:00Z",
        "20260131T120000Z",
        "-2026-01-31T12:00:00Z",
        "9999-12-31T23:59:59.9991Z",
        "9999-12-31T23:59:59-00:01",
        "253402300800",
        "253402300800000",
        "1769860800000000",
        "1769860800000000000",
        "9223372036854775808",
        "99999999999999999999999999",
        "Sat, 31 Jan 2026 12:00:00 GMT",
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice s = exactly(rows[i]);
        struct err err = {""};
        int64_t ms = -7;
        if (when_instant_ms(s, &ms, &err) == 0 || ms != -7 || err.text[0] == '\0')
            fail_msg("\"%s\" is read as %lld", rows[i], (long long)ms);
        free((void *)(uintptr_t)s.p);
    }
}

static void an_instant_survives_being_written_and_read(void **state)
{
    (void)state;
    char text[WHEN_TEXT_BYTES];
    /* Odd steps through ten thousand years reach every month, and leap days. */
    for (int64_t ms = INT64_C(-62167219200000); ms <= WHEN_LAST_MS;
         ms += INT64_C(2345678901)) {
        int64_t again = 0;
        when_format_rfc3339(ms, text);
        assert_int_equal(strlen(text), 24);
        assert_int_equal(when_instant_ms(slice_of(text), &again, NULL), 0);
        assert_true(again == ms);
    }
}

static void an_instant_is_written_in_one_form(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {INT64_C(1769860800123), "2026-01-31T12:00:00.123Z"},
        {INT64_C(1709251199999), "2024-02-29T23:59:59.999Z"},
        {INT64_C(1735603200000), "2024-12-31T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {WHEN_LAST_MS, "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {INT64_MIN, "0000-01-01T00:00:00.000Z"},
    };
    char text[WHEN_TEXT_BYTES];
    for (size_t i = 0; i < COUNT(rows); i++) {
        when_format_rfc3339(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
    }
}

UNIT(when)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_is_numbers_with_units),
        cmocka_unit_test(a_fraction_is_rounded_up_and_exact),
        cmocka_unit_test(iso_8601_durations_are_read_too),
        cmocka_unit_test(a_bare_integer_uses_the_configured_unit),
        cmocka_unit_test(an_invalid_duration_is_rejected_with_an_error_text),
        cmocka_unit_test(a_nul_is_no_part_of_a_time),
        cmocka_unit_test(an_instant_is_rfc_3339_or_an_epoch),
        cmocka_unit_test(an_invalid_instant_is_rejected_with_an_error_text),
        cmocka_unit_test(an_instant_survives_being_written_and_read),
        cmocka_unit_test(an_instant_is_written_in_one_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
