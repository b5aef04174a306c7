/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * generation.h - the generations of a route's buckets in this process: made and retired
 * as PREFIX:meta says (meta_keep.h). Loop thread.
 */
#ifndef BRIDGE_GENERATION_H
#define BRIDGE_GENERATION_H

#include "bridge/base/buf.h"
#include "bridge/engine/meta.h"

struct bridge;
struct generation;
struct route;
struct sched;

/* Makes bucket ROUTE/0, in which the route keeps what is its own, and nothing else. */
void generations_init(struct route *route);
void generations_fini(struct route *route);
/* Nothing is asked of any of its buckets. */
bool generations_are_idle(const struct route *route);
/* Before generations_fini(), while the store goes on: frees the buckets, which are idle.
 */
void generations_free_buckets(struct route *route);
/* The route has another configuration. */
void generations_read_rules(struct route *route);
/* From now on the route has these: the new ones begin, those that are gone are retired.
 */
void generations_follow(struct route *route, const struct meta_route *list);
/* By the hash of the id (FNV-1a, 32 bits), so that every instance picks the same; "@" and
 * digits at its end do not count. */
struct sched *generation_bucket(const struct generation *g, struct slice id);

#endif
