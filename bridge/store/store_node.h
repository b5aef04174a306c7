/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_node.h - one Redis server of a store: its connection, whether it has our scripts,
 * its clock, and what an error reply of it holds back. A store has one; that of a cluster
 * one for each master. Internal to the store.
 */
#ifndef BRIDGE_STORE_NODE_H
#define BRIDGE_STORE_NODE_H

#include "bridge/redis/redis_probe.h"
#include "bridge/redis/redis.h"
#include "bridge/store/script.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct batch;
struct store;
TAILQ_HEAD(batch_list, batch);

enum node_state { NODE_DOWN, NODE_LOADING, NODE_UP };

struct node {
    struct store *store;
    struct redis_place place; /* of a cluster; else NULLs */
    struct redis *redis;
    struct script_load load;
    struct clock clock;
    struct redis_facts facts; /* what the probe of this connection found */
    enum node_state state;
    unsigned slots;         /* of a cluster: that it has */
    bool refusing;          /* pauses the sources; see "errors" in store_node.c */
    bool halted;            /* it answers everything with an error that asks to wait */
    bool full;              /* above the memory mark */
    bool clock_stale;       /* the clock is that of an earlier connection */
    bool reloading;         /* only the scripts had gone */
    bool probing;           /* an answer of the probe is awaited */
    int64_t pause_until_us; /* after an error reply that concerns everything */
    char trouble[160];      /* in words; "" */
    struct batch_list
        unsure;            /* done, but perhaps not on the replicas yet (store_wait.c) */
    int64_t wait_again_us; /* monotonic: not before */
    bool waiting;          /* for the answer to a WAIT */
    /* Of store_far.c, in us of our clock, but for far_clock_us: the offset of Redis'. */
    bool moving; /* a move of far jobs is on its way */
    int64_t move_sent_us, move_after_us, far_clock_us;
};

/* Begins to connect, to place (copied) or where the store's configuration says (NULL). */
struct node *node_new(struct store *st, const struct redis_place *place);
/* What is on its way is answered with NULL, so goes back to its lane. */
void node_free(struct node *node);
/* Once a second. */
void node_tick(struct node *node);
/* Judges a reply, and holds back what an error asks to. NULL is REDIS_WAIT. */
enum redis_error node_judge(struct node *node, const struct redisReply *reply,
                            enum script script);
/* For how long whoever got such a reply should rest; others need not. */
int64_t node_rest_us(enum redis_error e);
/* Sources may go on, as far as it is concerned. */
bool node_takes_jobs(const struct node *node);
void node_set_trouble(struct node *node, const char *text);

#endif
