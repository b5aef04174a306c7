/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unpack.h - reads MessagePack from outside one value at a time: no memory, no recursion.
 *
 * libmsgpack writes our records but does not read them: it reserves what an array header
 * claims (8 GB for a record of six bytes) before it has looked for one element.
 */
#ifndef BRIDGE_UNPACK_H
#define BRIDGE_UNPACK_H

#include "bridge/base/buf.h"

#include <stdint.h>

enum unpack_kind {
    UNPACK_INVALID,
    UNPACK_NIL,
    UNPACK_INTEGER, /* one that an int64_t holds */
    UNPACK_BYTES,   /* string or binary */
    UNPACK_ARRAY,   /* its elements follow */
    UNPACK_MAP,     /* its keys and values follow by turns */
    UNPACK_OTHER /* whole, but of no use here: boolean, float, extension, larger integer
                  */
};

struct unpacked {
    enum unpack_kind kind;
    int64_t integer;
    struct slice bytes; /* borrowed from the input; p is never NULL */
    uint32_t count;     /* of an array: elements; of a map: pairs */
};

/* Takes the next value off rest; of an array or map only its head. -1: cut off or no
 * MessagePack, and rest is as it was. */
int unpack_next(struct slice *rest, struct unpacked *v);

/* Takes the next value off rest with all that it contains. -1: as above. */
int unpack_skip(struct slice *rest);

#endif
