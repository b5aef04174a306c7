/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon.h - the running daemon: the order of start and stop, signals, exit codes.
 */
#ifndef BRIDGE_DAEMON_H
#define BRIDGE_DAEMON_H

/* Runs until it is told to stop. Gives the exit code (sysexits): 0 stopped as asked,
 * 69 something it needs could not be started, 70 stopped by force, 78 configuration. */
int daemon_run(const char *conf_file);

#endif
