/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listeners.h - the daemon's own HTTP listeners, http: { } and admin: { }.
 */
#ifndef BRIDGE_LISTENERS_H
#define BRIDGE_LISTENERS_H

#include "bridge/base/mem.h"

struct buf;
struct conf;
struct httpd;
struct tokens;

struct listeners {
    struct httpd *first;   /* of http, or else of admin; NULL: there is none */
    struct httpd *admin;   /* its twin, of admin: serves the same rows, and those for
                              operation; NULL: there is one listener at most */
    struct tokens *tokens; /* NULL: nobody is asked for one */
};

/* As conf says, with its tokens. -1: what was opened is closed by listeners_stop(). */
int listeners_start(struct listeners *l, const struct conf *conf, struct err *err);
void listeners_drain(const struct listeners *l); /* see httpd_drain() */
void listeners_stop(struct listeners *l);

/* Could next take effect while they run as now says? Its certificates are looked at. -1:
 * err says what is in the way. Changes nothing. */
int listeners_check(const struct conf *now, const struct conf *next, struct err *err);
/* It does: limits, tokens and certificates (those of the compatible APIs are read again,
 * too). next stays the caller's. -1: as of listeners_check(), and nothing has changed. */
int listeners_change(struct listeners *l, const struct conf *now, const struct conf *next,
                     struct err *err);

/* Metrics of all listeners, those of the compatible APIs too. */
void listeners_print(struct buf *out);

#endif
