/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_cli.h - `tarry import`: moves the jobs of another delay queue over, out of that
 * one's own Redis.
 */
#ifndef BRIDGE_IMPORT_CLI_H
#define BRIDGE_IMPORT_CLI_H

struct cli_order;

/* Gives the exit code: 0 all moved, 1 some jobs could not be taken and are still where
 * they were, 64 used wrongly, 66 nothing of the original is there, 69 a Redis is away, 78
 * configuration. */
int import_main(struct cli_order *o);

#endif
