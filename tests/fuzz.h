/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz.h - what the fuzzers have in common: how they cut their bytes.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t n);

/* Takes what stands before the next end, or all, off rest. */
static inline struct slice fuzz_take(struct slice *rest, char end)
{
    const char *at = rest->n ? memchr(rest->p, end, rest->n) : NULL;
    struct slice taken = {rest->p, at ? (size_t)(at - rest->p) : rest->n};
    size_t step = taken.n + (at != NULL);

    *rest = (struct slice){rest->p + step, rest->n - step};
    return taken;
}

/* Takes one byte, 0 where there is none. */
static inline unsigned char fuzz_byte(struct slice *rest)
{
    unsigned char byte = rest->n ? (unsigned char)rest->p[0] : 0;

    if (rest->n)
        *rest = (struct slice){rest->p + 1, rest->n - 1};
    return byte;
}

/* As a text that ends with a NUL, perhaps before its end. Gives; free(). */
static inline char *fuzz_text(struct slice s)
{
    return mem_strndup(s.n ? s.p : "", s.n);
}

#endif
