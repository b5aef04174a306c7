/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_errors.h - everything that is wrong with a configuration, in the order of its
 * lines.
 */
#ifndef BRIDGE_CONF_ERRORS_H
#define BRIDGE_CONF_ERRORS_H

#include "bridge/base/buf.h"
#include "bridge/conf/opt.h"

struct conf_errors {
    const char *main_file; /* borrowed; stands for file == NULL */
    const char *dir;       /* borrowed; where relative names of included files start */
    struct conf_complaint *v;
    size_t n;
    struct conf_errors *warnings; /* borrowed; NULL: nobody wants them */
};

/* file: copied; NULL: the main one. line 0: none. */
void conf_error(struct conf_errors *errors, const char *file, int line, const char *fmt,
                ...) __attribute__((format(printf, 4, 5)));
/* The same, about a value: v knows its file and line. */
#define conf_error_at(errors, value, ...)                                                \
    conf_error((errors), (value)->file, (value)->line, __VA_ARGS__)
/* What is allowed and unwise. */
#define conf_warn_at(errors, value, ...)                                                 \
    do {                                                                                 \
        if ((errors)->warnings != NULL)                                                  \
            conf_error_at((errors)->warnings, (value), __VA_ARGS__);                     \
    } while (0)

/* Appends one "file:line: message" line each, and forgets them all. */
void conf_errors_give(struct conf_errors *errors, struct buf *out);

#endif
