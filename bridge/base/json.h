/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json.h - JSON as the HTTP APIs that we answer for take it: the rules of Go's
 * encoding/json (https://pkg.go.dev/encoding/json, Unmarshal), into rows of fields.
 *
 * Keys match without regard to case, the last of several counts, unknown ones are
 * skipped, null leaves a field as it is. Integers are integer literals in range, nothing
 * else. What is not UTF-8, and a lone surrogate, becomes U+FFFD. Nesting is bounded.
 * libjansson can't do that: it refuses such bytes and does not tell where an element
 * stands. Pure; any thread. What comes in is outside bytes: any content is fine.
 */
#ifndef BRIDGE_JSON_H
#define BRIDGE_JSON_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH_MAX = 1000 };

enum json_type {
    JSON_TEXT, /* struct slice: decoded, into room; p NULL stays when it is absent */
    JSON_INT,  /* int64_t */
    JSON_BOOL, /* bool */
    JSON_RAW   /* struct slice: the value's own bytes, within text */
};
struct json_field {
    const char *name;
    enum json_type type;
    size_t offset;    /* of the field in the struct */
    int64_t min, max; /* JSON_INT; both 0: all of int64_t */
};

/* Reads an object into the struct at to. fields ends with a row of zeros. room: where
 * decoded texts go; its buffer is made large enough once and must outlive them; a second
 * read into the same room may move them. A null for the whole is an object without
 * fields. -1: not JSON, not an object, a wrong type, or something follows; to may then be
 * half filled. */
int json_read(struct slice text, const struct json_field *fields, void *to,
              struct buf *room);

/* Calls back for each element of an array, with its bytes without white space around.
 * Gives their number; -1: not JSON, no array, or something follows, and nothing was
 * called back. null counts as an empty array. */
typedef void json_element_cb(void *arg, struct slice raw);
int json_each(struct slice text, json_element_cb *cb, void *arg);

/* --- a text from front to end, by the grammar of RFC 8259 --- */

/* A string between its quotes, as it stands in a text of which the grammar is right. */
struct json_quoted {
    struct slice raw;
    bool plain; /* ASCII without a backslash: raw is what it means */
};

/* Writes what it means, always UTF-8, and gives the number of bytes. */
size_t json_decode(const struct json_quoted *s, char *out);

/* Each function passes what it names and returns -1 where the text is wrong, with the
 * reader anywhere. Nothing is allocated, nothing recurses. */
struct json_reader {
    const char *p, *end;
    unsigned depth; /* of what has been opened around p */
};

/* Borrows text. */
struct json_reader json_reader_of(struct slice text);

void json_space(struct json_reader *r);
/* Passes it and says so, if it comes next. */
bool json_take(struct json_reader *r, char c);

int json_pass_string(struct json_reader *r, struct json_quoted *s);
/* A key, its colon, and the space around. */
int json_pass_key(struct json_reader *r, struct json_quoted *key);
/* A value of any kind. */
int json_pass_value(struct json_reader *r);
/* Nothing but space may be left. */
int json_pass_end(struct json_reader *r);

#endif
