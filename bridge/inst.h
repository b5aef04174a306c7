/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inst.h - the running sources and sinks: begun, held back, ended.
 */
#ifndef BRIDGE_INST_H
#define BRIDGE_INST_H

#include "bridge/err.h"

#include <stdbool.h>

struct bridge;

/* Makes the instances of the configuration, none of them started. */
void inst_init(struct bridge *bridge);
/* Each queue sink its Redis. After the stores were made, before the routes. */
void inst_choose_stores(struct bridge *bridge);
/* Frees what stopped; stops nothing. */
void inst_fini(struct bridge *bridge);

/* Starts those sources whose producers hear an answer, held back: before Redis is there.
 * -1: as below. */
int inst_start_answering(struct bridge *bridge, struct err *err);
/* Starts the rest, sinks first, so that nothing is claimed for one that is not there. -1:
 * err names the instance and says why. */
int inst_start(struct bridge *bridge, struct err *err);
/* Tells every started source to rest or to go on; those that already do are left alone.
 */
void inst_pause_sources(struct bridge *bridge, bool paused);
void inst_stop_sources(struct bridge *bridge);
void inst_stop_sinks(struct bridge *bridge);

/* Nothing that was submitted waits for its answer. */
bool inst_sources_quiet(const struct bridge *bridge);
/* No hand-over waits for its outcome. */
bool inst_sinks_quiet(const struct bridge *bridge);
bool inst_sources_stopped(const struct bridge *bridge);
bool inst_sinks_stopped(const struct bridge *bridge);

#endif
