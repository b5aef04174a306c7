/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_param.h - parameters of a call, as its server has always read them: forgiving
 * about numbers and booleans, strict about what is missing.
 *
 * Pure. What comes in is outside bytes: any content is fine.
 */
#ifndef SOURCES_CAMELLIA_CAMELLIA_PARAM_H
#define SOURCES_CAMELLIA_CAMELLIA_PARAM_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum camellia_param_type {
    CAMELLIA_TEXT, /* struct camellia_text: byte for byte; said again, joined by "," */
    CAMELLIA_LONG, /* int64_t: said again, the first counts; so for all that follow */
    CAMELLIA_INT,  /* int64_t, within 32 bits */
    CAMELLIA_BOOL  /* bool */
};
struct camellia_param {
    const char *name;
    enum camellia_param_type type;
    size_t offset; /* in the struct that take() fills */
    bool required; /* then an empty one is an error; else it leaves the default */
};

struct camellia_text {
    struct slice value; /* p NULL: absent */
    struct buf own;     /* where the value stands; freed by its owner */
};
/* Ready for another one. */
void camellia_text_clear(struct camellia_text *text);

/* Puts value into the field of the row. again: it was there before. -1: no such value. */
int camellia_param_take(const struct camellia_param *row, void *to, bool again,
                        struct slice value);

/* "5" " +5 " "-5" "0x10" "#10". -1: not an integer within the limits. */
int camellia_param_integer(struct slice text, int64_t min, int64_t max, int64_t *n);

#endif
