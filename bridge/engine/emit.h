/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * emit.h - the headers and the target of a delivery.
 *
 * Adds delay-id, delay-due and delay-emitted (epoch ms), delay-attempt, delay-source and
 * delay-hops; delay-run to a job that repeats, delay-replays to a replayed job; to dead
 * letters also delay-route and delay-dead-reason, -error, -status, -attempts, -first and
 * -last (epoch ms). The results are allocated in the job's memory. No other side effects.
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
                  int64_t now_ms, struct delivery *d); /* also sets left_ms */
/* Render the target at the route's dead-letter sink. -1: not possible, err says why. */
int emit_dead_target(const struct route *route, struct job *job, struct delivery *d,
                     struct err *err);

#endif
