/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model_data.c - the values of the Redis model, and what its commands share:
 * arguments, replies, keys. */
#include "tests/sim/redis_model_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LISTPACK_ENTRIES = 128, LISTPACK_BYTES = 64 }; /* the defaults of Redis */

/* ----------------------------------------------------------------------- values */

struct slice *bytes_new(struct slice s)
{
    struct slice *bytes = block_new(sizeof(*bytes) + s.n + 1);
    *bytes = (struct slice){(char *)(bytes + 1), s.n};
    *slice_put((char *)(bytes + 1), s) = '\0';
    return bytes;
}

void bytes_free(void *arg)
{
    struct slice *bytes = arg;
    block_free(bytes, sizeof(*bytes) + bytes->n + 1);
}

/* FNV-1a: the same in every run. */
guint bytes_hash(gconstpointer bytes)
{
    const struct slice *s = bytes;
    uint32_t hash = 2166136261U;
    for (size_t i = 0; i < s->n; i++)
        hash = (hash ^ (unsigned char)s->p[i]) * 16777619U;
    return hash;
}

gboolean bytes_equal(gconstpointer a, gconstpointer b)
{
    return slice_eq(*(const struct slice *)a, *(const struct slice *)b);
}

int by_bytes(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static int by_score(const void *a, const void *b, void *arg)
{
    const struct member *x = a, *y = b;
    (void)arg;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    if (x->edge || y->edge)
        return x->edge - y->edge;
    return by_bytes(*x->name, *y->name);
}

static void member_free(void *arg)
{
    block_free(arg, sizeof(struct member));
}

static struct value *value_new(enum value_type type)
{
    struct value *v = mem_alloc(sizeof(*v));
    v->type = type;
    if (type == VALUE_LIST)
        v->list = g_ptr_array_new_with_free_func(bytes_free);
    else
        v->table = g_hash_table_new_full(bytes_hash, bytes_equal, bytes_free,
                                         type == VALUE_HASH ? bytes_free : member_free);
    if (type == VALUE_ZSET)
        v->order = g_sequence_new(NULL);
    return v;
}

static void value_free(void *arg)
{
    struct value *v = arg;
    if (v->order)
        g_sequence_free(v->order);
    if (v->table)
        g_hash_table_unref(v->table);
    if (v->list)
        g_ptr_array_unref(v->list);
    free(v);
}

static struct value *value_copy(const struct value *from)
{
    struct value *v = value_new(from->type);
    GHashTableIter at;
    gpointer name, data;
    v->expires_ms = from->expires_ms;
    for (guint i = 0; from->list && i < from->list->len; i++)
        g_ptr_array_add(v->list, bytes_new(*(struct slice *)from->list->pdata[i]));
    if (from->table == NULL)
        return v;
    g_hash_table_iter_init(&at, from->table);
    while (g_hash_table_iter_next(&at, &name, &data)) {
        if (v->type == VALUE_HASH)
            g_hash_table_insert(v->table, bytes_new(*(struct slice *)name),
                                bytes_new(*(struct slice *)data));
        else
            zset_put(v, *(struct slice *)name, ((struct member *)data)->score);
    }
    return v;
}

void zset_put(struct value *zset, struct slice name, double score)
{
    struct member *m = g_hash_table_lookup(zset->table, &name);
    if (m == NULL) {
        m = block_new(sizeof(*m));
        *m = (struct member){.name = bytes_new(name)};
        g_hash_table_insert(zset->table, m->name, m);
    } else if (m->score != score) {
        g_sequence_remove(m->at);
    } else {
        return;
    }
    m->score = score;
    m->at = g_sequence_insert_sorted(zset->order, m, by_score, NULL);
}

bool zset_remove(struct value *zset, struct slice name)
{
    struct member *m = g_hash_table_lookup(zset->table, &name);
    if (m == NULL)
        return false;
    g_sequence_remove(m->at);
    g_hash_table_remove(zset->table, &name);
    return true;
}

void db_init(struct db *db)
{
    db->keys = g_hash_table_new_full(bytes_hash, bytes_equal, bytes_free, value_free);
}

void db_fini(struct db *db)
{
    if (db->keys)
        g_hash_table_unref(db->keys);
    db->keys = NULL;
}

void db_copy(const struct db *from, struct db *to)
{
    GHashTableIter at;
    gpointer key, value;
    db_init(to);
    g_hash_table_iter_init(&at, from->keys);
    while (g_hash_table_iter_next(&at, &key, &value))
        g_hash_table_insert(to->keys, bytes_new(*(struct slice *)key), value_copy(value));
}

size_t db_size(const struct db *db)
{
    GHashTableIter at;
    gpointer value;
    size_t n = 0;
    g_hash_table_iter_init(&at, db->keys);
    while (g_hash_table_iter_next(&at, NULL, &value)) {
        const struct value *v = value;
        n += v->list ? v->list->len : g_hash_table_size(v->table);
    }
    return n;
}

void db_drop_key(struct db *db, struct slice key)
{
    g_hash_table_remove(db->keys, &key);
}

/* --------------------------------------------------------------------- arguments */

bool arg_is(const struct call *c, unsigned i, const char *word)
{
    return i < c->count && slice_is_nocase(c->args[i], word);
}

bool parse_digits(struct slice text, int64_t *n)
{
    if (text.n == 0 || text.n > 15)
        return false;
    *n = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        *n = *n * 10 + (text.p[i] - '0');
    }
    return true;
}

