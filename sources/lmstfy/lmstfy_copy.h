/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_copy.h - a copy of one shelf in memory, so that requests need not wait for
 * Redis. It is fresh from when it was read until somebody says that it was changed.
 *
 * It is sorted by a hash that begins with a secret number: how long a look-up takes tells
 * nothing of how much of a guessed token is right.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_COPY_H
#define SOURCES_LMSTFY_LMSTFY_COPY_H

#include "sources/lmstfy/lmstfy_admin.h"

struct lmstfy_copied {
    uint64_t hash;
    struct shelf_item item; /* field and value in one allocation */
};
struct lmstfy_copy {
    struct lmstfy *l;
    const char *shelf;
    uint64_t secret;
    struct lmstfy_copied *items; /* by hash, then by field */
    unsigned n;
    bool fresh;     /* items is what Redis has, as far as we were told */
    bool listing;   /* asked for */
    bool again;     /* it changed while asked for */
    struct buf key; /* for those who look something up; reused */
};

struct lmstfy_copy *lmstfy_copy_new(struct lmstfy *l, const char *shelf);
void lmstfy_copy_free(struct lmstfy_copy *copy);
/* Reads it anew. stale: it is not fresh until it has been read. */
void lmstfy_copy_refresh(struct lmstfy_copy *copy, bool stale);
/* NULL: not there; whether that means anything says fresh. */
const struct shelf_item *lmstfy_copy_find(const struct lmstfy_copy *copy,
                                          struct slice field);
/* By field, for qsort(). */
int lmstfy_copy_order(const void *a, const void *b);
/* Is field of that pool and namespace (key: "POOL/NS/")? token: what follows. */
bool lmstfy_copy_starts(struct slice field, struct slice key, struct slice *token);

#endif
