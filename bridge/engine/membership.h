/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * membership.h - membership: this instance reports itself and its routes to the other
 * instances, and reads their reports.
 *
 * lua/alive.lua runs once a second. An instance that has not reported for
 * MEMBER_TIMEOUT_MS is removed. While Redis is unreachable, the last list remains valid.
 * The list decides only which instance claims a bucket first (sched.h), so a wrong list
 * costs only time. Loop thread.
 */
#ifndef BRIDGE_ENGINE_MEMBERSHIP_H
#define BRIDGE_ENGINE_MEMBERSHIP_H

#include "bridge/base/loop.h"
#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

enum { MEMBER_TIMEOUT_MS = 3000 };

struct membership;
struct bridge;

/* Create the membership; requires the store and the routes. changed: called when the list
 * of instances has changed, and ranks may have. */
struct membership *membership_new(struct bridge *bridge, loop_cb *changed, void *arg);
/* Call it after the store was freed. a may be NULL. */
void membership_free(struct membership *a);

/* Redis is usable (again): join at once, and notify the other instances. */
void membership_join(struct membership *a);
/* Report this instance; call it once a second. */
void membership_report(struct membership *a);
/* Handle a notification that the list has changed; name with p NULL: notifications may
 * have been missed. Reads the list. */
void membership_notified(struct membership *a, struct slice name);
/* The routes of this instance have changed: report them, and notify the other
 * instances. */
void membership_routes_changed(struct membership *a);
/* Leave for good: remove this instance, and notify the others. */
void membership_leave(struct membership *a);
/* Return whether Redis has removed this instance, or did not answer. */
bool membership_has_left(const struct membership *a);

/* Return this instance's rank among those that serve the bucket; 0: it is the owner. Also
 * 0 while no list was read, or if a is NULL. */
unsigned membership_rank(const struct membership *a, const char *route,
                         const char *bucket);
/* Return the number of other instances that serve the route; -1: not known yet. */
int membership_others(const struct membership *a, const char *route);
/* Return the number of live instances; 0: not known yet. */
size_t membership_count(const struct membership *a);
/* Call each for every live instance; its argument is borrowed. */
struct membership_instance {
    struct slice id, routes; /* routes: names, separated by blanks */
    bool self;
};
typedef void membership_each_cb(void *arg, const struct membership_instance *one);
void membership_each(const struct membership *a, membership_each_cb *each, void *arg);

#endif
