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

/* Calls back for each member of an object that is a string, decoded. -1: it is no object,
 * or something follows; some may have been called back. */
typedef void json_text_cb(void *arg, struct slice name, struct slice value);
int json_each_text(struct slice text, json_text_cb *cb, void *arg);

#endif
