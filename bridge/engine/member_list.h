/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * member_list.h - the list of live instances, and the owner of each bucket.
 *
 * Rendezvous hashing: each instance that serves the route has a weight for the bucket, a
 * hash of both names. The heaviest is the owner. So instances with the same list agree
 * without communication, and an instance that joins or leaves affects only its own
 * buckets. Pure functions.
 */
#ifndef BRIDGE_ENGINE_MEMBER_LIST_H
#define BRIDGE_ENGINE_MEMBER_LIST_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct member { /* parts of struct member_list.text */
    struct slice id, routes;
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
 * bucket. An instance that is not in the list is ranked as if it were. So with an empty
 * list it owns every bucket. */
unsigned member_list_rank(const struct member_list *list, const char *id,
                          const char *route, const char *bucket);
bool member_serves(const struct member *one, const char *route);

#endif
