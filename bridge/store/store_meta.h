/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_meta.h - PREFIX:meta in Redis, and what keys there are. One call each, never
 * repeated; every callback comes once, from within where Redis is away.
 */
#ifndef BRIDGE_STORE_META_H
#define BRIDGE_STORE_META_H

#include "bridge/store/store.h"

struct meta_change { /* borrowed */
    const char *field;
    const char *was; /* NULL: it was not there */
    const char *now;
};
enum { STORE_META_MAX = 64 }; /* changes of one call */
/* field, value, field, value... pairs NULL: no answer; else as it stands afterwards. */
typedef void store_meta_cb(void *arg, bool changed, const struct slice *pairs,
                           unsigned n);
/* All of them are made, or none: where a field was not as it is said to have been. n 0:
 * only reads. */
void store_meta(struct store *st, const struct meta_change *changes, unsigned n,
                store_meta_cb *cb, void *arg);

/* EXISTS, HLEN and the like. -1: no answer. 0 also where this user may not look: such
 * keys are not ours to work with. */
typedef void figure_cb(void *arg, int64_t n);
void store_figure(struct store *st, const char *command, struct slice key, figure_cb *cb,
                  void *arg);
/* The names of a sorted set by rank, both ends included. names NULL: no answer. Borrowed.
 */
typedef void names_cb(void *arg, const struct slice *names, unsigned n);
void store_names(struct store *st, struct slice key, int64_t from, int64_t to,
                 names_cb *cb, void *arg);

#endif
