/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_listen.h - the listening socket of the HTTP server.
 */
#ifndef BRIDGE_HTTPD_LISTEN_H
#define BRIDGE_HTTPD_LISTEN_H

#include "bridge/base/mem.h"

#include <stdbool.h>

/* Gives a listening socket (non-blocking, close-on-exec), or -1. "host:port",
 * "[v6]:port",
 * ":port" for all addresses, "unix:/path". A name is looked up, so this may block; it is
 * for the start of the daemon. The process may have as many descriptors open as its hard
 * limit allows from then on. */
int httpd_listen(const char *listen, struct err *err);
/* The port a socket is bound to; 0 for a Unix socket. */
unsigned httpd_listen_port(int fd);
/* Can only this machine reach it, as far as its text tells: loopback, a Unix socket? */
bool httpd_listen_is_local(const char *listen);
/* Is it bound to an address of this machine alone, which browsers here can ask? */
bool httpd_listen_is_loopback(int fd);
/* Closes the socket and removes the file of a Unix socket. */
void httpd_unlisten(int fd);

#endif
