/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json.h - reads JSON into the fields of a struct, by the rules of Go's encoding/json
 * (https://pkg.go.dev/encoding/json, Unmarshal), which the emulated HTTP APIs use.
 *
 * Keys match case-insensitively. The last of several equal keys counts. Unknown keys are
 * skipped. null leaves a field unchanged. An integer must be an integer literal in range.
 * Invalid UTF-8 and lone surrogates become U+FFFD. The nesting depth is limited.
 * libjansson is not suitable: it rejects such bytes and does not report the position of
 * an element. Pure; any thread. Safe for untrusted bytes.
 */
#ifndef BRIDGE_JSON_H
#define BRIDGE_JSON_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH_MAX = 1000 };

enum json_type {
    JSON_TEXT, /* struct slice: decoded, stored in room; unchanged if absent */
    JSON_INT,  /* int64_t */
    JSON_BOOL, /* bool */
    JSON_RAW   /* struct slice: the bytes of the value, within text */
};
struct json_field {
    const char *name;
    enum json_type type;
    size_t offset;    /* of the field in the struct */
    int64_t min, max; /* JSON_INT; both 0: all of int64_t */
};

/* Reads an object into the struct at to. fields ends with a zeroed row. room receives the
 * decoded texts and must outlive them; a second read into the same room may move them.
 * null counts as an object without fields. -1: no JSON object, a wrong type, or trailing
 * bytes; some fields of to may be set. */
int json_read(struct slice text, const struct json_field *fields, void *to,
              struct buf *room);

/* Calls cb for each element of an array, with its bytes without surrounding white space.
 * Returns the number of elements; null counts as an empty array. -1: no JSON array, or
 * trailing bytes; cb was not called. */
typedef void json_element_cb(void *arg, struct slice raw);
int json_each(struct slice text, json_element_cb *cb, void *arg);

#endif
