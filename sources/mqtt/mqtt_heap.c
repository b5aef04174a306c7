/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_heap.c - replaces paho's Heap.c and StackTrace.c by plain malloc() and nothing.
 *
 * The packaged library enters every allocation in a tree and every call in a trace, under
 * one lock for all threads, to find its own leaks. That is two fifths of the cost of a
 * message. paho's build option PAHO_HIGH_PERFORMANCE leaves it out; these functions have
 * the same effect, since paho is linked in (Makefile). If a later paho needs a further
 * function of these files, the linker reports duplicate symbols.
 */
#include <stdlib.h>

void *mymalloc(char *file, int line, size_t size);
void *myrealloc(char *file, int line, void *p, size_t size);
void myfree(char *file, int line, void *p);
int Heap_initialize(void);
void Heap_terminate(void);
void StackTrace_entry(const char *name, int line, int trace_level);
void StackTrace_exit(const char *name, int line, void *result, int trace_level);

void *mymalloc(char *file, int line, size_t size)
{
    (void)file;
    (void)line;
    return malloc(size);
}

void *myrealloc(char *file, int line, void *p, size_t size)
{
    (void)file;
    (void)line;
    return realloc(p, size);
}

void myfree(char *file, int line, void *p)
{
    (void)file;
    (void)line;
    free(p);
}

int Heap_initialize(void)
{
    return 0;
}

void Heap_terminate(void)
{
}

void StackTrace_entry(const char *name, int line, int trace_level)
{
    (void)name;
    (void)line;
    (void)trace_level;
}

void StackTrace_exit(const char *name, int line, void *result, int trace_level)
{
    (void)name;
    (void)line;
    (void)result;
    (void)trace_level;
}
