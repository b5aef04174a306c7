/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta.h - what PREFIX:meta says, as texts and numbers: the layout of the keys, and which
 * generations of buckets each route has. Pure; meta_keep.h reads and writes it.
 *
 *   layout        the layout that the keys have
 *   least_reader  a tarry that knows no layout from this on must not even look at them
 *   least_writer  one that knows none from this on must not change them
 *   route:NAME    "2:4 1:1": the newest generation is the second and has 4 buckets, and
 *                 the first, of 1, is not empty yet
 *   sink:NAME     of a sink of type queue: "queue", or "global" where its ids are
 *
 * Layout 1 kept no sums in its buckets (lua/lib/sums.lua); 2 does, and its routes may
 * have several generations; in 3 jobs may wait in a second tier (lua/lib/far.lua), where
 * a tarry of layout 2 would not find them, nor count them.
 */
#ifndef BRIDGE_META_H
#define BRIDGE_META_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    META_LAYOUT = 3,       /* what this tarry makes */
    META_LAYOUT_SUMS = 2,  /* from this on there are sums and generations */
    META_LAYOUT_FAR = 3,   /* and from this on a second tier */
    META_LAYOUT_FIRST = 1, /* the oldest that it can work with */
    META_GENERATIONS_MAX = 8,
    META_BUCKETS_MAX = 1024 /* of one generation */
};

struct meta_layout {
    int64_t layout, least_reader, least_writer; /* layout 0: there is none */
};
/* -1: this tarry must leave these keys alone, and err says why and what to do. */
int meta_layout_fits(const struct meta_layout *there, bool writes, const char *prefix,
                     struct err *err);

struct meta_generation {
    unsigned number; /* from 1 */
    int64_t buckets;
};
struct meta_route { /* the newest first */
    struct meta_generation generation[META_GENERATIONS_MAX];
    unsigned count;
};
/* -1: no such list; out is undefined. */
int meta_route_parse(struct slice text, struct meta_route *out);
void meta_route_format(const struct meta_route *list, struct buf *out);
/* Puts a new one before the others. false: there are too many already. */
bool meta_route_begin(struct meta_route *list, int64_t buckets);
/* Takes out all that are older than the given number. */
void meta_route_forget(struct meta_route *list, unsigned oldest);
/* "ROUTE/N", of later generations "ROUTE/N.G". */
void meta_bucket_name(const char *route, unsigned generation, int64_t n, struct buf *out);

#endif
