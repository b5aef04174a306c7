/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz.h - shared by the fuzzers: splits the input bytes.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

/* Remove the text before the next end character from rest, or all of rest, and return
 * it. */
static inline struct slice fuzz_take(struct slice *rest, char end)
{
    const char *at = rest->n ? memchr(rest->p, end, rest->n) : NULL;
    struct slice taken = {rest->p, at ? (size_t)(at - rest->p) : rest->n};
    size_t step = taken.n + (at != NULL);

    *rest = (struct slice){rest->p + step, rest->n - step};
    return taken;
}

/* Remove one byte from rest and return it; 0 if rest is empty. */
static inline unsigned char fuzz_byte(struct slice *rest)
{
    unsigned char byte = rest->n ? (unsigned char)rest->p[0] : 0;

    if (rest->n)
        *rest = (struct slice){rest->p + 1, rest->n - 1};
    return byte;
}

/* Copy to a NUL-terminated text, which may contain an earlier NUL. The caller frees
 * it. */
static inline char *fuzz_text(struct slice s)
{
    return mem_strndup(s.n ? s.p : "", s.n);
}

#endif
