/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * turn_away.h - claimed jobs that are not handed over: those that cannot be read, come
 * too late, lost too many leases, have no target, or find no room at the dead-letter
 * sink.
 *
 * Each function returns true if it has settled the job (settle.h).
 */
#ifndef BRIDGE_ENGINE_TURN_AWAY_H
#define BRIDGE_ENGINE_TURN_AWAY_H

#include <stdbool.h>
#include <stdint.h>

struct store_claim_item;
struct err;
struct leased;

/* The record cannot be read: l->job is NULL, and err says why. */
bool turn_away_broken(struct leased *l, const struct store_claim_item *claimed,
                      const struct err *err);
/* now_ms: Redis' clock at the claim. */
bool turn_away(struct leased *l, int64_t lateness_ms, int64_t now_ms);

#endif
