/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_slot.h - which slot of a Redis Cluster a key belongs to: redis.io/topics/
 * cluster-spec, "Keys distribution model". What stands between the first { and the next }
 * counts alone, where that is not empty. Pure.
 */
#ifndef BRIDGE_REDIS_SLOT_H
#define BRIDGE_REDIS_SLOT_H

#include "bridge/base/buf.h"

enum { REDIS_SLOTS = 16384 };
unsigned redis_slot(struct slice key);

#endif
