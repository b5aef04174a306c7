/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/meta.h"
#include "bridge/version.h"

#include <inttypes.h>

int meta_layout_fits(const struct meta_layout *there, bool writes, const char *prefix,
                     struct err *err)
{
    int64_t least = writes && there->least_writer > there->least_reader
                        ? there->least_writer
                        : there->least_reader;
    if (least <= META_LAYOUT)
        return 0;
    return err_set(err,
                   "the keys in Redis (%s:meta) have layout %" PRId64
                   ", and only a tarry that knows layout %" PRId64
                   " may %s them; this one, %s, knows layouts %d to %d: start the newer "
                   "tarry again. Nothing was changed",
                   prefix, there->layout, least, writes ? "change" : "read",
                   TARRY_VERSION, META_LAYOUT_FIRST, META_LAYOUT);
}

/* Digits at the beginning of text, within 1..max; they are taken off. */
static int take_number(struct slice *text, int64_t max, int64_t *n)
{
    size_t i = 0;
    *n = 0;
    if (text->n == 0)
        return -1;
    for (; i < text->n && text->p[i] >= '0' && text->p[i] <= '9'; i++) {
        *n = *n * 10 + (text->p[i] - '0');
        if (*n > max)
            return -1;
    }
    *text = (struct slice){text->p + i, text->n - i};
    return *n > 0 ? 0 : -1;
}

static int take_letter(struct slice *text, char letter)
{
    if (text->n == 0 || text->p[0] != letter)
        return -1;
    *text = (struct slice){text->p + 1, text->n - 1};
    return 0;
}

int meta_route_parse(struct slice text, struct meta_route *out)
{
    int64_t number, buckets, last = INT32_MAX;
    out->count = 0;
    do {
        if (out->count == META_GENERATIONS_MAX ||
            (out->count > 0 && take_letter(&text, ' ') < 0) ||
            take_number(&text, last - 1, &number) < 0 || take_letter(&text, ':') < 0 ||
            take_number(&text, META_BUCKETS_MAX, &buckets) < 0)
            return -1;
        out->generation[out->count++] =
            (struct meta_generation){(unsigned)number, buckets};
        last = number;
    } while (text.n > 0);
    return 0;
}

void meta_route_format(const struct meta_route *list, struct buf *out)
{
    for (unsigned i = 0; i < list->count; i++)
        buf_addf(out, "%s%u:%" PRId64, i > 0 ? " " : "", list->generation[i].number,
                 list->generation[i].buckets);
}

bool meta_route_begin(struct meta_route *list, int64_t buckets)
{
    unsigned number = list->count > 0 ? list->generation[0].number + 1 : 1;
    if (list->count == META_GENERATIONS_MAX)
        return false;
    for (unsigned i = list->count++; i > 0; i--)
        list->generation[i] = list->generation[i - 1];
    list->generation[0] = (struct meta_generation){number, buckets};
    return true;
}

void meta_route_forget(struct meta_route *list, unsigned oldest)
{
    while (list->count > 1 && list->generation[list->count - 1].number < oldest)
        list->count--;
}

void meta_bucket_name(const char *route, unsigned generation, int64_t n, struct buf *out)
{
    buf_addf(out, "%s/%" PRId64, route, n);
    if (generation > 1)
        buf_addf(out, ".%u", generation);
}
