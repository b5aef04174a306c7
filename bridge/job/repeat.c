/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repeat.c - parses intervals and cron lines, and computes the next run; see delay.h.
 *
 * A cron line is five bit sets. The search for the next run uses local time, month by
 * month and day by day, and converts only the result to an instant.
 */
#include "bridge/job/delay.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"

#include <stddef.h>
#include <time.h>

enum {
    HOUR_MIN = 60,
    DAY_MIN = 24 * HOUR_MIN,
    DAY_S = DAY_MIN * 60,
    ALL_HOURS = 0xffffff, /* bit set */
    YEARS_MAX = 40,       /* from a 29 February on a Sunday to the next, across 2100 */
};

static const char form[] =
    "write five fields (minute hour day month weekday) and optionally a time zone: 0 9 * "
    "* 1-5 Europe/Berlin; or every 5m";

/* --------------------------------------------------------------------- parsing */

struct field {
    const char *name;
    int least, most;
    const char *words; /* three letters per name; NULL: no names */
    int first;         /* value of the first name */
};
enum { MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };
static const struct field fields[FIELDS] = {
    [MINUTE] = {"minute", 0, 59, NULL, 0},
    [HOUR] = {"hour", 0, 23, NULL, 0},
    [DAY] = {"day", 1, 31, NULL, 0},
    [MONTH] = {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec", 1},
    [WEEKDAY] = {"weekday", 0, 7, "sunmontuewedthufrisat",
                 0}, /* 7 means Sunday, like 0 */
};

static const struct {
    const char *name, *line;
} nicknames[] = {
    {"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
    {"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
};

/* Returns the value of a number or name, or -1 if invalid. The caller checks the range;
 * numbers that would overflow stay too large. */
static int value_of(const struct field *f, struct slice s)
{
    int value = 0;
    for (const char *w = f->words; w && *w; w += 3)
        if (s.n == 3 && strncasecmp(s.p, w, 3) == 0)
            return f->first + (int)(w - f->words) / 3;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -1;
        value = value > 999 ? value : value * 10 + (s.p[i] - '0');
    }
    return s.n > 0 ? value : -1;
}

static int bad_item(const struct field *f, struct slice item, struct err *err)
{
    return err_set(err,
                   "%s \"%.*s\": write *, a number from %d to %d%s, a range such as "
                   "%d-%d, a step such as */2, or a list with commas",
                   f->name, SLICE_ARG(item), f->least, f->most,
                   f->words ? ", a name of three letters" : "", f->least, f->most);
}

/* Parses "*", "3" or "3-5". */
static int read_range(const struct field *f, struct slice range, int *low, int *high,
                      struct err *err)
{
    struct slice rest = range;

    *low = f->least;
    *high = f->most;
    if (slice_is(range, "*"))
        return 0;
    *low = *high = value_of(f, text_cut(&rest, '-'));
    if (rest.p)
        *high = value_of(f, rest);
    if (*low < f->least || *high < f->least || *low > f->most || *high > f->most)
        return bad_item(f, range, err);
    if (*low > *high)
        return err_set(err, "%s \"%.*s\": write the smaller number first%s", f->name,
                       SLICE_ARG(range),
                       f == &fields[WEEKDAY] ? "; at the end of a range, Sunday is 7"
                                             : "");
    return 0;
}

/* Parses an item of a list: "*", "3" or "3-5", where "*" and "3-5" may have a step. */
static int read_item(const struct field *f, struct slice item, uint64_t *bits,
                     struct err *err)
{
    int low = 0, high = 0, step = 1;
    struct slice rest = item, range = text_cut(&rest, '/');

    if (read_range(f, range, &low, &high, err) < 0)
        return -1;
    if (rest.p) {
        step = value_of(&fields[MINUTE], rest);
        if (step < 1 || step > f->most)
            return err_set(err, "%s \"%.*s\": a step must be from 1 to %d", f->name,
                           SLICE_ARG(item), f->most);
        if (low == high && memchr(range.p, '-', range.n) == NULL)
            return err_set(err,
                           "%s \"%.*s\": a step requires * or a range; write %d-%d/%d",
                           f->name, SLICE_ARG(item), low, f->most, step);
    }
    for (int i = low; i <= high; i += step)
        *bits |= UINT64_C(1) << i;
    return 0;
}

static int read_field(const struct field *f, struct slice text, uint64_t *bits,
                      struct err *err)
{
    *bits = 0;
    while (text.p) {
        if (read_item(f, text_cut(&text, ','), bits, err) < 0)
            return -1;
    }
    return 0;
}

/* Parses the five fields; rest keeps the text after them. */
static int read_line(struct slice *rest, struct repeat *out, struct err *err)
{
    uint64_t bits[FIELDS] = {0};
    bool star[FIELDS] = {false};

    for (int i = 0; i < FIELDS; i++) {
        struct slice word = text_take_word(rest);
        if (word.n == 0)
            return err_set(err, "the field %s is missing; %s", fields[i].name, form);
        if (read_field(&fields[i], word, &bits[i], err) < 0)
            return -1;
        star[i] = word.p[0] == '*';
    }
    out->minutes = bits[MINUTE];
    out->hours = (uint32_t)bits[HOUR];
    out->days = (uint32_t)bits[DAY];
    out->months = (uint32_t)bits[MONTH];
    out->weekdays = (uint32_t)(bits[WEEKDAY] | bits[WEEKDAY] >> 7) & 0x7f;
    out->any_day = star[DAY];
    out->any_weekday = star[WEEKDAY];
    return 0;
}

static int read_nickname(struct slice *rest, struct repeat *out, struct err *err)
{
    struct slice word = text_take_word(rest);
    for (size_t i = 0; i < sizeof(nicknames) / sizeof(nicknames[0]); i++)
        if (slice_is_nocase(word, nicknames[i].name)) {
            struct slice line = slice_of(nicknames[i].line);
            return read_line(&line, out, err);
        }
    return err_set(
        err, "\"%.*s\" is unknown; write @hourly, @daily, @weekly, @monthly or @yearly",
        SLICE_ARG(word));
}

/* Parses the optional zone after the fields. */
static int read_zone(struct slice rest, struct repeat *out, struct err *err)
{
    struct slice name = text_take_word(&rest);
    if (name.n == 0)
        return 0;
    if (text_take_word(&rest).n > 0)
        return err_set(err, "unexpected text after the time zone; %s", form);
    if (name.p[0] == '*' || (name.p[0] >= '0' && name.p[0] <= '9'))
        return err_set(err, "a sixth field; seconds and years are not supported: %s",
                       form);
    return zone_named(name, &out->zone, err);
}

static int read_interval(struct slice rest, struct repeat *out, struct err *err)
{
    struct slice duration = text_take_word(&rest);
    if (when_duration_ms(duration, WHEN_NO_UNIT, &out->every_ms, err) < 0)
        return err_in(err, "every");
    if (out->every_ms == 0)
        return err_set(err, "every: the interval must not be 0; write every 5m");
    if (text_take_word(&rest).n > 0)
        return err_set(
            err,
            "unexpected text after the interval (it has no time zone); write every 5m");
    return 0;
}

int repeat_parse(struct slice text, struct repeat *out, struct err *err)
{
    struct slice rest = text;

    *out = (struct repeat){0};
    if (text.n > REPEAT_MAX)
        return err_set(err, "longer than %d bytes", REPEAT_MAX);
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] != '\t' && (text.p[i] < ' ' || text.p[i] > '~'))
            return err_set(err, "byte %zu is not printable ASCII; %s", i + 1, form);
    struct slice first = text_take_word(&rest);
    if (first.n == 0)
        return err_set(err, "empty; %s", form);
    if (slice_is_nocase(first, "every"))
        return read_interval(rest, out, err);
    rest = text;
    if ((first.p[0] == '@' ? read_nickname : read_line)(&rest, out, err) < 0)
        return -1;
    return read_zone(rest, out, err);
}

