/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

/* --- places at the rate --- */

static void tell_pace(struct call *call, const struct redisReply *r)
{
    int64_t wait_us[STORE_PACE_MAX];
    bool good = r != NULL && redis_items(r) == call->asked;
    for (size_t i = 0; good && i < call->asked; i++)
        wait_us[i] = r->element[i]->integer;
    ((store_pace_cb *)call->cb)(call->arg, good ? wait_us : NULL);
}

void store_pace(struct bucket *b, const struct pace_rate *rate,
                const struct paced_job *jobs, unsigned n, store_pace_cb *cb, void *arg)
{
    struct call *call = call_begin_at(b, SCRIPT_PACE, KEY_TARGETS);
    struct args *args = &b->store->args;
    must(n > 0 && n <= STORE_PACE_MAX);
    call->asked = n;
    char interval[40], owner[40] = "";
    snprintf(interval, sizeof(interval), "%.17g", 1e6 / rate->per_s);
    if (!rate->shared)
        snprintf(owner, sizeof(owner), "%s|", b->store->conf.instance);
    args_slice(args, SLICE_LIT(""));
    args_slice(args, slice_of(interval));
    args_number(args, rate->burst);
    args_number(args, rate->hold_us);
    args_slice(args, slice_of(owner));
    for (unsigned i = 0; i < n; i++) {
        args_slice(args, jobs[i].target);
        args_flag(args, jobs[i].has_slot);
    }
    call_send(call, tell_pace, (void (*)(void))cb, arg);
}

/* --- stops --- */

/* One command about stops until it is answered. */
struct ask {
    struct bucket *bucket;
    union {
        store_go_on_cb *go_on;
        store_stopped_cb *list;
    } cb;
    void *arg;
};

static void send_command(struct bucket *b, const char *command, struct slice target,
                         struct slice value, redis_reply_cb *tell, struct ask *ask)
{
    struct slice args[4] = {slice_of(command), b->key[KEY_STOPPED], target, value};
    unsigned n = value.p ? 4 : target.p ? 3 : 2;
    ask->bucket = b;
    store_command(b->store, args, n, tell, ask);
}

/* NULL: it is of no use. */
static const struct redisReply *good(const struct ask *ask, const struct redisReply *r)
{
    if (r == NULL || r->type != REDIS_REPLY_ERROR)
        return r;
    log_limited(&ask->bucket->store->complain, LOG_WARN, ask->bucket->name,
                "%s in Redis: %s", ask->bucket->key_text[KEY_STOPPED], r->str);
    return NULL;
}

static void on_stop(void *arg, const struct redisReply *reply)
{
    (void)good(arg, reply); /* an error is logged; who reads the stops finds it missing */
    free(arg);
}

void store_stop(struct bucket *b, struct slice target)
{
    struct ask *ask = mem_alloc(sizeof(*ask));
    char now[24];
    snprintf(now, sizeof(now), "%lld", (long long)store_now_ms(b->store));
    send_command(b, "HSETNX", target, slice_of(now), on_stop, ask);
}

static void on_go_on(void *arg, const struct redisReply *reply)
{
    struct ask *ask = arg;
    const struct redisReply *r = good(ask, reply);
    ask->cb.go_on(ask->arg, r == NULL ? -1 : r->integer > 0 ? 0 : 1);
    free(ask);
}

void store_go_on(struct bucket *b, struct slice target, store_go_on_cb *cb, void *arg)
{
    struct ask *ask = mem_alloc(sizeof(*ask));
    ask->cb.go_on = cb;
    ask->arg = arg;
    send_command(b, "HDEL", target, (struct slice){NULL, 0}, on_go_on, ask);
}

static void on_stopped(void *arg, const struct redisReply *reply)
{
    struct ask *ask = arg;
    const struct redisReply *r = good(ask, reply);
    size_t n = r ? r->elements : 0;
    struct slice *targets = mem_alloc((n + 1) * sizeof(*targets));
    for (size_t i = 0; i < n; i++)
        targets[i] = redis_text(r->element[i]);
    ask->cb.list(ask->arg, targets, r ? (int)n : -1);
    free(targets);
    free(ask);
}

void store_stopped(struct bucket *b, store_stopped_cb *cb, void *arg)
{
    struct ask *ask = mem_alloc(sizeof(*ask));
    ask->cb.list = cb;
    ask->arg = arg;
    send_command(b, "HKEYS", (struct slice){NULL, 0}, (struct slice){NULL, 0}, on_stopped,
                 ask);
}
