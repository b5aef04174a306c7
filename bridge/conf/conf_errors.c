/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_errors.c - everything that is wrong with a configuration, in the order of its
 * lines.
 */
#include "bridge/conf/conf_errors.h"
#include "bridge/base/mem.h"
#include "bridge/conf/conf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conf_complaint {
    char *file; /* NULL: the main one, which comes first */
    int line;
    size_t order; /* of two in one line, the one found first */
    char *text;
};

void conf_error(struct conf_errors *errors, const char *file, int line, const char *fmt,
                ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    errors->v = mem_realloc(errors->v, (errors->n + 1) * sizeof(*errors->v));
    errors->v[errors->n] = (struct conf_complaint){.file = file ? mem_strdup(file) : NULL,
                                                   .line = line,
                                                   .order = errors->n,
                                                   .text = mem_strdup(text)};
    errors->n++;
}

static int by_place(const void *left, const void *right)
{
    const struct conf_complaint *a = left, *b = right;
    int files = strcmp(a->file ? a->file : "", b->file ? b->file : "");

    if (files != 0)
        return files;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

void conf_errors_give(struct conf_errors *errors, struct buf *out)
{
    if (errors->n > 0)
        qsort(errors->v, errors->n, sizeof(*errors->v), by_place);
    for (size_t i = 0; i < errors->n; i++) {
        struct conf_complaint *c = &errors->v[i];
        buf_add_str(out, c->file ? c->file : errors->main_file);
        if (c->line > 0)
            buf_addf(out, ":%d", c->line);
        buf_addf(out, ": %s\n", c->text);
        free(c->file);
        free(c->text);
    }
    free(errors->v);
    errors->v = NULL;
    errors->n = 0;
}

struct conf *conf_open(const char *file)
{
    struct buf errors = {0};
    struct conf *conf = conf_read(file, &errors);

    fputs(buf_str(&errors), stderr);
    buf_free(&errors);
    return conf;
}
