/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt.h - option rows: the source of parsing, range checks, defaults, lists and manuals.
 *
 * Independent of libconfig: conf.c converts values to struct opt_value, so that the rows
 * can be tested alone and defaults use the syntax of the file.
 */
#ifndef BRIDGE_OPT_H
#define BRIDGE_OPT_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum opt_type {               /* field in the struct      in the file                   */
                OPT_STR,      /* char *                   "text"; NULL when absent      */
                OPT_FILE,     /* char *                   a file to read: certificates  */
                OPT_KEY_FILE, /* char *                   as OPT_FILE; it is secret     */
                OPT_SECRET,   /* char *                   as OPT_STR, never printed     */
                OPT_INT,      /* int64_t                  5000                          */
                OPT_REAL,     /* double                   2.0 (or 2)                    */
                OPT_BOOL,     /* bool                     true, false                   */
                OPT_MS,       /* int64_t, ms              "1500ms" "30s" "1h30m" "7d"   */
                OPT_BYTES,    /* int64_t, bytes           "256KiB" "64MiB" "512B"       */
                OPT_CHOICE,   /* int, index in choices    "text"                        */
                OPT_LIST,     /* struct opt_list          [ "a", "b" ] or "a"           */
                OPT_PAIRS,    /* struct pairs             { name = "value"; n = 5; }    */
                OPT_RETRY /* struct retry_policy      [ "10s", "20s" ] or { first = "1s";
                             ... } */
};

#define OPT_RETRY_NEVER "never" /* the value of OPT_RETRY that disables retries */
#define OPT_RETRY_FORMS                                                                  \
    "must be a list of delays: [ \"10s\", \"20s\" ], or "                                \
    "{ first = \"1s\"; factor = 2.0; max = \"10m\"; "                                    \
    "limit = 10; jitter = 0.2; }, or \"" OPT_RETRY_NEVER "\""

struct opt {
    const char *name;
    enum opt_type type;
    size_t offset;       /* of the field in the owner's struct */
    const char *def;     /* in the syntax of the file, without quotes around a string;
                          * "": an empty string or list; NULL: the key is required */
    const char *help;    /* one sentence */
    int64_t min, max;    /* OPT_INT, OPT_REAL, OPT_MS, OPT_BYTES; max 0: no upper bound */
    const char *choices; /* OPT_CHOICE: "a|b|c" */
    bool optional;       /* may be absent without a default; the field is then NULL or
                          * 0 */
    bool reloads;        /* of a section, or OPT_FILE: a reload applies a new value, or
                          * reads the file again, without a restart of the owner */
    bool secret;         /* OPT_LIST, OPT_PAIRS: each value is a secret */
};

struct opt_list {
    char **v;
    size_t n;
};

/* A value from the file. Numbers inside pairs and lists are text. */
enum opt_kind {
    OPT_IS_STR,
    OPT_IS_INT,
    OPT_IS_REAL,
    OPT_IS_BOOL,
    OPT_IS_LIST,
    OPT_IS_GROUP
};
struct opt_value {
    enum opt_kind kind;
    const char *str;              /* OPT_IS_STR, with ${...} replaced */
    int64_t integer;              /* OPT_IS_INT */
    double real;                  /* OPT_IS_REAL */
    bool boolean;                 /* OPT_IS_BOOL */
    const struct opt_value *item; /* OPT_IS_LIST, OPT_IS_GROUP: the first of count
                                   * values */
    size_t count;
    const char *name; /* of a member of a group */
    const char *file; /* file of the value; NULL: the main configuration file */
    int line;         /* in the file; 0: unknown */
    bool expanded;    /* contains text from ${...}: possibly secret, never shown */
};

/* Stores v in the field of the row and frees the previous value. -1: err says what is
 * wrong and what is expected, without file and line. */
int opt_set(const struct opt *row, void *self, const struct opt_value *v,
            struct err *err);
/* Sets all fields to their defaults. Aborts if a default is invalid. */
void opt_defaults(const struct opt *rows, void *self);
/* Returns the row, or NULL. rows ends with a zeroed row. */
const struct opt *opt_find(const struct opt *rows, const char *name);
/* Returns the known name most similar to a mistyped one, for "did you mean"; NULL:
 * none. */
const char *opt_nearest(const struct opt *rows, const char *name);
/* Frees what the fields own and zeroes them; wipes secrets first. */
void opt_free(const struct opt *rows, void *self);
/* Prints name, type, default, range and help of each row, for `tarry options`. */
void opt_print(const struct opt *rows, FILE *out);

/* Format a value in the syntax of the file: "1h30m", "64MiB". Exact, no rounding. */
enum { OPT_TEXT_SIZE = 32 };
const char *opt_text_ms(int64_t ms, char out[OPT_TEXT_SIZE]);
const char *opt_text_bytes(int64_t bytes, char out[OPT_TEXT_SIZE]);
/* Parses "1500ms", "30s", "1h30m", "7d", "0"; fractions only as "1.5s". -1: invalid. */
int opt_parse_ms(const char *text, int64_t *ms, struct err *err);

#endif
