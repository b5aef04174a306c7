/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json_scan.h - the grammar of JSON (RFC 8259): what is there, and where it ends.
 *
 * A reader goes through a text from front to end; each function passes what it names and
 * gives -1 where the text is wrong, with the reader anywhere. Nothing is allocated,
 * nothing recurses. Of json.c; pure.
 */
#ifndef BRIDGE_JSON_SCAN_H
#define BRIDGE_JSON_SCAN_H

#include "bridge/base/json_text.h"
#include "bridge/base/buf.h"

#include <stdbool.h>

struct json_reader {
    const char *p, *end;
    unsigned depth; /* of what has been opened around p */
};

/* Borrows text. */
struct json_reader json_reader_of(struct slice text);

void json_space(struct json_reader *r);
/* Passes it and says so, if it comes next. */
bool json_take(struct json_reader *r, char c);
bool json_take_word(struct json_reader *r, const char *word);

int json_pass_string(struct json_reader *r, struct json_quoted *s);
int json_pass_number(struct json_reader *r);
/* A key, its colon, and the space around. */
int json_pass_key(struct json_reader *r, struct json_quoted *key);
/* A value of any kind. */
int json_pass_value(struct json_reader *r);
/* Nothing but space may be left. */
int json_pass_end(struct json_reader *r);

#endif
