/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt.c - the table of option types, and functions that apply rows to a struct.
 *
 * An error says what is expected and shows the value, but never a secret and never a
 * value from ${...}. Any thread.
 */
#include "bridge/conf/conf_internal.h"
#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/base/retry.h"
#include "bridge/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_SIZE = 72 };

/* Returns the value for an error message: short, without control characters. */
static const char *shown(const struct opt *row, const struct opt_value *v,
                         char out[SHOWN_SIZE])
{
    static const char *const kinds[] = {
        [OPT_IS_LIST] = "a list", [OPT_IS_GROUP] = "a group"};
    if (v->kind == OPT_IS_LIST || v->kind == OPT_IS_GROUP)
        return kinds[v->kind];
    if (v->expanded)
        return "the value of ${...}";
    if (row->type == OPT_SECRET)
        return "the value there";
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

static int out_of_range(const struct opt *row, const struct opt_value *v, struct err *err)
{
    char least[OPT_TEXT_SIZE], most[OPT_TEXT_SIZE], right[128];

    if (row->max > 0)
        snprintf(right, sizeof(right), "between %s and %s",
                 opt_number_text(row, row->min, least),
                 opt_number_text(row, row->max, most));
    else
        snprintf(right, sizeof(right), "at least %s",
                 opt_number_text(row, row->min, least));
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

/* The hint is the number with the unit that was probably meant: s, or B. */
static int wrong_number(const struct opt *row, const struct opt_value *v,
                        const char *right, opt_parse *parse, struct err *err)
{
    char text[OPT_TEXT_SIZE], why[sizeof(err->text) - 2 * OPT_TEXT_SIZE];
    int64_t n;
    bool valid = false;

    for (const char *unit = "sB"; !valid && *unit != '\0'; unit++) {
        snprintf(text, sizeof(text), "%" PRId64 "%c", v->integer, *unit);
        valid = v->kind == OPT_IS_INT && parse(text, &n, err) == 0;
    }
    wrong(row, v, right, err);
    if (!valid)
        return -1;
    snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, err->text);
    return err_set(err, "%s; write \"%s\"", why, text);
}

/* Sets a size or a duration: text with a unit, or 0. */
static int set_measure(const struct opt *row, void *field, const struct opt_value *v,
                       const char *right, opt_parse *parse, struct err *err)
{
    char fixed[OPT_TEXT_SIZE];
    int64_t n = 0;

    if (v->kind == OPT_IS_INT ? v->integer != 0 : v->kind != OPT_IS_STR)
        return wrong_number(row, v, right, parse, err);
    if (v->kind == OPT_IS_STR && parse(v->str, &n, err) != 0) {
        char text[SHOWN_SIZE];
        bool slip = !v->expanded && opt_right_units(v->str, parse, fixed);
        return slip ? err_set(err, "%s is not valid; did you mean \"%s\"?",
                              shown(row, v, text), fixed)
                    : err_in(err, shown(row, v, text));
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
    text_forget(*text);
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

/* Returns the text of a scalar, or NULL for a list or group. The caller frees it. */
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

static void free_text(void *field)
{
    text_forget(*(char **)field);
}

static bool same_text(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return x && y ? strcmp(x, y) == 0 : x == y;
}

static void free_list(void *field)
{
    struct opt_list *list = field;

    for (size_t i = 0; i < list->n; i++)
        text_forget(list->v[i]);
    free(list->v);
}

static bool same_list(const void *a, const void *b)
{
    const struct opt_list *x = a, *y = b;
    bool same = x->n == y->n;

    for (size_t i = 0; same && i < x->n; i++)
        same = strcmp(x->v[i], y->v[i]) == 0;
    return same;
}

void opt_list_add(struct opt_list *list, const char *text)
{
    list->v = mem_realloc(list->v, (list->n + 1) * sizeof(*list->v));
    list->v[list->n++] = mem_strdup(text);
}

static int set_list(const struct opt *row, void *field, const struct opt_value *v,
                    struct err *err)
{
    bool many = v->kind == OPT_IS_LIST;
    const struct opt_value *item = many ? v->item : v;
    size_t count = many ? v->count : 1;
    struct opt_list list = {0};

    if (count == 0 && is_required(row))
        return err_set(err, "must contain at least one entry");
    list.v = mem_alloc(count * sizeof(*list.v));
    for (; list.n < count; list.n++) {
        char *text = scalar_text(&item[list.n]);
        if (text == NULL || *text == '\0') {
            free_list(&list);
            if (text)
                err_set(err, "an entry must not be empty; write a text, or remove it");
            else
                err_set(err, "must be text in quotes, or a list: [ \"one\", \"two\" ]");
            free(text);
            return -1;
        }
        list.v[list.n] = text;
    }
    free_list(field);
    *(struct opt_list *)field = list;
    return 0;
}

static void free_pairs(void *field)
{
    struct pairs *pairs = field;

    for (size_t i = 0; i < pairs->n; i++) {
        free(pairs->v[i].name);
        text_forget(pairs->v[i].value);
    }
    free(pairs->v);
}

static bool same_pairs(const void *a, const void *b)
{
    const struct pairs *x = a, *y = b;
    bool same = x->n == y->n;

    for (size_t i = 0; same && i < x->n; i++)
        same = strcmp(x->v[i].name, y->v[i].name) == 0 &&
               strcmp(x->v[i].value, y->v[i].value) == 0;
    return same;
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
            free_pairs(&pairs);
            return err_set(err,
                           "\"%.60s\" must be text or a number, not a list or a group",
                           item->name);
        }
        pairs.v[pairs.n] = (struct pair){mem_strdup(item->name), text};
    }
    free_pairs(field);
    *(struct pairs *)field = pairs;
    return 0;
}

static bool same_retry(const void *a, const void *b)
{
    const struct retry_policy *x = a, *y = b;

    if ((x->list_ms != NULL) != (y->list_ms != NULL))
        return false;
    if (x->list_ms != NULL)
        return x->list_count == y->list_count &&
               memcmp(x->list_ms, y->list_ms, x->list_count * sizeof(*x->list_ms)) == 0;
    return x->first_ms == y->first_ms && x->max_ms == y->max_ms && x->limit == y->limit &&
           !(x->factor < y->factor) && !(x->factor > y->factor) &&
           !(x->jitter < y->jitter) && !(x->jitter > y->jitter);
}

static void free_retry(void *field)
{
    retry_free(field);
}

#define TEXT sizeof(char *), OPT_BARE, set_str, same_text, free_text
#define BYTES NULL, NULL /* for types whose bytes are the value */
const struct opt_type_row opt_types[OPT_TYPES] = {
    [OPT_STR] = {"text", TEXT},
    [OPT_FILE] = {"file", TEXT},
    [OPT_KEY_FILE] = {"key file", TEXT},
    [OPT_SECRET] = {"secret", TEXT},
    [OPT_INT] = {"number", sizeof(int64_t), OPT_NUMBER, set_int, BYTES},
    [OPT_REAL] = {"real", sizeof(double), OPT_NUMBER, set_real, BYTES},
    [OPT_BOOL] = {"boolean", sizeof(bool), OPT_TRUTH, set_bool, BYTES},
    [OPT_MS] = {"duration", sizeof(int64_t), OPT_BARE, set_ms, BYTES},
    [OPT_BYTES] = {"size", sizeof(int64_t), OPT_BARE, set_bytes, BYTES},
    [OPT_CHOICE] = {"choice", sizeof(int), OPT_BARE, set_choice, BYTES},
    [OPT_LIST] = {"list", sizeof(struct opt_list), OPT_ITEMS, set_list, same_list,
                  free_list},
    [OPT_PAIRS] = {"group", sizeof(struct pairs), OPT_MEMBERS, set_pairs, same_pairs,
                   free_pairs},
    [OPT_RETRY] = {"schedule", sizeof(struct retry_policy), OPT_ITEMS, opt_set_retry,
                   same_retry, free_retry},
};
#undef TEXT
#undef BYTES

/* --- rows --- */

int opt_set(const struct opt *row, void *self, const struct opt_value *v, struct err *err)
{
    return opt_types[row->type].set(row, (char *)self + row->offset, v, err);
}

void opt_defaults(const struct opt *rows, void *self)
{
    struct err err;

    for (const struct opt *row = rows; row->name != NULL; row++)
        if (row->def != NULL && opt_set_text(row, self, row->def, &err) != 0) {
            fprintf(stderr, "tarry: default of %s: %s\n", row->name, err.text);
            must(!"the default of an option row is valid");
        }
}

void opt_free(const struct opt *rows, void *self)
{
    for (const struct opt *row = rows; row->name != NULL; row++) {
        const struct opt_type_row *type = &opt_types[row->type];
        char *field = (char *)self + row->offset;
        if (type->free)
            type->free(field);
        memset(field, 0, type->size);
    }
}

bool opt_same(const struct opt *row, const void *a, const void *b)
{
    const struct opt_type_row *type = &opt_types[row->type];
    const char *x = (const char *)a + row->offset, *y = (const char *)b + row->offset;

    return type->same ? type->same(x, y) : memcmp(x, y, type->size) == 0;
}

bool opt_all_same(const struct opt *rows, const void *a, const void *b)
{
    while (rows->name != NULL && opt_same(rows, a, b))
        rows++;
    return rows->name == NULL;
}

void opt_exchange(const struct opt *rows, void *a, void *b)
{
    char room[sizeof(struct retry_policy)]; /* large enough for every field */

    for (const struct opt *row = rows; row->name != NULL; row++) {
        size_t size = opt_types[row->type].size;
        char *x = (char *)a + row->offset, *y = (char *)b + row->offset;
        must(size <= sizeof(room));
        memcpy(room, x, size);
        memcpy(x, y, size);
        memcpy(y, room, size);
    }
}

const struct opt *opt_find(const struct opt *rows, const char *name)
{
    for (; rows->name != NULL; rows++)
        if (strcmp(rows->name, name) == 0)
            return rows;
    return NULL;
}
