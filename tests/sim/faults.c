/* SPDX-License-Identifier: BSD-2-Clause */
/* faults.c - what may happen to the cores, the network and Redis. */
#include "tests/sim/world.h"

#include "bridge/store/calls.h"

#include <signal.h>

static void start_core(void *arg, int64_t life)
{
    struct sim_core *core = arg;
    if (!core->alive && core->life == (unsigned)life)
        core_start(core);
}

void core_ended(struct sim_core *core, int code)
{
    tell("core%u ends with %d", core->index, code);
    if (code == 78 && reconf_refused(core))
        tell("core%u refuses the configuration", core->index);
    else if (code != 0 && code != 70)
        broken("core%u ends by itself with %d", core->index, code);
    after(skewed(100 * MS, 20 * SECOND), start_core, core, core->life);
}

/* ------------------------------------------------------------------------- cores */

static void kill_core(struct sim_core *core)
{
    core_kill(core, "SIGKILL");
    after(skewed(100 * MS, 40 * SECOND), start_core, core, core->life);
}

static void stop(struct sim_core *core)
{
    fault_of(core, world.now_us, "core%u is asked to stop", core->index);
    core_signal(core, SIGTERM);
}

static void stall(struct sim_core *core)
{
    int64_t until_us = world.now_us + skewed(10 * MS, 40 * SECOND);
    fault_of(core, until_us, "core%u stalls", core->index);
    core_stall(core, until_us);
    group_stalled(core);
}

/* Other numbers in flight, and other retries. Is no fault: it must cause no duplicate. */
static void reload(struct sim_core *core)
{
    tell("core%u reloads a changed configuration", core->index);
    seed_write_conf();
    core_signal(core, SIGHUP);
}

/* ------------------------------------------------------------------- the network */

static void cut(struct sim_core *core)
{
    conns_cut(core, false);
}

static void cut_quietly(struct sim_core *core)
{
    conns_cut(core, true);
}

static void slow(struct sim_core *core)
{
    conns_slow(core, world.now_us + skewed(MS, 12 * SECOND));
}

static void block(struct sim_core *core)
{
    struct server *s = any_server();
    conns_block(core, s, world.now_us + skewed(10 * MS, 20 * SECOND));
}

/* ------------------------------------------------------------------------- Redis */

static void start_server(void *arg, int64_t number)
{
    (void)number;
    server_start(arg);
}

static void crash(struct sim_core *core)
{
    (void)core;
    struct server *s = any_server();
    if (s->down)
        return;
    server_crash(s, world.plan.fsync_always ? 0 : (size_t)skewed(0, 100));
    after(skewed(10 * MS, 30 * SECOND), start_server, s, 0);
}

static void end_faults_of_server(void *arg, int64_t number)
{
    const struct server *s = arg;
    (void)number;
    fault("Redis %u recovers", s->index);
    *redis_model_faults(s->redis) = (struct redis_faults){0};
}

/* A state of Redis, for a time. */
static void begin_state(size_t state, const char *what)
{
    struct server *s = any_server();
    fault("Redis %u %s", s->index, what);
    *(bool *)((char *)redis_model_faults(s->redis) + state) = true;
    after(skewed(10 * MS, 20 * SECOND), end_faults_of_server, s, 0);
}

static void oom(struct sim_core *core)
{
    (void)core;
    begin_state(offsetof(struct redis_faults, oom), "is out of memory");
}

static void readonly(struct sim_core *core)
{
    (void)core;
    begin_state(offsetof(struct redis_faults, readonly), "is a replica");
}

static void misconf(struct sim_core *core)
{
    (void)core;
    begin_state(offsetof(struct redis_faults, misconf), "cannot save");
}

static void busy(struct sim_core *core)
{
    (void)core;
    begin_state(offsetof(struct redis_faults, busy), "is busy");
}

static void loading(struct sim_core *core)
{
    (void)core;
    begin_state(offsetof(struct redis_faults, loading), "is loading");
}

static const char *const script_errors[] = {
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
    "NOSAVE.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to "
    "persist to disk.",
    "READONLY You can't write against a read only replica."};

static void fail_calls(struct server *s, int script, const char *error, unsigned calls)
{
    struct redis_faults *faults = redis_model_faults(s->redis);
    s->fails_move = s->pauses_nobody = false;
    faults->script_sha = reached_sha(script);
    faults->script_error = error;
    faults->script_fails = calls;
    faults->script_fails_half = false;
    tell("the next %u calls of %s fail: %.4s", calls, reached_script(script), error);
}

/* One script of one server, for all cores; the others work. */
static void fail_script(struct sim_core *core)
{
    struct server *s = any_server();
    (void)core;
    int script = one_in(3) ? SCRIPT_ENQUEUE : (int)between(0, SCRIPTS - 1);
    const char *error = script_errors[between(0, 3)];
    int64_t pausing_us = world.pausing_us;
    fault("Redis fails the next calls of a script");
    fail_calls(s, script, error, (unsigned)skewed(1, 30));
    redis_model_faults(s->redis)->script_fails_half = one_in(2);
    s->pauses_nobody = script != SCRIPT_ENQUEUE && script != SCRIPT_CANCEL &&
                       strncmp(error, "OOM", 3) == 0;
    if (s->pauses_nobody)
        world.pausing_us = pausing_us;
}

/* Some moves of far jobs fail. tarry repeats them at once, so this excuses nothing,
 * except that jobs are late in the next seconds (calm.c). */
