/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plugins.h - the plugins of the binary, and what they bring beside sources and sinks:
 * processes of their own. With those of shared objects: conf/conf_plugin.c.
 */
#ifndef BRIDGE_PLUGINS_H
#define BRIDGE_PLUGINS_H

struct source_ops;
struct sink_ops;

/* End with NULL. */
extern const struct source_ops *const source_plugins[];
extern const struct sink_ops *const sink_plugins[];

/* `tarry worker NAME ...`: the worker process of a plugin, started by the plugin itself.
 * Gives the exit code; 64 when there is no such worker. */
int plugins_worker(int argc, char **argv);

#endif
