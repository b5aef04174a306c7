/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verdict.h - what is to become of a message: its route, and what that makes of it.
 *
 * Nothing is done about it yet and nothing is counted, so that `explain` can ask for it
 * as well as a submission.
 */
#ifndef BRIDGE_ENGINE_VERDICT_H
#define BRIDGE_ENGINE_VERDICT_H

#include "bridge/base/mem.h"
#include "bridge/engine/judge.h"

#include <stdbool.h>

struct job;
struct route;
struct source;

struct verdict {
    struct route *route; /* where it goes, or is kept as a dead letter */
    bool found;          /* false: no route takes it, and that is the source's first */
    struct judgement asks;
    const char
        *reason;     /* why it can't be accepted, a name of enum reason; NULL: it can */
    const char *why; /* the same in words; a part of this struct */
    bool named;      /* by its producer, or after its record */
    bool unknown;    /* that name is known to nobody else */
    struct err err;
};

/* Writes into the job what its route makes of it: target, times, source, id and so on. */
void verdict_reach(struct source *src, struct job *job, struct verdict *v);
/* Names a job after what it asked for (p NULL: nothing), after its record, or anew. */
void verdict_name(struct source *src, struct job *job, struct slice wanted,
                  struct verdict *v);

#endif
