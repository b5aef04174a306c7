/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/lmstfy/lmstfy_series.h"
#include "bridge/base/hash.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"

#include <stdio.h>
#include <stdlib.h>

struct series {
    uint64_t hash;
    double value; /* histogram: the sum of what was observed */
    uint64_t count, bucket[SERIES_BUCKETS];
    size_t key_n, n;
    char *labels; /* n bytes, behind the key: a="b",c="d" */
    char key[];   /* key_n bytes: each value and a NUL */
};

void family_init(struct family *f, const struct series_row *row)
{
    *f = (struct family){.row = row};
    must(row->buckets <= SERIES_BUCKETS);
}

void family_clear(struct family *f)
{
    for (unsigned i = 0; i < f->n; i++)
        free(f->v[i]);
    f->n = 0;
    f->full = false;
    if (f->slots)
        memset(f->slot, 0, f->slots * sizeof(*f->slot));
}

void family_free(struct family *f)
{
    family_clear(f);
    free(f->v);
    free(f->slot);
    *f = (struct family){0};
}

/* A value, or "" for what is no name that anybody gave. */
static struct slice good(struct slice s)
{
    unsigned char all = 0;
    for (size_t i = 0; i < s.n; i++)
        all |= (unsigned char)s.p[i];
    bool bad = s.n > SERIES_VALUE_MAX || (all >= 0x80 && !text_is_utf8(s));
    return bad ? (struct slice){"", 0} : s;
}

/* As it stands between quotes. */
static void add_value(struct buf *out, struct slice s)
{
    size_t from = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c != '\\' && c != '"' && c != '\n')
            continue;
        buf_add(out, s.p + from, i - from);
        buf_add_str(out, c == '\n' ? "\\n" : c == '"' ? "\\\"" : "\\\\");
        from = i + 1;
    }
    if (s.n > from)
        buf_add(out, s.p + from, s.n - from);
}

static void add_labels(struct buf *out, const struct series_row *row,
                       const struct slice *values)
{
    for (unsigned i = 0; row->label[i]; i++) {
        if (i > 0)
            buf_add(out, ",", 1);
        buf_add_str(out, row->label[i]);
        buf_add(out, "=\"", 2);
        add_value(out, good(values[i]));
        buf_add(out, "\"", 1);
    }
}

/* Where the series stands in the table, or the free place for it. */
static unsigned *slot_of(struct family *f, uint64_t hash, struct slice key)
{
    unsigned at = (unsigned)hash & (f->slots - 1);
    for (;; at = (at + 1) & (f->slots - 1)) {
        if (f->slot[at] == 0)
            return &f->slot[at];
        const struct series *s = f->v[f->slot[at] - 1];
        if (s->hash == hash && slice_eq((struct slice){s->key, s->key_n}, key))
            return &f->slot[at];
    }
}

/* Twice the room; the table is never more than half full. */
static void grow(struct family *f)
{
    f->cap = f->cap ? 2 * f->cap : 16;
    f->v = mem_realloc(f->v, f->cap * sizeof(struct series *));
    free(f->slot);
    f->slots = 2 * f->cap;
    f->slot = mem_alloc(f->slots * sizeof(*f->slot));
    for (unsigned i = 0; i < f->n; i++) {
        const struct series *s = f->v[i];
        *slot_of(f, s->hash, (struct slice){s->key, s->key_n}) = i + 1;
    }
}

struct series *family_at(struct family *f, const struct slice *values, unsigned most,
                         struct buf *scratch)
{
    buf_clear(scratch);
    for (unsigned i = 0; f->row->label[i]; i++) {
        struct slice value = good(values[i]);
        buf_add(scratch, value.p, value.n);
        buf_add(scratch, "", 1);
    }
    size_t key_n = scratch->n;
    uint64_t hash = hash_fnv1a(HASH_FNV1A, buf_slice(scratch));
    if (f->n == f->cap)
        grow(f);
    unsigned *slot = slot_of(f, hash, buf_slice(scratch));
    if (*slot)
        return f->v[*slot - 1];
    if (f->n >= most) {
        f->full = true;
        return NULL;
    }
    add_labels(scratch, f->row, values);
    struct series *s = mem_alloc(sizeof(*s) + scratch->n);
    s->hash = hash;
    s->key_n = key_n;
    s->n = scratch->n - key_n;
    s->labels = s->key + key_n;
    memcpy(s->key, scratch->p, scratch->n);
    f->v[f->n++] = s;
    *slot = f->n;
    return s;
}

void series_add(struct series *s, double amount)
{
    if (s)
        s->value += amount;
}

void series_set(struct series *s, double value)
{
    if (s)
        s->value = value;
}

void series_observe(struct series *s, const struct series_row *row, double value)
{
    double bound = row->first;
    unsigned i = 0;
    if (s == NULL)
        return;
    s->value += value;
    s->count++;
    while (i < row->buckets && value > bound) {
        bound *= row->factor;
        i++;
    }
    if (i < row->buckets)
        s->bucket[i]++;
}

/* name{labels} value, with one more label before the end where extra says so. */
static void add_line(struct buf *out, const struct family *f, const char *suffix,
                     const struct series *s, const char *extra, double value)
{
    buf_add_str(out, f->row->name);
    buf_add_str(out, suffix);
    if (s->n > 0 || *extra) {
        buf_add(out, "{", 1);
        buf_add(out, s->labels, s->n);
        buf_add_str(out, s->n > 0 && *extra ? "," : "");
        buf_add_str(out, extra);
        buf_add(out, "}", 1);
    }
    buf_addf(out, " %.15g\n", value);
}

static void add_histogram(struct buf *out, const struct family *f, const struct series *s)
{
    const struct series_row *row = f->row;
    double bound = row->first;
    uint64_t so_far = 0;
    char extra[64];
    for (unsigned i = 0; i < row->buckets; i++) {
        so_far += s->bucket[i];
        snprintf(extra, sizeof(extra), "le=\"%.15g\"", bound);
        bound *= row->factor;
        add_line(out, f, "_bucket", s, extra, (double)so_far);
    }
    add_line(out, f, "_bucket", s, "le=\"+Inf\"", (double)s->count);
    add_line(out, f, "_sum", s, "", s->value);
    add_line(out, f, "_count", s, "", (double)s->count);
}

void family_text(const struct family *f, struct buf *out)
{
    static const char *const types[] = {[SERIES_COUNTER] = "counter",
                                        [SERIES_GAUGE] = "gauge",
                                        [SERIES_HISTOGRAM] = "histogram"};
    const struct series_row *row = f->row;
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
             types[row->type]);
    for (unsigned i = 0; i < f->n; i++) {
        if (row->type == SERIES_HISTOGRAM)
            add_histogram(out, f, f->v[i]);
        else
            add_line(out, f, "", f->v[i], "", f->v[i]->value);
    }
}
