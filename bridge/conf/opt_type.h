/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt_type.h - option types: how values are read, stored, compared, copied and freed.
 * Internal to the bridge, not for plugins. Any thread.
 */
#ifndef BRIDGE_OPT_TYPE_H
#define BRIDGE_OPT_TYPE_H

#include "bridge/opt.h"

struct opt_type_row {
    const char *name;            /* in help and errors */
    size_t size;                 /* of the field, bytes */
    enum opt_form {              /* syntax of opt.def and of a value on the command
                                  * line */
                    OPT_BARE,    /* the text itself, without quotes */
                    OPT_NUMBER,  /* a number */
                    OPT_TRUTH,   /* true, false */
                    OPT_MEMBERS, /* file syntax: a group; "": an empty group */
                    OPT_ITEMS /* file syntax: a list or group, or bare text; "": empty */
    } form;
    /* Stores v in the field and frees the previous value. -1: the field is unchanged. */
    int (*set)(const struct opt *row, void *field, const struct opt_value *v,
               struct err *err);
    /* NULL if the bytes of the field are the value. */
    bool (*same)(const void *a, const void *b);
    void (*copy)(const void *from, void *to);
    void (*free)(void *field); /* does not reset the field */
};
enum { OPT_TYPES = OPT_RETRY + 1 };
extern const struct opt_type_row opt_types[OPT_TYPES];

/* Parses text by the row's type and stores it. -1: err says what is expected. */
int opt_set_text(const struct opt *row, void *self, const char *text, struct err *err);

/* Appends a copy of text. */
void opt_list_add(struct opt_list *list, const char *text);

/* Returns whether the row's field has the same value in a and b. */
bool opt_same(const struct opt *row, const void *a, const void *b);
/* Copies the fields of all rows to a struct whose fields are zero. */
void opt_copy(const struct opt *rows, const void *from, void *to);
void opt_exchange(const struct opt *rows, void *a, void *b);

/* Valid names, for the error about an invalid one. Zeroed: empty. */
struct opt_names {
    struct opt *v; /* only name is set; ends with a zeroed row */
    size_t n;
};
void opt_names_add(struct opt_names *names, const char *name); /* borrowed */
/* Writes `did you mean "x"?`, or else the list of names, to out and returns out. Frees
 * names. */
enum { OPT_HINT_SIZE = 320 };
const char *opt_hint(struct opt_names *names, const char *wrong, char out[OPT_HINT_SIZE]);

/* Prints help wrapped at word boundaries to lines of at most width bytes, indented to
 * column. at: the column where the first line starts. */
void opt_print_help(const char *help, int at, int column, size_t width, FILE *out);

/* --- shared by opt*.c --- */

/* Formats n in the row's unit. */
const char *opt_number_text(const struct opt *row, int64_t n, char out[OPT_TEXT_SIZE]);
/* The setter of OPT_RETRY; field is a struct retry_policy. */
int opt_set_retry(const struct opt *row, void *field, const struct opt_value *v,
                  struct err *err);

#endif
