/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/lmstfy/lmstfy_copy.h"
#include "bridge/base/hash.h"

#include <stdlib.h>
#include <sys/random.h>

struct lmstfy_copy *lmstfy_copy_new(struct lmstfy *l, const char *shelf)
{
    struct lmstfy_copy *copy = mem_alloc(sizeof(*copy));
    copy->l = l;
    copy->shelf = shelf;
    must(getrandom(&copy->secret, sizeof(copy->secret), 0) == sizeof(copy->secret));
    return copy;
}

static void clear(struct lmstfy_copy *copy)
{
    for (unsigned i = 0; i < copy->n; i++)
        free((char *)copy->items[i].item.field.p);
    free(copy->items);
    copy->items = NULL;
    copy->n = 0;
}

void lmstfy_copy_free(struct lmstfy_copy *copy)
{
    clear(copy);
    buf_free(&copy->key);
    free(copy);
}

static int order(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int sign = n > 0 ? memcmp(a.p, b.p, n) : 0;
    return sign ? sign : (a.n > b.n) - (a.n < b.n);
}

int lmstfy_copy_order(const void *a, const void *b)
{
    const struct shelf_item *one = a, *other = b;
    return order(one->field, other->field);
}

bool lmstfy_copy_starts(struct slice field, struct slice key, struct slice *token)
{
    if (field.n < key.n || memcmp(field.p, key.p, key.n) != 0)
        return false;
    *token = (struct slice){field.p + key.n, field.n - key.n};
    return true;
}

static int by_hash(const void *a, const void *b)
{
    const struct lmstfy_copied *one = a, *other = b;
    int sign = (one->hash > other->hash) - (one->hash < other->hash);
    return sign ? sign : order(one->item.field, other->item.field);
}

const struct shelf_item *lmstfy_copy_find(const struct lmstfy_copy *copy,
                                          struct slice field)
{
    const struct lmstfy_copied wanted = {.hash = hash_fnv1a(copy->secret, field),
                                         .item.field = field};
    if (copy->n == 0)
        return NULL;
    const struct lmstfy_copied *found =
        bsearch(&wanted, copy->items, copy->n, sizeof(*copy->items), by_hash);
    return found ? &found->item : NULL;
}

static struct lmstfy_copied copied(const struct lmstfy_copy *copy,
                                   const struct shelf_item *item)
{
    char *p = mem_alloc(item->field.n + item->value.n + 1);
    slice_put(slice_put(p, item->field), item->value);
    const struct slice field = {p, item->field.n};
    return (struct lmstfy_copied){
        .hash = hash_fnv1a(copy->secret, field),
        .item = {.field = field, .value = {p + field.n, item->value.n}}};
}

static void list(struct lmstfy_copy *copy);

static void on_listed(void *arg, enum shelf_code code, const struct shelf_item *items,
                      unsigned n)
{
    struct lmstfy_copy *copy = arg;
    copy->listing = false;
    if (copy->again) {
        list(copy); /* what came is perhaps the old state */
    } else if (code == SHELF_OK) {
        clear(copy);
        copy->items = mem_alloc((n + 1) * sizeof(*copy->items));
        for (unsigned i = 0; i < n; i++)
            copy->items[i] = copied(copy, &items[i]);
        copy->n = n;
        qsort(copy->items, n, sizeof(*copy->items), by_hash);
        copy->fresh = true;
    } else {
        lmstfy_refresh_soon(copy->l);
    }
    lmstfy_let_go(copy->l);
}

static void list(struct lmstfy_copy *copy)
{
    copy->listing = true;
    copy->again = false;
    lmstfy_hold(copy->l);
    shelf_list(copy->l->src, copy->shelf, on_listed, copy);
}

void lmstfy_copy_refresh(struct lmstfy_copy *copy, bool stale)
{
    if (stale)
        copy->fresh = false;
    if (!copy->listing)
        list(copy);
    else if (stale)
        copy->again = true;
}
