/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt_text.c - text forms of options: durations and sizes, values of tables and the
 * command line, `tarry options`, "did you mean". Any thread.
 */
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/when.h"
#include "bridge/conf/conf_internal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_COMPARED = 48, HELP_COLUMN = 6, HELP_WIDTH = 75 };

/* --- durations and sizes --- */

struct unit {
    const char *name;
    int64_t size;
};

static const char *text_of(int64_t n, const struct unit *units, char out[OPT_TEXT_SIZE])
{
    if (n == 0)
        return strcpy(out, "0");
    while (units->size > 1 && n % units->size != 0)
        units++;
    snprintf(out, OPT_TEXT_SIZE, "%" PRId64 "%s", n / units->size, units->name);
    return out;
}

const char *opt_text_ms(int64_t ms, char out[OPT_TEXT_SIZE])
{
    static const struct unit units[] = {
        {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    return text_of(ms, units, out);
}

/* Largest first. The decimal units after "B" are accepted, but never written. */
static const struct unit sizes[] = {
    {"TiB", 1LL << 40}, {"GiB", 1LL << 30},   {"MiB", 1LL << 20}, {"KiB", 1LL << 10},
    {"B", 1},           {"kB", 1000},         {"KB", 1000},       {"MB", 1000000},
    {"GB", 1000000000}, {"TB", 1000000000000}};

const char *opt_text_bytes(int64_t bytes, char out[OPT_TEXT_SIZE])
{
    return text_of(bytes, sizes, out);
}

const char *opt_number_text(const struct opt *row, int64_t n, char out[OPT_TEXT_SIZE])
{
    if (row->type == OPT_MS)
        return opt_text_ms(n, out);
    if (row->type == OPT_BYTES)
        return opt_text_bytes(n, out);
    snprintf(out, OPT_TEXT_SIZE, "%" PRId64, n);
    return out;
}

int opt_parse_ms(const char *text, int64_t *ms, struct err *err)
{
    if (strcmp(text, "0") == 0) {
        *ms = 0;
        return 0;
    }
    return when_duration_ms(slice_of(text), WHEN_NO_UNIT, ms, err);
}

/* --- usual names of units that tarry does not accept --- */

static const struct {
    const char *usual, *right;
} usual_units[] = {
    {"sec", "s"},
    {"secs", "s"},
    {"second", "s"},
    {"seconds", "s"},
    {"min", "m"},
    {"mins", "m"},
    {"minute", "m"},
    {"minutes", "m"},
    {"hr", "h"},
    {"hrs", "h"},
    {"hour", "h"},
    {"hours", "h"},
    {"day", "d"},
    {"days", "d"},
    {"week", "w"},
    {"weeks", "w"},
    {"msec", "ms"},
    {"millis", "ms"},
    {"millisecond", "ms"},
    {"milliseconds", "ms"},
    {"b", "B"},
    {"byte", "B"},
    {"bytes", "B"},
    {"k", "KiB"},
    {"ki", "KiB"},
    {"kib", "KiB"},
    {"kb", "KB"},
    {"m", "MiB"},
    {"mi", "MiB"},
    {"mib", "MiB"},
    {"mb", "MB"},
    {"g", "GiB"},
    {"gi", "GiB"},
    {"gib", "GiB"},
    {"gb", "GB"},
    {"s", "s"},
    {"d", "d"},
    {"h", "h"},
    {"w", "w"},
    {"ms", "ms"},
};

/* Appends the number with the right unit for word. Returns false if there is none. */
static bool add_measure(struct buf *out, struct slice number, struct slice word,
                        opt_parse *parse)
{
    for (size_t i = 0; i < sizeof(usual_units) / sizeof(*usual_units); i++) {
        char text[OPT_TEXT_SIZE];
        int64_t n;
        struct err err;
        snprintf(text, sizeof(text), "%.*s%s", SLICE_ARG(number), usual_units[i].right);
        if (!slice_is_nocase(word, usual_units[i].usual) || parse(text, &n, &err) != 0)
            continue;
        buf_add_str(out, text);
        return true;
    }
    return false;
}

static struct slice take(const char **p, const char *bytes)
{
    struct slice s = {*p, strspn(*p, bytes)};
    *p += s.n + strspn(*p + s.n, " ");
    return s;
}

bool opt_right_units(const char *text, opt_parse *parse, char out[OPT_TEXT_SIZE])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct buf right = {0};
    int64_t n;
    struct err err;
    bool good = *text != '\0';

    while (good && *text != '\0') {
        struct slice number = take(&text, "0123456789."), word = take(&text, letters);
        good = number.n > 0 && number.n < OPT_TEXT_SIZE / 2 &&
               add_measure(&right, number, word, parse);
    }
    good = good && right.n < OPT_TEXT_SIZE && parse(buf_str(&right), &n, &err) == 0;
    if (good)
        snprintf(out, OPT_TEXT_SIZE, "%s", buf_str(&right));
    buf_free(&right);
    return good;
}

/* --- a value as text --- */

static bool read_number(const char *text, struct opt_value *v)
{
    char *end;
    errno = 0;
    if (strpbrk(text, ".eE") != NULL) {
        v->kind = OPT_IS_REAL;
        v->real = strtod(text, &end);
    } else {
        v->kind = OPT_IS_INT;
        v->integer = strtoll(text, &end, 10);
    }
    return errno == 0 && end != text && *end == '\0';
}

/* Converts text to v. If *tree is set, it owns the values that v points to. */
static bool read_text(enum opt_form form, const char *text, struct opt_value *v,
                      struct conf_tree **tree)
{
    *v = (struct opt_value){.kind = OPT_IS_STR, .str = text};
    if (form == OPT_NUMBER)
        return read_number(text, v);
    if (form == OPT_TRUTH) {
        v->kind = OPT_IS_BOOL;
        v->boolean = strcmp(text, "true") == 0;
        return v->boolean || strcmp(text, "false") == 0;
    }
    if (form != OPT_BARE && *text == '\0')
        v->kind = form == OPT_ITEMS ? OPT_IS_LIST : OPT_IS_GROUP;
    if (form == OPT_BARE || *text == '\0' || strchr("[{", *text) == NULL)
        return true;
    *tree = conf_tree_of(text);
    const struct opt_value *read = conf_tree_member(conf_tree_root(*tree), "v");
    if (read != NULL)
        *v = *read;
    return read != NULL;
}

int opt_set_text(const struct opt *row, void *self, const char *text, struct err *err)
{
    const struct opt_type_row *type = &opt_types[row->type];
    struct conf_tree *tree = NULL;
    struct opt_value v;
    int rc = -1;

    if (read_text(type->form, text, &v, &tree))
        rc = opt_set(row, self, &v, err);
    else
        err_set(err, "must be a %s, not \"%.60s\"", type->name, text);
    conf_tree_free(tree);
    return rc;
}

/* --- did you mean --- */

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static bool same_letter(char a, char b)
{
    a = a == '-' ? '_' : (char)tolower((unsigned char)a);
    b = b == '-' ? '_' : (char)tolower((unsigned char)b);
    return a == b;
}

/* Returns the edit distance: insertions, deletions and changes of letters. */
static unsigned distance(const char *a, const char *b)
{
    unsigned
        row[NAME_MAX_COMPARED + 1]; /* from the letters of a so far to each start of b */
    size_t m = strlen(b);

    for (size_t j = 0; j <= m; j++)
        row[j] = (unsigned)j;
    for (; *a != '\0'; a++) {
        unsigned corner = row[0]++;
        for (size_t j = 1; j <= m; j++) {
            unsigned changed = corner + !same_letter(*a, b[j - 1]);
            corner = row[j];
            row[j] = least(changed, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[m];
}

const char *opt_nearest(const struct opt *rows, const char *name)
{
    size_t n = strlen(name);
    unsigned best = n < 4 ? 2 : n < 9 ? 3 : 4;
    const char *nearest = NULL;

    if (n > NAME_MAX_COMPARED)
        return NULL;
    for (; rows->name != NULL; rows++) {
        if (strlen(rows->name) > NAME_MAX_COMPARED)
            continue;
        unsigned d = distance(rows->name, name);
        if (d < best) {
            best = d;
            nearest = rows->name;
        }
    }
    return nearest;
}

void opt_names_add(struct opt_names *names, const char *name)
{
    names->v = mem_realloc(names->v, (names->n + 2) * sizeof(*names->v));
    names->v[names->n++] = (struct opt){.name = name};
    names->v[names->n] = (struct opt){0};
}

const char *opt_hint(struct opt_names *names, const char *wrong, char out[OPT_HINT_SIZE])
{
    const char *nearest = names->n > 0 ? opt_nearest(names->v, wrong) : NULL;
    struct buf known = {0};

    for (size_t i = 0; i < names->n; i++)
        buf_addf(&known, "%s%s", i ? ", " : "", names->v[i].name);
    if (nearest != NULL)
        snprintf(out, OPT_HINT_SIZE, "did you mean \"%s\"?", nearest);
    else if (names->n > 0)
        snprintf(out, OPT_HINT_SIZE, "known: %.300s", buf_str(&known));
    else
        snprintf(out, OPT_HINT_SIZE, "none is configured");
    buf_free(&known);
    free(names->v);
    *names = (struct opt_names){0};
    return out;
}

/* --- printing rows --- */

static void print_range(const struct opt *row, FILE *out)
{
    char low[OPT_TEXT_SIZE], high[OPT_TEXT_SIZE];

    if (row->choices != NULL)
        fprintf(out, "; one of %s", row->choices);
    if (row->min == 0 && row->max == 0)
        return;
    opt_number_text(row, row->min, low);
    opt_number_text(row, row->max, high);
    if (row->max > 0)
        fprintf(out, "; %s to %s", low, high);
    else
        fprintf(out, "; %s or more", low);
}

static void print_default(const struct opt *row, FILE *out)
{
    bool quoted = opt_types[row->type].form == OPT_BARE;

    if (row->def == NULL)
        fputs(row->optional ? "no default" : "required", out);
    else if (quoted)
        fprintf(out, "default \"%s\"", row->def);
    else if (*row->def == '\0')
        fputs("default: empty", out);
    else
        fprintf(out, "default %s", row->def);
}

void opt_print_help(const char *help, int at, int column, size_t width, FILE *out)
{
    while (*help != '\0') {
        size_t n = strlen(help);
        if (n > width) {
            for (n = width; n > 0 && help[n] != ' ';)
                n--;
            n = n > 0 ? n : strcspn(help, " ");
        }
        fprintf(out, "%*s%.*s\n", at < column ? column - at : 1, "", (int)n, help);
        help += n + (help[n] == ' ');
        at = 0;
    }
}

void opt_print(const struct opt *rows, FILE *out)
{
    for (; rows->name != NULL; rows++) {
        fprintf(out, "  %-18s %-9s ", rows->name, opt_types[rows->type].name);
        print_default(rows, out);
        print_range(rows, out);
        fputc('\n', out);
        opt_print_help(rows->help, 0, HELP_COLUMN, HELP_WIDTH, out);
    }
}
