/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_syntax.h - finds the token at which a text leaves the grammar of libconfig, and
 * explains it. Used only after libconfig has rejected the text.
 */
#ifndef BRIDGE_CONF_SYNTAX_H
#define BRIDGE_CONF_SYNTAX_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

enum token_kind {
    TOKEN_END, /* of the text */
    TOKEN_NAME,
    TOKEN_TRUTH,
    TOKEN_WHOLE, /* a whole number */
    TOKEN_REAL,
    TOKEN_TEXT, /* with its quotes */
    TOKEN_SIGN, /* one of = : ; , { } [ ] ( ) */
    TOKEN_ODD   /* nothing that libconfig knows */
};
struct token {
    enum token_kind kind;
    struct slice text;
    int line;
    int indent; /* blanks at the start of its line */
    bool first; /* on its line */
};

enum syntax_want { /* what must follow */
                   WANT_SETTING = 1,
                   WANT_ASSIGN = 2, /* = or : */
                   WANT_VALUE = 4,
                   WANT_END = 8, /* of a setting or an item */
                   WANT_ANY = 15
};

struct syntax_open { /* a bracket that is open */
    char open, close;
    int line, indent;
    unsigned serial;       /* counts the brackets from 1; 0: no bracket */
    struct slice name;     /* of the setting; n 0: an item of a list */
    enum token_kind items; /* type of the items of a [ ]; TOKEN_END: still empty */
};

enum { SYNTAX_DEPTH_MAX = 32 };

/* The state of the walk. at: the token that does not fit. All texts are borrowed. */
struct syntax {
    const char *p, *line_start; /* the next byte, and the start of its line */
    int line;
    enum syntax_want want;
    struct token at, before, second_before;
    struct token broken;           /* the first string with a line break; END: none */
    struct slice name, value_name; /* the last name, and the one of the last value */
    struct token value;            /* the last value */
    struct syntax_open open[SYNTAX_DEPTH_MAX];
    size_t depth;
    unsigned serial;
    struct syntax_open unclosed; /* the indentation suggests that its end is missing */
    int duplicate_line;          /* look for a duplicate name in this line; 0: do not */
    int first_line;              /* the line of the first of two settings of a name */
    struct syntax_name *names;   /* owned */
    size_t name_count;
};

/* Walks through text. Returns whether a token does not fit: s->at in state s->want, or,
 * if s->first_line is set, a duplicate name. s: zeroed except duplicate_line. The caller
 * frees s->names. */
bool syntax_find(struct syntax *s, const char *text);
/* Returns the innermost open bracket; open '{' and serial 0 at the top level. */
const struct syntax_open *syntax_top(const struct syntax *s);

#endif
