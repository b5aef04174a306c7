/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * emit.h - what a job looks like on its way out: its own headers and ours.
 *
 * Added: delay-id, delay-due and delay-emitted (epoch ms), delay-attempt, delay-source
 * and delay-hops; delay-run of a job that repeats, delay-replays of one that was
 * replayed; on dead letters also delay-route and delay-dead-reason, -error, -status,
 * -attempts, -first and -last (epoch ms). Pure but for the job's memory, which holds what
 * is made here.
 */
#ifndef BRIDGE_ENGINE_EMIT_H
#define BRIDGE_ENGINE_EMIT_H

#include "bridge/base/mem.h"

#include <stdint.h>

struct delivery;
struct job;
struct route;
struct tries;

void emit_headers(const struct route *route, struct job *job, const struct tries *tries,
                  int64_t now_ms, struct delivery *d); /* sets left_ms, too */
/* Renders the target at the route's dead-letter sink. -1: it can't be told. */
int emit_dead_target(const struct route *route, struct job *job, struct delivery *d,
                     struct err *err);

#endif
