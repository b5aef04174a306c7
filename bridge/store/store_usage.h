/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_usage.h - how much the servers of a store have in use, by INFO: memory, clients,
 * keys. Asked once per call, of every server.
 */
#ifndef BRIDGE_STORE_USAGE_H
#define BRIDGE_STORE_USAGE_H

#include "bridge/queue/queue.h"

struct store;

/* usage: borrowed; NULL: a server is away, or does not say. Never called from within. */
typedef void usage_cb(void *arg, const struct queue_usage *usage);
void store_usage(struct store *st, usage_cb *cb, void *arg);

#endif