/* As strictly as Redis: the text that the number itself has. */
bool parse_int(struct slice text, int64_t *n)
{
    char copy[NUMBER_BYTES], again[NUMBER_BYTES];
    if (parse_digits(text, n))
        return text.p[0] != '0' || text.n == 1;
    if (text.n == 0 || text.n > 20)
        return false;
    *slice_put(copy, text) = '\0';
    *n = strtoll(copy, NULL, 10);
    return slice_eq(text, (struct slice){again, int_text(again, *n)});
}

bool arg_int(struct call *c, unsigned i, int64_t *n)
{
    if (i < c->count && parse_int(c->args[i], n))
        return true;
    reply_error(c, "ERR value is not an integer or out of range");
    return false;
}

/* ----------------------------------------------------------------------- replies */

size_t int_text(char *to, int64_t n)
{
    char digits[NUMBER_BYTES], *at = digits + sizeof(digits);
    uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (n < 0)
        *--at = '-';
    size_t length = (size_t)(digits + sizeof(digits) - at);
    memcpy(to, at, length);
    return length;
}

size_t number_text(char *to, double n)
{
    if (n > -1e15 && n < 1e15 && n == (double)(int64_t)n && !(n == 0 && signbit(n)))
        return int_text(to, (int64_t)n);
    if (isinf(n))
        return (size_t)snprintf(to, NUMBER_BYTES, n > 0 ? "inf" : "-inf");
    return (size_t)snprintf(to, NUMBER_BYTES, "%.17g", n);
}

/* Appends "*N\r\n", with another letter. */
static void add_line(struct buf *out, char letter, int64_t n)
{
    char *to = buf_room(out, NUMBER_BYTES + 3);
    size_t length = int_text(to + 1, n) + 1;
    to[0] = letter;
    to[length] = '\r';
    to[length + 1] = '\n';
    buf_grew(out, length + 2);
}

void reply_error(struct call *c, const char *text)
{
    buf_addf(c->out, "-%s\r\n", text);
}

void reply_int(struct call *c, int64_t n)
{
    add_line(c->out, ':', n);
}

void reply_bulk(struct call *c, struct slice s)
{
    if (s.p == NULL) {
        buf_add_str(c->out, "$-1\r\n");
        return;
    }
    add_line(c->out, '$', (int64_t)s.n);
    buf_add_slice(c->out, s);
    buf_add(c->out, "\r\n", 2);
}

void reply_array(struct call *c, size_t n)
{
    add_line(c->out, '*', (int64_t)n);
}

