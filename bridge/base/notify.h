/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * notify.h - what the service manager is told, as sd_notify(3) has it. Loop thread.
 *
 * Where there is none (no NOTIFY_SOCKET), every call does nothing. No call waits: what
 * the manager has no room for yet is told with the next call.
 */
#ifndef BRIDGE_NOTIFY_H
#define BRIDGE_NOTIFY_H

#include "bridge/base/mem.h"

#include <stdint.h>

/* Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, so that no
 * child speaks for us. -1: the socket's name is none; then nobody is told anything. */
int notify_open(struct err *err);
void notify_close(void);

void notify_ready(void);     /* started, or through with a reload, whatever came of it */
void notify_reloading(void); /* until notify_ready() */
void notify_stopping(void);
/* One line on what the daemon does. Told when it is another than the last; borrowed. */
void notify_status(const char *text);
/* What is under way, start or stop, takes this much longer from now on. */
void notify_extend(int64_t wait_ms);
/* The daemon works. To be called every NOTIFY_ALIVE_MS: tells the manager's watchdog as
 * often as that wants it. */
void notify_alive(void);

enum { NOTIFY_ALIVE_MS = 1000 };

#endif
