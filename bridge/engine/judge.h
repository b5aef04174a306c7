/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * judge.h - what a message asks for, held against what its route allows.
 */
#ifndef BRIDGE_ENGINE_JUDGE_H
#define BRIDGE_ENGINE_JUDGE_H

#include "bridge/job/delay.h"
#include "bridge/job/tries.h"

#include <stdbool.h>
#include <stdint.h>

struct job;
struct route;
struct source;

enum { JUDGE_WHY = 256 };

struct judgement {
    enum delay_op op;
    const char
        *reason; /* why it can't be accepted, a name of enum reason; NULL: it can */
    char why[JUDGE_WHY]; /* the same in words */
    struct slice id;     /* that the producer gave it, also where it can't be accepted;
                          * borrowed from the job, empty: none */
    bool due_now;        /* of a queue: behind all that are due when it is stored */
    bool clamped;        /* to the route's max_delay */
    bool target_given;   /* by the message: that of the route is no matter */
};

/* Reads the control headers, and writes into the job what the route allows of them:
 * times, target, key, schedule, repetition. now_ms: by the clock of the route's Redis. */
void judge_job(const struct source *src, const struct route *route, struct job *job,
               int64_t now_ms, struct judgement *out);
/* The headers that were meant for us do not travel on; delay-hops does, to be counted. */
void judge_strip(const struct source *src, const struct route *route, struct job *job);

/* Payload, key, headers and names together. */
int64_t judge_job_bytes(const struct job *job);

#endif
