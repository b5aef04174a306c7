/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * embedded.h - url = "embedded": a private redis-server, run as a child of the daemon.
 *
 * It listens on a Unix socket only, keeps an append-only file in its directory, ends with
 * the daemon however that ends, and is started again when it dies.
 */
#ifndef BRIDGE_EMBEDDED_H
#define BRIDGE_EMBEDDED_H

#include "bridge/base/mem.h"
#include "bridge/base/loop.h"

struct embedded;

/* Makes dir (0700) if it is not there. NULL: err says why: no such program, dir of no
 * use, or another server still runs in it (for that it waits a few seconds, blocking:
 * before loop_run()). It may not answer yet when this returns. */
struct embedded *embedded_start(const char *program, const char *dir, struct err *err);
/* The address of a server that another process runs in dir, to be freed; NULL: none. */
char *embedded_running(const char *dir);
/* "unix:///var/lib/tarry/redis.sock", for redis_url_parse(). Borrowed until the stop. */
const char *embedded_url(const struct embedded *e);
/* SIGTERM, and SIGKILL if that takes too long; then cb(arg), later, and e is gone. */
void embedded_stop(struct embedded *e, loop_cb *cb, void *arg);

#endif
