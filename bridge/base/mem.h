/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem.h - memory that is never NULL, and must() for what the program itself got wrong.
 *
 * Out of memory aborts; a size that comes from outside is checked against a limit before
 * it gets here. What mem_alloc and friends give is freed with free(). Any thread.
 */
#ifndef BRIDGE_MEM_H
#define BRIDGE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size); /* zeroed */
void *mem_realloc(void *p, size_t size);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);

/* Always compiled in: prints the condition and aborts. */
#define must(cond) ((cond) ? (void)0 : must_failed(#cond, __FILE__, __LINE__))
_Noreturn void must_failed(const char *cond, const char *file, int line);

#endif
