/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_url.h - callback URLs, and the guard that decides which URLs may be called and
 * which addresses they may resolve to. No I/O.
 */
#ifndef SINKS_HTTP_HTTP_URL_H
#define SINKS_HTTP_HTTP_URL_H

#include "bridge/base/buf.h"
#include "sinks/http/http_opts.h"

#include <sys/socket.h>

enum { HTTP_URL_MAX = 8192 };

/* Does it begin with http:// or https://, with at most HTTP_URL_MAX bytes? */
bool http_is_url(struct slice url);
/* Same scheme, host and port? Only then may both receive the same secrets. */
bool http_url_same_origin(struct slice a, struct slice b);

/* Returns the part of url up to the path, "https://host:8443", without the scheme's
 * default port. If url contains a user name, which may be a secret, returns only the part
 * after it. Returns url itself if it is not a URL. */
struct slice http_url_origin(struct slice url);

/* Appends the URL for curl: percent-encodes characters invalid in a request line and
 * removes the fragment. -1: contains a control character or no valid host; appends
 * nothing. */
int http_url_add(struct buf *out, struct slice url);
/* Appends a Referer value. From https to http it is empty. To another origin it has no
 * path, since the path of a callback is often its secret. It never contains user name or
 * fragment. */
void http_url_add_referer(struct buf *out, struct slice from, struct slice to);

/* -------------------------------------------------------------------- the guard
 *
 * A host name proves nothing, since DNS answers change. So the guard checks the address
 * that curl is about to connect to. An IPv6 address with an embedded IPv4 address must
 * pass for both. */

/* Where the URL comes from. */
enum http_url_source {
    HTTP_URL_CONFIG, /* the sink's configuration: only deny applies */
    HTTP_URL_ROUTE,  /* the route, or a redirect from a private network: deny, allow_hosts
                      * and  ports apply if set */
    HTTP_URL_REDIRECT, /* any other redirect: also excludes private networks and low ports
                        */
    HTTP_URL_MESSAGE /* a message: as HTTP_URL_REDIRECT, and requires url_from_message */
};

struct http_guard;

/* Borrows o until the guard is freed. */
struct http_guard *http_guard_new(const struct http_opts *o, struct err *err);
void http_guard_free(struct http_guard *guard); /* guard may be NULL */

/* Returns the reason to reject the URL; NULL: its text is allowed. */
const char *http_guard_url(const struct http_guard *guard, enum http_url_source from,
                           const char *url);
/* Is the URL's host one of allow_hosts? */
bool http_guard_lists_host(const struct http_guard *guard, const char *url);
bool http_guard_address(const struct http_guard *guard, enum http_url_source from,
                        const struct sockaddr *address);
/* Like http_guard_address() for "192.0.2.1" or "2001:db8::1". */
bool http_guard_ip(const struct http_guard *guard, enum http_url_source from,
                   const char *ip);

#endif
