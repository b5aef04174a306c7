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

/* Of a run through dead letters: BUCKET.END.NEXT.SCORE.ID */
struct dead_cursor {
    int64_t bucket;   /* its number, by its name: dead.c */
    int64_t end_ms;   /* letters buried later are left alone; 0: not known yet */
    int64_t next_us;  /* when the next replayed one may be due; 0: now */
    int64_t after_ms; /* of the last letter looked at in this bucket, with */
    struct buf after; /* its id; empty: at the beginning */
};

void dead_cursor_add(const struct dead_cursor *c, struct buf *out); /* appends */
/* c zeroed. -1: no such text; after is to be freed all the same. */
int dead_cursor_read(struct slice text, struct dead_cursor *c);

#endif
