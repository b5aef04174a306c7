/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_node.h - one Redis server of a store: its connection, its scripts, its clock, and
 * what an error reply of it holds back. A store has one, that of a cluster one for each
 * master. Internal to the store.
 */
#ifndef BRIDGE_STORE_NODE_H
#define BRIDGE_STORE_NODE_H

#include "bridge/clock.h"
#include "bridge/redis.h"
#include "bridge/redis_probe.h"
#include "bridge/script.h"

#include <stdbool.h>
#include <stdint.h>

struct store;

enum node_state { NODE_DOWN, NODE_LOADING, NODE_UP };

struct node {
    struct store *store;
    char *host, *port; /* NULL: not of a cluster */
    struct redis *redis;
    struct scripts scripts;
    struct clock clock;
    struct redis_facts facts; /* what the probe of this connection found */
    enum node_state state;
    bool refusing;          /* it takes no jobs at present: until an enqueue succeeds */
    bool full;              /* above the memory mark */
    bool clock_stale;       /* the clock is that of an earlier connection */
    int64_t pause_until_us; /* after an error reply that concerns everything */
    char trouble[160];
};

#endif
