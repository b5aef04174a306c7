/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core.h - what the daemon and its tools (import, audit) share: instances, stores,
 * routes.
 */
#ifndef BRIDGE_ENGINE_CORE_H
#define BRIDGE_ENGINE_CORE_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"
#include "bridge/redis/redis.h"

struct bridge;
struct conf;
struct conf_redis;

struct core_events { /* of the stores: see store.h, and meta.h for the time of `up` */
    void (*up)(void *arg);
    void (*notified)(void *arg, struct slice name); /* may be NULL */
    void (*pool_up)(void *arg);                     /* one of pools: { } is up */
    /* called once: only a newer tarry may use these keys */
    void (*incompatible)(void *arg, const char *why);
};

/* Return the settings of a connection to Redis, without the address. Borrowed from c. */
struct redis_conf core_redis_conf(const struct conf_redis *c, const char *client_name);
/* Create the instances, connect the stores and create the routes of bridge->conf.
 * bridge->serves and ->read_only decide what may change in PREFIX:meta. events must
 * remain valid. Starts no source or sink, and claims nothing. -1: err says why; call
 * core_release(). */
int core_start(struct bridge *bridge, const struct core_events *events, void *arg,
               struct err *err);
/* Set the number of buckets of routes whose configuration leaves it open. core_start()
 * calls it. */
void core_choose_buckets(struct conf *conf);
/* Free everything that core_start() has created. Calls the callbacks of queued changes
 * with 0. Does not free conf and embedded. */
void core_release(struct bridge *bridge);

/* --- the core in a tool: it connects the stores, waits for them, and runs the loop ---
 */

struct tool {
    struct bridge *bridge;   /* the caller sets conf and read_only */
    struct err incompatible; /* why this tarry must not use the keys; "": it may */
};

/* Start the core, and run the loop until every store is up, for patience_ms at most. From
 * then on loop_run() returns at least every 500 ms, so that the caller can check its time
 * limit. Returns EX_OK, or an exit code and err. */
int tool_start(struct tool *tool, int64_t patience_ms, struct err *err);
/* Stop and free everything, also after a failed tool_start(). */
void tool_end(struct tool *tool);

#endif
