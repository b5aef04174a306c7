/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_view.c - prints responses of the daemon for people: tables, and objects member by
 * member. ctl_columns.c defines the columns of the tables.
 */
#include "bridge/base/mem.h"
#include "bridge/base/when.h"
#include "bridge/cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define DAY_MS (24 * 3600 * INT64_C(1000))
#define YEAR_2000_MS INT64_C(946684800000)
enum { COLUMNS_MAX = 12, GAP = 2, NAME_COLUMN = 18 };

/* --- values --- */

void ctl_text_add(struct buf *out, struct slice s)
{
    static const char letters[] = {
        ['\t'] = 't', ['\n'] = 'n', ['\r'] = 'r', ['\\'] = '\\'};
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        /* U+0080 to U+009F, two bytes in UTF-8, are control characters, too. */
        unsigned char next = i + 1 < s.n ? (unsigned char)s.p[i + 1] : 0;
        bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;
        if (c < sizeof(letters) && letters[c])
            buf_addf(out, "\\%c", letters[c]);
        else if (c < ' ' || c == 127)
            buf_addf(out, "\\x%02x", c);
        else if (c1)
            buf_addf(out, "\\x%02x", (unsigned char)s.p[++i]);
        else
            buf_add(out, &s.p[i], 1);
    }
}

void ctl_print_json(const json_t *v, size_t flags)
{
    char *text = json_dumps(v, flags | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    if (text)
        puts(text);
    free(text);
}

static void add_count(struct buf *out, int64_t n)
{
    char digits[24];
    uint64_t size = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    int len = snprintf(digits, sizeof(digits), "%" PRIu64, size);
    buf_add_str(out, n < 0 ? "-" : "");
    for (int i = 0; i < len; i++) {
        buf_add(out, &digits[i], 1);
        if ((len - i) % 3 == 1 && i + 1 < len)
            buf_add_str(out, ",");
    }
}

static void add_bytes(struct buf *out, int64_t n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)n;
    unsigned u = 0;
    while (size >= 1000 && u + 1 < sizeof(units) / sizeof(units[0])) {
        size /= 1024;
        u++;
    }
    buf_addf(out, u > 0 && size < 10 ? "%.1f %s" : "%.0f %s", size, units[u]);
}

/* Adds the two largest units: 3d4h, 2m5s, 1.2s, 15ms. */
static void add_span(struct buf *out, int64_t ms)
{
    static const struct {
        int64_t ms;
        const char *unit;
    } units[] = {{DAY_MS, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}};
    if (ms < 1000) {
        buf_addf(out, "%" PRId64 "ms", ms);
        return;
    }
    if (ms < 10000) {
        buf_addf(out, "%.1fs", (double)ms / 1000);
        return;
    }
    unsigned u = 0;
    while (ms < units[u].ms)
        u++;
    buf_addf(out, "%" PRId64 "%s", ms / units[u].ms, units[u].unit);
    if (u < 3 && ms % units[u].ms >= units[u + 1].ms)
        buf_addf(out, "%" PRId64 "%s", ms % units[u].ms / units[u + 1].ms,
                 units[u + 1].unit);
}

/* Adds a time relative to now if it is within two days, otherwise in UTC to the second.
 */
static void add_when(struct buf *out, int64_t ms, int64_t now_ms)
{
    char text[WHEN_TEXT_BYTES];
    if (ms < 0 || ms > WHEN_LAST_MS) { /* not a time */
        add_count(out, ms);
        return;
    }
    int64_t ahead_ms = ms - now_ms;
    if (ahead_ms >= 2 * DAY_MS || ahead_ms <= -2 * DAY_MS) {
        when_format_rfc3339(ms, text);
        buf_addf(out, "%.19sZ", text);
        return;
    }
    buf_add_str(out, ahead_ms > 0 ? "in " : "");
    add_span(out, ahead_ms > 0 ? ahead_ms : -ahead_ms);
    buf_add_str(out, ahead_ms > 0 ? "" : " ago");
}

static void add_number(struct buf *out, int64_t n, enum ctl_kind kind, int64_t now_ms)
{
    switch (kind) {
    case CTL_BYTES:
        add_bytes(out, n);
        return;
    case CTL_WHEN:
        add_when(out, n, now_ms);
        return;
    case CTL_SPAN:
        add_span(out, n);
        return;
    case CTL_TEXT:
    case CTL_COUNT:
    case CTL_ALARM:
    case CTL_STATE:
        add_count(out, n);
        return;
    }
}

struct slice ctl_name_shown(const char *name, const json_t *v)
{
    static const char unit[] = "_ms";
    size_t n = strlen(name), m = sizeof(unit) - 1;
    /* A number is printed with its unit. The value of a header is a text. */
    bool shown = json_is_integer(v) || json_is_null(v);
    if (shown && n > m && strcmp(name + n - m, unit) == 0)
        n -= m;
    return (struct slice){name, n};
}

