/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * when.c - durations and instants as text; see when.h. Uses only integers, so that
 * milliseconds are exact.
 */
#include "bridge/base/when.h"
#include "bridge/base/text.h"

#include <stdbool.h>
#include <time.h>

/* 0000-01-01T00:00:00Z */
#define WHEN_FIRST_MS (INT64_C(-62167219200) * 1000)
enum { MINUTE_S = 60, HOUR_S = 3600, DAY_S = 86400, DAY_MS = DAY_S * 1000 };

static const char duration_form[] =
    "write a number and its unit: 1500ms, 30s, 1h30m, 7d or PT5M";
static const char instant_form[] =
    "write 2026-01-31T12:00:00Z, 2026-01-31T12:00:00+01:00, or seconds or ms since 1970";

/* Units from large to small, the required order in a duration. */
struct unit {
    const char *name;
    int64_t ms;
    bool timed; /* ISO 8601: after the T */
};
static const struct unit plain_units[] = {
    {"w", 7 * (int64_t)DAY_MS, false},
    {"d", DAY_MS, false},
    {"h", HOUR_S * 1000, false},
    {"m", MINUTE_S * 1000, false},
    {"s", 1000, false},
    {"ms", 1, false},
    {NULL, 0, false},
};
static const struct unit iso_units[] = {
    {"W", 7 * (int64_t)DAY_MS, false}, {"D", DAY_MS, false}, {"H", HOUR_S * 1000, true},
    {"M", MINUTE_S * 1000, true},      {"S", 1000, true},    {NULL, 0, false},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Removes the leading digits from s and returns them. */
static struct slice take_digits(struct slice *s)
{
    struct slice digits = {s->p, 0};
    while (digits.n < s->n && is_digit(s->p[digits.n]))
        digits.n++;
    s->p += digits.n;
    s->n -= digits.n;
    return digits;
}

static bool take_char(struct slice *s, const char *any_of)
{
    if (s->n == 0 || s->p[0] == '\0' || strchr(any_of, s->p[0]) == NULL)
        return false;
    s->p++;
    s->n--;
    return true;
}

/* Returns 0.DIGITS of a unit, rounded up; exact for any number of digits. */
static int64_t fraction_ms(struct slice digits, int64_t unit_ms)
{
    int64_t ms = 0;
    for (size_t i = digits.n; i-- > 0;)
        ms = ((digits.p[i] - '0') * unit_ms + ms + 9) / 10;
    return ms;
}

/* ------------------------------------------------------------------ durations */

struct part { /* one number of a duration, such as "1.5" */
    struct slice whole, fraction;
    bool has_fraction; /* true: no further part is allowed */
};

static int take_part(struct slice *rest, const char *points, struct part *part,
                     struct err *err)
{
    part->whole = take_digits(rest);
    if (part->whole.n == 0)
        return err_set(err, "not a duration; %s", duration_form);
    part->has_fraction = take_char(rest, points);
    part->fraction = part->has_fraction ? take_digits(rest) : (struct slice){rest->p, 0};
    if (part->has_fraction && part->fraction.n == 0)
        return err_set(err, "no digit after the decimal point; %s", duration_form);
    return 0;
}

static int add_part(int64_t *ms, const struct part *part, int64_t unit_ms,
                    struct err *err)
{
    int64_t whole = text_whole_number(part->whole);
    if (whole < 0 || __builtin_mul_overflow(whole, unit_ms, &whole) ||
        __builtin_add_overflow(*ms, whole, ms) ||
        __builtin_add_overflow(*ms, fraction_ms(part->fraction, unit_ms), ms))
        return err_set(err, "the duration is too long; it must fit in 64 bits of ms");
    return 0;
}

/* Removes a unit's letters from rest. Returns its row, at or after `from`, or NULL. */
static const struct unit *take_unit(struct slice *rest, const struct unit *from,
                                    bool any_case)
{
    struct slice name = {rest->p, 0};
    while (name.n < rest->n && is_letter(rest->p[name.n]) && (!any_case || name.n == 0))
        name.n++;
    rest->p += name.n;
    rest->n -= name.n;
    for (const struct unit *u = from; u->name; u++)
        if (any_case ? slice_is_nocase(name, u->name) : slice_is(name, u->name))
            return u;
    return NULL;
}

static int plain_duration(struct slice rest, enum when_unit bare, int64_t *ms,
                          struct err *err)
{
    const struct unit *from = plain_units;
    struct part part = {.has_fraction = false};

    for (bool first = true; rest.n > 0; first = false) {
        if (part.has_fraction)
            return err_set(err, "only the last number may have a fraction");
        if (take_part(&rest, ".", &part, err) < 0)
            return -1;
        if (rest.n == 0 && first && bare == WHEN_NO_UNIT)
            return err_set(err, "a number without a unit; %s", duration_form);
        if (rest.n == 0 && first)
            return add_part(ms, &part, bare == WHEN_MS ? 1 : 1000, err);
        const struct unit *u = take_unit(&rest, from, false);
        if (u == NULL)
            return err_set(
                err, "use the units w d h m s ms, larger units first, each at most once");
        if (add_part(ms, &part, u->ms, err) < 0)
            return -1;
        from = u + 1;
    }
    return 0;
}

/* rest: the text after the P. */
static int iso_duration(struct slice rest, int64_t *ms, struct err *err)
{
    const struct unit *from = iso_units;
    struct part part = {.has_fraction = false};
    bool timed = false, open = true; /* open: a further part is required */

    while (rest.n > 0 || open) {
        if (part.has_fraction)
            return err_set(err, "only the last number may have a fraction");
        if (!timed && take_char(&rest, "Tt")) {
            timed = open = true;
            while (!from->timed)
                from++;
            continue;
        }
        if (take_part(&rest, ".,", &part, err) < 0)
            return -1;
        const struct unit *u = take_unit(&rest, from, true);
        if (u == NULL || u->timed != timed)
            return err_set(err, "write ISO durations as P[nW][nD][T[nH][nM][nS]]; years "
                                "and months have no fixed length");
        if (add_part(ms, &part, u->ms, err) < 0)
            return -1;
        from = u + 1;
        open = false;
    }
    return 0;
}

int when_duration_ms(struct slice text, enum when_unit bare, int64_t *ms, struct err *err)
{
    struct slice rest = text;
    int64_t sum = 0;
    int rc;

    if (text.n == 0)
        return err_set(err, "empty; %s", duration_form);
    if (text.p[0] == '-')
        return err_set(err, "the duration is negative; %s", duration_form);
    if (take_char(&rest, "Pp"))
        rc = iso_duration(rest, &sum, err);
    else
        rc = plain_duration(rest, bare, &sum, err);
    if (rc == 0)
        *ms = sum;
    return rc;
}

/* ------------------------------------------------------------------- instants */

/* Removes exactly n digits from s. Returns whether their value is between least and
 * most. */
static bool take_field(struct slice *s, size_t n, int least, int most, int *value)
{
    if (s->n < n)
        return false;
    *value = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(s->p[i]))
            return false;
        *value = *value * 10 + (s->p[i] - '0');
    }
    s->p += n;
    s->n -= n;
    return *value >= least && *value <= most;
}

