/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/store_audit.h"
#include "bridge/base/mem.h"
#include "bridge/store/store_lane.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

static const enum bucket_key pool_key[] = {KEY_POOL}; /* the others are made of it */

static const char *const names[AUDIT_PARTS] = {
    [AUDIT_DELAY] = "delay", [AUDIT_FAR] = "far",     [AUDIT_UNACK] = "unack",
    [AUDIT_ERROR] = "error", [AUDIT_DONE] = "done",   [AUDIT_HELD] = "held",
    [AUDIT_PLACE] = "place", [AUDIT_LEAD] = "lead",   [AUDIT_AWAY] = "away",
    [AUDIT_TRIES] = "tries", [AUDIT_ENDED] = "ended", [AUDIT_TTL] = "ttl",
    [AUDIT_POOL] = "pool",   [AUDIT_SUMS] = "sums",
};
enum { HEAD = 3, COUNTS = 6, PER_FINDING = 2 };

static int64_t number(const struct redisReply *r, size_t i)
{
    return r->element[i]->integer;
}

static void tell_audit(struct call *call, const struct redisReply *r)
{
    audit_cb *cb = (audit_cb *)call->cb;
    if (r == NULL || r->elements < HEAD) {
        cb(call->arg, NULL);
        return;
    }
    struct audit_reply reply = {.cursor = redis_text(r->element[0]),
                                .looked = number(r, 1),
                                .bytes = number(r, 2)};
    struct audit_counts counts;
    size_t at = HEAD;
    if (r->elements >= HEAD + COUNTS && r->element[HEAD]->type == REDIS_REPLY_INTEGER) {
        counts = (struct audit_counts){number(r, 3), number(r, 4), number(r, 5),
                                       number(r, 6), number(r, 7), number(r, 8)};
        reply.counts = &counts;
        at += COUNTS;
    }
    reply.count = (unsigned)((r->elements - at) / PER_FINDING);
    struct audit_finding *findings = mem_alloc((reply.count + 1) * sizeof(*findings));
    for (unsigned i = 0; i < reply.count; i++, at += PER_FINDING)
        findings[i] = (struct audit_finding){redis_text(r->element[at]),
                                             redis_text(r->element[at + 1])};
    reply.findings = findings;
    cb(call->arg, &reply);
    free(findings);
}

void store_audit(struct bucket *b, enum audit_part part, struct slice cursor,
                 unsigned count, bool repair, audit_cb *cb, void *arg)
{
    struct args *a = &b->store->args;
    struct call *call = call_begin(b, SCRIPT_AUDIT, pool_key, 1);
    args_slice(a, SLICE_LIT(""));
    args_slice(a, b->rules ? SLICE_LIT("q") : SLICE_LIT(""));
    args_slice(a, slice_of(names[part]));
    args_slice(a, cursor);
    args_number(a, count);
    args_slice(a, repair ? SLICE_LIT("1") : SLICE_LIT(""));
    args_slice(a, slice_of(b->store->wake_channel));
    args_slice(a, slice_of(b->wake));
    call_send(call, tell_audit, (void (*)(void))cb, arg);
}
