/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/conf/opt_same.h"
#include "bridge/base/mem.h"
#include "bridge/base/retry.h"

#include <string.h>

static bool same_text(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return x && y ? strcmp(x, y) == 0 : x == y;
}

static bool same_number(const void *a, const void *b)
{
    return *(const int64_t *)a == *(const int64_t *)b;
}

static bool same_real(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(double)) == 0;
}

static bool same_bool(const void *a, const void *b)
{
    return *(const bool *)a == *(const bool *)b;
}

static bool same_choice(const void *a, const void *b)
{
    return *(const int *)a == *(const int *)b;
}

static bool same_list(const void *a, const void *b)
{
    const struct opt_list *x = a, *y = b;
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (strcmp(x->v[i], y->v[i]) != 0)
            return false;
    return true;
}

static bool same_pairs(const void *a, const void *b)
{
    const struct pairs *x = a, *y = b;
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (strcmp(x->v[i].name, y->v[i].name) != 0 ||
            strcmp(x->v[i].value, y->v[i].value) != 0)
            return false;
    return true;
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
           same_real(&x->factor, &y->factor) && same_real(&x->jitter, &y->jitter);
}

static void copy_text(const void *from, void *to)
{
    const char *text = *(char *const *)from;
    *(char **)to = text ? mem_strdup(text) : NULL;
}

static void copy_list(const void *from, void *to)
{
    const struct opt_list *x = from;
    struct opt_list *y = to;
    y->v = mem_alloc(x->n * sizeof(*y->v));
    for (y->n = 0; y->n < x->n; y->n++)
        y->v[y->n] = mem_strdup(x->v[y->n]);
}

static void copy_pairs(const void *from, void *to)
{
    const struct pairs *x = from;
    struct pairs *y = to;
    y->v = mem_alloc(x->n * sizeof(*y->v));
    for (y->n = 0; y->n < x->n; y->n++)
        y->v[y->n] =
            (struct pair){mem_strdup(x->v[y->n].name), mem_strdup(x->v[y->n].value)};
}

static void copy_retry(const void *from, void *to)
{
    *(struct retry_policy *)to = retry_copy(from);
}

/* copy NULL: the bytes are the value. */
static const struct kind {
    size_t size;
    bool (*same)(const void *a, const void *b);
    void (*copy)(const void *from, void *to);
} kinds[] = {
    [OPT_STR] = {sizeof(char *), same_text, copy_text},
    [OPT_FILE] = {sizeof(char *), same_text, copy_text},
    [OPT_KEY_FILE] = {sizeof(char *), same_text, copy_text},
    [OPT_SECRET] = {sizeof(char *), same_text, copy_text},
    [OPT_INT] = {sizeof(int64_t), same_number, NULL},
    [OPT_REAL] = {sizeof(double), same_real, NULL},
    [OPT_BOOL] = {sizeof(bool), same_bool, NULL},
    [OPT_MS] = {sizeof(int64_t), same_number, NULL},
    [OPT_BYTES] = {sizeof(int64_t), same_number, NULL},
    [OPT_CHOICE] = {sizeof(int), same_choice, NULL},
    [OPT_LIST] = {sizeof(struct opt_list), same_list, copy_list},
    [OPT_PAIRS] = {sizeof(struct pairs), same_pairs, copy_pairs},
    [OPT_RETRY] = {sizeof(struct retry_policy), same_retry, copy_retry},
};
enum { LARGEST = sizeof(struct retry_policy) };

bool opt_same(const struct opt *row, const void *a, const void *b)
{
    return kinds[row->type].same((const char *)a + row->offset,
                                 (const char *)b + row->offset);
}

void opt_copy(const struct opt *rows, const void *from, void *to)
{
    for (const struct opt *row = rows; row->name != NULL; row++) {
        const struct kind *kind = &kinds[row->type];
        const char *source = (const char *)from + row->offset;
        char *field = (char *)to + row->offset;
        if (kind->copy)
            kind->copy(source, field);
        else
            memcpy(field, source, kind->size);
    }
}

void opt_exchange(const struct opt *rows, void *a, void *b)
{
    char room[LARGEST];
    for (const struct opt *row = rows; row->name != NULL; row++) {
        size_t size = kinds[row->type].size;
        char *x = (char *)a + row->offset, *y = (char *)b + row->offset;
        must(size <= sizeof(room));
        memcpy(room, x, size);
        memcpy(x, y, size);
        memcpy(y, room, size);
    }
}
