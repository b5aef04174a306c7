/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_model_cluster.c - the model as a node of a Redis Cluster: MOVED, ASK, TRYAGAIN,
 * CROSSSLOT, CLUSTERDOWN, and keys that move to another node.
 *
 * As getNodeByQuery() of Redis 7. What the nodes tell each other is up to the caller.
 */
#include "tests/sim/redis_model_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* CRC16/XMODEM of the hash tag. */
unsigned redis_model_slot(struct slice key)
{
    static uint16_t table[256];
    const char *open = key.n ? memchr(key.p, '{', key.n) : NULL,
               *close = open ? memchr(open, '}', (size_t)(key.p + key.n - open)) : NULL;
    if (close && close > open + 1)
        key = (struct slice){open + 1, (size_t)(close - open - 1)};
    for (unsigned i = 0; table[1] == 0 || i < 256; i++) {
        unsigned crc = i << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0);
        table[i] = (uint16_t)crc;
    }
    uint16_t crc = 0;
    for (size_t i = 0; i < key.n; i++)
        crc = (uint16_t)(crc << 8) ^ table[(crc >> 8 ^ (unsigned char)key.p[i]) & 0xFF];
    return crc % REDIS_MODEL_SLOTS;
}

struct redis_view *redis_model_view(struct redis_model *m)
{
    if (m->view == NULL) {
        m->view = mem_alloc(sizeof(*m->view));
        memset(m->view->owner, REDIS_NO_NODE, REDIS_MODEL_SLOTS);
        memset(m->view->importing, REDIS_NO_NODE, REDIS_MODEL_SLOTS);
        memset(m->view->migrating, REDIS_NO_NODE, REDIS_MODEL_SLOTS);
    }
    return m->view;
}

bool model_is_replica(const struct redis_model *m)
{
    return m->faults.readonly || (m->view && m->view->is_replica);
}

/* -------------------------------------------------------------------- redirections */

static bool is_of(const struct command *command, const struct command *commands)
{
    while (commands->name && commands != command)
        commands++;
    return commands->name != NULL;
}

/* Sets the range of the arguments that are keys; end 0: it has none. */
static void keys_of(const struct call *c, unsigned *first, unsigned *end)
{
    const struct command *command = g_hash_table_lookup(c->m->commands, &c->args[0]);
    int64_t n;
    *first = 1;
    *end = 0;
    if (command == NULL)
        return;
    if (arg_is(c, 0, "EVALSHA") || arg_is(c, 0, "EVAL")) {
        *first = 3;
        if (c->count > 3 && parse_int(c->args[2], &n) && n > 0 && n <= c->count - 3)
            *end = 3 + (unsigned)n;
    } else if (arg_is(c, 0, "DEL") || arg_is(c, 0, "EXISTS")) {
        *end = c->count;
    } else if (!arg_is(c, 0, "KEYS") && !is_of(command, server_commands) &&
               !is_of(command, replica_commands) && !is_of(command, cluster_commands)) {
        *end = 2;
    }
}

struct keys {
    int slot; /* -1: they are in several */
    bool several, some, missing;
};

static struct keys look_up(const struct call *c, unsigned first, unsigned end)
{
    struct keys keys = {.slot = (int)redis_model_slot(c->args[first])};
    for (unsigned i = first; i < end && keys.slot >= 0; i++) {
        bool is_there = live(c->m, c->args[i]) != NULL;
        keys.some |= is_there;
        keys.missing |= !is_there;
        keys.several |= !bytes_equal(&c->args[i], &c->args[first]);
        if ((int)redis_model_slot(c->args[i]) != keys.slot)
            keys.slot = -1;
    }
    return keys;
}

