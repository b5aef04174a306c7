/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt.h - option rows: parsed, range-checked, defaulted, listed and documented from here.
 *
 * Knows nothing of libconfig: conf.c hands over values in the neutral struct opt_value,
 * so that the rows can be tested alone and defaults stand in the table as in the file.
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

#define OPT_RETRY_NEVER "never" /* the word of OPT_RETRY for no retry at all */
#define OPT_RETRY_FORMS                                                                  \
    "must be a list of waits: [ \"10s\", \"20s\" ], or { first = \"1s\"; factor = 2.0; " \
    "max = \"10m\"; limit = 10; jitter = 0.2; }, or \"" OPT_RETRY_NEVER "\""

struct opt {
    const char *name;
    enum opt_type type;
    size_t offset;       /* of the field in the owner's struct */
    const char *def;     /* as it would stand in the file, without quotes round a string;
                          * "" an empty string or list; NULL: the key is required */
    const char *help;    /* one sentence */
    int64_t min, max;    /* OPT_INT, OPT_REAL, OPT_MS, OPT_BYTES; max 0: no bound above */
    const char *choices; /* OPT_CHOICE: "a|b|c" */
    bool optional;       /* may be absent without a default: the field stays NULL or 0 */
    bool reread;         /* OPT_FILE: its owner reads it again at a reload, and needs no
                          * restart for that */
    bool secret;         /* OPT_LIST, OPT_PAIRS: each of its texts is one */
};

struct opt_list {
    char **v;
    size_t n;
};

/* A value as it stands in the file. Numbers inside pairs and lists come as text. */
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
    const char *str;              /* OPT_IS_STR, with ${...} already filled in */
    int64_t integer;              /* OPT_IS_INT */
    double real;                  /* OPT_IS_REAL */
    bool boolean;                 /* OPT_IS_BOOL */
    const struct opt_value *item; /* OPT_IS_LIST, OPT_IS_GROUP: the first of count */
    size_t count;
    const char *name; /* of a group's item */
    const char *file; /* where it stands; NULL: the configuration file itself */
    int line;         /* in the file; 0: unknown */
    bool filled;      /* holds something from ${...}: may be a secret, is never shown */
};

/* Stores v into the field that the row describes; what stood there before is freed.
 * -1: err says what is wrong and what would be right, without file and line. */
int opt_set(const struct opt *row, void *self, const struct opt_value *v,
            struct err *err);
/* Fills in every default. Aborts when a default itself does not parse. */
void opt_defaults(const struct opt *rows, void *self);
/* NULL: there is no such row. rows ends with a row of zeros. */
const struct opt *opt_find(const struct opt *rows, const char *name);
/* The known name nearest to a mistyped one, for "did you mean"; NULL: none is near. */
const char *opt_nearest(const struct opt *rows, const char *name);
/* Frees what the fields own and zeroes them; secrets are wiped first. */
void opt_free(const struct opt *rows, void *self);
/* One block per row: name, type, default, range, help; for `tarry options`. */
void opt_print(const struct opt *rows, FILE *out);
/* Of one row: its type, default and range. */
void opt_print_facts(const struct opt *row, FILE *out);

/* As it would stand in the file: "1h30m", "64MiB". Rounds nothing. */
enum { OPT_TEXT_SIZE = 32 };
const char *opt_text_ms(int64_t ms, char out[OPT_TEXT_SIZE]);
const char *opt_text_bytes(int64_t bytes, char out[OPT_TEXT_SIZE]);
/* "1500ms", "30s", "1h30m", "7d", "0"; fractions only as "1.5s". -1: not a duration. */
int opt_parse_ms(const char *text, int64_t *ms, struct err *err);

#endif
