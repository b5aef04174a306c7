/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv.h - key-value stores of a source in Redis, shared by all instances: access tokens,
 * limits, counters.
 *
 * A store is one hash, PREFIX:{SOURCE}:kv:NAME, for hundreds of fields, not millions.
 * Every call is answered exactly once, after it has returned.
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
    KV_NOT, /* put with only_new: the field exists; drop, get: it does not exist; tally:
             * over the limit */
    KV_AWAY /* Redis did not answer: the outcome is unknown */
};
typedef void kv_cb(void *arg, enum kv_code code);
struct kv_item {
    struct slice field, value;
};

void kv_put(struct source *src, const char *kv, struct slice field, struct slice value,
            bool only_new, kv_cb *cb, void *arg);
/* Set all items in one step. Calls no watcher and notifies no other instance. */
void kv_put_all(struct source *src, const char *kv, const struct kv_item *items,
                unsigned n, kv_cb *cb, void *arg);
void kv_drop(struct source *src, const char *kv, struct slice field, kv_cb *cb,
             void *arg);
/* value: borrowed; p NULL unless KV_OK. */
typedef void kv_get_cb(void *arg, enum kv_code code, struct slice value);
void kv_get(struct source *src, const char *kv, struct slice field, kv_get_cb *cb,
            void *arg);

typedef void kv_list_cb(void *arg, enum kv_code code, const struct kv_item *items,
                        unsigned n);
void kv_list(struct source *src, const char *kv, kv_list_cb *cb, void *arg);
/* The monotonic time in ms until which the servers of the source's jobs are known to have
 * run; -1: one is not usable. Ask before a put that must not outlive those jobs: the
 * answer to a put proves it only of the server that has the kv. */
int64_t kv_answered_ms(const struct source *src);
/* Set the source's watcher. cb is called when this or another instance has changed a
 * store of this source, and when changes may have been missed (Redis was unreachable). */
void kv_watch(struct source *src, void (*cb)(void *arg), void *arg);

/* Add amount to the counter of the fixed window `name`. The window opens at the first
 * count and lasts window_ms. If the sum would exceed limit, count nothing: KV_NOT. A
 * negative amount decreases the counter, to 0 at least, and never opens a window. */
void kv_tally(struct source *src, struct slice name, int64_t amount, int64_t limit,
              int64_t window_ms, kv_cb *cb, void *arg);

/* For the core: handle the notification "=SOURCE" of another instance; name with p NULL:
 * notifications may have been missed. Calls the watchers concerned. */
void kv_notified(struct bridge *bridge, struct slice name);

#endif
