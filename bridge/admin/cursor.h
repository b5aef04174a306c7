/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cursor.h - where a list goes on, as a text that survives a query string and a shell:
 * NUMBER.NUMBER.BYTES, integers and bytes in hexadecimal. Pure.
 */
#ifndef BRIDGE_CURSOR_H
#define BRIDGE_CURSOR_H

#include "bridge/base/buf.h"

#include <stdint.h>

/* Appends it. None of the numbers is negative. */
void cursor_add(struct buf *out, const int64_t *numbers, unsigned n, struct slice bytes);
/* Appends the bytes, most of them at most, to bytes. -1: no such text. */
int cursor_read(struct slice text, int64_t *numbers, unsigned n, size_t most,
                struct buf *bytes);

#endif
