/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.h - memory that is never NULL, must() for what the program itself got wrong, and
 * struct err for what the world did. Any thread.
 *
 * Out of memory aborts; a size that comes from outside is checked against a limit before
 * it gets here. What mem_alloc and friends return is freed with free().
 */
#ifndef BRIDGE_MEM_H
#define BRIDGE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size); /* zeroed */
void *mem_realloc(void *p, size_t size);
char *mem_strdup(const char *s); /* NULL of NULL */
char *mem_strndup(const char *s, size_t n);

/* Always compiled in: prints the condition and aborts. */
#define must(cond) ((cond) ? (void)0 : must_failed(#cond, __FILE__, __LINE__))
_Noreturn void must_failed(const char *cond, const char *file, int line);

/* The reason of a failure, for the person who runs the daemon. */
struct err {
    char text[512]; /* what is wrong, where, and what to do; never a secret */
};

/* Writes the reason and returns -1, so that failing is one line. err may be NULL. */
int err_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "where: " in front of the reason already there; returns -1. */
int err_in(struct err *err, const char *where);

#endif
