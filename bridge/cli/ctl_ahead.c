/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_ahead.c - `tarry routes --ahead SPAN`: the pending jobs by due time, as bars. All
 * routes: a line for each, a character for one or more bins. One route: a line per bin.
 */
#include "bridge/base/mem.h"
#include "bridge/base/when.h"
#include "bridge/cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sysexits.h>
#include <unistd.h>

enum {
    LEVELS = 8,
    BAR_MAX = 40,       /* characters of the longest bar of one route */
    NUMBER_COLUMNS = 40 /* of the table of all routes, about */
};

/* Bars of rising height; the second for terminals without UTF-8. */
static const char *const heights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
                         *const ascii[] = {".", ":", "-", "=", "+", "*", "#", "@"};

/* Returns whether the terminal shows UTF-8, by the first of these variables that is
 * set. */
static bool shows_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value && *value != '\0')
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static int64_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* Returns the sum of some bins. */
static int64_t sum(const json_t *counts, size_t from, size_t n)
{
    int64_t all = 0;
    for (size_t i = from; i < from + n && i < json_array_size(counts); i++)
        all += json_integer_value(json_array_get(counts, i));
    return all;
}

static int64_t peak(const json_t *counts, size_t step)
{
    int64_t most = 0;
    for (size_t i = 0; i < json_array_size(counts); i += step) {
        int64_t n = sum(counts, i, step);
        most = n > most ? n : most;
    }
    return most;
}

/* Returns how many bins a character contains, so that the line fits the terminal. */
static size_t bins_per_character(const json_t *routes, size_t bins)
{
    struct winsize terminal;
    size_t step = 1, longest = 0, i;
    const json_t *row;
    json_array_foreach((json_t *)(uintptr_t)routes, i, row)
    {
        size_t n = json_string_length(json_object_get(row, "route"));
        longest = n > longest ? n : longest;
    }
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) != 0 || terminal.ws_col == 0)
        return 1;
    while (step < 4 && longest + NUMBER_COLUMNS + bins / step > terminal.ws_col)
        step *= 2;
    return step;
}

static void add_line(struct buf *out, const json_t *counts, size_t step)
{
    const char *const *levels = shows_utf8() ? heights : ascii;
    int64_t most = peak(counts, step);
    size_t end = 0; /* without the blanks at the end */
    for (size_t i = 0; i < json_array_size(counts); i += step) {
        int64_t n = sum(counts, i, step);
        buf_add_str(out, n > 0 ? levels[(n * LEVELS - 1) / most] : " ");
        end = n > 0 ? out->n : end;
    }
    out->n = end;
}

/* Returns a row of the table of all routes. */
static json_t *line_of(const char *name, const json_t *row, size_t step)
{
    const json_t *counts = json_object_get(row, "counts");
    bool known = json_is_array(counts);
    struct buf bars = {0};
    json_t *line = json_object();
    add_line(&bars, counts, step);
    json_object_set_new(line, "route", json_string(name));
    json_object_set(line, "overdue", json_object_get(row, "overdue"));
    json_object_set(line, "later", json_object_get(row, "later"));
    json_object_set_new(line, "jobs",
                        known ? json_integer(sum(counts, 0, SIZE_MAX / 2)) : json_null());
    json_object_set_new(line, "peak",
                        known ? json_integer(peak(counts, step)) : json_null());
    json_object_set_new(line, "bars", json_string(buf_str(&bars)));
    buf_free(&bars);
    return line;
}

static const char *title_of(const char *span)
{
    return strcmp(span, "hour") == 0  ? "1 HOUR"
           : strcmp(span, "day") == 0 ? "24 HOURS"
                                      : "7 DAYS";
}

/* step: bins per character. */
static void print_notes(const json_t *answer, int64_t step)
{
    int64_t minutes = number(answer, "bin_ms") * step / 60000;
    bool hours = minutes % 60 == 0;
    printf("\na character is %" PRId64
           " %s; PEAK: the most jobs in one of them; the last "
           "count cost Redis at most %.1f ms\n",
           hours ? minutes / 60 : minutes, hours ? "h" : "min",
           (double)number(answer, "redis_us") / 1000);
}

