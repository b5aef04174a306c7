/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.h - allocation that never returns NULL, must() for programming errors, and struct
 * err for run-time errors. Any thread.
 *
 * Out of memory aborts. Callers must check a size from outside against a limit first.
 * Free the results with free().
 */
#ifndef BRIDGE_MEM_H
#define BRIDGE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size); /* zeroed */
void *mem_realloc(void *p, size_t size);
char *mem_strdup(const char *s); /* NULL if s is NULL */
char *mem_strndup(const char *s, size_t n);
char *mem_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Aborts with the condition if cond is false. Never compiled out. */
#define must(cond) ((cond) ? (void)0 : must_failed(#cond, __FILE__, __LINE__))
_Noreturn void must_failed(const char *cond, const char *file, int line);

/* The reason of a failure, for operators. */
struct err {
    char text[512]; /* what is wrong, where, and what to do; never a secret */
};

/* Writes the reason. Always returns -1, so that a caller can write `return err_set(...)`.
 * err may be NULL. */
int err_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prefixes the existing reason with "where: ". Returns -1. */
int err_in(struct err *err, const char *where);

#endif
