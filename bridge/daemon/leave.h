/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * leave.h - sources, sinks and routes that a reload has taken out (PART_LEAVING): they
 * finish what is under way, and are then freed.
 *
 * A stop of the daemon waits for them as for the others. Loop thread.
 */
#ifndef BRIDGE_LEAVE_H
#define BRIDGE_LEAVE_H

#include <stdbool.h>

struct bridge;
struct route;
struct sink;
struct source;

void leave_source(struct source *src);
void leave_sink(struct sink *sink);
void leave_route(struct route *route);

/* Return whether a leaving route delivers jobs or dead letters to that sink. */
bool leave_needs_sink(const struct sink *sink);

/* Free the parts that have finished. Do not call it from a callback of a store, source or
 * sink. Returns whether any are left. */
bool leave_look(struct bridge *bridge);

#endif
