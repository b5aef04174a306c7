/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_guard.h - which URLs may be called, and which addresses they may lead to.
 *
 * A name is nobody's proof: what counts is the address that curl is about to connect to,
 * whatever the URL's spelling and the name server's last word. Addresses of IPv6 that
 * carry one of IPv4 are judged by both. No I/O.
 */
#ifndef SINKS_HTTP_HTTP_GUARD_H
#define SINKS_HTTP_HTTP_GUARD_H

#include "sinks/http/http_opts.h"

#include <sys/socket.h>

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
