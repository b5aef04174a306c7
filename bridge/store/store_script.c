/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/store_script.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/store_lane.h"

#include <stdlib.h>

struct ask {
    struct node *node; /* NULL: Redis is away */
    enum script script;
    redis_reply_cb *cb;
    void *arg;
};

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct ask *ask = arg;
    bool good = ask->node && node_judge(ask->node, reply, ask->script) == REDIS_NO_ERROR;
    ask->cb(ask->arg, good ? reply : NULL);
    free(ask);
}

static void on_away(void *arg)
{
    on_reply(arg, NULL);
}

void store_script(struct store *st, enum script script, struct slice key,
                  const struct slice *argv, unsigned n, redis_reply_cb *cb, void *arg)
{
    struct ask *ask = mem_alloc(sizeof(*ask));
    *ask = (struct ask){store_up_node(st, key), script, cb, arg};
    if (ask->node == NULL) {
        loop_defer(on_away, ask);
        return;
    }
    args_begin(&st->args, &st->scripts, script, &key, 1);
    for (unsigned i = 0; i < n; i++)
        args_slice(&st->args, argv[i]);
    args_send(&st->args, &st->scripts, script, ask->node->redis, on_reply, ask);
}
