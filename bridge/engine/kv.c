/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv.c - the key-value stores (one HASH command per call) and tallies (lua/tally.lua).
 *
 * A change is followed at once by a notification of the other instances, whatever its
 * outcome. So a caller that repeats a change with an unknown outcome also repeats the
 * notification.
 */
#include "bridge/engine/kv.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/route.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A call to Redis, until its answer. */
struct ask {
    struct source *src;
    void (*tell)(struct ask *ask, const struct redisReply *r); /* r NULL: no answer */
    union {
        kv_cb *done;
        kv_get_cb *got;
        kv_list_cb *listed;
    } cb;
    void *arg;
    bool any;     /* any answer of Redis is success */
    bool changes; /* call the watcher after a success */
};

/* --- watchers --- */

int64_t kv_answered_ms(const struct source *src)
{
    int64_t least_ms = loop_mono_ms();
    EACH_ROUTE (src->bridge, route) {
        const struct store *st = route->sink->store;
        bool is_of_kv = st == src->bridge->store && store_server_count(st) == 1;
        if (is_of_kv || !route_comes_from(route, src))
            continue;
        int64_t answered_ms = store_answered_ms(st);
        least_ms = answered_ms < least_ms ? answered_ms : least_ms;
    }
    return least_ms;
}

void kv_watch(struct source *src, void (*cb)(void *arg), void *arg)
{
    src->kv_watch = cb;
    src->kv_watch_arg = arg;
}

static void tell_own(const struct source *src)
{
    if (src->kv_watch)
        src->kv_watch(src->kv_watch_arg);
}

void kv_notified(struct bridge *bridge, struct slice name)
{
    if (name.n > 0 && name.p[0] == '=')
        name = (struct slice){name.p + 1, name.n - 1};
    EACH_SOURCE (bridge, src) {
        if (name.p == NULL || slice_is(name, source_name(src)))
            tell_own(src);
    }
}

static void notify_others(const struct source *src)
{
    struct buf name = {0};
    buf_addf(&name, "=%s", source_name(src));
    store_notify(src->bridge->store, buf_str(&name));
    buf_free(&name);
}

/* --- answers --- */

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct ask *ask = arg;
    struct slice error = redis_error_text(reply);
    if (error.p) {
        log_limited(&ask->src->complain_kv, LOG_WARN, source_name(ask->src),
                    "the key-value store in Redis failed: %.*s", SLICE_ARG(error));
        reply = NULL;
    }
    ask->tell(ask, reply);
    free(ask);
}

static void tell_done(struct ask *ask, const struct redisReply *r)
{
    enum kv_code code = r == NULL                      ? KV_AWAY
                        : ask->any || redis_integer(r) ? KV_OK
                                                       : KV_NOT;
    ask->cb.done(ask->arg, code);
    if (code == KV_OK && ask->changes)
        tell_own(ask->src);
}

static void tell_get(struct ask *ask, const struct redisReply *r)
{
    struct slice value = redis_text(r);
    enum kv_code found = value.p ? KV_OK : KV_NOT;
    ask->cb.got(ask->arg, r ? found : KV_AWAY, value);
}

static void tell_list(struct ask *ask, const struct redisReply *r)
{
    if (r == NULL) {
        ask->cb.listed(ask->arg, KV_AWAY, NULL, 0);
        return;
    }
    unsigned n = (unsigned)redis_items(r) / 2;
    struct kv_item *items = mem_alloc((n + 1) * sizeof(*items));
    for (unsigned i = 0; i < n; i++)
        items[i] = (struct kv_item){.field = redis_text(redis_item(r, 2 * i)),
                                    .value = redis_text(redis_item(r, 2 * i + 1))};
    ask->cb.listed(ask->arg, KV_OK, items, n);
    free(items);
}

/* --- calls --- */

static struct ask *ask_new(struct source *src,
                           void (*tell)(struct ask *ask, const struct redisReply *r),
                           void *arg)
{
    struct ask *ask = mem_alloc(sizeof(*ask));
    *ask = (struct ask){.src = src, .tell = tell, .arg = arg};
    return ask;
}

/* PREFIX:{SOURCE}:KIND:NAME; each is one hash. */
static void add_key(struct buf *key, const struct source *src, const char *kind,
                    struct slice name)
{
    buf_addf(key, "%s:{%s}:%s:", store_prefix(src->bridge->store), source_name(src),
             kind);
    buf_add_slice(key, name);
}

/* Send "command KEY more...". */
static void send_command(struct ask *ask, const char *command, const char *kv,
                         const struct slice *more, unsigned n)
{
    struct slice *args = mem_alloc((n + 2) * sizeof(*args));
    struct buf key = {0};
    add_key(&key, ask->src, "kv", slice_of(kv));
    args[0] = slice_of(command);
    args[1] = buf_slice(&key);
    for (unsigned i = 0; i < n; i++)
        args[2 + i] = more[i].p ? more[i] : SLICE_LIT("");
    store_command(ask->src->bridge->store, args, 2 + n, on_reply, ask);
    buf_free(&key);
    free(args);
}

static struct ask *ask_done(struct source *src, kv_cb *cb, void *arg)
{
    struct ask *ask = ask_new(src, tell_done, arg);
    ask->cb.done = cb;
    return ask;
}

void kv_put(struct source *src, const char *kv, struct slice field, struct slice value,
            bool only_new, kv_cb *cb, void *arg)
{
    struct ask *ask = ask_done(src, cb, arg);
    const struct slice more[] = {field, value};
    ask->any = !only_new; /* HSET returns 0 if the field existed */
    ask->changes = true;
    send_command(ask, only_new ? "HSETNX" : "HSET", kv, more, 2);
    notify_others(src);
}

void kv_put_all(struct source *src, const char *kv, const struct kv_item *items,
                unsigned n, kv_cb *cb, void *arg)
{
    struct ask *ask = ask_done(src, cb, arg);
    struct slice *more = mem_alloc(2 * n * sizeof(*more));
    for (unsigned i = 0; i < n; i++) {
        more[2 * i] = items[i].field;
        more[2 * i + 1] = items[i].value;
    }
    ask->any = true;
    send_command(ask, "HSET", kv, more, 2 * n);
    free(more);
}

void kv_drop(struct source *src, const char *kv, struct slice field, kv_cb *cb, void *arg)
{
    struct ask *ask = ask_done(src, cb, arg);
    ask->changes = true;
    send_command(ask, "HDEL", kv, &field, 1);
    notify_others(src);
}

void kv_get(struct source *src, const char *kv, struct slice field, kv_get_cb *cb,
            void *arg)
{
    struct ask *ask = ask_new(src, tell_get, arg);
    ask->cb.got = cb;
    send_command(ask, "HGET", kv, &field, 1);
}

void kv_list(struct source *src, const char *kv, kv_list_cb *cb, void *arg)
{
    struct ask *ask = ask_new(src, tell_list, arg);
    ask->cb.listed = cb;
    send_command(ask, "HGETALL", kv, NULL, 0);
}

/* --- tallies --- */

void kv_tally(struct source *src, struct slice name, int64_t amount, int64_t limit,
              int64_t window_ms, kv_cb *cb, void *arg)
{
    struct ask *ask = ask_done(src, cb, arg);
    struct buf key = {0};
    add_key(&key, src, "tally", name);
    store_tally(src->bridge->store, buf_slice(&key), amount, limit, window_ms, on_reply,
                ask);
    buf_free(&key);
}