/* days: since 1970. timegm() moves a day beyond the end of its month to the next month.
 */
static int take_date(struct slice *rest, int64_t *days, struct err *err)
{
    int year = 0, month = 0, day = 0;
    if (!take_field(rest, 4, 0, 9999, &year) || !take_char(rest, "-") ||
        !take_field(rest, 2, 1, 12, &month) || !take_char(rest, "-") ||
        !take_field(rest, 2, 1, 31, &day) || !take_char(rest, "Tt "))
        return err_set(err, "not a time; %s", instant_form);
    struct tm tm = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    *days = timegm(&tm) / DAY_S;
    if (tm.tm_mday != day)
        return err_set(err, "%04d-%02d has no day %d", year, month, day);
    return 0;
}

/* Second 60 is a leap second; it counts as the start of the next minute. */
static int take_clock(struct slice *rest, int64_t *ms, struct err *err)
{
    int hour = 0, minute = 0, second = 0;
    if (!take_field(rest, 2, 0, 23, &hour) || !take_char(rest, ":") ||
        !take_field(rest, 2, 0, 59, &minute) || !take_char(rest, ":") ||
        !take_field(rest, 2, 0, 60, &second))
        return err_set(err, "not a time of day; %s", instant_form);
    *ms = (hour * HOUR_S + minute * MINUTE_S + second) * INT64_C(1000);
    if (!take_char(rest, "."))
        return 0;
    struct slice fraction = take_digits(rest);
    if (fraction.n == 0)
        return err_set(err, "no digit after the decimal point; %s", instant_form);
    *ms += fraction_ms(fraction, 1000);
    return 0;
}

