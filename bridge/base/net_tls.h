/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net_tls.h - the client's side of TLS on a connected, non-blocking socket. For net.c.
 */
#ifndef BRIDGE_NET_TLS_H
#define BRIDGE_NET_TLS_H

#include "bridge/base/mem.h"
#include "bridge/base/net.h"

#include <stdbool.h>
#include <stddef.h>

/* What a step over the socket came to; plain sockets speak of it in the same words. */
enum io { IO_DONE, IO_WANT_READ, IO_WANT_WRITE, IO_CLOSED, IO_FAILED };

struct tls;

/* NULL: err names the file or setting at fault. fd stays the caller's. */
struct tls *tls_new(const struct net_conf *conf, int fd, struct err *err);
void tls_free(struct tls *t); /* NULL is fine */

/* err is written with IO_FAILED. count: bytes moved, with IO_DONE. */
enum io tls_handshake(struct tls *t, struct err *err);
enum io tls_read(struct tls *t, void *bytes, size_t room, size_t *count, struct err *err);
enum io tls_write(struct tls *t, const void *bytes, size_t n, size_t *count,
                  struct err *err);
/* Bytes read from the socket that only tls_read() can see: no event will tell of them. */
bool tls_has_more(const struct tls *t);
/* Tells the peer that this is the end, if the socket takes it at once. */
void tls_bye(struct tls *t);

#endif
