/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listeners.h - the daemon's own HTTP listeners, http: { } and admin: { }: bridge->httpd
 * is the first that there is, bridge->httpd_admin the other, which serves the same rows
 * and those for operation.
 */
#ifndef BRIDGE_LISTENERS_H
#define BRIDGE_LISTENERS_H

#include "bridge/base/mem.h"

struct bridge;
struct buf;
struct conf;

/* As bridge->conf says, with its tokens. -1: what was opened is closed by
 * listeners_stop(). */
int listeners_start(struct bridge *bridge, struct err *err);
void listeners_drain(struct bridge *bridge); /* see httpd_drain() */
void listeners_stop(struct bridge *bridge);

/* Could next take effect while they run? Its certificates are looked at. -1: err says
 * what is in the way. Changes nothing. */
int listeners_check(const struct bridge *bridge, const struct conf *next,
                    struct err *err);
/* It does: limits, tokens and certificates (those of the compatible APIs are read again,
 * too). next stays the caller's. -1: as of listeners_check(), and nothing has changed. */
int listeners_change(struct bridge *bridge, const struct conf *next, struct err *err);

/* Metrics of all listeners, those of the compatible APIs too. */
void listeners_print(struct buf *out);

#endif
