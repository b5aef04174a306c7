/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * alive.c - liveness: CALM_S after the last fault no source stays paused for longer than
 * PAUSE_MAX_S, and no client sends its request for longer than that without success. If
 * only a script for consumers fails and queue_max_jobs is large, no source is paused.
 */
#include "tests/sim/world.h"

#include "bridge/plugin.h"

enum { CALM_S = 30, PAUSE_MAX_S = 10 };

static int64_t paused_us[CORES_MAX][SOURCES]; /* since when; 0: not */
static int64_t started_us[CORES_MAX];

static bool is_calm(int64_t since_us)
{
    int64_t least_us = world.now_us - PAUSE_MAX_S * SECOND;
    return since_us < least_us && faults_end_us() < least_us - CALM_S * SECOND;
}

static bool script_fails_for_consumers(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++)
        if (servers[i].pauses_nobody &&
            servers[i].script_failed_us + SECOND > world.now_us)
            return true;
    return false;
}

void alive_started(struct sim_core *core)
{
    for (int i = 0; i < SOURCES; i++)
        paused_us[core->index][i] = 0;
    started_us[core->index] = world.now_us;
    memory_started(core);
}

void alive_paused(struct sim_core *core, int source, bool paused)
{
    static const char *const names[] = {"log", "web"};
    tell("core%u: the source %s is %s", core->index, names[source],
         paused ? "paused" : "resumed");
    paused_us[core->index][source] = paused ? world.now_us : 0;
    if (paused && script_fails_for_consumers() &&
        world.plan.queue_max_jobs >= world.plan.jobs_max &&
        world.pausing_us + CALM_S * SECOND < world.now_us &&
        started_us[core->index] + CALM_S * SECOND < world.now_us)
        broken("core%u pauses a source, though only a script for consumers fails",
               core->index);
    if (!paused)
        memory_resumed(core);
}

bool alive_is_paused(const struct sim_core *core)
{
    for (int i = 0; i < SOURCES; i++)
        if (paused_us[core->index][i] > 0)
            return true;
    return false;
}

void alive_answered(int64_t first_asked_us, bool stored)
{
    if (!stored && is_calm(first_asked_us))
        broken("liveness: a request, first sent at %.3f, is not stored without a fault",
               (double)first_asked_us / 1e6);
}

static void look(void *arg, int64_t number)
{
    (void)arg, (void)number;
    for (unsigned i = 0; i < world.plan.cores; i++)
        for (int s = 0; s < SOURCES; s++)
            if (cores[i].alive && paused_us[i][s] > 0 && is_calm(paused_us[i][s]))
                broken(
                    "liveness: a source of core%u is paused since %.3f without a fault",
                    i, (double)paused_us[i][s] / 1e6);
    after(SECOND, look, NULL, 0);
}

void alive_init(void)
{
    after(SECOND, look, NULL, 0);
}
