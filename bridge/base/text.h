/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * text.h - bytes as they stand in URLs and JSON: percent signs, quotes, base64, integers.
 *
 * Pure; any thread. What comes in is outside bytes: any content is fine.
 */
#ifndef BRIDGE_TEXT_H
#define BRIDGE_TEXT_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Decodes %XX. out: room for s.n bytes, may be s.p itself. Gives the length, -1: bad
 * escape. */
long text_percent_decode(struct slice s, char *out);
/* The same as a string; free(). NULL: a bad escape, or a NUL in it. */
char *text_percent_string(struct slice s);
int text_hex_digit(char c); /* its value; -1: it is none */
/* Appends s with all but letters, digits, "-" "_" and the bytes of keep as %XX. */
void text_add_percent(struct buf *out, struct slice s, const char *keep);

/* Blanks and tabs: takes them off the front of s; takes the next word off it, with those
 * before it (empty: there is none); s without those around it. */
void text_skip_blanks(struct slice *s);
struct slice text_take_word(struct slice *s);
struct slice text_trim(struct slice s);
/* Takes the part up to the first c off rest, and that c. Without a c it is all of rest,
 * whose p is NULL then. */
struct slice text_cut(struct slice *rest, char c);

bool text_is_utf8(struct slice s);
/* The UTF-8 character at the start of s, which is not empty, and its length; 0: there is
 * none. */
size_t text_character(struct slice s, uint32_t *c);
/* Appends s as a JSON string with its quotes; what is not UTF-8 becomes U+FFFD. A none is
 * null. */
void text_add_json(struct buf *out, struct slice s);
/* Appends s as a JSON string as Go's encoder writes it (< > & U+2028 U+2029 escaped, \b
 * \f \n \r \t short, other controls and nothing else as \u00xx, not UTF-8: the escape
 * \ufffd). */
void text_add_json_go(struct buf *out, struct slice s);
/* Appends "NAME":"text", as text_add_json() writes it, behind a comma unless it is the
 * first of its object. */
void text_add_json_member(struct buf *out, const char *name, struct slice s);
/* Appends "id":"text", as text_add_json() writes it, and ,"id_base64":"..." behind it
 * where id is no UTF-8. */
void text_add_json_id(struct buf *out, struct slice id);
/* Appends ,"NAME":"text", or ,"NAME_base64":"..." where it is no UTF-8. */
void text_add_json_bytes(struct buf *out, const char *name, struct slice bytes);

/* Overwrites a secret and frees it: what b holds; a string, or NULL. */
void text_wipe(struct buf *b);
void text_forget(char *s);

void text_add_base64(struct buf *out, struct slice s);
/* Appends what s stands for; -1: not base64. Padding may be left out. */
int text_base64_decode(struct slice s, struct buf *out);

/* An integer without printf: a job has a dozen on its way. Writes n without a NUL and
 * returns the length. at: room for TEXT_DECIMAL_MAX bytes. */
enum { TEXT_DECIMAL_MAX = 20 }; /* with the sign */
size_t text_put_decimal(char *at, int64_t n);
void text_add_decimal(struct buf *out, int64_t n);

/* Takes the digits at the front of s off it and returns how many there were. *n: their
 * number; INT64_MAX where that is too large. */
size_t text_take_digits(struct slice *s, int64_t *n);
/* -1: something else than a number of digits alone, or too large a one. */
int64_t text_whole_number(struct slice s);
/* "512B" "64KiB" "10MB", or "0". -1: something else, or too large. */
int text_parse_bytes(const char *text, int64_t *bytes, struct err *err);

/* Is it a token as RFC 9110 has it: a header name or a method? */
bool text_is_token(struct slice s);
/* May it stand as a header's value: no control character in it but tabs? */
bool text_is_header_value(struct slice s);

#endif
