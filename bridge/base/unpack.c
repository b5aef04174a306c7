/* SPDX-License-Identifier: BSD-2-Clause */
/* unpack.c - reads MessagePack headers by table; see unpack.h. */
#include "bridge/base/unpack.h"

#include <stdbool.h>

struct form { /* of values whose first byte is 0xc0 + index */
    enum unpack_kind kind;
    unsigned char width; /* bytes of the following number: value, length or count */
    unsigned char body;  /* further fixed bytes */
    bool sized;          /* the number is the length of the body */
    bool is_signed;
};
static const struct form forms[32] = {
    [0x00] = {UNPACK_NIL, 0, 0, false, false},   /* 0x01 is unused: invalid */
    [0x02] = {UNPACK_OTHER, 0, 0, false, false}, /* false */
    [0x03] = {UNPACK_OTHER, 0, 0, false, false}, /* true */
    [0x04] = {UNPACK_BYTES, 1, 0, true, false},  /* binary */
    [0x05] = {UNPACK_BYTES, 2, 0, true, false},
    [0x06] = {UNPACK_BYTES, 4, 0, true, false},
    [0x07] = {UNPACK_OTHER, 1, 1, true, false}, /* extension: type byte, then body */
    [0x08] = {UNPACK_OTHER, 2, 1, true, false},
    [0x09] = {UNPACK_OTHER, 4, 1, true, false},
    [0x0a] = {UNPACK_OTHER, 0, 4, false, false}, /* float */
    [0x0b] = {UNPACK_OTHER, 0, 8, false, false},
    [0x0c] = {UNPACK_INTEGER, 1, 0, false, false}, /* unsigned */
    [0x0d] = {UNPACK_INTEGER, 2, 0, false, false},
    [0x0e] = {UNPACK_INTEGER, 4, 0, false, false},
    [0x0f] = {UNPACK_INTEGER, 8, 0, false, false},
    [0x10] = {UNPACK_INTEGER, 1, 0, false, true}, /* signed */
    [0x11] = {UNPACK_INTEGER, 2, 0, false, true},
    [0x12] = {UNPACK_INTEGER, 4, 0, false, true},
    [0x13] = {UNPACK_INTEGER, 8, 0, false, true},
    [0x14] = {UNPACK_OTHER, 0, 2, false, false}, /* extension of fixed length */
    [0x15] = {UNPACK_OTHER, 0, 3, false, false},
    [0x16] = {UNPACK_OTHER, 0, 5, false, false},
    [0x17] = {UNPACK_OTHER, 0, 9, false, false},
    [0x18] = {UNPACK_OTHER, 0, 17, false, false},
    [0x19] = {UNPACK_BYTES, 1, 0, true, false}, /* string */
    [0x1a] = {UNPACK_BYTES, 2, 0, true, false},
    [0x1b] = {UNPACK_BYTES, 4, 0, true, false},
    [0x1c] = {UNPACK_ARRAY, 2, 0, false, false},
    [0x1d] = {UNPACK_ARRAY, 4, 0, false, false},
    [0x1e] = {UNPACK_MAP, 2, 0, false, false},
    [0x1f] = {UNPACK_MAP, 4, 0, false, false},
};

static uint64_t big_endian(const unsigned char *p, unsigned width)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < width; i++)
        n = n << 8 | p[i];
    return n;
}

static void set_integer(struct unpacked *v, const struct form *form, uint64_t n)
{
    switch (form->is_signed ? form->width : 0) {
    case 1:
        v->integer = (int8_t)n;
        break;
    case 2:
        v->integer = (int16_t)n;
        break;
    case 4:
        v->integer = (int32_t)n;
        break;
    default:
        v->integer = (int64_t)n;
        if (!form->is_signed && n > INT64_MAX)
            v->kind = UNPACK_OTHER;
    }
}

/* Reads a value of the table; rest begins with its first byte. */
static int take_formed(struct slice *rest, const struct form *form, struct unpacked *v)
{
    const unsigned char *p = (const unsigned char *)rest->p + 1;
    size_t left = rest->n - 1;

    if (form->kind == UNPACK_INVALID || left < form->width)
        return -1;
    uint64_t n = big_endian(p, form->width);
    left -= form->width;
    uint64_t body = form->body + (form->sized ? n : 0);
    if (left < body)
        return -1;
    v->kind = form->kind;
    if (form->kind == UNPACK_INTEGER)
        set_integer(v, form, n);
    v->count = (uint32_t)n;
    v->bytes = (struct slice){rest->p + 1 + form->width, (size_t)body};
    rest->p += 1 + form->width + body;
    rest->n = left - (size_t)body;
    return 0;
}

int unpack_next(struct slice *rest, struct unpacked *v)
{
    if (rest->n == 0)
        return -1;
    unsigned char head = (unsigned char)rest->p[0];
    if (head >= 0xc0 && head <= 0xdf)
        return take_formed(rest, &forms[head - 0xc0], v);

    size_t body = head >= 0xa0 && head < 0xc0 ? head & 0x1fU : 0;
    if (rest->n - 1 < body)
        return -1;
    if (head < 0x80 || head >= 0xe0)
        *v = (struct unpacked){.kind = UNPACK_INTEGER, .integer = (int8_t)head};
    else if (head < 0x90)
        *v = (struct unpacked){.kind = UNPACK_MAP, .count = head & 0x0f};
    else if (head < 0xa0)
        *v = (struct unpacked){.kind = UNPACK_ARRAY, .count = head & 0x0f};
    else
        *v = (struct unpacked){.kind = UNPACK_BYTES, .bytes = {rest->p + 1, body}};
    rest->p += 1 + body;
    rest->n -= 1 + body;
    return 0;
}

int unpack_skip(struct slice *rest)
{
    const struct slice before = *rest;
    struct unpacked v = {.kind = UNPACK_NIL};

    /* Each header adds at most 2^33 values, and each value consumes a byte: the loop ends
     * without overflow. */
    for (uint64_t wanted = 1; wanted > 0; wanted--) {
        if (unpack_next(rest, &v) < 0) {
            *rest = before;
            return -1;
        }
        if (v.kind == UNPACK_ARRAY)
            wanted += v.count;
        else if (v.kind == UNPACK_MAP)
            wanted += 2 * (uint64_t)v.count;
    }
    return 0;
}
