/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon.h - the running daemon: the order of start and stop, signals, exit codes.
 */
#ifndef BRIDGE_DAEMON_H
#define BRIDGE_DAEMON_H

struct bridge;

/* Runs the daemon until a stop is requested. Returns the exit code (sysexits): 0 after a
 * requested stop, 69 if something required could not be started, 70 after a forced stop,
 * 78 for a configuration error. */
int daemon_run(const char *conf_file);

/* --- drain.c: the order of a stop, so that no job is lost or delivered twice --- */

/* outcome: 0 when everything has stopped; -1 after daemon.stop_timeout: unfinished jobs
 * are still in Redis or with their source. */
typedef void drain_cb(void *arg, int outcome);
void drain_start(struct bridge *bridge, drain_cb *done, void *arg);

#endif
