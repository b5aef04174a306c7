/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net.h - one outgoing byte stream on the loop: TCP, Unix socket, or TLS over TCP.
 *
 * Callbacks run on the loop, never inside net_open() or net_write(). Writes are collected
 * and sent together at the end of the turn. Reads per turn are limited.
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
    const char *ca_file;               /* NULL: the system's authorities */
    const char *cert_file, *key_file;  /* client certificate; NULL: none */
    const char *key_password;          /* of an encrypted key; NULL: none */
    const char *alpn;                  /* protocols to offer: a length byte before each
                                        * name; NULL: none */
    int64_t connect_timeout_ms;        /* for all addresses of the name together */
    int64_t unacknowledged_timeout_ms; /* TCP: closes the connection if sent bytes stay
                                        * unacknowledged this long */
};

struct net_cbs {
    void (*on_open)(void *arg); /* connected, and the peer verified */
    /* bytes is borrowed until the callback returns; never empty. */
    void (*on_data)(void *arg, struct slice bytes);
    /* Called once, unless net_close() is called first. The owner must still call
     * net_close(). */
    void (*on_closed)(void *arg, const char *why);
};

/* Strings of conf are borrowed until the stream is open; cbs until net_close(). */
struct net *net_open(const struct net_conf *conf, const struct net_cbs *cbs, void *arg);
/* Copies the bytes. The stream must be open. */
void net_write(struct net *n, const void *bytes, size_t count);
/* Stops (false) or resumes (true) reading. The end of the stream is reported only while
 * reading. The stream must be open. */
void net_set_reading(struct net *n, bool reading);
/* Sends the collected bytes now instead of at the end of the turn. Calls no callback. */
void net_push(struct net *n);
/* No callback follows, also when called from a callback. Drops unsent bytes. NULL is
 * allowed. */
void net_close(struct net *n);

/* --- net_tls.c, used by net.c: client TLS on a connected socket --- */
/* The result of an operation on a socket, plain or TLS. */
enum io { IO_DONE, IO_WANT_READ, IO_WANT_WRITE, IO_CLOSED, IO_FAILED };

struct tls;

/* Returns NULL on failure; err names the faulty file or setting. fd stays the
 * caller's. */
struct tls *tls_new(const struct net_conf *conf, int fd, struct err *err);
void tls_free(struct tls *t); /* NULL is allowed */

/* err is set with IO_FAILED. count: bytes read or written, with IO_DONE. */
enum io tls_handshake(struct tls *t, struct err *err);
enum io tls_read(struct tls *t, void *bytes, size_t room, size_t *count, struct err *err);
enum io tls_write(struct tls *t, const void *bytes, size_t n, size_t *count,
                  struct err *err);
/* Returns whether decrypted or buffered bytes wait inside tls. The socket reports no
 * event for them. */
bool tls_has_more(const struct tls *t);
/* Sends close_notify, if the socket accepts it at once. */
void tls_shutdown(struct tls *t);

#endif