void reply_score(struct call *c, double score)
{
    char text[NUMBER_BYTES];
    reply_bulk(c, (struct slice){text, number_text(text, score)});
}

void reply_ok(struct call *c)
{
    buf_add_str(c->out, "+OK\r\n");
}

/* -------------------------------------------------------------------------- keys */

/* Returns the value of a key that has not expired. */
struct value *live(struct redis_model *m, struct slice key)
{
    struct value *v = g_hash_table_lookup(m->db.keys, &key);
    if (v == NULL || v->expires_ms == 0 || v->expires_ms > m->now_us / 1000)
        return v;
    db_drop_key(&m->db, key);
    return NULL;
}

struct value *call_find(struct call *c, unsigned key, enum value_type type, bool *failed)
{
    struct value *v = live(c->m, c->args[key]);
    *failed = v && v->type != type;
    if (!*failed)
        return v;
    reply_error(c, "WRONGTYPE Operation against a key holding the wrong kind of value");
    return NULL;
}

struct value *call_make(struct call *c, unsigned key, enum value_type type)
{
    bool failed;
    struct value *v = call_find(c, key, type, &failed);
    if (v == NULL && !failed) {
        v = value_new(type);
        g_hash_table_insert(c->m->db.keys, bytes_new(c->args[key]), v);
    }
    return v;
}

void call_tidy(struct call *c, unsigned key, const struct value *v)
{
    if (v && (v->list ? v->list->len : g_hash_table_size(v->table)) == 0)
        db_drop_key(&c->m->db, c->args[key]);
}

static gint by_hash(gconstpointer a, gconstpointer b)
{
    const struct slice *x = *(struct slice *const *)a, *y = *(struct slice *const *)b;
    guint p = bytes_hash(x), q = bytes_hash(y);
    return p != q ? (p > q) - (p < q) : by_bytes(*x, *y);
}

/* Returns whether Redis stores it as a list, which it scans at once. */
static bool is_small(const struct value *v, const GPtrArray *names)
{
    bool small = names->len <= LISTPACK_ENTRIES;
    for (guint i = 0; small && i < names->len; i++) {
        const struct slice *name = names->pdata[i];
        small = name->n <= LISTPACK_BYTES;
        if (v->type == VALUE_HASH)
            small = small && ((struct slice *)g_hash_table_lookup(v->table, name))->n <=
                                 LISTPACK_BYTES;
    }
    return small;
}

void call_scan(struct call *c, enum value_type type,
               void (*add)(struct call *c, const struct slice *name, void *data))
{
    int64_t cursor = 0, most = 10;
    bool failed;
    struct value *v = call_find(c, 1, type, &failed);
    if (failed || !arg_int(c, 2, &cursor) ||
        (arg_is(c, 3, "COUNT") && !arg_int(c, 4, &most)))
        return;
    GPtrArray *names = g_ptr_array_new();
    GHashTableIter at;
    gpointer name, data;
    if (v) {
        g_hash_table_iter_init(&at, v->table);
        while (g_hash_table_iter_next(&at, &name, &data))
            if (bytes_hash(name) >= cursor)
                g_ptr_array_add(names, name);
    }
    g_ptr_array_sort(names, by_hash);
    if (cursor == 0 && is_small(v, names))
        most = names->len;
    /* All members of one hash are returned together. */
    guint n = most < names->len ? (guint)most : names->len;
    while (n > 0 && n < names->len &&
           bytes_hash(names->pdata[n]) == bytes_hash(names->pdata[n - 1]))
        n++;
    char text[24];
    snprintf(text, sizeof(text), "%u", n < names->len ? bytes_hash(names->pdata[n]) : 0);
    reply_array(c, 2);
    reply_bulk(c, slice_of(text));
    reply_array(c, 2 * (size_t)n);
    for (guint i = 0; i < n; i++)
        add(c, names->pdata[i], g_hash_table_lookup(v->table, names->pdata[i]));
    g_ptr_array_unref(names);
}
