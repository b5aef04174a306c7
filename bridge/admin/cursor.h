/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cursor.h - the position at which a listing continues, as a text that needs no quoting
 * in a query string or a shell: NUMBER.NUMBER.BYTES, integers and bytes in hexadecimal.
 * Pure.
 */
#ifndef BRIDGE_CURSOR_H
#define BRIDGE_CURSOR_H

#include "bridge/base/buf.h"

#include <stdint.h>

/* Appends a cursor. The numbers must not be negative. */
void cursor_add(struct buf *out, const int64_t *numbers, unsigned n, struct slice bytes);
/* Parses a cursor and appends its bytes, at most `most`, to bytes. -1: not a cursor. */
int cursor_read(struct slice text, int64_t *numbers, unsigned n, size_t most,
                struct buf *bytes);

#endif
