/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * alive.h - the heartbeat: this instance tells the others that it is there and which
 * routes it serves, and hears the same of them.
 *
 * Once a second one call of lua/alive.lua; who has not been heard of for ALIVE_MS is
 * gone. While Redis is away the last list stays. Nothing depends on the list being right:
 * it says only who claims a bucket at once and who later (sched.h). Loop thread.
 */
#ifndef BRIDGE_ENGINE_ALIVE_H
#define BRIDGE_ENGINE_ALIVE_H

#include "bridge/base/loop.h"
#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

enum { ALIVE_MS = 3000 };

struct alive;
struct bridge;

/* Needs the store and the routes. changed: the list is another, ranks may be. */
struct alive *alive_new(struct bridge *bridge, loop_cb *changed, void *arg);
/* After the store was freed. NULL is fine. */
void alive_free(struct alive *a);

/* Redis can be worked with (again): joins at once, and tells the others. */
void alive_join(struct alive *a);
/* Each second. */
void alive_beat(struct alive *a);
/* Another instance came or went, or (name none) may have: asks who is there. */
void alive_told(struct alive *a, struct slice name);
/* The routes that this instance serves are others: the other instances hear of it. */
void alive_routes_changed(struct alive *a);
/* For good: takes this instance out, and tells the others. */
void alive_leave(struct alive *a);
/* Redis has taken it out, or could not be asked. */
bool alive_has_left(const struct alive *a);

/* This instance's place among those that would claim the bucket: 0: it is the owner. Also
 * as long as nothing is known of others, or a is NULL. */
unsigned alive_rank(const struct alive *a, const char *route, const char *bucket);
/* Other instances that serve the route; -1: not known yet. */
int alive_others(const struct alive *a, const char *route);
/* Instances that are there; 0: not known yet. */
size_t alive_count(const struct alive *a);
/* Calls each for every instance that is there; what it is handed is borrowed. */
struct alive_instance {
    struct slice id, routes; /* routes: names, a blank between two */
    bool self;
};
typedef void alive_each_cb(void *arg, const struct alive_instance *one);
void alive_each(const struct alive *a, alive_each_cb *each, void *arg);

#endif
