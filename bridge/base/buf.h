/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * buf.h - slices, which are bytes that somebody else owns, and buffers, which grow at the
 * end. Neither is ended by a NUL, and both may hold any byte. Any thread.
 */
#ifndef BRIDGE_BUF_H
#define BRIDGE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct err;

/* p == NULL means "none", which differs from empty: a Kafka record may have no key, or an
 * empty one. */
struct slice {
    const char *p;
    size_t n;
};

/* For printf: "%.*s", SLICE_ARG(s). */
#define SLICE_ARG(s) (int)(s).n, ((s).p ? (s).p : "")
/* Of a string literal. */
#define SLICE_LIT(lit) ((struct slice){"" lit, sizeof(lit) - 1})

static inline struct slice slice_of(const char *s)
{
    return (struct slice){s, s ? strlen(s) : 0};
}

/* Copies it to a place that is large enough, and gives the end. An empty one, also with p
 * NULL, copies nothing: memcpy() must not be given NULL, whatever the length. */
static inline char *slice_put(char *to, struct slice s)
{
    if (s.n > 0)
        memcpy(to, s.p, s.n);
    return to + s.n;
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool slice_is(struct slice a, const char *s)
{
    return slice_eq(a, slice_of(s));
}

/* As slice_is, letters of ASCII compared without their case: header names. */
static inline bool slice_is_nocase(struct slice a, const char *s)
{
    return a.n == strlen(s) && (a.n == 0 || strncasecmp(a.p, s, a.n) == 0);
}

/* Names and what they stand for, in order. */
struct pair {
    char *name, *value;
};
struct pairs {
    struct pair *v;
    size_t n;
};

/* A zeroed struct buf is empty and ready. */
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

/* Appends the content of a regular file of at most max_bytes, without a NUL in it. -1:
 * err says why, without the path; part of it may have been appended. */
int buf_add_file(struct buf *b, const char *path, size_t max_bytes, struct err *err);

#endif
