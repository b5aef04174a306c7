/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * alive_list.h - the instances that are there, and who of them is the owner of a bucket.
 *
 * By rendezvous hashing: each instance that serves the route has a weight for the bucket,
 * made of both names; the heaviest is the owner. So all that have the same list agree
 * without a word, and an instance that comes or goes moves its own buckets only. Pure.
 */
#ifndef BRIDGE_ENGINE_ALIVE_LIST_H
#define BRIDGE_ENGINE_ALIVE_LIST_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct alive_one { /* parts of its text */
    struct slice id, routes;
};
struct alive_list {  /* zeroed is empty */
    struct buf text; /* of all, as they came */
    struct alive_one *ones;
    size_t n;
};

/* Takes over what Redis listed: "ID ROUTE ROUTE...", sorted; what is not of that
 * form is left out. Copied. Is it other than before? */
bool alive_list_set(struct alive_list *list, const struct slice *members, size_t n);
void alive_list_fini(struct alive_list *list);
/* The place of instance id among those that serve the route: 0: it is the owner of the
 * bucket, 1: it comes next... Who is not on the list counts as if it were; so it owns
 * everything while the list is empty. */
unsigned alive_list_rank(const struct alive_list *list, const char *id, const char *route,
                         const char *bucket);
bool alive_serves(const struct alive_one *one, const char *route);

#endif
