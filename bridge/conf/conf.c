/* SPDX-License-Identifier: BSD-2-Clause */
/* conf.c - struct conf: lists of parts, errors, freeing. */
#include "bridge/conf/conf.h"
#include "bridge/base/log.h"
#include "bridge/base/mem.h"
#include "bridge/base/text.h"
#include "bridge/conf/conf_internal.h"
#include "bridge/plugin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the parts of a section --- */

size_t conf_count(const struct conf *conf, enum conf_kind kind)
{
    size_t n;
    memcpy(&n, (const char *)conf + conf_kinds[kind].count, sizeof(n));
    return n;
}

struct conf_part *conf_part(const struct conf *conf, enum conf_kind kind, size_t i)
{
    const char *list;
    struct conf_part *part;
    memcpy(&list, (const char *)conf + conf_kinds[kind].list, sizeof(list));
    memcpy(&part, list + i * sizeof(part), sizeof(part));
    return part;
}

void conf_add_part(struct conf *conf, enum conf_kind kind, void *part)
{
    size_t n = conf_count(conf, kind);
    char *list;
    memcpy(&list, (char *)conf + conf_kinds[kind].list, sizeof(list));
    list = mem_realloc(list, (n + 1) * sizeof(part));
    memcpy(list + n * sizeof(part), &part, sizeof(part));
    memcpy((char *)conf + conf_kinds[kind].list, &list, sizeof(list));
    n++;
    memcpy((char *)conf + conf_kinds[kind].count, &n, sizeof(n));
}

void *conf_find(const struct conf *conf, enum conf_kind kind, struct slice name)
{
    for (size_t i = 0; i < conf_count(conf, kind); i++)
        if (slice_is(name, conf_part(conf, kind, i)->name))
            return conf_part(conf, kind, i);
    return NULL;
}

const char *conf_hint(const struct conf *conf, enum conf_kind kind, const char *wrong,
                      char out[OPT_HINT_SIZE])
{
    struct opt_names names = {0};
    for (size_t i = 0; i < conf_count(conf, kind); i++)
        opt_names_add(&names, conf_part(conf, kind, i)->name);
    return opt_hint(&names, wrong, out);
}

/* --- errors and warnings --- */

struct conf_message {
    char *file; /* NULL: the main file, sorted first */
    int line;
    size_t order; /* index of discovery; sorts the errors of one line */
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
    errors->v[errors->n] = (struct conf_message){.file = file ? mem_strdup(file) : NULL,
                                                 .line = line,
                                                 .order = errors->n,
                                                 .text = mem_strdup(text)};
    errors->n++;
}

static int by_position(const void *left, const void *right)
{
    const struct conf_message *a = left, *b = right;
    int files = strcmp(a->file ? a->file : "", b->file ? b->file : "");

    if (files != 0)
        return files;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* Returns the position of the first "; " outside of brackets and quotes, or the end. */
static size_t end_of_text(const char *text)
{
    int depth = 0;
    bool quoted = false;
    const char *p = text;

    for (; *p != '\0'; p++) {
        if (*p == '"')
            quoted = !quoted;
        else if (!quoted && strchr("([{", *p))
            depth++;
        else if (!quoted && strchr(")]}", *p))
            depth--;
        else if (!quoted && depth <= 0 && p[0] == ';' && p[1] == ' ')
            break;
    }
    return (size_t)(p - text);
}

void conf_finding_add(struct buf *out, const struct conf_finding *found)
{
    buf_add_str(out, found->file);
    if (found->line > 0)
        buf_addf(out, ":%d", found->line);
    buf_addf(out, ": %.*s", SLICE_ARG(found->text));
    if (found->hint.n > 0)
        buf_addf(out, "; %.*s", SLICE_ARG(found->hint));
}

void conf_errors_tell(struct conf_errors *errors, bool warning, conf_found_cb *cb,
                      void *arg)
{
    if (errors->n > 0)
        qsort(errors->v, errors->n, sizeof(*errors->v), by_position);
    for (size_t i = 0; i < errors->n; i++) {
        struct conf_message *c = &errors->v[i];
        size_t n = end_of_text(c->text);
        struct conf_finding found = {.file = c->file ? c->file : errors->main_file,
                                     .line = c->line,
                                     .warning = warning,
                                     .text = {c->text, n}};
        if (c->text[n] != '\0')
            found.hint = slice_of(c->text + n + 2);
        cb(arg, &found);
        free(c->file);
        free(c->text);
    }
    free(errors->v);
    errors->v = NULL;
    errors->n = 0;
}

void conf_log_warnings(const struct conf *conf)
{
    for (struct slice rest = buf_slice(&conf->warnings); rest.n > 0;) {
        struct slice line = text_cut(&rest, '\n');
        log_warn("config", "%.*s", SLICE_ARG(line));
    }
}

struct conf *conf_open(const char *file)
{
    struct buf errors = {0};
    struct conf *conf = conf_read(file, &errors);

    fputs(buf_str(&errors), stderr);
    buf_free(&errors);
    return conf;
}

/* --- freeing --- */

static void free_self(const struct opt *rows, void *self)
{
    if (self != NULL)
        opt_free(rows, self);
    free(self);
}

void conf_part_free(enum conf_kind kind, void *of)
{
    struct conf_part *part = of;
    const struct conf_source *source = of;
    const struct conf_sink *sink = of;

    if (part == NULL || part->users-- > 0)
        return;
    if (kind == CONF_SOURCES && source->ops != NULL)
        free_self(source->ops->opts, source->self);
    if (kind == CONF_SINKS && sink->ops != NULL)
        free_self(sink->ops->opts, sink->self);
    opt_free(conf_kinds[kind].rows, (char *)of + conf_kinds[kind].offset);
    free(part->name);
    free(part);
}

void conf_free(struct conf *conf)
{
    if (conf == NULL)
        return;
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
        opt_free(s->rows, (char *)conf + s->offset);
    opt_free(conf_source_rows, &conf->listener);
    for (enum conf_kind kind = 0; kind < CONF_KINDS; kind++) {
        for (size_t i = 0; i < conf_count(conf, kind); i++)
            conf_part_free(kind, conf_part(conf, kind, i));
        void *list;
        memcpy(&list, (char *)conf + conf_kinds[kind].list, sizeof(list));
        free(list);
    }
    buf_free(&conf->warnings);
    free(conf->file);
    free(conf);
}
