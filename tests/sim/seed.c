/* SPDX-License-Identifier: BSD-2-Clause */
/* seed.c - one seed: what its world is like, its configuration, and its life. */
#include "tests/sim/shorten.h"

#include "bridge/base/mem.h"

#include <stdlib.h>

const char conf_file[] =
    "sim.conf"; /* in the working folder: its name is in the stories */

static void choose_plan(struct words keep)
{
    struct plan *p = &world.plan;
    p->cores = (unsigned)between(1, CORES_MAX);
    p->servers = 1;
    p->faults_end_us = skewed(20, 1800) * SECOND;
    p->fault_every_us = one_in(10) ? NEVER : skewed(1, 100) * SECOND;
    p->record_every_us = skewed(10, 3000) * MS;
    p->far_ms = one_in(3) ? 7200000 : skewed(1000, 600000);
    p->fsync_always = one_in(2);
    p->by_key = one_in(4);
    p->buckets = !p->by_key && one_in(3) ? (unsigned)between(2, 4) : 1;
    p->consumers = one_in(2) ? (unsigned)between(1, 6) : 0;
    p->clock_jumps = one_in(6);
    p->sink_fails = !one_in(4);
    p->latency_max_us = one_in(8) ? 20 * MS : 300;
    p->batch_max = skewed(1, 200);
    p->horizon_ms = one_in(4) ? 0 : one_in(2) ? 120000 : between(1000, 20000);
    tell("plan: %u cores, faults until %lld s, one in %lld ms, a job in %lld ms, due "
         "within %lld s, fsync %s, order %s, "
         "horizon %lld ms, %u buckets, %u consumers%s%s",
         p->cores, (long long)(p->faults_end_us / SECOND),
         p->fault_every_us == NEVER ? -1 : (long long)(p->fault_every_us / MS),
         (long long)(p->record_every_us / MS), (long long)p->far_ms / 1000,
         p->fsync_always ? "always" : "everysec", p->by_key ? "key" : "none",
         (long long)p->horizon_ms, p->buckets, p->consumers,
         p->clock_jumps ? ", clock jumps" : "", p->sink_fails ? ", the sink fails" : "");
    plan_steps(p);
    tell("plan: %zu faults, %zu jobs", p->faults.n, p->jobs.n);
    plan_keep(p, keep.at, keep.n);
    p->faults_end_us = plan_end_us(p);
}

void seed_write_conf(void)
{
    const struct plan *p = &world.plan;
    /* Not as an argument: their order of evaluation is up to the compiler. */
    int64_t in_flight_max = between(20, 200);
    unsigned factor = (unsigned)between(1, 3);
    FILE *out = fopen(conf_file, "w");
    must(out != NULL);
    fprintf(out,
            "redis: { url = \"redis://127.0.0.1:6379\"; horizon = \"%lldms\"; };\n"
            "http: { listen = \"\"; }; admin: { listen = \"\"; };\n"
            "daemon: { log = \"info\"; batch_max = %lld; };\n"
            "sources: { log: { type = \"log\"; }; web: { type = \"web\"; }; };\n"
            "sinks: { out: { type = \"remote\"; max_in_flight = %lld; };\n"
            "         lines: { type = \"queue\"; lease = \"5s\"; }; };\n"
            "routes: {\n"
            "  line: { from = \"web\"; to = \"lines\"; match = \"q\"; };\n",
            (long long)p->horizon_ms, (long long)p->batch_max, (long long)in_flight_max);
    for (int i = 0; i < 2 - reconf.lacks_web; i++)
        fprintf(out,
                "  %s: { from = \"%s\"; to = \"out\"; retry: { first = \"1s\"; factor = "
                "%u.0; max = \"20s\"; };\n"
                "       order = \"%s\"; buckets = %u; };\n",
                i ? "web" : "log", i ? "web" : "log", factor, p->by_key ? "key" : "none",
                reconf.buckets[i]);
    fprintf(out, "};\n");
    must(fclose(out) == 0);
}

/* ---------------------------------------------------------------------- its life */

static void heal(void)
{
    tell("faults have ended");
    fault("the last one");
    world.healed = true;
    reconf_end();
    servers_heal();
    for (unsigned i = 0; i < world.plan.cores; i++)
        if (!cores[i].alive)
            core_start(&cores[i]);
}

void seed_simulate(uint64_t seed, struct words keep)
{
    static uint64_t stream;
    world.seed = seed;
    world.counts = keep.n == 0; /* not a shortened plan */
    stream = stream_new('p', 0);
    draw_from(&stream);
    choose_plan(keep);
    reconf_init();
    seed_write_conf();
    servers_init();
    reached_watch();
    jobs_init();
    alive_init();
    consumers_init();
    for (unsigned i = 0; i < world.plan.cores; i++)
        core_start(&cores[i]);
    after(SECOND, servers_sync, NULL, 0);
    faults_init();
    world_run(world.plan.faults_end_us, false);
    if (!world.failed)
        heal();
    if (!world.failed)
        world_run(jobs_latest_us(), true);
    int64_t quiet_us = world.now_us + SECOND;
    /* The last outcomes, leases and attempts; also jobs that may have been lost. */
    int64_t limit_us = jobs_latest_us();
    while (!world.failed && world.now_us < limit_us &&
           (world.now_us < quiet_us || !judge_is_quiet()))
        world_run(world.now_us + SECOND, false);
    if (!world.failed)
        jobs_judge();
    world.totals.simulated_us = world.now_us;
}
