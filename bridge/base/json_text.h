/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json_text.h - what the strings of JSON mean, byte by byte. Of json.c; pure.
 */
#ifndef BRIDGE_JSON_TEXT_H
#define BRIDGE_JSON_TEXT_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* A string between its quotes, as it stands in a text of which the grammar is right. */
struct json_quoted {
    struct slice raw;
    bool plain; /* ASCII without a backslash: raw is what it means */
};

/* How many bytes json_decode() needs at most. */
size_t json_decoded_max(const struct json_quoted *s);
/* Writes what it means, always UTF-8, and gives the number of bytes. */
size_t json_decode(const struct json_quoted *s, char *out);

/* Does the letter make an escape after a backslash ("n", not "u")? */
bool json_is_letter(char c);
/* The number of four hex digits; -1: there are not so many before end. */
long json_hex4(const char *p, const char *end);

#endif