void ctl_value_add(struct buf *out, const json_t *v, enum ctl_kind kind, int64_t now_ms)
{
    const json_t *item;
    size_t i;
    if (json_is_integer(v))
        add_number(out, json_integer_value(v), kind, now_ms);
    else if (json_is_real(v))
        buf_addf(out, "%g", json_real_value(v));
    else if (json_is_boolean(v))
        buf_add_str(out, json_is_true(v) ? "yes" : "no");
    else if (json_is_string(v) && json_string_length(v) > 0)
        ctl_text_add(out, (struct slice){json_string_value(v), json_string_length(v)});
    else if (json_array_size(v) > 0)
        json_array_foreach((json_t *)(uintptr_t)v, i, item)
        {
            buf_add_str(out, i ? ", " : "");
            ctl_value_add(out, item, kind, now_ms);
        }
    else
        buf_add_str(out, "-");
}

static int64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- colours --- */

static bool has_colours(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && (no == NULL || *no == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

/* Returns the terminal code of a colour for a cell; NULL: none. */
static const char *colour_of(enum ctl_kind kind, const json_t *v)
{
    static const struct {
        const char *state, *colour;
    } rows[] = {{"running", "32"},  {"flowing", "32"},   {"paused", "33"},
                {"draining", "36"}, {"resting", "33"},   {"probing", "33"},
                {"stopped", "31"},  {"unknown", "33"},   {"held", "33"},
                {"dead", "31"},     {"in-flight", "36"}, {"healthy", "32"},
                {"failing", "31"},  {"behind", "31"}};
    if (kind == CTL_ALARM)
        return json_integer_value(v) > 0 ? "31" : NULL;
    for (size_t i = 0; kind == CTL_STATE && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (json_is_string(v) && strcmp(json_string_value(v), rows[i].state) == 0)
            return rows[i].colour;
    return NULL;
}

static void put(const char *text, const char *colour, bool colours)
{
    if (colour && colours)
        printf("\033[%sm%s\033[0m", colour, text);
    else
        fputs(text, stdout);
}

/* --- tables --- */

struct cell {
    char *text;
    const char *colour;
};
struct table {
    const struct ctl_column *columns;
    size_t count, shown, rows; /* shown: number of columns printed, from the left */
    int width[COLUMNS_MAX];
    struct cell *cells;
};

/* Returns the width in a terminal; each character counts as 1. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static const json_t *member(const json_t *item, const char *path)
{
    const char *dot = strchr(path, '.');
    char name[32];
    if (dot == NULL)
        return json_object_get(item, path);
    snprintf(name, sizeof(name), "%.*s", (int)(dot - path), path);
    return json_object_get(json_object_get(item, name), dot + 1);
}

static bool is_number(enum ctl_kind kind)
{
    return kind == CTL_COUNT || kind == CTL_ALARM;
}

static void fill(struct table *t, const json_t *items, int64_t now_ms)
{
    struct buf text = {0};
    t->rows = json_array_size(items);
    t->cells = mem_alloc((t->rows * t->count + 1) * sizeof(*t->cells));
    for (size_t c = 0; c < t->count; c++)
        t->width[c] = width_of(t->columns[c].title);
    for (size_t r = 0; r < t->rows; r++)
        for (size_t c = 0; c < t->count; c++) {
            const struct ctl_column *column = &t->columns[c];
            const json_t *v = member(json_array_get(items, r), column->member);
            buf_clear(&text);
            if (json_is_null(v) && is_number(column->kind))
                buf_add_str(&text, "?"); /* Redis has not counted them */
            else
                ctl_value_add(&text, v, column->kind, now_ms);
            int width = width_of(buf_str(&text));
            if (width > t->width[c])
                t->width[c] = width;
            t->cells[r * t->count + c] =
                (struct cell){mem_strdup(buf_str(&text)), colour_of(column->kind, v)};
        }
    buf_free(&text);
}

/* Returns the width of the terminal, in characters; 0: unknown. watch(1) reads the output
 * through a pipe and sets COLUMNS. */
static int terminal_width(void)
{
    struct winsize terminal;
    const char *columns = getenv("COLUMNS");
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0)
        return terminal.ws_col;
    return columns ? (int)strtol(columns, NULL, 10) : 0;
}

/* Returns how many columns fit into the terminal, but at least kept. Omits columns on the
 * right. */
static size_t fitting(const struct table *t, size_t kept)
{
    int room = terminal_width(), width = 0;
    size_t n = 0;
    if (kept == 0 || room <= 0)
        return t->count;
    while (n < t->count && (n < kept || width + t->width[n] <= room))
        width += t->width[n++] + GAP;
    return n;
}

/* Aligns numbers to the right. Does not pad the last column. */
static void put_cell(const struct table *t, size_t c, const struct cell *cell,
                     bool colours)
{
    enum ctl_kind kind = t->columns[c].kind;
    bool right = kind != CTL_TEXT && kind != CTL_STATE;
    int pad = t->width[c] - width_of(cell->text);
    bool last = c + 1 == t->shown;
    printf("%*s", right ? pad : 0, "");
    put(cell->text, cell->colour, colours);
    printf("%*s", last ? 0 : GAP + (right ? 0 : pad), "");
}

