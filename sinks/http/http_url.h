/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_url.h - callback URLs: their text, and the guard that says which may be called and
 * which addresses they may lead to. No I/O.
 */
#ifndef SINKS_HTTP_HTTP_URL_H
#define SINKS_HTTP_HTTP_URL_H

#include "bridge/base/buf.h"
#include "sinks/http/http_opts.h"

#include <sys/socket.h>

enum { HTTP_URL_MAX = 8192 };

/* Does it begin with http:// or https://, and is it of a sane length? */
bool http_is_url(struct slice url);
/* Same scheme, host and port: may one be told the secrets meant for the other? */
bool http_url_same_origin(struct slice a, struct slice b);

/* "https://host:8443", or without its port where the scheme says the same: the part of
 * url up to the path. Where a user name stands between, only what is behind it: it may be
 * a secret. url itself when it is no URL. */
struct slice http_url_origin(struct slice url);

/* Appends the URL as curl takes it: what cannot stand in a request line is %XX, the
 * fragment is gone. -1: a control character in it, or no proper host: nothing was
 * appended. */
int http_url_add(struct buf *out, struct slice url);
/* Appends what a Referer may say of the page before: nothing from https to http;
 * elsewhere than to the same origin no path, for that of a callback is often its secret.
 * User name and fragment are left out. */
void http_url_add_referer(struct buf *out, struct slice from, struct slice to);

/* -------------------------------------------------------------------- the guard
 *
 * A name is nobody's proof: the guard judges the address that curl is about to connect
 * to, whatever the URL's spelling and the name server's last word. An IPv6 address that
 * carries one of IPv4 is judged by both. */

/* Who named the URL. */
enum http_word {
    HTTP_OWN,   /* the sink's configuration: only deny holds */
    HTTP_NAMED, /* the route, or a redirect from within a private network: deny,
                   allow_hosts and ports hold where they are set */
    HTTP_LED,   /* a redirect from elsewhere: private networks and low ports are out
                   besides */
    HTTP_ASKED  /* a message: as HTTP_LED, and only with url_from_message */
};

struct http_guard;

/* Borrows o. NULL: err says what is wrong. */
struct http_guard *http_guard_new(const struct http_opts *o, struct err *err);
void http_guard_free(struct http_guard *guard); /* NULL is fine */

/* Why the URL may not be called; NULL: it may, as far as its text tells. */
const char *http_guard_url(const struct http_guard *guard, enum http_word word,
                           const char *url);
/* Is the URL's host one of allow_hosts? */
bool http_guard_vouches(const struct http_guard *guard, const char *url);
bool http_guard_address(const struct http_guard *guard, enum http_word word,
                        const struct sockaddr *address);
/* The same for "192.0.2.1" or "2001:db8::1". */
bool http_guard_ip(const struct http_guard *guard, enum http_word word, const char *ip);

#endif
