/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reread.h - Redis is back, perhaps without what it took last: sources read again.
 */
#ifndef BRIDGE_ENGINE_REREAD_H
#define BRIDGE_ENGINE_REREAD_H

struct bridge;

/* Whenever a store is up, from within: before anything that was queued is sent. The first
 * time, and where no new connection was made, nothing is to be done. Else tells the
 * sources that can read again, and then gives their queued changes back to them. */
void reread_all(struct bridge *bridge);

#endif
