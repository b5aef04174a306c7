/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * leave.h - sources, sinks and routes that a reload has taken out: they end what is on
 * its way, and then go.
 *
 * They stand in bridge->old_sources, old_sinks and old_routes, and nowhere else. A stop
 * of the daemon waits for them as for the others. Loop thread.
 */
#ifndef BRIDGE_LEAVE_H
#define BRIDGE_LEAVE_H

#include <stdbool.h>

struct bridge;
struct conf_route;
struct conf_sink;
struct conf_source;
struct route;
struct sink;
struct source;

/* Each takes the part of the configuration that the thing was made by. */
void leave_source(struct source *src, struct conf_source *conf);
void leave_sink(struct sink *sink, struct conf_sink *conf);
void leave_route(struct route *route, struct conf_route *conf);

/* One that leaves and still has buckets, or queues; NULL: there is none. */
struct route *leave_route_named(const struct bridge *bridge, const char *name);
struct sink *leave_queue_named(const struct bridge *bridge, const char *name);
/* It comes back: its conf is freed, and the caller gives it another. */
void leave_route_back(struct route *route);
void leave_sink_back(struct sink *sink);

/* A route that leaves ends there, or sends its dead letters there. */
bool leave_needs_sink(const struct sink *sink);

/* Frees those that are quiet. Not within a callback of a store, a source or a sink.
 * Says whether some are left. */
bool leave_look(struct bridge *bridge);

#endif
