/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plugin_load.h - which sources and sinks there are: those of the binary, then those of
 * the shared objects that the configuration names. Loop thread, or before it runs.
 */
#ifndef BRIDGE_PLUGIN_LOAD_H
#define BRIDGE_PLUGIN_LOAD_H

#include "bridge/base/mem.h"

#include <stddef.h>

struct source_ops;
struct sink_ops;

/* The i-th; NULL: there are no more. What was given once stays where it is. */
const struct source_ops *plugin_source(size_t i);
const struct sink_ops *plugin_sink(size_t i);

/* Loads a shared object (plugin.h, TARRY_PLUGIN) for good: it is never unloaded, and one
 * that was loaded before from the same path stays as it is. -1: nothing of it is taken,
 * and err says why, without the path. */
int plugin_load(const char *path, struct err *err);

#endif
