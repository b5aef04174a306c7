/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_ask.h - a connection that is asked and waited for: for a program that does
 * nothing else meanwhile, the import.
 *
 * Runs the loop until the answer is there, so not from within a callback of the loop.
 */
#ifndef BRIDGE_REDIS_ASK_H
#define BRIDGE_REDIS_ASK_H

#include "bridge/import/import.h"
#include "bridge/redis/redis.h"

struct ask;

/* Connects. NULL: it could not, and err says why; it is not tried again. */
struct ask *ask_open(const struct redis_conf *conf, struct err *err);
void ask_close(struct ask *a); /* NULL is fine */

/* As import_ask_each(). */
int ask_each(struct ask *a, const struct slice *args, unsigned each, unsigned count,
             struct import_value *out, struct err *err);
/* Sends a command whose answer matters only when it is an error: ask_complaint(). */
void ask_behind(struct ask *a, const struct slice *args, unsigned n);
/* Commands of ask_behind() without an answer yet. */
unsigned ask_behind_count(const struct ask *a);
/* The first error to those, or why the connection was lost; NULL: none. */
const char *ask_complaint(const struct ask *a);

#endif