/* --------------------------------------------------------------- the next run */

struct day {
    int64_t number; /* days since 1970-01-01 */
    struct tm date;
};

static struct day day_of(int64_t number)
{
    struct day d = {.number = number};
    gmtime_r(&(time_t){number * DAY_S}, &d.date);
    return d;
}

/* timegm() turns month 12 into the next January. */
static struct day next_month(const struct day *d)
{
    struct tm first = {
        .tm_year = d->date.tm_year, .tm_mon = d->date.tm_mon + 1, .tm_mday = 1};
    return day_of(timegm(&first) / DAY_S);
}

static bool is_in(uint64_t bits, int i)
{
    return (bits >> i & 1) != 0;
}

static bool fits(const struct repeat *r, const struct day *d)
{
    bool day = is_in(r->days, d->date.tm_mday),
         weekday = is_in(r->weekdays, d->date.tm_wday);
    return r->any_day || r->any_weekday ? day && weekday : day || weekday;
}

/* Returns the first matching minute of a day at or after from (0 to DAY_MIN), or -1. */
static int next_of_day(const struct repeat *r, int from)
{
    int hour = from / HOUR_MIN, minute = from % HOUR_MIN;
    uint64_t minutes = r->minutes >> minute << minute;

    if (is_in(r->hours, hour) && minutes != 0)
        return hour * HOUR_MIN + __builtin_ctzll(minutes);
    uint32_t hours = r->hours >> (hour + 1) << (hour + 1);
    return hours == 0 ? -1
                      : __builtin_ctz(hours) * HOUR_MIN + __builtin_ctzll(r->minutes);
}

