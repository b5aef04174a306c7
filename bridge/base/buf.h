/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * buf.h - bytes that grow at the end. A zeroed struct buf is empty and ready.
 */
#ifndef BRIDGE_BUF_H
#define BRIDGE_BUF_H

#include "bridge/base/slice.h"

struct buf {
    char *p;
    size_t n;   /* bytes in use */
    size_t cap; /* bytes allocated */
};

void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_add_str(struct buf *b, const char *s);
void buf_add_slice(struct buf *b, struct slice s);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Makes room for n more bytes and gives their place; buf_grew says how many were filled.
 */
char *buf_room(struct buf *b, size_t n);
void buf_grew(struct buf *b, size_t n);

/* The first n bytes leave. */
void buf_drop(struct buf *b, size_t n);
void buf_clear(struct buf *b); /* keeps the memory */
void buf_free(struct buf *b);  /* empty and ready again */

/* Borrows the content, ended by a NUL that is not counted. Good until the next call. */
const char *buf_str(struct buf *b);

static inline struct slice buf_slice(const struct buf *b)
{
    return (struct slice){b->p ? b->p : "", b->n};
}

#endif
