/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * alive.h - membership: this instance reports itself and its routes to the other
 * instances, and reads their reports.
 *
 * lua/alive.lua runs once a second. An instance that has not reported for ALIVE_MS is
 * removed. While Redis is unreachable, the last list remains valid. The list decides only
 * which instance claims a bucket first (sched.h), so a wrong list costs only time. Loop
 * thread.
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

/* Create the membership; requires the store and the routes. changed: called when the list
 * of instances has changed, and ranks may have. */
struct alive *alive_new(struct bridge *bridge, loop_cb *changed, void *arg);
/* Call it after the store was freed. a may be NULL. */
void alive_free(struct alive *a);

/* Redis is usable (again): join at once, and notify the other instances. */
void alive_join(struct alive *a);
/* Report this instance; call it once a second. */
void alive_beat(struct alive *a);
/* Handle a notification that the list has changed; name with p NULL: notifications may
 * have been missed. Reads the list. */
void alive_told(struct alive *a, struct slice name);
/* The routes of this instance have changed: report them, and notify the other
 * instances. */
void alive_routes_changed(struct alive *a);
/* Leave for good: remove this instance, and notify the others. */
void alive_leave(struct alive *a);
/* Return whether Redis has removed this instance, or did not answer. */
bool alive_has_left(const struct alive *a);

/* Return this instance's rank among those that serve the bucket; 0: it is the owner. Also
 * 0 while no list was read, or if a is NULL. */
unsigned alive_rank(const struct alive *a, const char *route, const char *bucket);
/* Return the number of other instances that serve the route; -1: not known yet. */
int alive_others(const struct alive *a, const char *route);
/* Return the number of live instances; 0: not known yet. */
size_t alive_count(const struct alive *a);
/* Call each for every live instance; its argument is borrowed. */
struct alive_instance {
    struct slice id, routes; /* routes: names, separated by blanks */
    bool self;
};
typedef void alive_each_cb(void *arg, const struct alive_instance *one);
void alive_each(const struct alive *a, alive_each_cb *each, void *arg);

#endif