static void print_routes(const struct cli_args *o, const json_t *answer)
{
    const json_t *routes = json_object_get(answer, "routes"), *row;
    const json_t *total = json_object_get(answer, "total");
    size_t bins = json_array_size(json_object_get(total, "counts")), i;
    size_t step = bins_per_character(routes, bins);
    char title[80];
    snprintf(title, sizeof(title), "NOW%*s", (int)(bins / step > 3 ? bins / step - 3 : 0),
             title_of(o->ahead));
    const struct ctl_column columns[] = {{"ROUTE", "route", CTL_TEXT},
                                         {"OVERDUE", "overdue", CTL_ALARM},
                                         {"JOBS", "jobs", CTL_COUNT},
                                         {"PEAK", "peak", CTL_COUNT},
                                         {"LATER", "later", CTL_COUNT},
                                         {title, "bars", CTL_TEXT},
                                         {0}};
    const struct ctl_view view = {.items = "routes", .columns = columns};
    json_t *lines = json_array();
    json_array_foreach((json_t *)(uintptr_t)routes, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "route"));
        json_array_append_new(lines, line_of(name ? name : "", row, step));
    }
    json_array_append_new(lines, line_of("(all)", total, step));
    ctl_view_print(o, &view, lines, 0);
    json_decref(lines);
    print_notes(answer, (int64_t)step);
}

static json_t *bin_of(const json_t *answer, const json_t *counts, size_t i, int64_t most)
{
    char text[WHEN_TEXT_BYTES];
    struct buf bar = {0};
    int64_t n = sum(counts, i, 1);
    json_t *line = json_object();
    when_format_rfc3339(number(answer, "from_ms") + (int64_t)i * number(answer, "bin_ms"),
                        text);
    for (int64_t k = 0; k < BAR_MAX && k * most < n * BAR_MAX; k++)
        buf_add_str(&bar, shows_utf8() ? heights[LEVELS - 1] : "#");
    memcpy(text + 16, "Z", 2); /* to the minute */
    json_object_set_new(line, "from", json_string(text));
    json_object_set_new(line, "jobs", json_integer(n));
    json_object_set_new(line, "bar", json_string(buf_str(&bar)));
    buf_free(&bar);
    return line;
}

static void print_route(const struct cli_args *o, const json_t *answer)
{
    static const struct ctl_column columns[] = {{"FROM", "from", CTL_TEXT},
                                                {"JOBS", "jobs", CTL_COUNT},
                                                {"", "bar", CTL_TEXT},
                                                {0}};
    static const struct ctl_view view = {.items = "bins", .columns = columns};
    const json_t *row = json_array_get(json_object_get(answer, "routes"), 0);
    const json_t *counts = json_object_get(row, "counts");
    const char *with = json_string_value(json_object_get(row, "counted_with"));
    json_t *lines = json_array();
    if (!json_is_array(counts)) {
        printf(with ? "counted with the route %s\n" : "the counts are not known%s\n",
               with ? with : "");
        json_decref(lines);
        return;
    }
    for (size_t i = 0; i < json_array_size(counts); i++)
        json_array_append_new(lines, bin_of(answer, counts, i, peak(counts, 1)));
    ctl_view_print(o, &view, lines, 0);
    json_decref(lines);
    printf("\noverdue %" PRId64 ", later %" PRId64 ", behind others of their key %" PRId64
           "\n",
           number(row, "overdue"), number(row, "later"), number(row, "held"));
}

int ctl_ahead(struct cli_args *o)
{
    static const struct cli_command ask = {.path = "/v1/admin/ahead"};
    struct buf path = {0};
    int code;
    ctl_path_add(&path, &(struct cli_args){.command = &ask});
    ctl_query_add(&path, "span", o->ahead);
    ctl_query_add(&path, "route", o->arg_count > 0 ? o->arg[0] : NULL);
    json_t *answer = ctl_http_get(o, &path, &code);
    if (answer && !o->human)
        ctl_answer_print(o, answer);
    else if (answer && o->arg_count > 0)
        print_route(o, answer);
    else if (answer)
        print_routes(o, answer);
    if (answer)
        code = ctl_complain_trouble(answer, code);
    json_decref(answer);
    return code;
}
