/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drain.h - the order in which the daemon stops, so that no job is lost or delivered
 * twice.
 */
#ifndef BRIDGE_DRAIN_H
#define BRIDGE_DRAIN_H

struct bridge;

/* outcome: 0 when everything has stopped; -1 after daemon.stop_timeout: unfinished jobs
 * are still in Redis or with their source. */
typedef void drain_cb(void *arg, int outcome);
void drain_start(struct bridge *bridge, drain_cb *done, void *arg);

#endif
