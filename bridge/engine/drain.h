/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drain.h - the order in which the daemon stops, so that nothing is lost or sent twice.
 */
#ifndef BRIDGE_ENGINE_DRAIN_H
#define BRIDGE_ENGINE_DRAIN_H

struct bridge;

/* done is called when everything has stopped (0), or at the overall limit (-1): what is
 * open then is still in Redis, or with its source. */
typedef void drain_cb(void *arg, int outcome);
void drain_start(struct bridge *bridge, drain_cb *done, void *arg);

#endif
