/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_ask.h - a Redis that is asked and waited for: for a program that does nothing
 * else meanwhile, the import. One server, the master that Sentinel names, or a Cluster.
 *
 * Runs the loop until the answer is there, so not from within a callback of the loop.
 * A connection that is lost is not made again: the import is run again instead.
 */
#ifndef BRIDGE_REDIS_ASK_H
#define BRIDGE_REDIS_ASK_H

#include "bridge/import/import.h"
#include "bridge/redis/redis.h"

struct ask;

/* Connects; conf->url is of any kind. user, password: at the sentinels; NULL: none.
 * NULL: it could not, and err says why. */
struct ask *ask_open(const struct redis_conf *conf, const char *sentinel_user,
                     const char *sentinel_password, struct err *err);
void ask_close(struct ask *a); /* NULL is fine */

/* As import_ask_each(). Each command goes to the master that has its key args[1]. */
int ask_each(struct ask *a, const struct slice *args, unsigned each, unsigned count,
             struct import_value *out, struct err *err);
/* The servers: 1, or the masters of the cluster. */
unsigned ask_node_count(const struct ask *a);
/* One command to the server of that number. */
int ask_node(struct ask *a, unsigned node, const struct slice *args, unsigned n,
             struct import_value *out, struct err *err);
/* Sends a command whose answer matters only when it is an error: ask_complaint(). */
void ask_behind(struct ask *a, const struct slice *args, unsigned n);
/* Commands of ask_behind() without an answer yet. */
unsigned ask_behind_count(const struct ask *a);
/* The first error to those, or why the connection was lost; NULL: none. */
const char *ask_complaint(const struct ask *a);

#endif
