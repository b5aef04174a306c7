/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_list.c - looking through a bucket for operators: its jobs, and what does not
 * agree (an audit).
 */
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

/* Where this bucket goes on: in its index from a score on, or behind one ("("), or in its
 * midst behind a member; in its slots likewise, from an ordinal on. */
void bucket_list(struct bucket *b, struct store_list_ask *ask,
                 const struct list_place *behind, int64_t number, store_list_cb *cb,
                 void *arg)
{
    char from[24], after[24];
    ask->look = STORE_LIST_LOOK;
    ask->least = ask->what == LIST_WHAT_HELD ? SLICE_LIT("0") : SLICE_LIT("-inf");
    ask->least_slot = SLICE_LIT("-inf");
    if (behind) {
        bool far = behind->ordinal >= 0, here = number == behind->bucket;
        bool passed = number < behind->bucket; /* that score was asked for already */
        snprintf(from, sizeof(from), "%" PRId64, behind->score);
        snprintf(after, sizeof(after), "(%" PRId64, behind->score);
        ask->least = slice_of(!far && passed ? after : from);
        ask->least_slot = slice_of(!far || passed ? after : from);
        if (far && here)
            ask->slot_at = behind->ordinal + 1;
        else if (here)
            ask->behind = behind->member;
    }
    store_list(b, ask, cb, arg);
}

/* --- audit --- */

static const char *const names[AUDIT_PARTS] = {
    [AUDIT_DELAY] = "delay", [AUDIT_FAR] = "far",     [AUDIT_UNACK] = "unack",
    [AUDIT_ERROR] = "error", [AUDIT_DONE] = "done",   [AUDIT_HELD] = "held",
    [AUDIT_PLACE] = "place", [AUDIT_LEAD] = "lead",   [AUDIT_AWAY] = "away",
    [AUDIT_TRIES] = "tries", [AUDIT_ENDED] = "ended", [AUDIT_TTL] = "ttl",
    [AUDIT_POOL] = "pool",   [AUDIT_SUMS] = "sums",
};

static void tell_audit(struct call *call, const struct redisReply *r)
{
    enum { HEAD = 3, COUNTS = 6, PER_FINDING = 2 };
    audit_cb *cb = (audit_cb *)call->cb;
    if (r == NULL || r->elements < HEAD) {
        cb(call->arg, NULL);
        return;
    }
    struct audit_reply reply = {.cursor = redis_text(r->element[0]),
                                .looked = reply_number(r->element[1]),
                                .bytes = reply_number(r->element[2])};
    struct audit_counts counts;
    size_t at = HEAD;
    if (r->elements >= HEAD + COUNTS && r->element[HEAD]->type == REDIS_REPLY_INTEGER) {
        int64_t *const to[COUNTS] = {&counts.jobs, &counts.waiting, &counts.in_flight,
                                     &counts.dead, &counts.held,    &counts.ended};
        for (int i = 0; i < COUNTS; i++)
            *to[i] = reply_number(r->element[at++]);
        reply.counts = &counts;
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
    struct call *call = call_begin(b, SCRIPT_AUDIT);
    args_slice(a, SLICE_LIT(""));
    put_kind(a, b);
    args_slice(a, slice_of(names[part]));
    args_slice(a, cursor);
    args_number(a, count);
    args_flag(a, repair);
    put_wake(a, b);
    call_send(call, tell_audit, (void (*)(void))cb, arg);
}