/* Sets why to the error of a call of these keys. NULL: this node serves them. */
static void judge_keys(const struct redis_model *m, const struct keys *keys, char *why,
                       size_t n)
{
    const struct redis_view *view = m->view;
    unsigned owner = view->owner[keys->slot];
    bool is_mine = owner == view->self && !view->is_replica,
         is_imported = !is_mine && view->importing[keys->slot] != REDIS_NO_NODE,
         is_migrated = is_mine && view->migrating[keys->slot] != REDIS_NO_NODE;
    *why = '\0';
    if (owner == REDIS_NO_NODE)
        snprintf(why, n, "CLUSTERDOWN Hash slot not served");
    else if (view->down)
        snprintf(why, n, "CLUSTERDOWN The cluster is down");
    else if ((is_migrated && keys->missing && keys->some) ||
             (is_imported && m->is_asking && keys->missing && keys->several))
        snprintf(why, n, "TRYAGAIN Multiple keys request during rehashing of slot");
    else if (is_migrated && keys->missing)
        snprintf(why, n, "ASK %d 127.0.0.1:%u", keys->slot,
                 view->port[view->migrating[keys->slot]]);
    else if (!is_mine && !(is_imported && m->is_asking))
        snprintf(why, n, "MOVED %d 127.0.0.1:%u", keys->slot, view->port[owner]);
}

bool model_redirects(struct call *c, bool by_script)
{
    unsigned first, end;
    char why[80] = "";
    keys_of(c, &first, &end);
    if (end <= first)
        return false;
    struct keys keys = look_up(c, first, end);
    if (keys.slot < 0)
        snprintf(why, sizeof(why),
                 "CROSSSLOT Keys in request don't hash to the same slot");
    else
        judge_keys(c->m, &keys, why, sizeof(why));
    if (*why)
        reply_error(c, by_script ? "ERR Script attempted to access a non local key in a "
                                   "cluster node"
                                 : why);
    return *why != '\0';
}

/* ----------------------------------------------------------------------- commands */

static void run_asking(struct call *c)
{
    if (c->m->view)
        reply_ok(c);
    else
        reply_error(c, "ERR This instance has cluster support disabled");
}

static void reply_slots(struct call *c)
{
    const struct redis_view *view = c->m->view;
    struct buf rows = {0};
    struct call row = {.m = c->m, .out = &rows};
    size_t n = 0;
    for (unsigned slot = 0, end; slot < REDIS_MODEL_SLOTS; slot = end) {
        unsigned owner = view->owner[slot];
        for (end = slot + 1; end < REDIS_MODEL_SLOTS && view->owner[end] == owner;)
            end++;
        if (owner == REDIS_NO_NODE)
            continue;
        n++;
        reply_array(&row, 3);
        reply_int(&row, slot);
        reply_int(&row, end - 1);
        reply_array(&row, 2);
        reply_bulk(&row, SLICE_LIT("127.0.0.1"));
        reply_int(&row, view->port[owner]);
    }
    reply_array(c, n);
    buf_add_slice(c->out, buf_slice(&rows));
    buf_free(&rows);
}

/* CLUSTER SETSLOT slot MIGRATING|IMPORTING|NODE node, or STABLE */
static void set_slot(struct call *c)
{
    struct redis_view *view = c->m->view;
    int64_t slot = 0, node = REDIS_NO_NODE;
    if (c->count < 4 || !arg_int(c, 2, &slot) || (c->count > 4 && !arg_int(c, 4, &node)))
        return;
    if (arg_is(c, 3, "MIGRATING") || arg_is(c, 3, "IMPORTING")) {
        (arg_is(c, 3, "MIGRATING") ? view->migrating : view->importing)[slot] =
            (unsigned char)node;
    } else {
        view->migrating[slot] = view->importing[slot] = REDIS_NO_NODE;
        if (arg_is(c, 3, "NODE"))
            view->owner[slot] = (unsigned char)node;
    }
    reply_ok(c);
}

static void run_cluster(struct call *c)
{
    const struct redis_view *view = c->m->view;
    if (view == NULL)
        reply_error(c, "ERR This instance has cluster support disabled");
    else if (arg_is(c, 1, "INFO"))
        reply_bulk(c, view->down ? SLICE_LIT("cluster_state:fail\r\n")
                                 : SLICE_LIT("cluster_state:ok\r\n"));
    else if (arg_is(c, 1, "SLOTS"))
        reply_slots(c);
    else if (arg_is(c, 1, "MYID"))
        buf_addf(c->out, "$1\r\n%u\r\n", view->self);
    else if (arg_is(c, 1, "KEYSLOT") && c->count == 3)
        reply_int(c, redis_model_slot(c->args[2]));
    else if (arg_is(c, 1, "SETSLOT"))
        set_slot(c);
    else
        reply_error(c, "ERR the model has no such CLUSTER command");
}

