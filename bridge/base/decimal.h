/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * decimal.h - integers as text, without printf: a job has a dozen on its way. Pure.
 */
#ifndef BRIDGE_DECIMAL_H
#define BRIDGE_DECIMAL_H

#include "bridge/base/buf.h"

#include <stdint.h>

enum { DECIMAL_MAX = 20 }; /* bytes, with the sign */

/* Writes n without a NUL and gives the length. at: room for DECIMAL_MAX. */
size_t decimal_put(char *at, int64_t n);
void decimal_add(struct buf *out, int64_t n);

#endif
