/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_slot.h - which slot of a Redis Cluster a key belongs to: redis.io/topics/
 * cluster-spec, "Keys distribution model". What stands between the first { and the next }
 * counts alone, where that is not empty. Pure.
 */
#ifndef BRIDGE_REDIS_SLOT_H
#define BRIDGE_REDIS_SLOT_H

#include "bridge/redis/redis.h"

enum { REDIS_SLOTS = 16384 };
unsigned redis_slot(struct slice key);

/* The answer of CLUSTER SLOTS, row by row. */
enum { REDIS_PORT_BYTES = 8 };

struct redis_slots {
    unsigned first, last;        /* slots of one master, both included */
    const char *host;            /* borrowed; "": the node that was asked */
    char port[REDIS_PORT_BYTES]; /* 1 to 65535 */
    bool nameless;               /* the master announces no name: "?" */
};
/* -1: the row names no master that can be reached. */
int redis_slots_read(const struct redisReply *row, struct redis_slots *out);

#endif
