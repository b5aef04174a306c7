/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core.h - what the daemon and `tarry import` have in common: instances, stores, routes.
 */
#ifndef BRIDGE_ENGINE_CORE_H
#define BRIDGE_ENGINE_CORE_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"
#include "bridge/redis/redis.h"

struct bridge;
struct conf;
struct conf_redis;

struct core_events { /* of the stores; see store.h, and meta.h for when it is up */
    void (*up)(void *arg);
    void (*down)(void *arg, const char *why);
    void (*told)(void *arg, struct slice name);
    void (*pool_up)(void *arg); /* one of pools: { } */
    /* A newer tarry has keys there that this one must leave alone: told once. */
    void (*unfit)(void *arg, const char *why);
};

/* What a connection to Redis takes of the configuration: all but the address. Borrowed.
 */
struct redis_conf core_redis_conf(const struct conf_redis *c, const char *client_name);
/* Makes instances, connects the stores, makes the routes: bridge->conf says how, and
 * bridge->serves and ->only_looks what may be changed of PREFIX:meta. events must stay.
 * Starts no source and no sink, claims nothing. -1: core_release() undoes what was done.
 */
int core_start(struct bridge *bridge, const struct core_events *events, void *arg,
               struct err *err);
/* Of routes whose conf leaves the number of buckets to us; core_start() does it, too. */
void core_choose_buckets(struct conf *conf);
/* Changes still queued are answered with 0 from within. Leaves conf and embedded alone.
 */
void core_release(struct bridge *bridge);

#endif
