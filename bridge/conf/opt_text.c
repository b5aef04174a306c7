/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt_text.c - the text form of option values: defaults in, durations and sizes out.
 *
 * Reads the few forms that a default in a table may take: a scalar, a list of scalars
 * "[ "10s", "20s" ]", a group of scalars "{ first = "1s"; factor = 2.0; }". Any thread.
 */
#include "bridge/conf/opt_text.h"
#include "bridge/base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

const char *opt_text_bytes(int64_t bytes, char out[OPT_TEXT_SIZE])
{
    static const struct unit units[] = {{"TiB", 1LL << 40},
                                        {"GiB", 1 << 30},
                                        {"MiB", 1 << 20},
                                        {"KiB", 1 << 10},
                                        {"B", 1}};
    return text_of(bytes, units, out);
}

static const char *skip_space(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

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

static bool read_bool(const char *text, struct opt_value *v)
{
    v->kind = OPT_IS_BOOL;
    v->boolean = strcmp(text, "true") == 0;
    return v->boolean || strcmp(text, "false") == 0;
}

/* "text" in quotes, a number, true or false; gives the place behind it, or NULL. */
static const char *read_scalar(const char *p, struct opt_value *v)
{
    bool quoted = *p == '"';
    size_t n = quoted ? strcspn(p + 1, "\"") : strcspn(p, ",;]} \t");
    char *word = mem_strndup(p + quoted, n);
    bool good;

    if (quoted) {
        v->kind = OPT_IS_STR;
        v->str = word;
        return p[n + 1] == '"' ? p + n + 2 : NULL;
    }
    good = read_number(word, v) || read_bool(word, v);
    free(word);
    return good ? p + n : NULL;
}

static struct opt_value *add_item(struct opt_value *v)
{
    struct opt_value *items =
        mem_realloc((void *)v->item, (v->count + 1) * sizeof(*items));
    v->item = items;
    items[v->count] = (struct opt_value){0};
    return &items[v->count++];
}

static const char *read_name(const char *p, struct opt_value *item)
{
    size_t n = strcspn(p, " =");
    item->name = mem_strndup(p, n);
    p = skip_space(p + n);
    return *p == '=' && n > 0 ? skip_space(p + 1) : NULL;
}

/* p stands behind the opening bracket. */
static bool read_items(const char *p, struct opt_value *v, char close, char between)
{
    for (p = skip_space(p); *p != close;) {
        struct opt_value *item = add_item(v);
        if (v->kind == OPT_IS_GROUP)
            p = read_name(p, item);
        p = p ? read_scalar(p, item) : NULL;
        if (p == NULL)
            return false;
        p = skip_space(p);
        if (*p == between)
            p = skip_space(p + 1);
        else if (*p != close)
            return false;
    }
    return *skip_space(p + 1) == '\0';
}

static bool read_text(const char *text, struct opt_value *v)
{
    v->kind = OPT_IS_STR;
    v->str = mem_strdup(text);
    return true;
}

/* "[...]", "{...}", or a bare word where one is allowed; "" is empty. */
static bool read_many(const char *text, enum opt_kind when_empty, struct opt_value *v)
{
    v->kind = *text == '[' ? OPT_IS_LIST : *text == '{' ? OPT_IS_GROUP : when_empty;
    if (*text == '\0')
        return true;
    if (*text == '[')
        return read_items(text + 1, v, ']', ',');
    if (*text == '{')
        return read_items(text + 1, v, '}', ';');
    return read_text(text, v);
}

static bool read_value(enum opt_type type, const char *text, struct opt_value *v)
{
    switch (type) {
    case OPT_INT:
    case OPT_REAL:
        return read_number(text, v);
    case OPT_BOOL:
        return read_bool(text, v);
    case OPT_LIST:
    case OPT_RETRY:
        return read_many(text, OPT_IS_LIST, v);
    case OPT_PAIRS:
        return read_many(text, OPT_IS_GROUP, v);
    default:
        return read_text(text, v);
    }
}

int opt_text_read(enum opt_type type, const char *text, struct opt_value *v)
{
    *v = (struct opt_value){0};
    if (read_value(type, text, v))
        return 0;
    opt_text_free(v);
    return -1;
}

void opt_text_free(struct opt_value *v)
{
    for (size_t i = 0; i < v->count; i++) {
        free((void *)v->item[i].name);
        free((void *)v->item[i].str);
    }
    free((void *)v->item);
    free((void *)v->str);
    *v = (struct opt_value){0};
}
