/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.c - the memory of a core (what it allocates itself, see core/core_memory.c):
 * never more than PEAK_BYTES, and at the end, without jobs, as much as soon after its
 * start.
 */
#include "tests/sim/world.h"

enum { SETTLED_S = 2, GROWTH_BYTES = 1000000, PEAK_BYTES = 32000000 };

/* The least that it had SETTLED_S after a source resumed, as at its start, unless one is
 * paused again: it may have no connections, which have large buffers. 0: not known. */
static int64_t settled_bytes[CORES_MAX];

static void settled(void *arg, int64_t life)
{
    const struct sim_core *core = arg;
    int64_t *least = &settled_bytes[core->index], now = core->entry->memory_bytes;
    bool runs = core->alive && core->life == (unsigned)life && !alive_is_paused(core);
    if (runs && (*least == 0 || now < *least))
        *least = now;
}

void memory_started(struct sim_core *core)
{
    settled_bytes[core->index] = 0;
}

void memory_resumed(struct sim_core *core)
{
    after(SETTLED_S * SECOND, settled, core, core->life);
}

void memory_judge(void)
{
    for (unsigned i = 0; i < world.plan.cores; i++) {
        int64_t grown = cores[i].entry->memory_bytes - settled_bytes[i];
        if (cores[i].alive && settled_bytes[i] > 0 && grown > GROWTH_BYTES)
            broken("memory: core%u has %lld bytes more than after its start", i,
                   (long long)grown);
        if (cores[i].entry->memory_max_bytes > PEAK_BYTES)
            broken("memory: core%u has had %lld bytes", i,
                   (long long)cores[i].entry->memory_max_bytes);
    }
}
