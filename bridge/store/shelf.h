/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shelf.h - small things that a source keeps in Redis, shared by all instances: access
 * tokens, limits, counters.
 *
 * A shelf is one hash, PREFIX:{SOURCE}:shelf:NAME, read whole; hundreds of fields, not
 * millions. Every call is answered exactly once, never before it has returned.
 */
#ifndef BRIDGE_SHELF_H
#define BRIDGE_SHELF_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct source;

enum shelf_code {
    SHELF_OK,
    SHELF_NOT, /* put: it is there already (only_new); drop, get: it is not there; tally:
                  over the limit */
    SHELF_AWAY /* Redis did not answer: unknown */
};
typedef void shelf_cb(void *arg, enum shelf_code code);
struct shelf_item {
    struct slice field, value;
};

void shelf_put(struct source *src, const char *shelf, struct slice field,
               struct slice value, bool only_new, shelf_cb *cb, void *arg);
/* All of them in one step; nobody is told of the change. */
void shelf_put_all(struct source *src, const char *shelf, const struct shelf_item *items,
                   unsigned n, shelf_cb *cb, void *arg);
void shelf_drop(struct source *src, const char *shelf, struct slice field, shelf_cb *cb,
                void *arg);
/* value: p NULL unless SHELF_OK; borrowed. */
typedef void shelf_get_cb(void *arg, enum shelf_code code, struct slice value);
void shelf_get(struct source *src, const char *shelf, struct slice field,
               shelf_get_cb *cb, void *arg);

typedef void shelf_list_cb(void *arg, enum shelf_code code,
                           const struct shelf_item *items, unsigned n);
void shelf_list(struct source *src, const char *shelf, shelf_list_cb *cb, void *arg);
/* Calls back whenever anybody, here or in another instance, changed a shelf of this
 * source, and when changes may have been missed (Redis was away). One watcher a source.
 */
void shelf_watch(struct source *src, void (*cb)(void *arg), void *arg);

/* Counts amount in the fixed window of that name, which opens at the first count and
 * lasts window_ms, unless that would exceed limit: then nothing is counted, SHELF_NOT. A
 * negative amount gives back; it never opens a window and never falls below 0. */
void shelf_tally(struct source *src, struct slice name, int64_t amount, int64_t limit,
                 int64_t window_ms, shelf_cb *cb, void *arg);

/* For the core. Another instance said "=SOURCE", or (name none) may have while nobody
 * listened: calls the watchers concerned. */
void shelf_told(struct bridge *bridge, struct slice name);

#endif
