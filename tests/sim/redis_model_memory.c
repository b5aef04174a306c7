/* SPDX-License-Identifier: BSD-2-Clause */
/* redis_model_memory.c - small blocks in lists by size. They are never returned to the
 * system, and never merged. */
#include "tests/sim/redis_model_internal.h"

#include <stdlib.h>

enum { UNIT_BYTES = 16, UNITS_MAX = 32, CHUNK_BYTES = 1 << 18 };

static struct free_block {
    struct free_block *next;
} * lists[UNITS_MAX + 1];
static char *chunk;
static size_t chunk_left;

static size_t units_of(size_t n)
{
    return (n + UNIT_BYTES - 1) / UNIT_BYTES;
}

void *block_new(size_t n)
{
    size_t units = units_of(n), bytes = units * UNIT_BYTES;
    if (units > UNITS_MAX)
        return mem_realloc(NULL, n);
    struct free_block *block = lists[units];
    if (block) {
        lists[units] = block->next;
        return block;
    }
    if (chunk_left < bytes) {
        chunk = mem_realloc(NULL, CHUNK_BYTES);
        chunk_left = CHUNK_BYTES;
    }
    chunk_left -= bytes;
    return chunk + chunk_left;
}

void block_free(void *p, size_t n)
{
    size_t units = units_of(n);
    struct free_block *block = p;
    if (units > UNITS_MAX) {
        free(p);
    } else if (units > 0) {
        block->next = lists[units];
        lists[units] = block;
    }
}

void *block_resize(void *p, size_t old, size_t n)
{
    if (units_of(old) > UNITS_MAX && units_of(n) > UNITS_MAX)
        return mem_realloc(p, n);
    if (p && units_of(old) == units_of(n))
        return p;
    void *to = n > 0 ? block_new(n) : NULL;
    if (p && to)
        memcpy(to, p, old < n ? old : n);
    if (p)
        block_free(p, old);
    return to;
}
