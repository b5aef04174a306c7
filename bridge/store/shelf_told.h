/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shelf_told.h - the core's side of bridge/store/shelf.h: who hears that a shelf was
 * changed.
 */
#ifndef BRIDGE_SHELF_TOLD_H
#define BRIDGE_SHELF_TOLD_H

#include "bridge/base/buf.h"

struct bridge;

/* Another instance said "=SOURCE", or (name none) may have while nobody listened: calls
 * the watchers concerned. */
void shelf_told(struct bridge *bridge, struct slice name);

#endif
