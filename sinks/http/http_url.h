/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_url.h - callback URLs as text: which may be called, how they are sent, and what a
 * redirect may learn of the one before. Pure: no I/O, no curl.
 */
#ifndef SINKS_HTTP_HTTP_URL_H
#define SINKS_HTTP_HTTP_URL_H

#include "bridge/base/buf.h"

#include <stdbool.h>

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

#endif