static void fail_moves(struct sim_core *core)
{
    struct server *s = any_server();
    (void)core;
    if (redis_model_faults(s->redis)->script_fails > 0 && !s->fails_move)
        return;
    const char *error = script_errors[between(0, 2)];
    reached("fault the next moves of far jobs fail");
    fail_calls(s, SCRIPT_MOVE, error, (unsigned)between(1, 6));
    s->fails_move = true;
}

static void flush_scripts(struct sim_core *core)
{
    (void)core;
    struct server *s = any_server();
    fault("Redis %u forgets the scripts", s->index);
    redis_model_flush_scripts(s->redis);
}

static bool clock_jumps(void)
{
    return world.plan.clock_jumps;
}

static void jump(struct sim_core *core)
{
    struct server *s = any_server();
    int64_t by_us = one_in(2) ? skewed(MS, 3 * SECOND) : -skewed(MS, 3 * SECOND);
    (void)core;
    fault("the clock of Redis %u is set", s->index);
    if (world.plan.only == ONLY_JUMPS || one_in(4))
        server_choose_clock(s);
    else
        server_set_clock(s, by_us);
}

static bool has_far_jobs(void)
{
    return world.plan.horizon_ms > 0;
}

static bool has_replicas(void)
{
    return world.plan.replicas > 0;
}

static void halt_replica(struct sim_core *core)
{
    (void)core;
    replica_halts();
}

static void lose_replica(struct sim_core *core)
{
    (void)core;
    replica_leaves();
}

static void promote(struct sim_core *core)
{
    (void)core;
    fail_over();
}

static bool is_cluster(void)
{
    return world.plan.masters > 0;
}

/* ------------------------------------------------------------------------- table */

/* To add a fault is to add a row. begin: calls fault() when it begins and, if it lasts,
 * when it ends. applies: NULL: in each world. */
static const struct kind {
    unsigned weight;
    void (*begin)(struct sim_core *core);
    bool (*applies)(void);
} kinds[] = {
    {8, kill_core, NULL},
    {4, stop, NULL},
    {4, cut, NULL},
    {4, cut_quietly, NULL},
    {3, block, NULL},
    {4, slow, NULL},
    {4, stall, NULL},
    {4, reload, NULL},
    {3, crash, NULL},
    {1, oom, NULL},
    {1, readonly, NULL},
    {1, misconf, NULL},
    {1, busy, NULL},
    {1, loading, NULL},
    {1, flush_scripts, NULL},
    {4, jump, clock_jumps},
    {2, log_truncate, log_is_made},
    {1, log_grow, log_is_made},
    {2, log_delete, log_is_made},
    {3, group_drop, NULL},
    {2, group_rewind, group_may_rewind},
    {3, session_cut, session_exists},
    {2, session_take_over, session_exists},
    {1, session_lose, session_exists},
    {4, fail_script, NULL},
    {1, fail_moves, has_far_jobs},
    {4, halt_replica, has_replicas},
    {2, lose_replica, has_replicas},
    {6, promote, has_replicas},
    {16, cluster_move_slot, is_cluster},
    {3, cluster_fail_over, is_cluster},
    {3, cluster_isolate, is_cluster},
    {2, reconf_less_routes, NULL},
    {4, reconf_other_buckets, reconf_has_buckets},
    {1, reconf_unnoticed_buckets, reconf_has_buckets},
};

/* Half of the seeds have only some kinds, which then meet more often: "swarm testing"
 * (Groce and others, 2012). */
static bool is_left_out(const struct kind *kind)
{
    return kind > kinds && (world.plan.left_out >> (kind - kinds) & 1);
}

uint64_t faults_of_buckets(void)
{
    static void (*const of_buckets[])(struct sim_core *) = {
        kill_core, stop, stall, crash, reconf_other_buckets, reconf_unnoticed_buckets,
        promote};
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        for (size_t k = 0; k < sizeof(of_buckets) / sizeof(of_buckets[0]); k++)
            bits |= (uint64_t)(kinds[i].begin == of_buckets[k]) << i;
    return bits;
}

static bool applies(const struct kind *kind)
{
    static void (*const only[])(struct sim_core *) = {
        [ONLY_MOVES] = fail_moves, [ONLY_JUMPS] = jump, [ONLY_SCRIPTS] = fail_script};
    if (world.plan.only != ALL_FAULTS)
        return kind->begin == only[world.plan.only];
    return !is_left_out(kind) && (kind->applies == NULL || kind->applies());
}

static const struct kind *choose(void)
{
    const size_t n = sizeof(kinds) / sizeof(kinds[0]);
    unsigned weights = 0;
    for (size_t i = 0; i < n; i++)
        if (applies(&kinds[i]))
            weights += kinds[i].weight;
    unsigned left = (unsigned)between(0, weights - 1);
    const struct kind *kind = kinds;
    for (;; kind++) {
        if (!applies(kind))
            continue;
        if (left < kind->weight)
            return kind;
        left -= kind->weight;
    }
}

static void hurt(void *arg, int64_t number)
{
    struct step *step = arg;
    draw_from(&step->stream);
    struct sim_core *core = &cores[between(0, world.plan.cores - 1)];
    tell("f%lld begins", (long long)number);
    world.plan.faults.begun = step->number + 1;
    choose()->begin(core);
}

void faults_init(void)
{
    for (size_t i = 0; i < world.plan.faults.n; i++)
        if (world.plan.faults.at[i].kept)
            at(world.plan.faults.at[i].us, hurt, &world.plan.faults.at[i], (int64_t)i);
}