const struct command cluster_commands[] = {
    {"CLUSTER", -2, COMMAND_NO_SCRIPT, run_cluster},
    {"ASKING", 1, COMMAND_NO_SCRIPT, run_asking},
    {NULL, 0, 0, NULL},
};

/* ---------------------------------------------------------------- keys on their way */

/* Reads an array of texts. Returns an array of struct slice; they are in the reply. */
static GArray *read_texts(const struct buf *reply)
{
    GArray *texts = g_array_new(FALSE, FALSE, sizeof(struct slice));
    const char *p = reply->p;
    long n = strtol(p + 1, (char **)&p, 10);
    for (p += 2; n > 0; n--) {
        size_t bytes = strtoul(p + 1, (char **)&p, 10);
        const struct slice text = {p + 2, bytes};
        g_array_append_val(texts, text);
        p += 2 + bytes + 2;
    }
    return texts;
}

static GArray *ask_texts(struct redis_model *m, const struct slice *args, unsigned count,
                         struct buf *reply)
{
    redis_model_command(m, args, count, reply);
    buf_str(reply);
    return read_texts(reply);
}

bool redis_model_has_key(struct redis_model *m, struct slice key)
{
    return live(m, key) != NULL;
}

bool redis_model_find_key(struct redis_model *m, int slot, uint64_t which,
                          struct buf *key)
{
    struct buf reply = {0};
    GArray *all = ask_texts(m, (const struct slice[]){SLICE_LIT("KEYS"), SLICE_LIT("*")},
                            2, &reply),
           *keys = g_array_new(FALSE, FALSE, sizeof(struct slice));
    for (guint i = 0; i < all->len; i++) {
        struct slice *one = &g_array_index(all, struct slice, i);
        if (slot < 0 || (int)redis_model_slot(*one) == slot)
            g_array_append_val(keys, *one);
    }
    bool found = keys->len > 0;
    buf_clear(key);
    if (found)
        buf_add_slice(key, g_array_index(keys, struct slice, which % keys->len));
    g_array_unref(all);
    g_array_unref(keys);
    buf_free(&reply);
    return found;
}

/* How each type of value is read, and written anew. */
static const struct {
    const char *read;
    unsigned read_count; /* of: read, key, 0, -1, WITHSCORES */
    const char *write;
    bool swaps; /* each pair */
} moves[] = {
    [VALUE_HASH] = {"HGETALL", 2, "HSET", false},
    [VALUE_ZSET] = {"ZRANGE", 5, "ZADD", true},
    [VALUE_LIST] = {"LRANGE", 4, "RPUSH", false},
};

void redis_model_migrate(struct redis_model *from, struct redis_model *to,
                         struct slice key)
{
    const struct value *v = live(from, key);
    struct buf value = {0}, ok = {0};
    char ms[24];
    must(v != NULL && live(to, key) == NULL);
    const struct slice read[] = {slice_of(moves[v->type].read), key, SLICE_LIT("0"),
                                 SLICE_LIT("-1"), SLICE_LIT("WITHSCORES")};
    GArray *texts = ask_texts(from, read, moves[v->type].read_count, &value);
    for (guint i = 0; moves[v->type].swaps && i < texts->len; i += 2) {
        struct slice *pair = &g_array_index(texts, struct slice, i), name = pair[0];
        pair[0] = pair[1];
        pair[1] = name;
    }
    const struct slice head[] = {slice_of(moves[v->type].write), key};
    g_array_prepend_vals(texts, head, 2);
    redis_model_execute(to, (struct slice *)texts->data, texts->len, &ok);
    snprintf(ms, sizeof(ms), "%lld", (long long)(v->expires_ms - from->now_us / 1000));
    if (v->expires_ms)
        redis_model_execute(
            to, (const struct slice[]){SLICE_LIT("PEXPIRE"), key, slice_of(ms)}, 3, &ok);
    redis_model_execute(from, (const struct slice[]){SLICE_LIT("DEL"), key}, 2, &ok);
    must(memchr(buf_str(&ok), '-', ok.n) == NULL);
    redis_model_sync(from);
    redis_model_sync(to);
    g_array_unref(texts);
    buf_free(&value);
    buf_free(&ok);
}

void redis_model_copy(const struct redis_model *from, struct redis_model *to)
{
    db_fini(&to->db);
    db_copy(&from->db, &to->db);
    to->records = false;
    redis_model_sync(to);
}
