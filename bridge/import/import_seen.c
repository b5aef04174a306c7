/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_seen.c - which jobs of the original were met before: a set of 64-bit hashes, for
 * counts alone, since two keys may share one. 16 bytes or less for each.
 */
#include "bridge/base/hash.h"
#include "bridge/base/mem.h"
#include "bridge/import/import_parts.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 1024 };

struct import_seen {
    uint64_t *slot; /* 0: free */
    size_t slots;   /* a power of two */
    size_t used;
};

struct import_seen *import_seen_new(void)
{
    struct import_seen *seen = mem_alloc(sizeof(*seen));
    seen->slots = FIRST_SLOTS;
    seen->slot = mem_alloc(seen->slots * sizeof(*seen->slot));
    return seen;
}

void import_seen_free(struct import_seen *seen)
{
    if (seen == NULL)
        return;
    free(seen->slot);
    free(seen);
}

/* FNV-1a, then mixed, so that its low bits are good for a table. */
static uint64_t hash(struct slice key)
{
    uint64_t h = hash_fnv1a(HASH_FNV1A, key);
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    return h ? h : 1;
}

/* Where h stands, or the free slot for it. */
static size_t place(const struct import_seen *seen, uint64_t h)
{
    size_t i = (size_t)h & (seen->slots - 1);
    while (seen->slot[i] != 0 && seen->slot[i] != h)
        i = (i + 1) & (seen->slots - 1);
    return i;
}

static void grow(struct import_seen *seen)
{
    struct import_seen old = *seen;
    seen->slots *= 2;
    seen->slot = mem_alloc(seen->slots * sizeof(*seen->slot));
    for (size_t i = 0; i < old.slots; i++)
        if (old.slot[i] != 0)
            seen->slot[place(seen, old.slot[i])] = old.slot[i];
    free(old.slot);
}

bool import_seen_add(struct import_seen *seen, struct slice key)
{
    uint64_t h = hash(key);
    size_t i = place(seen, h);
    if (seen->slot[i] == h)
        return false;
    seen->slot[i] = h;
    if (++seen->used > seen->slots / 2)
        grow(seen);
    return true;
}

bool import_seen_has(const struct import_seen *seen, struct slice key)
{
    uint64_t h = hash(key);
    return seen->slot[place(seen, h)] == h;
}
