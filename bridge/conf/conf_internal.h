/* SPDX-License-Identifier: BSD-2-Clause */
/* conf_internal.h - shared by conf*.c and their tests. */
#ifndef BRIDGE_CONF_INTERNAL_H
#define BRIDGE_CONF_INTERNAL_H

#include "bridge/base/buf.h"
#include "bridge/conf/conf.h"

/* --- conf.c: collects the errors of a configuration, sorted by line --- */

struct conf_errors {
    const char *main_file; /* borrowed; used for file == NULL */
    const char *dir;       /* borrowed; base of relative names in @include */
    struct conf_message *v;
    size_t n;
    struct conf_errors *warnings; /* borrowed; NULL: warnings are dropped */
};

/* Adds an error. file: copied; NULL: the main file. line 0: no line. The text after the
 * first "; " outside of brackets and quotes is the hint. */
void conf_error(struct conf_errors *errors, const char *file, int line, const char *fmt,
                ...) __attribute__((format(printf, 4, 5)));
/* The same, at the file and line of value. */
#define conf_error_at(errors, value, ...)                                                \
    conf_error((errors), (value)->file, (value)->line, __VA_ARGS__)
#define conf_warn_at(errors, value, ...)                                                 \
    do {                                                                                 \
        if ((errors)->warnings != NULL)                                                  \
            conf_error_at((errors)->warnings, (value), __VA_ARGS__);                     \
    } while (0)
/* Calls cb for each error, then frees the errors. */
void conf_errors_tell(struct conf_errors *errors, bool warning, conf_found_cb *cb,
                      void *arg);

/* --- conf.c: the lists of parts --- */

struct conf_part *conf_part(const struct conf *conf, enum conf_kind kind, size_t i);
/* Appends part to its list and takes ownership. */
void conf_add_part(struct conf *conf, enum conf_kind kind, void *part);
size_t conf_count(const struct conf *conf, enum conf_kind kind);
/* Like opt_hint(), with the names of all parts of that kind. */
const char *conf_hint(const struct conf *conf, enum conf_kind kind, const char *wrong,
                      char out[OPT_HINT_SIZE]);

/* --- conf_scan.c: merges included files into one text before libconfig parses it ---
 *
 * libconfig 1.5 includes only single files, exits the process if it cannot read one (such
 * as a folder), and silently wraps integers above 2^31-1. conf_scan() reports both errors
 * with file and line. */

struct conf_lines { /* maps lines of the merged text to files; zeroed: empty */
    struct conf_segment *v;
    size_t n;
};
/* Returns the file of merged line `at` and sets *line to the line there. Borrowed until
 * conf_lines_free(). */
const char *conf_lines_find(const struct conf_lines *lines, int at, int *line);
void conf_lines_free(struct conf_lines *lines);
/* Writes the main file with all includes inserted to text. @include accepts "FILE",
 * "FOLDER" (its *.conf) and "PATTERN*". A relative name starts at the folder of the
 * including file. */
void conf_scan(const char *file, struct buf *text, struct conf_lines *lines,
               struct conf_errors *errors);
/* Returns the folder of file, or "." without one; the caller frees it. */
char *conf_dir_of(const char *file);

/* --- conf_slip.c: explains a syntax error --- */

/* Adds an error for the merged text that libconfig rejected at that merged line, with
 * its reason. */
void conf_slip_report(const char *text, int line, const char *why,
                      const struct conf_lines *lines, struct conf_errors *errors);

/* --- conf_tree.c: a file as a tree of opt_value ---
 *
 * ${env:NAME}, ${file:PATH} and ${cred:NAME} in strings are already replaced; "$${" means
 * "${". */

struct conf_tree;
/* Returns the tree, or NULL after a syntax error. A missing secret is added to errors,
 * and its string stays unchanged. Relative paths start at the file's folder. */
struct conf_tree *conf_tree_read(const char *file, struct conf_errors *errors);
/* Returns the tree of { v = VALUE; }, empty if value does not parse. For tarry's own
 * texts: without ${...}, numbers up to 32 bits. */
struct conf_tree *conf_tree_of(const char *value);
/* Returns the top-level group. The tree owns all values. */
const struct opt_value *conf_tree_root(const struct conf_tree *tree);
/* Returns the value of that name in group v, or NULL, also if v is no group. */
const struct opt_value *conf_tree_member(const struct opt_value *v, const char *name);
void conf_tree_free(struct conf_tree *tree); /* NULL is allowed; wipes inserted secrets */

/* --- conf_rows.c: the tables --- */

