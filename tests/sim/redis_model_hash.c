/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model_hash.c - the commands of hashes. */
#include "tests/sim/redis_model_internal.h"

#include <stdlib.h>

static const struct slice nil = {NULL, 0};

static struct slice get(const struct value *v, struct slice name)
{
    const struct slice *found = v ? g_hash_table_lookup(v->table, &name) : NULL;
    return found ? *found : nil;
}

/* Returns whether the field is new. */
static bool put(struct value *v, struct slice name, struct slice value)
{
    return g_hash_table_insert(v->table, bytes_new(name), bytes_new(value));
}

static void run_hget(struct call *c)
{
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_HASH, &failed);
    if (!failed)
        reply_bulk(c, get(v, c->args[2]));
}

static void run_hmget(struct call *c)
{
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_HASH, &failed);
    if (failed)
        return;
    reply_array(c, c->count - 2);
    for (unsigned i = 2; i < c->count; i++)
        reply_bulk(c, get(v, c->args[i]));
}

static void run_hexists(struct call *c)
{
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_HASH, &failed);
    if (!failed)
        reply_int(c, get(v, c->args[2]).p != NULL);
}

static void run_hlen(struct call *c)
{
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_HASH, &failed);
    if (!failed)
        reply_int(c, v ? g_hash_table_size(v->table) : 0);
}

static void run_hgetall(struct call *c)
{
    GHashTableIter at;
    gpointer name, value;
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_HASH, &failed);
    if (failed)
        return;
    reply_array(c, v ? 2 * (size_t)g_hash_table_size(v->table) : 0);
    if (v == NULL)
        return;
    g_hash_table_iter_init(&at, v->table);
    while (g_hash_table_iter_next(&at, &name, &value)) {
        reply_bulk(c, *(struct slice *)name);
        reply_bulk(c, *(struct slice *)value);
    }
}

static void run_hkeys(struct call *c)
{
    GHashTableIter at;
    gpointer name;
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_HASH, &failed);
    if (failed)
        return;
    reply_array(c, v ? g_hash_table_size(v->table) : 0);
    if (v == NULL)
        return;
    g_hash_table_iter_init(&at, v->table);
    while (g_hash_table_iter_next(&at, &name, NULL))
        reply_bulk(c, *(struct slice *)name);
}

static void run_hset(struct call *c)
{
    int64_t added = 0;
    if (c->count % 2 != 0) {
        reply_error(c, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    struct value *v = call_make(c, 1, VALUE_HASH);
    if (v == NULL)
        return;
    for (unsigned i = 2; i < c->count; i += 2)
        added += put(v, c->args[i], c->args[i + 1]);
    reply_int(c, added);
}

static void run_hsetnx(struct call *c)
{
    struct value *v = call_make(c, 1, VALUE_HASH);
    if (v == NULL)
        return;
    bool is_new = get(v, c->args[2]).p == NULL;
    if (is_new)
        put(v, c->args[2], c->args[3]);
    reply_int(c, is_new);
}

static void run_hdel(struct call *c)
{
    int64_t removed = 0;
    bool failed;
    struct value *v = call_find(c, 1, VALUE_HASH, &failed);
    if (failed)
        return;
    for (unsigned i = 2; v && i < c->count; i++)
        removed += g_hash_table_remove(v->table, &c->args[i]);
    call_tidy(c, 1, v);
    reply_int(c, removed);
}

static void run_hincrby(struct call *c)
{
    int64_t by, now = 0;
    if (!arg_int(c, 3, &by))
        return;
    struct value *v = call_make(c, 1, VALUE_HASH);
    if (v == NULL)
        return;
    struct slice old = get(v, c->args[2]);
    if (old.p && !parse_int(old, &now)) {
        reply_error(c, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(now, by, &now)) {
        reply_error(c, "ERR increment or decrement would overflow");
        return;
    }
    struct buf text = {0};
    buf_addf(&text, "%lld", (long long)now);
    put(v, c->args[2], buf_slice(&text));
    buf_free(&text);
    reply_int(c, now);
}

/* Only with a positive count and WITHVALUES. */
static void run_hrandfield(struct call *c)
{
    GHashTableIter at;
    gpointer name, value;
    int64_t most;
    bool failed;
    const struct value *v = call_find(c, 1, VALUE_HASH, &failed);
    if (failed || !arg_int(c, 2, &most))
        return;
    must(most > 0 && arg_is(c, 3, "WITHVALUES"));
    int64_t left = v ? g_hash_table_size(v->table) : 0;
    most = most < left ? most : left;
    reply_array(c, 2 * (size_t)most);
    if (v == NULL)
        return;
    g_hash_table_iter_init(&at, v->table);
    for (; most > 0 && g_hash_table_iter_next(&at, &name, &value); left--) {
        if ((int64_t)(model_random(c->m) % (uint64_t)left) >= most)
            continue;
        reply_bulk(c, *(struct slice *)name);
        reply_bulk(c, *(struct slice *)value);
        most--;
    }
}

static void add_field(struct call *c, const struct slice *name, void *data)
{
    reply_bulk(c, *name);
    reply_bulk(c, *(struct slice *)data);
}

static void run_hscan(struct call *c)
{
    call_scan(c, VALUE_HASH, add_field);
}

const struct command hash_commands[] = {
    {"HGET", 3, 0, run_hget},
    {"HMGET", -3, 0, run_hmget},
    {"HEXISTS", 3, 0, run_hexists},
    {"HLEN", 2, 0, run_hlen},
    {"HGETALL", 2, 0, run_hgetall},
    {"HKEYS", 2, 0, run_hkeys},
    {"HSET", -4, COMMAND_WRITE | COMMAND_DENY_OOM, run_hset},
    {"HSETNX", 4, COMMAND_WRITE | COMMAND_DENY_OOM, run_hsetnx},
    {"HDEL", -3, COMMAND_WRITE, run_hdel},
    {"HINCRBY", 4, COMMAND_WRITE | COMMAND_DENY_OOM, run_hincrby},
    {"HRANDFIELD", -2, 0, run_hrandfield},
    {"HSCAN", -3, 0, run_hscan},
    {NULL, 0, 0, NULL},
};
