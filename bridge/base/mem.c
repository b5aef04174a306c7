/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void must_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "tarry: %s:%d: assertion failed: %s; this is a bug in tarry\n", file,
            line, cond);
    abort();
}

void *mem_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    must(p != NULL);
    return p;
}

void *mem_realloc(void *p, size_t size)
{
    void *q = realloc(p, size ? size : 1);
    must(q != NULL);
    return q;
}

char *mem_strndup(const char *s, size_t n)
{
    char *p = mem_alloc(n + 1);
    if (n > 0) /* otherwise s may be NULL */
        memcpy(p, s, n);
    return p;
}

char *mem_format(const char *fmt, ...)
{
    char *text;
    va_list args;
    va_start(args, fmt);
    must(vasprintf(&text, fmt, args) >= 0);
    va_end(args);
    return text;
}

char *mem_strdup(const char *s)
{
    return s ? mem_strndup(s, strlen(s)) : NULL;
}

int err_set(struct err *err, const char *fmt, ...)
{
    if (err == NULL)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    return -1;
}

int err_in(struct err *err, const char *where)
{
    if (err == NULL)
        return -1;
    char inner[sizeof(err->text)];
    memcpy(inner, err->text, sizeof(inner));
    return err_set(err, "%s: %.*s", where, (int)(sizeof(inner) - strlen(where) - 3),
                   inner);
}
