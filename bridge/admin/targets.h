/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * targets.h - the targets of a route, for sources that serve operators: what state each
 * is in, and the end of a stop. See pace.h.
 */
#ifndef BRIDGE_TARGETS_H
#define BRIDGE_TARGETS_H

#include "bridge/engine/pace.h"

/* Calls each for every target of the route that this instance knows of. false: there is
 * no such route. */
bool source_targets(struct source *src, struct slice route, pace_each *each, void *arg);

enum target_code { TARGET_GOES_ON, TARGET_NOT_STOPPED, TARGET_NO_ROUTE, TARGET_AWAY };
/* Calls cb once, never before it has returned. */
void source_target_go_on(struct source *src, struct slice route, struct slice target,
                         void (*cb)(void *arg, enum target_code code), void *arg);

#endif
