/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unpack.h - reads untrusted MessagePack one value at a time, without allocation or
 * recursion.
 *
 * libmsgpack writes our records but does not read them: it allocates the size that an
 * array header claims (8 GB for a record of six bytes) before it looks for the elements.
 */
#ifndef BRIDGE_UNPACK_H
#define BRIDGE_UNPACK_H

#include "bridge/base/buf.h"

#include <stdint.h>

enum unpack_kind {
    UNPACK_INVALID,
    UNPACK_NIL,
    UNPACK_INTEGER, /* fits an int64_t */
    UNPACK_BYTES,   /* string or binary */
    UNPACK_ARRAY,   /* its elements follow */
    UNPACK_MAP,     /* its keys and values follow alternately */
    UNPACK_OTHER    /* valid but unused: boolean, float, extension, larger integer */
};

struct unpacked {
    enum unpack_kind kind;
    int64_t integer;
    struct slice bytes; /* borrowed from the input; p is never NULL */
    uint32_t count;     /* array: elements; map: pairs */
};

/* Reads the next value and removes it from rest; of an array or map only the header. -1:
 * truncated or invalid; rest is unchanged. */
int unpack_next(struct slice *rest, struct unpacked *v);

/* Removes the next value with all its content. -1: as above. */
int unpack_skip(struct slice *rest);

#endif
