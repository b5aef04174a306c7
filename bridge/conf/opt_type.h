/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opt_type.h - what an option type is: one row for each says how its values are read,
 * stored, compared, copied and freed. For the bridge, not for plugins. Any thread.
 */
#ifndef BRIDGE_OPT_TYPE_H
#define BRIDGE_OPT_TYPE_H

#include "bridge/conf/opt.h"

struct opt_type_row {
    const char *name;            /* for people */
    size_t size;                 /* of the field */
    enum opt_form {              /* of opt.def and of a value on the command line */
                    OPT_BARE,    /* the text itself, without quotes */
                    OPT_NUMBER,  /* a number */
                    OPT_TRUTH,   /* true, false */
                    OPT_MEMBERS, /* as in the file: a group; "": an empty one */
                    OPT_ITEMS /* as in the file: a list or a group, or bare text; "": no
                                 item */
    } form;
    /* Stores v in the field and frees the value before it. -1: the field is unchanged. */
    int (*set)(const struct opt *row, void *field, const struct opt_value *v,
               struct err *err);
    /* These are NULL where the bytes are the value. */
    bool (*same)(const void *a, const void *b);
    void (*copy)(const void *from, void *to);
    void (*free)(void *field); /* leaves dangling bytes */
};
enum { OPT_TYPES = OPT_RETRY + 1 };
extern const struct opt_type_row opt_types[OPT_TYPES];

/* Reads text by the row's type and stores it. -1: err says what would be right. */
int opt_set_text(const struct opt *row, void *self, const char *text, struct err *err);

/* text is copied. */
void opt_list_add(struct opt_list *list, const char *text);

/* Does the field of that row hold the same in both? */
bool opt_same(const struct opt *row, const void *a, const void *b);
/* Copies all fields of the rows to a struct whose fields are zero. */
void opt_copy(const struct opt *rows, const void *from, void *to);
void opt_exchange(const struct opt *rows, void *a, void *b);

/* The names that would have been right, for an error about a wrong one. A zeroed one is
 * empty and ready. */
struct opt_names {
    struct opt *v; /* only the names are filled in; ends with a row of zeros */
    size_t n;
};
void opt_names_add(struct opt_names *names, const char *name); /* borrowed */
/* Writes `did you mean "x"?`, or else which names there are; gives out. Frees names. */
enum { OPT_HINT_SIZE = 320 };
const char *opt_hint(struct opt_names *names, const char *wrong, char out[OPT_HINT_SIZE]);

/* Prints a text from that column on, broken between words to lines of at most width
 * bytes. at: the column that the first line has reached. */
void opt_print_help(const char *help, int at, int column, size_t width, FILE *out);

/* --- between opt*.c --- */

/* n in the row's unit. */
const char *opt_number_text(const struct opt *row, int64_t n, char out[OPT_TEXT_SIZE]);
/* The setter of OPT_RETRY; field is a struct retry_policy. */
int opt_set_retry(const struct opt *row, void *field, const struct opt_value *v,
                  struct err *err);

#endif
