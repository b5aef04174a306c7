/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt_list.c - option rows for people: the list of `tarry options`, "did you mean", and
 * the two measures with units. Any thread.
 */
#include "bridge/base/mem.h"
#include "bridge/base/buf.h"
#include "bridge/base/when.h"
#include "bridge/conf/opt_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_COMPARED = 48, HELP_WIDTH = 76 };

int opt_parse_ms(const char *text, int64_t *ms, struct err *err)
{
    if (strcmp(text, "0") == 0) {
        *ms = 0;
        return 0;
    }
    return when_duration_ms(slice_of(text), WHEN_NO_UNIT, ms, err);
}

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

/* How many letters must be put in, taken out, changed or swapped to make one the other.
 */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[3][NAME_MAX_COMPARED + 1];
    size_t n = strlen(a), m = strlen(b);

    for (size_t j = 0; j <= m; j++)
        row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned changed = last[j - 1] + !same_letter(a[i - 1], b[j - 1]);
            now[j] = least(changed, least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]))
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return row[n % 3][m];
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

static const char *const type_names[] = {
    [OPT_STR] = "text",      [OPT_FILE] = "file",   [OPT_KEY_FILE] = "key file",
    [OPT_SECRET] = "secret", [OPT_INT] = "number",  [OPT_REAL] = "real",
    [OPT_BOOL] = "boolean",  [OPT_MS] = "duration", [OPT_BYTES] = "size",
    [OPT_CHOICE] = "choice", [OPT_LIST] = "list",   [OPT_PAIRS] = "group",
    [OPT_RETRY] = "schedule"};

static void print_range(const struct opt *row, FILE *out)
{
    char low[OPT_TEXT_SIZE], high[OPT_TEXT_SIZE];

    if (row->choices != NULL)
        fprintf(out, "; one of %s", row->choices);
    if (row->min == 0 && row->max == 0)
        return;
    if (row->type == OPT_MS) {
        opt_text_ms(row->min, low);
        opt_text_ms(row->max, high);
    } else if (row->type == OPT_BYTES) {
        opt_text_bytes(row->min, low);
        opt_text_bytes(row->max, high);
    } else {
        snprintf(low, sizeof(low), "%" PRId64, row->min);
        snprintf(high, sizeof(high), "%" PRId64, row->max);
    }
    if (row->max > 0)
        fprintf(out, "; %s to %s", low, high);
    else
        fprintf(out, "; %s or more", low);
}

static void print_default(const struct opt *row, FILE *out)
{
    bool quoted = row->type <= OPT_SECRET || row->type == OPT_MS ||
                  row->type == OPT_BYTES || row->type == OPT_CHOICE;

    if (row->def == NULL)
        fputs(row->optional ? "no default" : "required", out);
    else if (quoted)
        fprintf(out, "default \"%s\"", row->def);
    else if (*row->def == '\0')
        fputs("default: empty", out);
    else
        fprintf(out, "default %s", row->def);
}

/* Breaks the sentence between words. */
static void print_help(const char *help, FILE *out)
{
    size_t column = 0;

    fputs("     ", out);
    while (*help != '\0') {
        size_t n = strcspn(help, " ");
        if (column > 0 && column + n + 1 > HELP_WIDTH) {
            fputs("\n     ", out);
            column = 0;
        }
        fputc(' ', out);
        fprintf(out, "%.*s", (int)n, help);
        column += n + 1;
        help += n + (help[n] == ' ');
    }
    fputc('\n', out);
}

void opt_print_facts(const struct opt *row, FILE *out)
{
    fprintf(out, "%-9s ", type_names[row->type]);
    print_default(row, out);
    print_range(row, out);
}

void opt_print(const struct opt *rows, FILE *out)
{
    for (; rows->name != NULL; rows++) {
        fprintf(out, "  %-18s ", rows->name);
        opt_print_facts(rows, out);
        fputc('\n', out);
        print_help(rows->help, out);
    }
}
