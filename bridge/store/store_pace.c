/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

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
