/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_memory.c - the bytes that the core has allocated. The linker binds its calls of
 * malloc() and others to these functions (--wrap). What libraries allocate for themselves
 * does not count.
 */
#include "tests/sim/core/core.h"
#include "tests/sim/host.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *__real_malloc(size_t size), *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size), *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size), *__wrap_realloc(void *p, size_t size);
void __real_free(void *p), __wrap_free(void *p);
int __real_vasprintf(char **text, const char *format, va_list args);
int __wrap_vasprintf(char **text, const char *format, va_list args);

static void *count(void *p)
{
    sim_entry.memory_bytes += (int64_t)malloc_usable_size(p);
    if (sim_entry.memory_bytes > sim_entry.memory_max_bytes)
        sim_entry.memory_max_bytes = sim_entry.memory_bytes;
    return p;
}

static void discount(void *p)
{
    sim_entry.memory_bytes -= (int64_t)malloc_usable_size(p);
}

void *__wrap_malloc(size_t size)
{
    return count(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return count(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
    discount(p);
    return count(__real_realloc(p, size));
}

void __wrap_free(void *p)
{
    discount(p);
    __real_free(p);
}

int __wrap_vasprintf(char **text, const char *format, va_list args)
{
    int n = __real_vasprintf(text, format, args);
    if (n >= 0)
        count(*text);
    return n;
}
