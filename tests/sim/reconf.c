/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reconf.c - configurations that change what a running route is: another number of
 * buckets, which tarry must refuse while the route has jobs; and no route at all for a
 * while, whose jobs must wait.
 */
#include "tests/sim/world.h"

#include <signal.h>
#include <stdlib.h>

#define RESTORED_US (30 * SECOND)
#define REFUSED "level=error who=reload"
#define ACCEPTED "level=info who=reload"
#define STARTED "msg=\"started: "
enum { BUCKETS_MAX = 4 };

struct reconf reconf;
static const char *const routes[ROUTES_MAX] = {"log", "web"};
static unsigned in_redis[ROUTES_MAX]; /* buckets in PREFIX:meta; 0: not yet */

static long long number_of(struct buf *reply)
{
    const char *digits = strchr(buf_str(reply), reply->p[0] == '$' ? '\n' : ':');
    long long n = digits ? strtoll(digits + 1, NULL, 10) : 0;
    buf_free(reply);
    return n;
}

static long long ask(const char *command, const char *key, const char *field)
{
    struct buf reply = {0};
    redis_model_command(
        server_of(slice_of(key))->redis,
        (const struct slice[]){slice_of(command), slice_of(key), slice_of(field)},
        *field ? 3 : 2, &reply);
    return number_of(&reply);
}

static long long jobs_of(const char *route, unsigned buckets)
{
    long long n = 0;
    for (unsigned i = 0; i < buckets; i++) {
        char key[64];
        snprintf(key, sizeof(key), "tarry:{%s/%u}:pool", route, i);
        n += ask("HLEN", key, "");
        snprintf(key, sizeof(key), "tarry:{%s/%u}:slots", route, i);
        n += ask("HGET", key, "#");
    }
    return n;
}

static int64_t restored_us; /* the configuration is the right one, at the latest */

static void write_right(void)
{
    restored_us = restored_us > world.now_us ? restored_us : world.now_us;
    for (int i = 0; i < ROUTES_MAX; i++)
        reconf.buckets[i] = in_redis[i] ? in_redis[i] : world.plan.buckets;
    reconf.lacks_web = false;
    seed_write_conf();
}

static void reload_all(void)
{
    for (unsigned i = 0; i < world.plan.cores; i++)
        core_signal(&cores[i], SIGHUP);
}

static void restore(void *arg, int64_t number)
{
    (void)arg;
    write_right();
    tell("the configuration is the right one again");
    if (number)
        reload_all();
}

/* The number changes only while the route has no jobs. */
void reconf_meta(bool crashed)
{
    for (int i = 0; i < ROUTES_MAX; i++) {
        char field[32];
        snprintf(field, sizeof(field), "route:%s", routes[i]);
        unsigned now = (unsigned)ask("HGET", "tarry:meta", field), was = in_redis[i];
        in_redis[i] = now;
        if (now == was || was == 0 || crashed)
            continue;
        long long jobs = jobs_of(routes[i], was);
        tell("the route %s has %u buckets now; it had %u", routes[i], now, was);
        if (i == 0)
            log_rebucketed();
        if (jobs > 0)
            broken("the buckets of the route %s change from %u to %u, with %lld jobs",
                   routes[i], was, now, jobs);
        if (now != reconf.buckets[i]) { /* a core accepts it that started before */
            restored_us = world.now_us + SECOND;
            after(SECOND, restore, NULL, 1);
        }
    }
}

bool reconf_has_buckets(void)
{
    return !world.plan.by_key;
}

int64_t reconf_us(void)
{
    return restored_us;
}

void reconf_end(void)
{
    write_right();
    reload_all();
}

/* Writes another number of buckets for a while. A restart meanwhile reads it too. */
static void write_other_buckets(const struct sim_core *core, const char *how)
{
    int route = (int)between(0, ROUTES_MAX - 1);
    unsigned n = (unsigned)between(1, BUCKETS_MAX);
    reconf.buckets[route] = n;
    reconf.buckets_max = n > reconf.buckets_max ? n : reconf.buckets_max;
    reconf.has_changed = true;
    restored_us = world.now_us + RESTORED_US;
    tell("core%u %s with %u buckets of the route %s", core->index, how, n, routes[route]);
    seed_write_conf();
    after(skewed(SECOND, RESTORED_US), restore, NULL, 0);
}

void reconf_started(struct sim_core *core)
{
    core->log_buckets = reconf.buckets[0];
    core->has_started = core->reloads = false;
}

static bool has(struct slice line, const char *text)
{
    return memmem(line.p, line.n, text, strlen(text)) != NULL;
}

void reconf_line(struct sim_core *core, struct slice line)
{
    bool is_refused = has(line, REFUSED);
    if (is_refused)
        core->refused_us = world.now_us;
    if (is_refused || has(line, ACCEPTED))
        core->reloads = false;
    if (has(line, STARTED))
        core->has_started = true;
}

static void check_refused(void *arg, int64_t asked_us)
{
    struct sim_core *core = arg;
    bool is_other = core->log_buckets != reconf.buckets[0]; /* still */
    if (core->alive && is_other && core_is_calm_since(core, asked_us) &&
        core->refused_us < asked_us)
        broken("core%u reloads another number of buckets, and does not refuse it",
               core->index);
}

void reconf_other_buckets(struct sim_core *core)
{
    bool is_ready = core->has_started && !core->reloads;
    write_other_buckets(core, "reloads");
    core_signal(core, SIGHUP);
    if (is_ready && core->log_buckets != reconf.buckets[0])
        after(100 * MS, check_refused, core, world.now_us);
}

/* The other cores stall until their number of buckets may change, and then store what
 * they have received meanwhile. */
void reconf_unnoticed_buckets(struct sim_core *core)
{
    int64_t until_us = world.now_us + between(6, 20) * SECOND;
    for (unsigned i = 0; i < world.plan.cores; i++) {
        if (&cores[i] == core)
            continue;
        fault_of(&cores[i], until_us, "core%u stalls", i);
        core_stall(&cores[i], until_us);
        group_stalled(&cores[i]);
    }
    core_kill(core, "SIGKILL");
    write_other_buckets(core, "restarts");
    core_start(core);
}

void reconf_less_routes(struct sim_core *core)
{
    reconf.lacks_web = true;
    restored_us = world.now_us + RESTORED_US;
    tell("core%u reloads without the route web", core->index);
    seed_write_conf();
    core_signal(core, SIGHUP);
    after(skewed(SECOND, RESTORED_US), restore, NULL, 1);
}

bool reconf_refused(struct sim_core *core)
{
    (void)core;
    if (!reconf.has_changed)
        return false;
    write_right();
    return true;
}

void reconf_init(void)
{
    for (int i = 0; i < ROUTES_MAX; i++)
        reconf.buckets[i] = world.plan.buckets;
    reconf.buckets_max = world.plan.buckets;
}
