/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * notify.h - reports the state of the daemon to the service manager (sd_notify(3)). Loop
 * thread.
 *
 * Without NOTIFY_SOCKET every call does nothing. No call blocks: if the socket is full,
 * the next call sends the message.
 */
#ifndef BRIDGE_NOTIFY_H
#define BRIDGE_NOTIFY_H

#include "bridge/base/mem.h"

#include <stdint.h>

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and removes them from the
 * environment, so that children cannot send notifications. -1: the socket's name is
 * invalid; later calls do nothing. */
int notify_open(struct err *err);
void notify_close(void);

void notify_ready(void);     /* started, or a reload is finished, also a failed one */
void notify_reloading(void); /* until notify_ready() */
void notify_stopping(void);
/* One line about the daemon's activity. Sent only if it changed; copied. */
void notify_status(const char *text);
/* Extends the manager's timeout for the start or stop in progress to wait_ms from now. */
void notify_extend(int64_t wait_ms);
/* Reports progress. Call it every NOTIFY_WATCHDOG_MS; it pings the manager's watchdog as
 * often as the manager requires. */
void notify_watchdog(void);

enum { NOTIFY_WATCHDOG_MS = 1000 };

#endif
