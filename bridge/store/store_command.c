/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_command.c - single commands, sent in a cluster to the node that owns their key.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

enum { REDIRECTS_MAX = 4 };

/* A command without a reply, with a copy of its arguments for a redirect. */
struct errand {
    struct unsent unsent;
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

/* The reply of the next command shows any error. */
static void on_asking(void *arg, const struct redisReply *reply)
{
    (void)arg, (void)reply;
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
    if (errand->cb)
        errand->cb(errand->arg, reply);
    free(errand);
}

static void answer_unsent(struct unsent *unsent)
{
    on_errand(unsent, NULL);
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
        store_answer_later(st, &errand->unsent, answer_unsent);
}

/* --- notifications --- */

/* An ACL may forbid PUBLISH: then other instances notice a little later. */
void store_notify(struct store *st, const char *name)
{
    struct buf text = {0};
    buf_addf(&text, "%s %s", name, st->conf.instance);
    const struct slice args[] = {SLICE_LIT("PUBLISH"), slice_of(st->wake_channel),
                                 buf_slice(&text)};
    store_command(st, args, 3, NULL, NULL);
    buf_free(&text);
}
