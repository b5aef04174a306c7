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
    struct httpd *first;   /* of http, or else of admin; NULL: none */
    struct httpd *admin;   /* twin of first: serves the same rows and the admin rows;
                            * NULL: no second listener */
    struct tokens *tokens; /* NULL: no tokens required */
};

/* Opens the listeners of conf with its tokens. -1: call listeners_stop() to close those
 * already open. */
int listeners_start(struct listeners *l, const struct conf *conf, struct err *err);
/* Rejects new POST, PUT, PATCH and DELETE requests with 503, Retry-After and "Connection:
 * close". Other requests (health, metrics) continue. */
void listeners_drain(const struct listeners *l);
void listeners_stop(struct listeners *l);

/* Checks whether next could replace now while the listeners run, including its
 * certificates. Changes nothing. -1: err contains the reason. */
int listeners_check(const struct conf *now, const struct conf *next, struct err *err);
/* Applies limits, tokens and certificates of next; also reloads the certificates of the
 * compatible APIs. next stays the caller's. -1: as in listeners_check(), and nothing has
 * changed. */
int listeners_change(struct listeners *l, const struct conf *now, const struct conf *next,
                     struct err *err);

/* Appends metrics of all listeners, including those of the compatible APIs. */
void listeners_print(struct buf *out);

#endif
