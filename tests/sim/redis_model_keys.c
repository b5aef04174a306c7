/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model_keys.c - the commands of keys and of lists. */
#include "tests/sim/redis_model_internal.h"

#include <fnmatch.h>
#include <stdlib.h>

static void run_del(struct call *c)
{
    int64_t n = 0;
    for (unsigned i = 1; i < c->count; i++) {
        n += live(c->m, c->args[i]) != NULL;
        db_drop_key(&c->m->db, c->args[i]);
    }
    reply_int(c, n);
}

static void run_exists(struct call *c)
{
    int64_t n = 0;
    for (unsigned i = 1; i < c->count; i++)
        n += live(c->m, c->args[i]) != NULL;
    reply_int(c, n);
}

static void run_pexpire(struct call *c)
{
    int64_t ms;
    if (!arg_int(c, 2, &ms))
        return;
    struct value *v = live(c->m, c->args[1]);
    reply_int(c, v != NULL);
    if (v && ms <= 0)
        db_drop_key(&c->m->db, c->args[1]);
    else if (v)
        v->expires_ms = c->m->now_us / 1000 + ms;
}

static void run_pttl(struct call *c)
{
    const struct value *v = live(c->m, c->args[1]);
    reply_int(c, v == NULL            ? -2
                 : v->expires_ms == 0 ? -1
                                      : v->expires_ms - c->m->now_us / 1000);
}

static void run_ttl(struct call *c)
{
    const struct value *v = live(c->m, c->args[1]);
    reply_int(c, v == NULL ? -2
                 : v->expires_ms == 0
                     ? -1
                     : (v->expires_ms - c->m->now_us / 1000 + 500) / 1000);
}

static void run_persist(struct call *c)
{
    struct value *v = live(c->m, c->args[1]);
    reply_int(c, v && v->expires_ms != 0);
    if (v)
        v->expires_ms = 0;
}

static gint by_name(gconstpointer a, gconstpointer b)
{
    return by_bytes(*(const struct slice *)a, *(const struct slice *)b);
}

/* Sorted. */
static void run_keys(struct call *c)
{
    char *pattern = mem_strndup(c->args[1].p, c->args[1].n);
    GList *names = g_list_sort(g_hash_table_get_keys(c->m->db.keys), by_name), *next;
    for (GList *at = names; at; at = next) {
        next = at->next;
        if (fnmatch(pattern, ((struct slice *)at->data)->p, 0) != 0 ||
            live(c->m, *(struct slice *)at->data) == NULL)
            names = g_list_delete_link(names, at);
    }
    reply_array(c, g_list_length(names));
    for (GList *at = names; at; at = at->next)
        reply_bulk(c, *(struct slice *)at->data);
    g_list_free(names);
    free(pattern);
}

static void run_type(struct call *c)
{
    static const char *const types[] = {
        [VALUE_HASH] = "hash", [VALUE_ZSET] = "zset", [VALUE_LIST] = "list"};
    const struct value *v = live(c->m, c->args[1]);
    buf_addf(c->out, "+%s\r\n", v ? types[v->type] : "none");
}

/* ------------------------------------------------------------------------- lists */

static void run_rpush(struct call *c)
{
    struct value *v = call_make(c, 1, VALUE_LIST);
    if (v == NULL)
        return;
    for (unsigned i = 2; i < c->count; i++)
        g_ptr_array_add(v->list, bytes_new(c->args[i]));
    reply_int(c, v->list->len);
}

static void run_llen(struct call *c)
{
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_LIST, &failed);
    if (!failed)
        reply_int(c, v ? v->list->len : 0);
}

/* Returns the index behind the last entry that a range contains; *from: its first. */
static int64_t range_of(int64_t *from, int64_t to, int64_t size)
{
    *from = *from < 0 ? *from + size : *from;
    *from = *from < 0 ? 0 : *from;
    to = to < 0 ? to + size : to;
    to = to >= size ? size - 1 : to;
    return to < *from ? *from : to + 1;
}

static void run_lrange(struct call *c)
{
    bool failed;
    int64_t from, to;
    const struct value *v = call_find(c, 1, VALUE_LIST, &failed);
    if (failed || !arg_int(c, 2, &from) || !arg_int(c, 3, &to))
        return;
    int64_t end = range_of(&from, to, v ? v->list->len : 0);
    reply_array(c, (size_t)(end - from));
    for (; from < end; from++)
        reply_bulk(c, *(struct slice *)v->list->pdata[from]);
}

/* Returns the address of an entry, or NULL. */
static gpointer *entry_at(const struct value *v, int64_t index)
{
    index = v && index < 0 ? index + v->list->len : index;
    return v && index >= 0 && index < v->list->len ? &v->list->pdata[index] : NULL;
}

static void run_lindex(struct call *c)
{
    bool failed;
    int64_t index;
    const struct value *v = call_find(c, 1, VALUE_LIST, &failed);
    if (failed || !arg_int(c, 2, &index))
        return;
    gpointer *entry = entry_at(v, index);
    reply_bulk(c, entry ? *(struct slice *)*entry : (struct slice){NULL, 0});
}

static void run_lset(struct call *c)
{
    bool failed;
    int64_t index;
    const struct value *v = call_find(c, 1, VALUE_LIST, &failed);
    if (failed || (v && !arg_int(c, 2, &index)))
        return;
    gpointer *entry = v ? entry_at(v, index) : NULL;
    if (entry == NULL) {
        reply_error(c, v ? "ERR index out of range" : "ERR no such key");
        return;
    }
    bytes_free(*entry);
    *entry = bytes_new(c->args[3]);
    reply_ok(c);
}

static void run_ltrim(struct call *c)
{
    bool failed;
    int64_t from, to;
    struct value *v = call_find(c, 1, VALUE_LIST, &failed);
    if (failed || !arg_int(c, 2, &from) || !arg_int(c, 3, &to))
        return;
    if (v) {
        int64_t end = range_of(&from, to, v->list->len);
        if (end == from) {
            g_ptr_array_set_size(v->list, 0);
        } else {
            g_ptr_array_set_size(v->list, (gint)end);
            if (from > 0)
                g_ptr_array_remove_range(v->list, 0, (guint)from);
        }
    }
    call_tidy(c, 1, v);
    reply_ok(c);
}

const struct command key_commands[] = {
    {"DEL", -2, COMMAND_WRITE, run_del},
    {"EXISTS", -2, 0, run_exists},
    {"PEXPIRE", 3, COMMAND_WRITE, run_pexpire},
    {"PTTL", 2, 0, run_pttl},
    {"TTL", 2, 0, run_ttl},
    {"PERSIST", 2, COMMAND_WRITE, run_persist},
    {"KEYS", 2, 0, run_keys},
    {"TYPE", 2, 0, run_type},
    {"RPUSH", -3, COMMAND_WRITE | COMMAND_DENY_OOM, run_rpush},
    {"LLEN", 2, 0, run_llen},
    {"LRANGE", 4, 0, run_lrange},
    {"LINDEX", 3, 0, run_lindex},
    {"LSET", 4, COMMAND_WRITE | COMMAND_DENY_OOM, run_lset},
    {"LTRIM", 4, COMMAND_WRITE, run_ltrim},
    {NULL, 0, 0, NULL},
};
