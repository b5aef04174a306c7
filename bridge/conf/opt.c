/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt.c - one setter per option type, and what the rows are good for besides.
 *
 * A message says what would be right and shows what is there, but never a secret and
 * never a value that came out of ${...}. Any thread.
 */
#include "bridge/conf/opt.h"
#include "bridge/base/mem.h"
#include "bridge/base/retry.h"
#include "bridge/base/text.h"
#include "bridge/base/buf.h"
#include "bridge/conf/opt_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_SIZE = 72 };

/* What stands there, short and harmless to a terminal. */
static const char *shown(const struct opt *row, const struct opt_value *v,
                         char out[SHOWN_SIZE])
{
    static const char *const kinds[] = {
        [OPT_IS_LIST] = "a list", [OPT_IS_GROUP] = "a group"};
    if (v->kind == OPT_IS_LIST || v->kind == OPT_IS_GROUP)
        return kinds[v->kind];
    if (v->filled)
        return "the value of ${...}";
    if (row->type == OPT_SECRET)
        return "what stands there";
    switch (v->kind) {
    case OPT_IS_INT:
        snprintf(out, SHOWN_SIZE, "%" PRId64, v->integer);
        break;
    case OPT_IS_REAL:
        snprintf(out, SHOWN_SIZE, "%g", v->real);
        break;
    case OPT_IS_BOOL:
        snprintf(out, SHOWN_SIZE, "%s", v->boolean ? "true" : "false");
        break;
    default:
        snprintf(out, SHOWN_SIZE, "\"%.60s\"", v->str);
    }
    for (char *p = out; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    return out;
}

static int wrong(const struct opt *row, const struct opt_value *v, const char *right,
                 struct err *err)
{
    char text[SHOWN_SIZE];
    return err_set(err, "must be %s, not %s", right, shown(row, v, text));
}

static const char *number_text(const struct opt *row, int64_t n, char out[OPT_TEXT_SIZE])
{
    if (row->type == OPT_MS)
        return opt_text_ms(n, out);
    if (row->type == OPT_BYTES)
        return opt_text_bytes(n, out);
    snprintf(out, OPT_TEXT_SIZE, "%" PRId64, n);
    return out;
}

static int out_of_range(const struct opt *row, const struct opt_value *v, struct err *err)
{
    char least[OPT_TEXT_SIZE], most[OPT_TEXT_SIZE], right[128];

    if (row->max > 0)
        snprintf(right, sizeof(right), "between %s and %s",
                 number_text(row, row->min, least), number_text(row, row->max, most));
    else
        snprintf(right, sizeof(right), "at least %s", number_text(row, row->min, least));
    return wrong(row, v, right, err);
}

static int set_number(const struct opt *row, int64_t *field, int64_t n,
                      const struct opt_value *v, struct err *err)
{
    if (n < row->min || (row->max > 0 && n > row->max))
        return out_of_range(row, v, err);
    *field = n;
    return 0;
}

static int set_int(const struct opt *row, void *field, const struct opt_value *v,
                   struct err *err)
{
    if (v->kind != OPT_IS_INT)
        return wrong(row, v, "a whole number without quotes", err);
    return set_number(row, field, v->integer, v, err);
}

static int set_real(const struct opt *row, void *field, const struct opt_value *v,
                    struct err *err)
{
    double x = v->kind == OPT_IS_INT ? (double)v->integer : v->real;

    if ((v->kind != OPT_IS_INT && v->kind != OPT_IS_REAL) || !isfinite(x))
        return wrong(row, v, "a number without quotes", err);
    if (x < (double)row->min || (row->max > 0 && x > (double)row->max))
        return out_of_range(row, v, err);
    *(double *)field = x;
    return 0;
}

static int set_bool(const struct opt *row, void *field, const struct opt_value *v,
                    struct err *err)
{
    if (v->kind != OPT_IS_BOOL)
        return wrong(row, v, "true or false, without quotes", err);
    *(bool *)field = v->boolean;
    return 0;
}

/* A size or a duration: text with a unit; 0 needs none. */
static int set_measure(const struct opt *row, void *field, const struct opt_value *v,
                       const char *right,
                       int (*parse)(const char *, int64_t *, struct err *),
                       struct err *err)
{
    int64_t n = 0;

    if (v->kind == OPT_IS_INT ? v->integer != 0 : v->kind != OPT_IS_STR)
        return wrong(row, v, right, err);
    if (v->kind == OPT_IS_STR && parse(v->str, &n, err) != 0) {
        char text[SHOWN_SIZE];
        return err_in(err, shown(row, v, text));
    }
    return set_number(row, field, n, v, err);
}

static int set_ms(const struct opt *row, void *field, const struct opt_value *v,
                  struct err *err)
{
    return set_measure(row, field, v,
                       "a duration with a unit in quotes, such as \"1500ms\" or \"30s\"",
                       opt_parse_ms, err);
}

static int set_bytes(const struct opt *row, void *field, const struct opt_value *v,
                     struct err *err)
{
    return set_measure(row, field, v,
                       "a size with a unit in quotes, such as \"64KiB\" or \"512B\"",
                       text_parse_bytes, err);
}

static void forget(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

static bool is_required(const struct opt *row)
{
    return row->def == NULL && !row->optional;
}

static int set_str(const struct opt *row, void *field, const struct opt_value *v,
                   struct err *err)
{
    if (v->kind != OPT_IS_STR)
        return wrong(row, v, "text in quotes", err);
    if (*v->str == '\0' && is_required(row))
        return err_set(err, "must not be empty");
    char **text = field;
    forget(*text);
    *text = mem_strdup(v->str);
    return 0;
}

static int set_choice(const struct opt *row, void *field, const struct opt_value *v,
                      struct err *err)
{
    int index = 0;

    for (const char *p = row->choices; v->kind == OPT_IS_STR; index++) {
        size_t n = strcspn(p, "|");
        if (slice_is((struct slice){p, n}, v->str)) {
            *(int *)field = index;
            return 0;
        }
        if (p[n] == '\0')
            break;
        p += n + 1;
    }
    char right[256];
    snprintf(right, sizeof(right), "one of %s, in quotes", row->choices);
    return wrong(row, v, right, err);
}

/* Gives the text of a scalar; NULL for a list or a group. */
static char *scalar_text(const struct opt_value *v)
{
    char text[40];

    switch (v->kind) {
    case OPT_IS_STR:
        return mem_strdup(v->str);
    case OPT_IS_INT:
        snprintf(text, sizeof(text), "%" PRId64, v->integer);
        return mem_strdup(text);
    case OPT_IS_REAL:
        snprintf(text, sizeof(text), "%.15g", v->real);
        return mem_strdup(text);
    case OPT_IS_BOOL:
        return mem_strdup(v->boolean ? "true" : "false");
    default:
        return NULL;
    }
}

static void list_free(struct opt_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        forget(list->v[i]);
    free(list->v);
    *list = (struct opt_list){0};
}

static int set_list(const struct opt *row, void *field, const struct opt_value *v,
                    struct err *err)
{
    bool many = v->kind == OPT_IS_LIST;
    const struct opt_value *item = many ? v->item : v;
    size_t count = many ? v->count : 1;
    struct opt_list list = {0};

    if (count == 0 && is_required(row))
        return err_set(err, "must name at least one");
    list.v = mem_alloc(count * sizeof(*list.v));
    for (; list.n < count; list.n++) {
        char *text = scalar_text(&item[list.n]);
        if (text == NULL || *text == '\0') {
            free(text);
            list_free(&list);
            return err_set(err, "must be text in quotes, or a list of it: "
                                "[ \"one\", \"two\" ], and nothing empty");
        }
        list.v[list.n] = text;
    }
    list_free(field);
    *(struct opt_list *)field = list;
    return 0;
}

static void pairs_free(struct pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++) {
        free(pairs->v[i].name);
        forget(pairs->v[i].value);
    }
    free(pairs->v);
    *pairs = (struct pairs){0};
}

static int set_pairs(const struct opt *row, void *field, const struct opt_value *v,
                     struct err *err)
{
    struct pairs pairs = {0};

    if (v->kind != OPT_IS_GROUP)
        return wrong(row, v, "a group: { name = \"value\"; }", err);
    pairs.v = mem_alloc(v->count * sizeof(*pairs.v));
    for (; pairs.n < v->count; pairs.n++) {
        const struct opt_value *item = &v->item[pairs.n];
        char *text = scalar_text(item);
        if (text == NULL) {
            pairs_free(&pairs);
            return err_set(err,
                           "\"%.60s\" must be text or a number, not a list or a group",
                           item->name);
        }
        pairs.v[pairs.n] = (struct pair){mem_strdup(item->name), text};
    }
    pairs_free(field);
    *(struct pairs *)field = pairs;
    return 0;
}

typedef int set_fn(const struct opt *row, void *field, const struct opt_value *v,
                   struct err *err);

static set_fn *const setters[] = {
    [OPT_STR] = set_str,         [OPT_FILE] = set_str,  [OPT_KEY_FILE] = set_str,
    [OPT_SECRET] = set_str,      [OPT_INT] = set_int,   [OPT_REAL] = set_real,
    [OPT_BOOL] = set_bool,       [OPT_MS] = set_ms,     [OPT_BYTES] = set_bytes,
    [OPT_CHOICE] = set_choice,   [OPT_LIST] = set_list, [OPT_PAIRS] = set_pairs,
    [OPT_RETRY] = opt_set_retry,
};

static void *field_of(const struct opt *row, void *self)
{
    return (char *)self + row->offset;
}

int opt_set(const struct opt *row, void *self, const struct opt_value *v, struct err *err)
{
    return setters[row->type](row, field_of(row, self), v, err);
}

void opt_defaults(const struct opt *rows, void *self)
{
    struct err err;

    for (const struct opt *row = rows; row->name != NULL; row++) {
        struct opt_value v;
        if (row->def == NULL)
            continue;
        must(opt_text_read(row->type, row->def, &v) == 0);
        if (opt_set(row, self, &v, &err) != 0) {
            fprintf(stderr, "tarry: default of %s: %s\n", row->name, err.text);
            must(!"a default of an option row is right");
        }
        opt_text_free(&v);
    }
}

static void reset(const struct opt *row, void *field)
{
    switch (row->type) {
    case OPT_STR:
    case OPT_FILE:
    case OPT_KEY_FILE:
    case OPT_SECRET:
        forget(*(char **)field);
        *(char **)field = NULL;
        break;
    case OPT_LIST:
        list_free(field);
        break;
    case OPT_PAIRS:
        pairs_free(field);
        break;
    case OPT_RETRY:
        retry_free(field);
        break;
    case OPT_BOOL:
        *(bool *)field = false;
        break;
    case OPT_CHOICE:
        *(int *)field = 0;
        break;
    case OPT_REAL:
        *(double *)field = 0;
        break;
    default:
        *(int64_t *)field = 0;
    }
}

void opt_free(const struct opt *rows, void *self)
{
    for (const struct opt *row = rows; row->name != NULL; row++)
        reset(row, field_of(row, self));
}

const struct opt *opt_find(const struct opt *rows, const char *name)
{
    for (; rows->name != NULL; rows++)
        if (strcmp(rows->name, name) == 0)
            return rows;
    return NULL;
}
