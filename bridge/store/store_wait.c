/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_wait.c - durability = "replicas:N": a change is answered only when N replicas
 * have it.
 *
 * Each server has at most one WAIT open, on the connection that carried the changes.
 * Redis answers in order: all changes that were answered before WAIT are covered by it.
 * WAIT returns a number of replicas, not an error. If the number is too small, the
 * changes stay unanswered and WAIT is repeated. After a lost connection the outcome is
 * unknown, so the changes are sent again.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum {
    /* Longest time that a WAIT delays claims and acks. */
    BLOCK_MS = 500,
    BLOCK_SHORT_MS = 100,  /* if too few replicas are connected */
    RETRY_US = 400 * 1000, /* after too small a number */
};

static void complain(struct node *node, long long have, bool failing_over)
{
    struct store *st = node->store;
    char text[120];
    node->rejects_jobs = true;
    st->counters.wait_shortfalls++;
    node->wait_again_us = loop_mono_us() + RETRY_US;
    if (failing_over)
        snprintf(text, sizeof(text),
                 "a replica is becoming the master and may lack the latest jobs "
                 "(redis.durability)");
    else
        snprintf(text, sizeof(text),
                 "only %lld of %u replicas have the latest jobs (redis.durability)",
                 have < 0 ? 0 : have, st->conf.durability.replicas);
    node_set_trouble(node, text);
    log_limited(&st->complain, LOG_WARN, "redis", "%s", node->trouble);
}

static void on_wait(void *arg, const struct redisReply *reply)
{
    struct node *node = arg;
    struct store *st = node->store;
    struct batch *batch, *next;
    node->waiting = false;
    if (reply == NULL)
        return; /* wait_connection_lost() was called before */
    long long have = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    bool failing_over = redis_is_failing_over(node->redis);
    bool enough = have >= (long long)st->conf.durability.replicas && !failing_over;
    int64_t now_us = loop_mono_us();
    if (enough) {
        node->rejects_jobs = false;
        node->trouble[0] = '\0';
    } else {
        complain(node, have, failing_over);
    }
    for (batch = TAILQ_FIRST(&node->unreplicated); batch; batch = next) {
        next = TAILQ_NEXT(batch, unreplicated);
        if (enough) {
            TAILQ_REMOVE(&node->unreplicated, batch, unreplicated);
            batch_answer(batch);
        } else {
            batch_expire(batch, now_us);
        }
    }
}

int64_t wait_flush(struct node *node, int64_t now_us)
{
    const unsigned wanted = node->store->conf.durability.replicas;
    char n[16], block[16];
    if (TAILQ_EMPTY(&node->unreplicated) || node->waiting || node->state != NODE_UP)
        return -1;
    if (node->wait_again_us > now_us)
        return node->wait_again_us - now_us;
    snprintf(n, sizeof(n), "%u", wanted);
    snprintf(block, sizeof(block), "%d",
             node->facts.replicas >= wanted ? BLOCK_MS : BLOCK_SHORT_MS);
    node->waiting = true;
    redis_command(node->redis,
                  (const struct slice[]){SLICE_LIT("WAIT"), slice_of(n), slice_of(block)},
                  3, on_wait, node);
    return -1;
}

void wait_connection_lost(struct node *node)
{
    struct batch *batch;
    while ((batch = TAILQ_FIRST(&node->unreplicated))) {
        TAILQ_REMOVE(&node->unreplicated, batch, unreplicated);
        batch_send_again(batch, true);
    }
}
