/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * buf.h - slices (borrowed bytes) and buffers (bytes that grow at the end).
 *
 * Neither is NUL-terminated; both may contain any byte. Any thread.
 */
#ifndef BRIDGE_BUF_H
#define BRIDGE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct err;

/* p == NULL means "absent", which differs from empty: a Kafka record may have no key, or
 * an empty key. */
struct slice {
    const char *p;
    size_t n;
};

/* For printf: "%.*s", SLICE_ARG(s). */
#define SLICE_ARG(s) (int)(s).n, ((s).p ? (s).p : "")
/* A slice of a string literal. */
#define SLICE_LIT(lit) ((struct slice){"" lit, sizeof(lit) - 1})

static inline struct slice slice_of(const char *s)
{
    return (struct slice){s, s ? strlen(s) : 0};
}

/* Copies s to a destination that is large enough and returns the end of the copy. Accepts
 * an empty slice with p NULL, which memcpy() does not. */
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

/* Like slice_is(), but ignores the case of ASCII letters. For header names. */
static inline bool slice_is_nocase(struct slice a, const char *s)
{
    return a.n == strlen(s) && (a.n == 0 || strncasecmp(a.p, s, a.n) == 0);
}

/* Names and their values, in order. */
struct pair {
    char *name, *value;
};
struct pairs {
    struct pair *v;
    size_t n;
};

/* A zeroed struct buf is a valid empty buffer. */
struct buf {
    char *p;
    size_t n;   /* bytes in use */
    size_t cap; /* bytes allocated */
};

void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_add_str(struct buf *b, const char *s);
void buf_add_slice(struct buf *b, struct slice s);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reserves n more bytes at the end and returns their address. After writing some of them,
 * add their number to the content with buf_grew(). */
char *buf_room(struct buf *b, size_t n);
void buf_grew(struct buf *b, size_t n);

/* Removes the first n bytes. */
void buf_drop(struct buf *b, size_t n);
void buf_clear(struct buf *b); /* keeps the memory */
void buf_free(struct buf *b);  /* leaves a valid empty buffer */

/* Returns the content as a string; the NUL is not counted in n. Borrowed until the next
 * call. */
const char *buf_str(struct buf *b);

static inline struct slice buf_slice(const struct buf *b)
{
    return (struct slice){b->p ? b->p : "", b->n};
}

/* Appends the content of a regular file of at most max_bytes that contains no NUL. -1:
 * err contains the reason without the path, and part of the file may have been
 * appended. */
int buf_add_file(struct buf *b, const char *path, size_t max_bytes, struct err *err);

#endif
