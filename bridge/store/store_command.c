/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_command.c - single commands, sent in a cluster to the node that owns their key;
 * scripts about a key that belongs to no bucket.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

enum { REDIRECTS_MAX = 4 };

/* Return the node that serves key; NULL: none at present. */
static struct node *node_of(const struct store *st, struct slice key)
{
    return st->map ? map_node(st->map, redis_slot(key)) : st->nodes[0];
}

/* Likewise, but only if the node is up. */
static struct node *up_node(const struct store *st, struct slice key)
{
    struct node *node = node_of(st, key);
    return node && node->state == NODE_UP ? node : NULL;
}

/* --- commands --- */

/* A command to a cluster, with a copy of its arguments for a redirect. */
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
        node = node_of(errand->node->store, errand->args[1]);
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
    if (reply && redirected(errand, reply))
        return;
    errand->cb(errand->arg, reply);
    free(errand);
}

/* A command that could not be sent. Its callback runs at the end of the turn. */
struct unasked {
    redis_reply_cb *cb;
    void *arg;
};

static void on_away(void *arg)
{
    struct unasked *unasked = arg;
    unasked->cb(unasked->arg, NULL);
    free(unasked);
}

void store_command(struct store *st, const struct slice *args, unsigned n,
                   redis_reply_cb *cb, void *arg)
{
    struct node *node = up_node(st, n > 1 ? args[1] : SLICE_LIT(""));
    if (node == NULL) {
        struct unasked *unasked = mem_alloc(sizeof(*unasked));
        *unasked = (struct unasked){cb, arg};
        loop_defer(on_away, unasked);
    } else if (st->map == NULL) {
        redis_command(node->redis, args, n, cb, arg);
    } else {
        struct errand *errand = errand_new(args, n);
        errand->node = node;
        errand->cb = cb;
        errand->arg = arg;
        redis_command(node->redis, errand->args, n, on_errand, errand);
    }
}

/* --- scripts --- */

static void tell_script(struct call *call, const struct redisReply *reply)
{
    ((redis_reply_cb *)call->cb)(call->arg, reply);
}

void store_script(struct store *st, enum script script, struct slice key,
                  const struct slice *argv, unsigned n, redis_reply_cb *cb, void *arg)
{
    struct call *call = mem_alloc(sizeof(*call));
    *call = (struct call){
        .script = script, .call_cb = tell_script, .cb = (void (*)(void))cb, .arg = arg};
    args_begin(&st->args, &st->scripts, script, &key, 1);
    for (unsigned i = 0; i < n; i++)
        args_slice(&st->args, argv[i]);
    call_send_to(call, st, up_node(st, key));
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
