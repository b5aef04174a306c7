/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * text.h - encodings of URLs, JSON, base64 and integers; random ids.
 *
 * Pure; any thread. Safe for untrusted bytes.
 */
#ifndef BRIDGE_TEXT_H
#define BRIDGE_TEXT_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Decodes %XX. out: room for s.n bytes, may be s.p itself. Returns the length, or -1 for
 * a bad escape. */
long text_percent_decode(struct slice s, char *out);
/* Returns the decoded string; the caller frees it. NULL: a bad escape, or a NUL byte. */
char *text_percent_string(struct slice s);
int text_hex_digit(char c); /* its value; -1: no hex digit */
/* Appends s with every byte as %XX except letters, digits, "-", "_" and the bytes in
 * keep. */
void text_add_percent(struct buf *out, struct slice s, const char *keep);

/* Blanks and tabs. text_skip_blanks() removes them from the front of s. text_take_word()
 * also removes and returns the next word (empty: none). text_trim() returns s without
 * surrounding blanks. */
void text_skip_blanks(struct slice *s);
struct slice text_take_word(struct slice *s);
struct slice text_trim(struct slice s);
/* Removes the part before the first c from rest, with c, and returns it. Without c it
 * returns all of rest and sets rest->p to NULL. */
struct slice text_cut(struct slice *rest, char c);

bool text_is_utf8(struct slice s);
/* Decodes the UTF-8 character at the start of s, which must not be empty. Returns its
 * length; 0: invalid. */
size_t text_character(struct slice s, uint32_t *c);
/* Appends s as a JSON string with quotes. Invalid UTF-8 becomes U+FFFD. An absent s
 * becomes null. */
void text_add_json(struct buf *out, struct slice s);
/* Appends s as a JSON string exactly as Go's encoder does: < > & U+2028 U+2029 escaped,
 * \b \f \n \r \t short, other control characters as \u00xx, invalid UTF-8 as the escape
 * \ufffd. */
void text_add_json_go(struct buf *out, struct slice s);
/* The same as Java's Jackson (characters above U+FFFF escaped) and fastjson (U+007F to
 * U+009F, U+2028, U+2029 escaped) encode it. */
void text_add_json_jackson(struct buf *out, struct slice s);
void text_add_json_fastjson(struct buf *out, struct slice s);
/* Appends "NAME":"text", encoded by text_add_json(), with a comma before it unless it is
 * the first member. */
void text_add_json_member(struct buf *out, const char *name, struct slice s);
/* Appends "id":"text", encoded by text_add_json(). If id is not UTF-8, appends
 * ,"id_base64":"..." too. */
void text_add_json_id(struct buf *out, struct slice id);
/* Appends ,"NAME":"text", or ,"NAME_base64":"..." if bytes is not UTF-8. */
void text_add_json_bytes(struct buf *out, const char *name, struct slice bytes);

/* Overwrite and free a secret: the content of b; a string or NULL. */
void text_wipe(struct buf *b);
void text_forget(char *s);

/* Fills to with n random bytes that nobody can guess, at most 256. */
void text_random(void *to, size_t n);
/* Writes a random UUID, version 4, in lower case with dashes. */
enum { TEXT_UUID_SIZE = 37 }; /* with the NUL */
void text_uuid(char out[TEXT_UUID_SIZE]);

void text_add_base64(struct buf *out, struct slice s);
/* Appends the decoded bytes. Padding is optional. -1: not base64. */
int text_base64_decode(struct slice s, struct buf *out);

/* Writes n as decimal text without a NUL and returns the length. Avoids printf, because
 * each job formats about a dozen integers. at: room for TEXT_DECIMAL_MAX bytes. */
enum { TEXT_DECIMAL_MAX = 20 }; /* with its sign */
size_t text_put_decimal(char *at, int64_t n);
void text_add_decimal(struct buf *out, int64_t n);

/* Removes the leading digits of s and returns their count. *n: their value, or INT64_MAX
 * if it is too large. */
size_t text_take_digits(struct slice *s, int64_t *n);
/* Returns the value of a text of digits only. -1: other bytes, or too large. */
int64_t text_whole_number(struct slice s);
/* Checks that s is a port: a number from `least` to 65535. */
int text_check_port(struct slice s, int least, struct err *err);
/* Parses "512B", "64KiB", "10MB" or "0". -1: another form, or too large. */
int text_parse_bytes(const char *text, int64_t *bytes, struct err *err);

/* Returns whether s is a token of RFC 9110 (a header name or method). */
bool text_is_token(struct slice s);
/* Returns whether s is allowed as a header value: no control characters except tab. */
bool text_is_header_value(struct slice s);

#endif
