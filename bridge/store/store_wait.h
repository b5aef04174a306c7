/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_wait.h - durability = "replicas:N": what a server has done counts only when so
 * many replicas have it too. Internal to the store.
 *
 * One WAIT at a time for each server, on the connection that carried the changes; what
 * is done meanwhile goes with the next. WAIT gives a number and no error: with too small
 * a number nothing is answered, and it is asked again. A connection that is lost leaves
 * the outcome unknown, as ever: the changes are sent again.
 */
#ifndef BRIDGE_STORE_WAIT_H
#define BRIDGE_STORE_WAIT_H

#include "bridge/store/store_node.h"

/* batch has been done by node; codes are its letters. batch_answer() comes later. */
void wait_for_replicas(struct node *node, struct batch *batch, struct slice codes);
/* At the end of each turn. Gives the us until it wants to be called again; -1: not. */
int64_t wait_flush(struct node *node, int64_t now_us);
/* The connection is gone. */
void wait_lost(struct node *node);

#endif
