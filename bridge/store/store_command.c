/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_command.c - single commands, sent in a cluster to the node that owns their key;
 * the memory and key usage of the servers.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum { REDIRECTS_MAX = 4 };

/* A command without a reply, with a copy of its arguments for a redirect. */
struct errand {
    struct node *node;
    redis_reply_cb *cb;
    void *arg;
    unsigned redirects, n;
    struct slice args[];
};

static struct errand *errand_new(const struct slice *args, unsigned n)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < n; i++)
        bytes += args[i].n;
    struct errand *errand =
        mem_alloc(sizeof(*errand) + n * sizeof(errand->args[0]) + bytes);
    char *p = (char *)&errand->args[n];
    errand->n = n;
    for (unsigned i = 0; i < n; i++) {
        errand->args[i] = (struct slice){p, args[i].n};
        p = slice_put(p, args[i]);
    }
    return errand;
}

static void on_errand(void *arg, const struct redisReply *reply);

static void on_asking(void *arg, const struct redisReply *reply)
{
    (void)arg;
    (void)reply; /* the reply to the next command shows any error */
}

/* Follow a redirect. Returns false if the reply is none, or cannot be followed. */
static bool redirected(struct errand *errand, const struct redisReply *reply)
{
    struct map *map = errand->node->store->map;
    enum redis_error e = redis_error(reply);
    struct node *node = NULL;
    if (errand->redirects++ >= REDIRECTS_MAX)
        return false;
    if (e == REDIS_ELSEWHERE && map_moved(map, reply->str))
        node = slot_node(errand->node->store, redis_slot(errand->args[1]));
    else if (e == REDIS_MOVING)
        node = map_asked(map, reply->str);
    if (node == NULL || node->state != NODE_UP)
        return false;
    errand->node = node;
    if (e == REDIS_MOVING)
        redis_command(node->redis, (const struct slice[]){SLICE_LIT("ASKING")}, 1,
                      on_asking, NULL);
    redis_command(node->redis, errand->args, errand->n, on_errand, errand);
    return true;
}

static void on_errand(void *arg, const struct redisReply *reply)
{
    struct errand *errand = arg;
    if (reply && errand->node->store->map && redirected(errand, reply))
        return;
    errand->cb(errand->arg, reply);
    free(errand);
}

static void on_unreachable(void *arg)
{
    on_errand(arg, NULL);
}

void store_command(struct store *st, const struct slice *args, unsigned n,
                   redis_reply_cb *cb, void *arg)
{
    struct errand *errand = errand_new(args, n);
    errand->node = slot_node(st, redis_slot(errand->args[1]));
    errand->cb = cb;
    errand->arg = arg;
    if (errand->node && errand->node->state == NODE_UP)
        redis_command(errand->node->redis, errand->args, n, on_errand, errand);
    else
        loop_defer(on_unreachable, errand);
}

/* --- notifications --- */

static void on_notified(void *arg, const struct redisReply *reply)
{
    (void)arg;
    (void)reply; /* an ACL may forbid it: then other instances notice a little later */
}

void store_notify(struct store *st, const char *name)
{
    struct buf text = {0};
    buf_addf(&text, "%s %s", name, st->conf.instance);
    const struct slice args[] = {SLICE_LIT("PUBLISH"), slice_of(st->wake_channel),
                                 buf_slice(&text)};
    store_command(st, args, 3, on_notified, NULL);
    buf_free(&text);
}

/* --- usage of the servers --- */

/* One section per command: Redis 6 accepts only one. */
static const char *const sections[] = {"memory", "clients", "keyspace"};
enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

struct usage_call {
    struct queue_usage sum;
    unsigned db, open;
    bool torn; /* a reply is missing */
    usage_cb *cb;
    void *arg;
};

static void end_usage(void *arg)
{
    struct usage_call *call = arg;
    call->cb(call->arg, call->torn ? NULL : &call->sum);
    free(call);
}

/* Return the number after `name` in the line that starts with `line`; 0: none. */
static int64_t number_in(const char *text, const char *line, const char *name)
{
    for (const char *at = text; at && *at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, line, strlen(line)) != 0)
            continue;
        const char *number = strstr(at, name), *stop = strchr(at, '\n');
        return number && (stop == NULL || number < stop)
                   ? strtoll(number + strlen(name), NULL, 10)
                   : 0;
    }
    return 0;
}

static void on_info(void *arg, const struct redisReply *reply)
{
    struct usage_call *call = arg;
    struct queue_usage *sum = &call->sum;
    const char *text = redis_text(reply).p; /* NUL-terminated */
    char db[24];
    snprintf(db, sizeof(db), "db%u:", call->db);
    call->torn |= text == NULL;
    sum->used_bytes += number_in(text, "used_memory:", ":");
    sum->max_bytes += number_in(text, "maxmemory:", ":");
    sum->clients += number_in(text, "connected_clients:", ":");
    sum->blocked_clients += number_in(text, "blocked_clients:", ":");
    sum->keys += number_in(text, db, "keys=");
    sum->expiring_keys += number_in(text, db, "expires=");
    if (--call->open == 0)
        end_usage(call);
}

void store_usage(struct store *st, usage_cb *cb, void *arg)
{
    struct usage_call *call = mem_alloc(sizeof(*call));
    *call = (struct usage_call){.db = st->conf.redis.url.db, .cb = cb, .arg = arg};
    if (!store_is_up(st)) {
        call->torn = true;
        loop_defer(end_usage, call);
        return;
    }
    call->open = st->node_count * SECTIONS;
    for (unsigned i = 0; i < st->node_count; i++) {
        for (unsigned k = 0; k < SECTIONS; k++) {
            const struct slice args[] = {SLICE_LIT("INFO"), slice_of(sections[k])};
            redis_command(st->nodes[i]->redis, args, 2, on_info, call);
        }
    }
}
