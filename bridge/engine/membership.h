/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * membership.h - the live instances, and which of them owns a bucket.
 *
 * Once a second this instance reports itself and its routes, and reads the reports of the
 * others (lua/alive.lua). An instance that has not reported for MEMBER_TIMEOUT_MS is
 * removed. While Redis is unreachable, the last list remains valid.
 *
 * Rendezvous hashing: each instance that serves the route has a weight for the bucket, a
 * hash of both names. The heaviest is the owner. So instances with the same list agree
 * without communication. The list decides only which instance claims a bucket first
 * (sched.h): a wrong list costs only time. Loop thread.
 */
#ifndef BRIDGE_ENGINE_MEMBERSHIP_H
#define BRIDGE_ENGINE_MEMBERSHIP_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

enum { MEMBER_TIMEOUT_MS = 3000 };

struct membership;
struct bridge;

/* Requires the store and the routes. */
struct membership *membership_new(struct bridge *bridge);
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
/* Return the live instances; none: not known yet. */
const struct member_list *membership_list(const struct membership *a);

/* --- pure --- */

struct member {              /* parts of struct member_list.text */
    struct slice id, routes; /* routes: names, separated by blanks */
};
struct member_list { /* zeroed: empty */
    struct buf text; /* all members, one per line */
    struct member *members;
    size_t n;
};

/* Replace the list by the members in Redis: "ID ROUTE ROUTE...", sorted; skips malformed
 * members. Copies the members. Returns whether the list has changed. */
bool member_list_set(struct member_list *list, const struct slice *members, size_t n);
void member_list_fini(struct member_list *list);
/* Return the rank of instance id among those that serve the route; 0: owner of the
 * bucket. An instance that is not in the list is ranked as if it were. */
unsigned member_list_rank(const struct member_list *list, const char *id,
                          const char *route, const char *bucket);

#endif
