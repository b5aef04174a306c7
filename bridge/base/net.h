/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net.h - one outgoing byte stream on the loop: TCP, Unix socket, or TLS over TCP.
 *
 * Callbacks come from the loop, never from within net_open() or net_write(). Writes are
 * collected and leave in one go when the turn ends; reads are bounded per turn.
 */
#ifndef BRIDGE_NET_H
#define BRIDGE_NET_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct net;

struct net_conf {
    const char *unix_path; /* NULL: TCP to host and port */
    const char *host, *port;
    bool tls;                          /* 1.2 or later; the server's name is verified */
    const char *ca_file;               /* NULL: the system's */
    const char *cert_file, *key_file;  /* ours; NULL: none */
    int64_t connect_timeout_ms;        /* for all addresses of the name together */
    int64_t unacknowledged_timeout_ms; /* bytes sent and not acknowledged: dead (TCP) */
};

struct net_cbs {
    void (*on_open)(void *arg); /* connected, and the peer verified */
    /* Borrowed until it returns; never empty. */
    void (*on_data)(void *arg, struct slice bytes);
    /* Once, if net_close() does not come first; net_close() is still due. */
    void (*on_closed)(void *arg, const char *why);
};

/* Strings of conf are borrowed until the stream is open; cbs until net_close(). */
struct net *net_open(const struct net_conf *conf, const struct net_cbs *cbs, void *arg);
/* Copies; open streams only. */
void net_write(struct net *n, const void *bytes, size_t count);
/* What was written leaves now, and not only when the turn ends. No callback from within.
 */
void net_push(struct net *n);
/* No callback after this, from within one too. What was not sent is lost. NULL is fine.
 */
void net_close(struct net *n);

/* --- net_tls.c, for net.c: the client's side of TLS on a connected socket --- */
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