static void put_rows(const struct table *t, bool colours)
{
    for (size_t c = 0; c < t->shown; c++)
        put_cell(t, c, &(struct cell){(char *)(uintptr_t)t->columns[c].title, "1"},
                 colours);
    putchar('\n');
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t c = 0; c < t->shown; c++)
            put_cell(t, c, &t->cells[r * t->count + c], colours);
        putchar('\n');
    }
}

static void print_notes(const struct ctl_view *view, const json_t *items)
{
    const char *space = "\n";
    const json_t *item;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)items, i, item)
    {
        struct buf line = {0};
        const json_t *note = member(item, view->note);
        if (!json_is_string(note))
            continue;
        ctl_value_add(&line, member(item, view->columns[0].member), CTL_TEXT, 0);
        buf_add_str(&line, ": ");
        ctl_value_add(&line, note, CTL_TEXT, 0);
        printf("%s%s\n", space, buf_str(&line));
        space = "";
        buf_free(&line);
    }
}

static void print_table(const struct ctl_view *view, const json_t *items, int64_t now_ms)
{
    struct table t = {.columns = view->columns};
    while (t.columns[t.count].title)
        t.count++;
    must(t.count <= COLUMNS_MAX);
    fill(&t, items, now_ms > 0 ? now_ms : wall_ms());
    t.shown = fitting(&t, view->kept);
    put_rows(&t, has_colours());
    if (view->note)
        print_notes(view, items);
    for (size_t i = 0; i < t.rows * t.count; i++)
        free(t.cells[i].text);
    free(t.cells);
}

void ctl_view_print(const struct cli_args *o, const struct ctl_view *view,
                    const json_t *items, int64_t now_ms)
{
    const json_t *item;
    size_t i;
    if (o->human) {
        print_table(view, items, now_ms);
        return;
    }
    json_array_foreach((json_t *)(uintptr_t)items, i, item)
        ctl_print_json(item, JSON_COMPACT);
}

/* --- member by member --- */

static enum ctl_kind kind_of(const char *name, const json_t *v)
{
    size_t n = strlen(name);
    if (json_is_integer(v) && n > 3 && strcmp(name + n - 3, "_ms") == 0)
        return json_integer_value(v) > YEAR_2000_MS ? CTL_WHEN : CTL_SPAN;
    return strcmp(name, "bytes") == 0                                  ? CTL_BYTES
           : strcmp(name, "state") == 0 || strcmp(name, "health") == 0 ? CTL_STATE
           : strcmp(name, "dead") == 0 || strcmp(name, "overdue") == 0 ? CTL_ALARM
                                                                       : CTL_COUNT;
}

static void print_member(const char *name, const json_t *v, int indent);

/* A header ({"name":..., "value":...}) is one line; other objects have one line per
 * member. */
static void print_object(const json_t *object, int indent)
{
    const json_t *name = json_object_get(object, "name"),
                 *value = json_object_get(object, "value");
    const char *key;
    const json_t *v;
    if (json_is_string(name) && value) {
        print_member(json_string_value(name), value, indent);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)object, key, v) print_member(key, v, indent);
}

static void print_parts(const json_t *v, int indent)
{
    const json_t *item;
    size_t i;
    putchar('\n');
    if (json_is_object(v))
        print_object(v, indent);
    json_array_foreach((json_t *)(uintptr_t)v, i, item) print_object(item, indent);
}

static void print_member(const char *name, const json_t *v, int indent)
{
    struct buf title = {0}, text = {0};
    enum ctl_kind kind = kind_of(name, v);
    ctl_text_add(&title, ctl_name_shown(name, v));
    printf("%*s%s", indent, "", buf_str(&title));
    if (json_is_object(v) || json_is_object(json_array_get(v, 0))) {
        print_parts(v, indent + GAP);
    } else {
        int pad = NAME_COLUMN - indent - width_of(buf_str(&title));
        ctl_value_add(&text, v, kind, wall_ms());
        printf("%*s", pad > 1 ? pad : 1, "");
        put(buf_str(&text), colour_of(kind, v), has_colours());
        putchar('\n');
    }
    buf_free(&title);
    buf_free(&text);
}

void ctl_answer_print(const struct cli_args *o, const json_t *answer)
{
    const char *key;
    const json_t *v;
    if (!o->human) {
        ctl_print_json(answer, JSON_COMPACT);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)answer, key, v) print_member(key, v, 0);
}

void ctl_progress(const char *text)
{
    static bool shown;
    if (!isatty(STDERR_FILENO) || (text == NULL && !shown))
        return;
    shown = text != NULL;
    fprintf(stderr, "\r\033[K%s", text ? text : "");
    fflush(stderr);
}
