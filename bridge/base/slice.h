/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slice.h - bytes that somebody else owns. Not ended by a NUL; may hold any byte.
 *
 * p == NULL means "none", which differs from empty: a Kafka record may have no key, or an
 * empty one.
 */
#ifndef BRIDGE_SLICE_H
#define BRIDGE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

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

#endif
