/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_model.h - a Redis server in memory, for the simulation: the commands that lua/
 * and bridge/ use, over an own data model, with the real scripts in the Lua 5.1 that
 * Redis uses.
 *
 * It has no sockets and no clock: the caller feeds the bytes of its connections, and sets
 * the time. Two runs with the same input give the same output. test_redis_model.py
 * compares it with a real redis-server. One thread.
 */
#ifndef TESTS_SIM_REDIS_MODEL_H
#define TESTS_SIM_REDIS_MODEL_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redis_model;
struct redis_conn;

/* What the server currently does to its clients. */
struct redis_faults {
    bool oom; /* above maxmemory: a script's first write fails, if it may need memory */
    bool readonly; /* a replica: the first write of a script fails */
    bool misconf;  /* cannot save: as readonly, with another error */
    bool loading;  /* each command fails with LOADING */
    bool busy;     /* each command fails with BUSY */
    /* The next calls of one script fail: its SHA1, how many, and the error. */
    const char *script_sha, *script_error;
    unsigned script_fails;
    bool script_fails_half; /* only every second one of them */
};

/* Called for each reply of a connection, from within redis_model_feed(), and for each
 * message that another connection publishes. bytes: borrowed. The callback must not feed
 * the model. */
typedef void redis_output_cb(void *arg, struct slice bytes);

/* Called after each command of a connection, with its reply. All is borrowed. The
 * callback may look at keys by redis_model_command(). */
typedef void redis_command_cb(void *arg, const struct slice *args, unsigned count,
                              struct slice reply);

/* Compiles a script before the first model, for all models of the process and of its
 * children. Returns its SHA-1. */
const char *redis_model_prepare(struct slice text);

struct redis_model *redis_model_new(void);
void redis_model_free(struct redis_model *m);
/* Sets its clock, in us since 1970. May go back. */
void redis_model_set_time(struct redis_model *m, int64_t now_us);
/* The faults of the server; the caller changes them at any time. */
struct redis_faults *redis_model_faults(struct redis_model *m);
/* As SCRIPT FLUSH: the next EVALSHA gets NOSCRIPT. */
void redis_model_flush_scripts(struct redis_model *m);

void redis_model_watch(struct redis_model *m, redis_command_cb *cb, void *arg);

struct redis_conn *redis_model_connect(struct redis_model *m, redis_output_cb *output,
                                       void *arg);
/* Executes all complete commands; keeps the rest for the next call. */
void redis_model_feed(struct redis_conn *c, struct slice bytes);
void redis_model_disconnect(struct redis_conn *c); /* frees c; NULL is allowed */

/* Writes to the disk: a crash loses nothing that was executed before. Until the first
 * call, nothing is recorded. */
void redis_model_sync(struct redis_model *m);
/* Returns the number of commands that a crash could lose. */
size_t redis_model_unsynced(const struct redis_model *m);
/* Crashes and starts again: without the last `lost` commands and without its scripts. The
 * caller disconnects all connections first. The state is synced. */
void redis_model_crash(struct redis_model *m, size_t lost);

/* --- redis_model_replicas.c: replicas, and the connections that WAIT for them --- */

enum { REDIS_REPLICAS_MAX = 3 };

/* A replica has the first `has` of all commands that wrote. The caller decides when it
 * receives more; then redis_model_replicated() answers those that wait for it. */
struct redis_replica {
    bool online;
    uint64_t has;
};

struct redis_replica *redis_model_replicas(struct redis_model *m);
/* Returns the number of commands that wrote. */
uint64_t redis_model_offset(const struct redis_model *m);
void redis_model_replicated(struct redis_model *m);
/* Answers the WAITs whose time is over. Returns when the next one's is, by the clock of
 * the server; INT64_MAX: none has a limit. */
int64_t redis_model_end_waits(struct redis_model *m);
/* Becomes a replica: rejects writes, and ends each WAIT with an error. */
void redis_model_demote(struct redis_model *m);
/* Becomes the server that has only the first `offset` commands, and no scripts, unless
 * keeps_scripts. The caller disconnects all connections first. The state is synced. */
void redis_model_fail_over(struct redis_model *m, uint64_t offset, bool keeps_scripts);

/* Executes one command outside of any connection, as a client could: it may fail, and a
 * crash may lose it. */
void redis_model_execute(struct redis_model *m, const struct slice *args, unsigned count,
                         struct buf *out);
/* --- redis_model_cluster.c: the server as a node of a Redis Cluster --- */

enum { REDIS_MODEL_SLOTS = 16384, REDIS_NODES_MAX = 8, REDIS_NO_NODE = 255 };

/* What a node believes. Nodes are numbers. */
struct redis_view {
    unsigned self;
    unsigned port[REDIS_NODES_MAX]; /* of each node, at 127.0.0.1 */
    bool down;                      /* the state of the cluster is "fail" */
    bool is_replica;
    /* Of each slot: its master, and where it is going to or coming from. */
    unsigned char owner[REDIS_MODEL_SLOTS], migrating[REDIS_MODEL_SLOTS],
        importing[REDIS_MODEL_SLOTS];
};

unsigned redis_model_slot(struct slice key);
/* The caller changes it at any time. The first call makes the server a node. */
struct redis_view *redis_model_view(struct redis_model *m);
bool redis_model_has_key(struct redis_model *m, struct slice key);
/* Sets key to the name of one of its keys; slot -1: of any slot. Returns false if there
 * is none. */
bool redis_model_find_key(struct redis_model *m, int slot, uint64_t which,
                          struct buf *key);
/* As MIGRATE, for a key that only `from` has; neither has a fault. The states are synced.
 */
void redis_model_migrate(struct redis_model *from, struct redis_model *to,
                         struct slice key);
/* Replaces the data of `to`, and syncs it. */
void redis_model_copy(const struct redis_model *from, struct redis_model *to);
/* Called for each PUBLISH. cb: may call other models. */
typedef void redis_publish_cb(void *arg, struct slice channel, struct slice message);
void redis_model_on_publish(struct redis_model *m, redis_publish_cb *cb, void *arg);
/* Sends a message that was published at another node. */
void redis_model_publish(struct redis_model *m, struct slice channel,
                         struct slice message);

/* Runs one command outside of any connection and without faults, for example to look at a
 * key. Appends the reply in RESP to out. */
void redis_model_command(struct redis_model *m, const struct slice *args, unsigned count,
                         struct buf *out);

#endif
