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

/* A leaving route delivers there, or sends its dead letters there. */
bool leave_needs_sink(const struct sink *sink);

/* Frees those that have finished. Not within a callback of a store, a source or a sink.
 * Returns whether any are left. */
bool leave_look(struct bridge *bridge);

#endif
