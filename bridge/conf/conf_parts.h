/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_parts.h - what conf*.c share among themselves and with their tests.
 */
#ifndef BRIDGE_CONF_PARTS_H
#define BRIDGE_CONF_PARTS_H

#include "bridge/base/buf.h"
#include "bridge/conf/conf.h"
#include "bridge/conf/opt_type.h"

/* --- conf.c: every error of a configuration, in the order of its lines --- */

struct conf_errors {
    const char *main_file; /* borrowed; stands for file == NULL */
    const char *dir;       /* borrowed; relative names of included files start there */
    struct conf_complaint *v;
    size_t n;
    struct conf_errors *warnings; /* borrowed; NULL: warnings are dropped */
};

/* file: copied; NULL: the main one. line 0: none. */
void conf_error(struct conf_errors *errors, const char *file, int line, const char *fmt,
                ...) __attribute__((format(printf, 4, 5)));
/* The same, about a value: v knows its file and line. */
#define conf_error_at(errors, value, ...)                                                \
    conf_error((errors), (value)->file, (value)->line, __VA_ARGS__)
#define conf_warn_at(errors, value, ...)                                                 \
    do {                                                                                 \
        if ((errors)->warnings != NULL)                                                  \
            conf_error_at((errors)->warnings, (value), __VA_ARGS__);                     \
    } while (0)
/* Appends one "file:line: message" line each, and frees them all. */
void conf_errors_give(struct conf_errors *errors, struct buf *out);

/* --- conf.c: the lists of parts --- */

struct conf_part *conf_part(const struct conf *conf, enum conf_kind kind, size_t i);
/* Takes part, the last of its list from now on. */
void conf_add_part(struct conf *conf, enum conf_kind kind, void *part);
size_t conf_count(const struct conf *conf, enum conf_kind kind);
/* As opt_hint(), of the names of that kind. */
const char *conf_hint(const struct conf *conf, enum conf_kind kind, const char *wrong,
                      char out[OPT_HINT_SIZE]);

/* --- conf_scan.c: the text before libconfig reads it, with its includes in place ---
 *
 * libconfig 1.5 includes single files only, ends the process if it cannot read one (a
 * folder), and wraps an integer above 2^31-1 silently: both errors are found here, with
 * file and line. */

struct conf_lines { /* where the lines of the whole text come from; zeroed: empty */
    struct conf_stretch *v;
    size_t n;
};
/* Gives the file, which stays until conf_lines_free(), and *line there. */
const char *conf_lines_find(const struct conf_lines *lines, int at, int *line);
void conf_lines_free(struct conf_lines *lines);
/* Gives the text of the main file with every included one in its place. @include "FILE",
 * "FOLDER" (its *.conf), "PATTERN*"; a relative name starts at the folder of the file
 * that contains it. */
void conf_scan(const char *file, struct buf *text, struct conf_lines *lines,
               struct conf_errors *errors);
/* Gives "." where file names no folder; the caller frees it. */
char *conf_dir_of(const char *file);

/* --- conf_tree.c: a file as a tree of neutral values ---
 *
 * ${env:NAME}, ${file:PATH} and ${cred:NAME} in strings are filled in already; "$${"
 * stands for "${". */

struct conf_tree;
/* Gives the tree, or NULL when the file is no tree at all. A secret that is missing is in
 * errors, and its string stays as written. Relative paths start at the file's folder. */
struct conf_tree *conf_tree_read(const char *file, struct conf_errors *errors);
/* Gives the tree of { v = VALUE; }, which is empty where the text is no value. For texts
 * of ours: without ${...}, and with numbers of 32 bits. */
struct conf_tree *conf_tree_of(const char *value);
/* The top level group; it and all below are the tree's. */
const struct opt_value *conf_tree_root(const struct conf_tree *tree);
/* The value of that name in a group; NULL: there is none, or v is no group. */
const struct opt_value *conf_tree_member(const struct opt_value *v, const char *name);
void conf_tree_free(struct conf_tree *tree); /* NULL is fine; wipes what was filled in */

/* --- conf_rows.c: the tables --- */

/* A section with fixed keys, into struct conf; the table ends with a row of zeros. */
struct conf_section {
    const char *name;
    const char *help;
    const struct opt *rows;
    size_t offset; /* in struct conf, from where the rows count */
};
extern const struct conf_section conf_sections[];

/* What every source has, the HTTP listener too. */
extern const struct opt conf_source_rows[], conf_sink_rows[], conf_route_rows[];
extern const struct opt conf_token_rows[];
extern const struct opt conf_redis_rows[]; /* of redis: { } and of each pool */

/* A section with a part for each name; index: enum conf_kind. */
struct conf_kind_row {
    const char *section;
    size_t list, count; /* in struct conf: the array of pointers, and its length */
    size_t size;        /* of one part */
    const struct opt *rows;
    size_t offset; /* in the part, from where the rows count */
};
extern const struct conf_kind_row conf_kinds[];

/* --- conf_plugin.c: sources and sinks by type, of the binary and of shared objects ---
 */

#define CONF_HTTP_SOURCE "http" /* the source that needs no section of its own */

struct conf_plugin {
    const struct source_ops *source; /* one of them is NULL */
    const struct sink_ops *sink;
    const char *name, *help;
    size_t size;
    const struct opt *opts;
    int (*check)(const void *self, struct err *err);
    void (*unwise)(const void *self, struct buf *lines); /* NULL: nothing */
};
/* The i-th of that kind (CONF_SOURCES, CONF_SINKS): those of the binary come first.
 * false: there are no more. What was given once stays where it is. */
bool conf_plugin(enum conf_kind kind, size_t i, struct conf_plugin *plugin);
/* Loads a shared object (plugin.h, TARRY_PLUGIN) for good: it is never unloaded. A path
 * that was loaded before is not loaded again. -1: nothing of it is used; err says why,
 * without the path. */
int conf_plugin_load(const char *path, struct err *err);

/* --- conf_secret.c: secrets and the files that options name --- */

/* v: a good value of the row. Warns about a secret that stands in the file itself, and
 * about a file that cannot be read, or by everybody. where: "sources.orders_in". */
void conf_secret_look(const struct opt *row, const struct opt_value *v, const char *where,
                      struct conf_errors *errors);
/* A fingerprint of the content of every file that rows of the types OPT_FILE and
 * OPT_KEY_FILE name in self, so that a reload sees a renewed certificate. 0: none is
 * named. Without rows that are reread. */
uint64_t conf_files_print(const struct opt *rows, const void *self);

/* --- conf_check*.c: what no row can say: whether the parts fit together --- */

struct check {
    const struct conf *conf;
    const struct opt_value *root; /* the file as a tree, for the lines */
    struct conf_errors *errors;
};
/* Every part of conf is there, right or wrong. */
void conf_check(const struct check *c);
void conf_check_http(const struct check *c);
void conf_check_route(const struct check *c, const struct conf_route *route);
/* Where to point at: the key of the part, or else the part, or else the section. */
const struct opt_value *conf_check_place(const struct check *c, const char *section,
                                         const char *part, const char *key);
/* section.part.key; part and key may be NULL. */
struct conf_place {
    const char *section, *part, *key;
};
/* Complains about a place, whose path the message begins with. */
void conf_wrong(const struct check *c, struct conf_place at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
