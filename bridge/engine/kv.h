/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv.h - small things that a source keeps in Redis, shared by all instances: access
 * tokens, limits, counters.
 *
 * A kv is one hash, PREFIX:{SOURCE}:kv:NAME, read whole; hundreds of fields, not
 * millions. Every call is answered exactly once, never before it has returned.
 */
#ifndef BRIDGE_ENGINE_KV_H
#define BRIDGE_ENGINE_KV_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct source;

enum kv_code {
    KV_OK,
    KV_NOT, /* put: it is there already (only_new); drop, get: it is not there; tally:
                  over the limit */
    KV_AWAY /* Redis did not answer: unknown */
};
typedef void kv_cb(void *arg, enum kv_code code);
struct kv_item {
    struct slice field, value;
};

void kv_put(struct source *src, const char *kv, struct slice field, struct slice value,
            bool only_new, kv_cb *cb, void *arg);
/* All of them in one step; nobody is told of the change. */
void kv_put_all(struct source *src, const char *kv, const struct kv_item *items,
                unsigned n, kv_cb *cb, void *arg);
void kv_drop(struct source *src, const char *kv, struct slice field, kv_cb *cb,
             void *arg);
/* value: p NULL unless KV_OK; borrowed. */
typedef void kv_get_cb(void *arg, enum kv_code code, struct slice value);
void kv_get(struct source *src, const char *kv, struct slice field, kv_get_cb *cb,
            void *arg);

typedef void kv_list_cb(void *arg, enum kv_code code, const struct kv_item *items,
                        unsigned n);
void kv_list(struct source *src, const char *kv, kv_list_cb *cb, void *arg);
/* Calls back whenever anybody, here or in another instance, changed a kv of this
 * source, and when changes may have been missed (Redis was away). One watcher a source.
 */
void kv_watch(struct source *src, void (*cb)(void *arg), void *arg);

/* Counts amount in the fixed window of that name, which opens at the first count and
 * lasts window_ms, unless that would exceed limit: then nothing is counted, KV_NOT. A
 * negative amount gives back; it never opens a window and never falls below 0. */
void kv_tally(struct source *src, struct slice name, int64_t amount, int64_t limit,
              int64_t window_ms, kv_cb *cb, void *arg);

/* For the core. Another instance said "=SOURCE", or (name none) may have while nobody
 * listened: calls the watchers concerned. */
void kv_told(struct bridge *bridge, struct slice name);

#endif