/* A section with fixed keys, read into struct conf. The table ends with a zeroed row. */
struct conf_section {
    const char *name;
    const char *help;
    const struct opt *rows;
    size_t offset; /* in struct conf; the rows' offsets are relative to it */
};
extern const struct conf_section conf_sections[];

/* Options common to all sources, the HTTP listener included. */
extern const struct opt conf_source_rows[], conf_sink_rows[], conf_route_rows[];
extern const struct opt conf_token_rows[], conf_otlp_rows[];
extern const struct opt conf_redis_rows[]; /* of redis: { } and of each pool */

/* A section with named parts. The index is enum conf_kind. */
struct conf_kind_row {
    const char *section;
    size_t list, count; /* offsets in struct conf of the pointer array and of its
                         * length */
    size_t size;        /* of one part */
    const struct opt *rows;
    size_t offset; /* in the part; the rows' offsets are relative to it */
};
extern const struct conf_kind_row conf_kinds[];

/* --- conf_plugin.c: source and sink types, built-in and from shared objects --- */

#define CONF_HTTP_SOURCE "http" /* the source that exists without a section */

struct conf_plugin {
    const struct source_ops *source; /* one of them is NULL */
    const struct sink_ops *sink;
    const char *name, *help;
    size_t size;
    const struct opt *opts;
    int (*check)(const void *self, struct err *err);
    void (*warn)(const void *self, struct buf *lines); /* NULL: no warnings */
};
/* Fills plugin with the i-th type of that kind (CONF_SOURCES, CONF_SINKS), built-in types
 * first. Returns false after the last. Indexes are stable. */
bool conf_plugin(enum conf_kind kind, size_t i, struct conf_plugin *plugin);
/* Loads a shared object (plugin.h, TARRY_PLUGIN) once per path; it is never unloaded. -1:
 * none of its types is added; err contains the reason without the path. */
int conf_plugin_load(const char *path, struct err *err);

/* --- opt*.c: option types, how values are read, stored, compared and freed. Any thread.
 * --- */

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
    void (*free)(void *field); /* does not reset the field */
};
enum { OPT_TYPES = OPT_RETRY + 1 };
extern const struct opt_type_row opt_types[OPT_TYPES];

/* Parses a number with its unit, for example opt_parse_ms(). */
typedef int opt_parse(const char *text, int64_t *n, struct err *err);
/* Writes text with the units that tarry accepts to out: "10 sec" becomes "10s". Returns
 * false if that is not valid either. */
bool opt_right_units(const char *text, opt_parse *parse, char out[OPT_TEXT_SIZE]);

/* Formats n in the row's unit. */
const char *opt_number_text(const struct opt *row, int64_t n, char out[OPT_TEXT_SIZE]);
/* The setter of OPT_RETRY; field is a struct retry_policy. */
int opt_set_retry(const struct opt *row, void *field, const struct opt_value *v,
                  struct err *err);

/* --- conf_secret.c: secrets, and files that options name --- */

/* Warns about a secret written in the configuration file, and about a file that is
 * unreadable or readable by everybody. v: a valid value of the row. where:
 * "sources.orders_in". */
void conf_secret_check(const struct opt *row, const struct opt_value *v,
                       const char *where, struct conf_errors *errors);
/* Returns a fingerprint of all files that OPT_FILE and OPT_KEY_FILE rows name in self, so
 * that a reload detects a renewed certificate. 0: no file. Ignores rows with `reloads`.
 */
uint64_t conf_files_fingerprint(const struct opt *rows, const void *self);

/* --- conf_check*.c: checks across options and parts --- */

struct check {
    const struct conf *conf;
    const struct opt_value *root; /* the file as a tree, to find line numbers */
    struct conf_errors *errors;
};
/* All parts of conf exist at this point, also invalid ones. */
void conf_check(const struct check *c);
void conf_check_http(const struct check *c);
void conf_check_route(const struct check *c, const struct conf_route *route);
/* section.part.key; part and key may be NULL. */
struct conf_place {
    const char *section, *part, *key;
};
/* Returns the value whose line an error names: the key, else the part, else the
 * section. */
const struct opt_value *conf_check_place(const struct check *c, struct conf_place at);
/* Adds an error at that place unless a part of that kind has the name. Returns the part,
 * or NULL. */
const void *conf_check_named(const struct check *c, struct conf_place at,
                             enum conf_kind kind, const char *name);
/* Adds an error at that place. The message begins with its path. */
void conf_check_error(const struct check *c, struct conf_place at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
