/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewind.h - after a lost connection Redis may have lost recent jobs: sources read again.
 */
#ifndef BRIDGE_ENGINE_REWIND_H
#define BRIDGE_ENGINE_REWIND_H

struct bridge;

/* Called whenever a store is up, before it sends queued changes. Does nothing the first
 * time, or if no new connection was made. Else calls rewind_to_stored of the sources that
 * support it, and then answers the queued changes of Kafka records with NOT_STORED. */
void rewind_sources(struct bridge *bridge);

#endif
