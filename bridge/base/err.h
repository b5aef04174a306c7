/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * err.h - the reason of a failure, in words for the person who runs the daemon.
 */
#ifndef BRIDGE_ERR_H
#define BRIDGE_ERR_H

struct err {
    char text[512]; /* what is wrong, where, and what to do; never a secret */
};

/* Writes the reason and returns -1, so that failing is one line. err may be NULL. */
int err_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "where: " in front of the reason already there; returns -1. */
int err_in(struct err *err, const char *where);

#endif