int64_t repeat_least_ms(const struct repeat *r)
{
    if (r->every_ms > 0)
        return r->every_ms;
    int first = next_of_day(r, 0), last = first, least = DAY_MIN;
    for (int at = next_of_day(r, first + 1); at >= 0; at = next_of_day(r, at + 1)) {
        least = at - last < least ? at - last : least;
        last = at;
    }
    int overnight = first + DAY_MIN - last;
    return (overnight < least ? overnight : least) * INT64_C(60000);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Advances *at (minutes since 1970 in local time) to the first match at or after it.
 * Returns false if there is none. */
static bool next_on_clock(const struct repeat *r, int64_t *at)
{
    struct day d = day_of(floor_div(*at, DAY_MIN));
    int from = (int)(*at - d.number * DAY_MIN), last = d.date.tm_year + YEARS_MAX;

    while (d.date.tm_year <= last) {
        bool in_month = is_in(r->months, d.date.tm_mon + 1);
        int minute = in_month && fits(r, &d) ? next_of_day(r, from) : -1;
        if (minute >= 0) {
            *at = d.number * DAY_MIN + minute;
            return true;
        }
        d = in_month ? day_of(d.number + 1) : next_month(&d);
        from = 0;
    }
    return false;
}

/* Returns the first match at or after since_s with the UTC offset at since_s, or -1 if
 * the offset changes before it. */
static int64_t on_this_clock_s(const struct repeat *r, int64_t since_s)
{
    int64_t offset_s = zone_offset_s(r->zone, since_s);
    int64_t at = floor_div(since_s + offset_s + 59, 60);
    if (!next_on_clock(r, &at))
        return -1;
    int64_t run_s = at * 60 - offset_s;
    return zone_offset_s(r->zone, run_s) == offset_s ? run_s : -1;
}

/* A line that matches every hour also runs in a repeated hour. Returns such a run before
 * run_s, or else run_s. */
static int64_t or_sooner_s(const struct repeat *r, int64_t after_s, int64_t run_s)
{
    if (r->hours != ALL_HOURS || run_s - after_s > DAY_MIN * INT64_C(60))
        return run_s;
    int64_t sooner_s = on_this_clock_s(r, after_s + 1);
    if (sooner_s < 0 && zone_offset_s(r->zone, run_s) != zone_offset_s(r->zone, after_s))
        sooner_s = on_this_clock_s(r, zone_change_s(r->zone, after_s, run_s));
    return sooner_s >= 0 && sooner_s < run_s ? sooner_s : run_s;
}

static int64_t next_by_line_ms(const struct repeat *r, int64_t after_ms)
{
    int64_t after_s = floor_div(after_ms, 1000), run_s = after_s;
    int64_t at = floor_div(after_s + zone_offset_s(r->zone, after_s), 60);

    while (run_s <= after_s) { /* repeated only where the clocks were put back */
        at++;
        if (!next_on_clock(r, &at))
            return -1;
        run_s = zone_reaches_s(r->zone, at * 60);
    }
    run_s = or_sooner_s(r, after_s, run_s);
    return run_s <= WHEN_LAST_MS / 1000 ? run_s * 1000 : -1;
}

static int64_t next_of_interval_ms(const struct repeat *r, int64_t due_ms,
                                   int64_t after_ms)
{
    int64_t past_ms = after_ms > due_ms ? after_ms - due_ms : 0;
    int64_t last_ms = due_ms + past_ms / r->every_ms * r->every_ms;
    return r->every_ms <= WHEN_LAST_MS - last_ms ? last_ms + r->every_ms : -1;
}

static int64_t within(int64_t ms)
{
    return ms < 0 ? 0 : ms > WHEN_LAST_MS ? WHEN_LAST_MS : ms;
}

int64_t repeat_next_ms(const struct repeat *r, int64_t due_ms, int64_t after_ms)
{
    if (r->every_ms > 0)
        return next_of_interval_ms(r, within(due_ms), within(after_ms));
    int64_t later_ms = after_ms > due_ms ? after_ms : due_ms;
    return next_by_line_ms(r, within(later_ms));
}
