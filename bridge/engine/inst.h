/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inst.h - the running sources and sinks: begun, held back, ended.
 */
#ifndef BRIDGE_ENGINE_INST_H
#define BRIDGE_ENGINE_INST_H

#include "bridge/base/mem.h"

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct conf;
struct conf_sink;
struct conf_source;
struct sink;
struct source;

/* Of those that run; NULL: there is none of that name, or it is NULL. */
struct source *inst_source_named(const struct bridge *bridge, const char *name);
struct sink *inst_sink_named(const struct bridge *bridge, const char *name);

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
/* Tells every started source to rest or to go on; those that already do are left alone,
 * those that a reload suspends rest in any case. */
void inst_pause_sources(struct bridge *bridge, bool paused);
/* All of them, also those that leave (leave.h). */
void inst_stop_sources(struct bridge *bridge);
void inst_stop_sinks(struct bridge *bridge);

/* See inst_source_may_stop(). */
bool inst_sources_may_stop(const struct bridge *bridge);
/* No hand-over waits for its outcome. */
bool inst_sinks_quiet(const struct bridge *bridge);
/* And nothing that they asked for waits for its answer. */
bool inst_sources_stopped(const struct bridge *bridge);
bool inst_sinks_stopped(const struct bridge *bridge);

/* --- one by one, for a reload --- */

/* Borrows conf, which must stay. Not started. */
struct source *inst_new_source(struct bridge *bridge, const struct conf_source *conf);
struct sink *inst_new_sink(struct bridge *bridge, const struct conf_sink *conf);
/* src->conf says anew which foreign headers count. */
void inst_set_compat(struct source *src);
/* Stopped, or never started; with its conf, where that is its own. */
void inst_source_free(struct source *src);
void inst_sink_free(struct sink *sink);
/* -1: as above. */
int inst_source_start(struct source *src, struct err *err);
int inst_sink_start(struct sink *sink, int64_t timeout_ms, struct err *err);
/* Once; nothing where it was never started. */
void inst_source_stop(struct source *src);
void inst_sink_stop(struct sink *sink);
void inst_source_rest(struct source *src, bool rests);
/* It rests, and all that it submitted was answered. What else it asks has a moment for
 * that, no more: an API that is asked all the time always asks. */
bool inst_source_may_stop(const struct source *src);
bool inst_sink_quiet(const struct sink *sink);
/* Stopped, and nothing that it asked for waits for its answer. */
bool inst_source_ended(const struct source *src);
bool inst_sink_ended(const struct sink *sink);
/* For the deliveries of a sink of that name. */
int64_t inst_timeout_ms(const struct conf *conf, const char *sink);

#endif
