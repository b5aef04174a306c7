/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * embedded.h - url = "embedded": a private redis-server that runs as a child of the
 * daemon.
 *
 * The child listens only on a Unix socket and keeps an append-only file in its directory.
 * It stops when the daemon stops or crashes. The daemon restarts it if it dies.
 */
#ifndef BRIDGE_EMBEDDED_H
#define BRIDGE_EMBEDDED_H

#include "bridge/base/mem.h"
#include "bridge/base/loop.h"

struct embedded;

/* Starts the server. Creates dir (mode 0700) if it does not exist. NULL: err contains the
 * reason: the program is missing, dir is not usable, or another server still runs in it.
 * To wait for that server the call blocks for a few seconds, so call it before
 * loop_run(). The new server may not answer yet. */
struct embedded *embedded_start(const char *program, const char *dir, struct err *err);
/* Returns the URL of a server that another process runs in dir; free it. NULL: none. */
char *embedded_running(const char *dir);
/* "unix:///var/lib/tarry/redis.sock", for redis_url_parse(). Borrowed until
 * embedded_stop(). */
const char *embedded_url(const struct embedded *e);
/* Stops the server: SIGTERM, then SIGKILL after a timeout. Calls cb(arg) later and frees
 * e. */
void embedded_stop(struct embedded *e, loop_cb *cb, void *arg);

#endif
