/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plugins.h - what plugins bring beside sources and sinks: processes of their own.
 */
#ifndef BRIDGE_PLUGINS_H
#define BRIDGE_PLUGINS_H

/* `tarry worker NAME ...`: the worker process of a plugin, started by the plugin itself.
 * Gives the exit code; 64 when there is no such worker. */
int plugins_worker(int argc, char **argv);

#endif
