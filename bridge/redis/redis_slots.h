/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_slots.h - the answer of CLUSTER SLOTS, row by row. Pure.
 */
#ifndef BRIDGE_REDIS_SLOTS_H
#define BRIDGE_REDIS_SLOTS_H

#include "bridge/redis/redis.h"
#include "bridge/redis/redis_slot.h"

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
