/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_slot.h - the Redis Cluster slot of a key: redis.io/topics/cluster-spec, "Keys
 * distribution model". If the text between the first { and the next } is not empty, only
 * that text is hashed. Pure.
 */
#ifndef BRIDGE_REDIS_SLOT_H
#define BRIDGE_REDIS_SLOT_H

#include "bridge/redis/redis.h"

enum { REDIS_SLOTS = 16384 };
unsigned redis_slot(struct slice key);

/* One row of a CLUSTER SLOTS reply. */
enum { REDIS_PORT_BYTES = 8 };

struct redis_slots {
    unsigned first, last;        /* slot range of one master, inclusive */
    const char *host;            /* borrowed; "": the node that answered */
    char port[REDIS_PORT_BYTES]; /* 1 to 65535 */
    bool nameless;               /* the master does not announce a host name: "?" */
};
/* Reads one row. -1: the row has no usable address of a master. */
int redis_slots_read(const struct redisReply *row, struct redis_slots *out);

#endif
