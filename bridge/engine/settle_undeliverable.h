/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * settle_undeliverable.h - claimed jobs that are not delivered: the record cannot be
 * read, the job is too late, has lost too many leases or has no target, or the
 * dead-letter sink has no room.
 *
 * Each function returns true if the job must not be delivered. It has then settled the
 * job (settle.h), or logged that Redis has no record of it.
 */
#ifndef BRIDGE_ENGINE_SETTLE_UNDELIVERABLE_H
#define BRIDGE_ENGINE_SETTLE_UNDELIVERABLE_H

#include <stdbool.h>
#include <stdint.h>

struct store_claim_item;
struct err;
struct leased;

/* Handle a record that cannot be read: l->job is NULL, and err says why. */
bool settle_if_unreadable(struct leased *l, const struct store_claim_item *claimed,
                          const struct err *err);
/* Check a job before its delivery. now_ms: Redis' clock at the claim. */
bool settle_if_undeliverable(struct leased *l, int64_t lateness_ms, int64_t now_ms);

#endif
