/* SPDX-License-Identifier: BSD-2-Clause */
/* unpack.c - reads MessagePack headers by table; see unpack.h. */
#include "bridge/base/unpack.h"

#include <stdbool.h>

/* Values whose first byte is in a range. The bytes of the following number (value, length
 * or count) double with each first byte. */
static const struct form {
    unsigned char first, last;
    enum unpack_kind kind;
    unsigned char width;   /* bytes of the number after the first byte of the range */
    unsigned char body;    /* further bytes, */
    bool sized, is_signed; /* and as many as the number says */
} forms[] = {
    {0xc0, 0xc0, UNPACK_NIL, 0, 0, false, false},
    {0xc2, 0xc3, UNPACK_OTHER, 0, 0, false, false},   /* boolean */
    {0xc4, 0xc6, UNPACK_BYTES, 1, 0, true, false},    /* binary */
    {0xc7, 0xc9, UNPACK_OTHER, 1, 1, true, false},    /* extension: type, body */
    {0xca, 0xcb, UNPACK_OTHER, 4, 0, false, false},   /* float */
    {0xcc, 0xcf, UNPACK_INTEGER, 1, 0, false, false}, /* unsigned */
    {0xd0, 0xd3, UNPACK_INTEGER, 1, 0, false, true},  /* signed */
    {0xd4, 0xd8, UNPACK_OTHER, 1, 1, false, false},   /* extension of fixed length */
    {0xd9, 0xdb, UNPACK_BYTES, 1, 0, true, false},    /* string */
    {0xdc, 0xdd, UNPACK_ARRAY, 2, 0, false, false},
    {0xde, 0xdf, UNPACK_MAP, 2, 0, false, false},
};

static uint64_t big_endian(const unsigned char *p, unsigned width)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < width; i++)
        n = n << 8 | p[i];
    return n;
}

static void set_integer(struct unpacked *v, unsigned width, bool is_signed, uint64_t n)
{
    unsigned unused = 64 - 8 * width;
    v->integer = is_signed ? (int64_t)(n << unused) >> unused : (int64_t)n;
    if (!is_signed && n > INT64_MAX)
        v->kind = UNPACK_OTHER;
}

/* Reads a value of the table; rest begins with its first byte, head. */
static int take_formed(struct slice *rest, unsigned head, struct unpacked *v)
{
    const struct form *form = forms;
    while (head > form->last)
        form++;
    if (head < form->first) /* 0xc1 is unused */
        return -1;
    unsigned width = form->width << (head - form->first);
    size_t left = rest->n - 1;
    if (left < width)
        return -1;
    uint64_t n = big_endian((const unsigned char *)rest->p + 1, width);
    uint64_t body = form->body + (form->sized ? n : 0);
    left -= width;
    if (left < body)
        return -1;
    v->kind = form->kind;
    if (form->kind == UNPACK_INTEGER)
        set_integer(v, width, form->is_signed, n);
    v->count = (uint32_t)n;
    v->bytes = (struct slice){rest->p + 1 + width, (size_t)body};
    rest->p += 1 + width + body;
    rest->n = left - (size_t)body;
    return 0;
}

int unpack_next(struct slice *rest, struct unpacked *v)
{
    if (rest->n == 0)
        return -1;
    unsigned char head = (unsigned char)rest->p[0];
    if (head >= 0xc0 && head <= 0xdf)
        return take_formed(rest, head, v);

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