static int take_offset(struct slice *rest, int64_t *ms, struct err *err)
{
    int hours = 0, minutes = 0;
    *ms = 0;
    if (rest->n == 0)
        return err_set(
            err, "the UTC offset is missing; append Z, or an offset such as +01:00");
    if (take_char(rest, "Zz"))
        return 0;
    bool west = rest->p[0] == '-';
    if (!take_char(rest, "+-") || !take_field(rest, 2, 0, 23, &hours) ||
        !take_char(rest, ":") || !take_field(rest, 2, 0, 59, &minutes))
        return err_set(err, "not a UTC offset; write Z, or an offset such as +01:00");
    *ms = (hours * HOUR_S + minutes * MINUTE_S) * (west ? INT64_C(-1000) : INT64_C(1000));
    return 0;
}

static int rfc3339(struct slice rest, int64_t *ms, struct err *err)
{
    int64_t days = 0, clock_ms = 0, offset_ms = 0;
    if (take_date(&rest, &days, err) < 0 || take_clock(&rest, &clock_ms, err) < 0 ||
        take_offset(&rest, &offset_ms, err) < 0)
        return -1;
    if (rest.n > 0)
        return err_set(err, "unexpected text after the UTC offset; %s", instant_form);
    *ms = days * DAY_MS + clock_ms - offset_ms;
    return 0;
}

static int64_t epoch_ms(struct slice digits)
{
    int64_t n = text_whole_number(digits);
    if (n < 0)
        return INT64_MAX;
    return n < INT64_C(1000000000000) ? n * 1000 : n;
}

int when_instant_ms(struct slice text, int64_t *ms, struct err *err)
{
    struct slice rest = text;
    int64_t at = 0;

    if (text.n == 0)
        return err_set(err, "empty; %s", instant_form);
    if (text.p[0] == '-')
        return err_set(err, "the time is negative; %s", instant_form);
    struct slice digits = take_digits(&rest);
    if (rest.n == 0)
        at = epoch_ms(digits);
    else if (rfc3339(text, &at, err) < 0)
        return -1;
    if (at > WHEN_LAST_MS)
        return err_set(
            err,
            "after the year 9999; write seconds or ms since 1970, not a smaller unit");
    *ms = at;
    return 0;
}

/* Used in every response of the HTTP APIs; snprintf() is ten times slower. */
static char *put_digits(char *p, int n, int digits, char behind)
{
    for (int i = digits - 1; i >= 0; i--, n /= 10)
        p[i] = (char)('0' + n % 10);
    p[digits] = behind;
    return p + digits + 1;
}

void when_format_rfc3339(int64_t ms, char out[WHEN_TEXT_BYTES])
{
    struct tm tm;
    ms = ms < WHEN_FIRST_MS ? WHEN_FIRST_MS : ms > WHEN_LAST_MS ? WHEN_LAST_MS : ms;
    const time_t second = (ms - WHEN_FIRST_MS) / 1000 + WHEN_FIRST_MS / 1000;
    gmtime_r(&second, &tm);
    out = put_digits(out, tm.tm_year + 1900, 4, '-');
    out = put_digits(out, tm.tm_mon + 1, 2, '-');
    out = put_digits(out, tm.tm_mday, 2, 'T');
    out = put_digits(out, tm.tm_hour, 2, ':');
    out = put_digits(out, tm.tm_min, 2, ':');
    out = put_digits(out, tm.tm_sec, 2, '.');
    out = put_digits(out, (int)(ms - second * 1000), 3, 'Z');
    *out = 0;
}
