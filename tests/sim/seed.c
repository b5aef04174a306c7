/* SPDX-License-Identifier: BSD-2-Clause */
/* seed.c - one seed: what its world is like, its configuration, and its life. */
#include "tests/sim/shorten.h"

#include "bridge/base/mem.h"

#include <stdlib.h>

const char conf_file[] =
    "sim.conf"; /* in the working folder: its name is in the stories */

enum { SHORT_SEEDS = 1000 };

/* Many jobs in few turns: large batches, bursts that are due together, few faults. */
static void choose_volume(struct plan *p)
{
    p->jobs_max = (unsigned)skewed(20000, world.seed < SHORT_SEEDS ? 50000 : 1000000);
    p->faults_end_us = between(60, 300) * SECOND;
    p->fault_every_us = one_in(10) ? NEVER : skewed(10, 100) * SECOND;
    p->burst_max = (unsigned)between(200, 5000);
    p->bursts = 1;
    p->record_every_us = p->faults_end_us / (2 * p->jobs_max / p->burst_max + 1);
    p->far_ms = between(1000, 20000);
    p->queued = p->messages = 200; /* they come a few at a time */
    p->queue_max_jobs = 20000;
    p->cancels = 1000; /* each ends a batch of enqueues */
    p->lab = 0;
    p->keys = KEYS_MAX;
    p->sink_fails = p->sink_fails ? 200 : 0;
    p->outcomes_every_us = between(10, 100) * MS;
    p->batch_max = between(200, 1000);
    p->latency_max_us = 300; /* a cancel waits for the jobs before it: round trips */
    p->in_flight_max = between(1000, 5000);
    p->read_max = (unsigned)between(100, GROUP_FETCH_MAX);
}

static const char *durability(void)
{
    static const char *const of_replicas[] = {"async", "replicas:1", "replicas:2",
                                              "replicas:3"};
    return world.plan.checks_fsync ? "fsync" : of_replicas[world.plan.wait_for];
}

/* A slot of far jobs must be moved in time though a move has failed or a clock was set,
 * also if nothing else happens that mentions the slot. */
static void choose_far(struct plan *p)
{
    p->only = world.seed / 8 % 2 ? ONLY_MOVES : ONLY_JUMPS;
    p->cores = one_in(2) ? 1 : p->cores;
    p->horizon_ms = p->only == ONLY_MOVES ? between(1000, 4000) : 120000;
    p->record_every_us = between(3, 10) * SECOND;
    p->far_ms = p->only == ONLY_MOVES ? between(20, 200) * 1000 : 7200000;
    p->fault_every_us = (p->only == ONLY_MOVES ? between(1, 10) : 200) * SECOND;
    p->faults_end_us = between(60, 1800) * SECOND;
    p->sink_fails = 0;
    p->clock_jumps = p->only == ONLY_JUMPS;
    p->by_key = false;
}

/* The least time between two jobs. */
static void at_most_every(struct plan *p, int64_t us)
{
    p->record_every_us = p->record_every_us < us ? us : p->record_every_us;
}

/* The buckets of a route are on different nodes. */
static void choose_cluster(struct plan *p)
{
    p->replicas = p->wait_for = p->lab = 0;
    p->masters = (unsigned)between(2, 3);
    p->servers = p->masters + (unsigned)between(0, 1);
    if (!p->by_key)
        p->buckets = (unsigned)between(1, 6);
}

/* An instance that had stalled continues while another delivers the same job. */
static void choose_slow(struct plan *p)
{
    p->slow_us = 8 * SECOND;
    p->sink_fails = 2;
    at_most_every(p, SECOND);
    p->by_key = false;
    p->lab = 0;
}

/* A batch is stored in up to 250 ms, and each cancel ends a batch. */
static void choose_wait(struct plan *p)
{
    at_most_every(p, 200 * MS);
    p->cancels = 4;
    p->batch_max = p->batch_max < 20 ? 20 : p->batch_max;
}

/* No failover may lose a job. */
static void choose_replicas(struct plan *p)
{
    p->replicas = (unsigned)between(1, REDIS_REPLICAS_MAX);
    p->wait_for = (unsigned)between(1, p->replicas);
    p->checks_fsync = false;
    choose_wait(p);
}

/* Queues, rates, runs and dead letters. */
static void choose_lab(struct plan *p)
{
    p->lab = 1;
}

/* Several readers, rewinds, and small batches, of which several are in flight. */
static void choose_kafka(struct plan *p)
{
    p->cores = (unsigned)between(2, CORES_MAX);
    p->rewinds = true;
    p->wait_for = p->lab = 0;
    if (p->latency_max_us <= 300)
        p->batch_max = skewed(1, 20);
}

/* Consumers pull the records of the log, instead of few requests. */
static void choose_queue(struct plan *p)
{
    p->log_is_queued = true;
    p->consumers = (unsigned)between(2, CONSUMERS_MAX);
    at_most_every(p, 100 * MS);
    p->lab = 0;
}

/* A script that fails for consumers must not pause a source. */
static void choose_scripts(struct plan *p)
{
    p->only = ONLY_SCRIPTS;
    p->queue_max_jobs = 20000;
    p->fault_every_us = between(20, 60) * SECOND;
    p->faults_end_us = between(300, 1800) * SECOND;
    at_most_every(p, 300 * MS);
}

/* The number of buckets changes, while cores and Redis crash. */
static void choose_buckets(struct plan *p)
{
    p->left_out = ~faults_of_buckets();
    p->fault_every_us = skewed(1, 10) * SECOND;
    at_most_every(p, SECOND); /* a change needs a route without jobs */
    p->far_ms = skewed(1000, 20000);
    p->by_key = false;
    p->lab = 0;
}

/* The other seeds are of no kind. */
static const struct kind {
    const char *name;
    unsigned share, rest; /* seeds with this rest; no seed is of two kinds */
    void (*choose)(struct plan *p);
} kinds[] = {
    {"volume", 32, 7, choose_volume},    {"far", 8, 3, choose_far},
    {"cluster", 4, 2, choose_cluster},   {"slow", 8, 5, choose_slow},
    {"replicas", 8, 4, choose_replicas}, {"lab", 16, 1, choose_lab},
    {"kafka", 16, 8, choose_kafka},      {"buckets", 32, 15, choose_buckets},
    {"queue", 16, 9, choose_queue},      {"scripts", 32, 23, choose_scripts},
};

bool seed_is(const char *kind, uint64_t seed)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, kind) == 0)
            return seed % kinds[i].share == kinds[i].rest;
    fprintf(stderr, "SIM_PLANS=%s: no such kind of seeds (seed.c)\n", kind);
    exit(64);
}

static void choose_plan(struct words keep)
{
    static const char *const only[] = {"", ", only moves fail", ", only clocks are set",
                                       ", only scripts fail"};
    struct plan *p = &world.plan;
    p->cores = (unsigned)between(1, CORES_MAX);
    p->servers = 1;
    p->faults_end_us = skewed(20, 1800) * SECOND;
    p->fault_every_us = one_in(10) ? NEVER : skewed(1, 100) * SECOND;
    p->record_every_us = skewed(10, 3000) * MS;
    p->far_ms = one_in(6) ? 7200000 : skewed(1000, 600000);
    p->fsync_always = one_in(2);
    p->by_key = one_in(4);
    p->buckets = !p->by_key && one_in(3) ? (unsigned)between(2, 4) : 1;
    p->consumers = one_in(2) ? (unsigned)between(1, CONSUMERS_MAX) : 0;
    p->replicas = one_in(2) ? (unsigned)between(1, REDIS_REPLICAS_MAX) : 0;
    p->wait_for = p->replicas && one_in(2) ? (unsigned)between(1, p->replicas) : 0;
    p->checks_fsync = p->fsync_always && p->wait_for == 0 && one_in(2);
    p->clock_jumps = one_in(p->replicas ? 3 : 6);
    p->sink_fails = one_in(4) ? 0 : 8;
    p->latency_max_us = one_in(8) ? 20 * MS : 300;
    if (p->latency_max_us > MS)
        at_most_every(p, 100 * MS); /* a claim takes long */
    /* One job in a batch is too slow for a slow network. */
    p->batch_max = skewed(p->latency_max_us > 300 ? 100 : 1, 200);
    p->cancels = 16;
    if (p->wait_for)
        choose_wait(p);
    p->latest = one_in(4);
    p->static_members = one_in(3);
    p->rewinds = one_in(4);
    p->sessions = one_in(2);
    p->horizon_ms = one_in(4) ? 0 : one_in(2) ? 120000 : between(1000, 20000);
    p->lab = one_in(3) ? (unsigned)between(1, 3) : 0;
    p->global_ids = one_in(2);
    p->jobs_max = 4000;
    p->bursts = 20;
    p->burst_max = 60;
    p->queued = p->messages = 2;
    p->keys = 6;
    p->outcomes_every_us = 1;
    p->in_flight_max = 200;
    p->read_max = 20;
    p->queue_max_jobs = one_in(2) ? 20000 : skewed(20, 2000);
    p->left_out = one_in(2) ? 0 : (uint64_t)between(0, INT64_MAX);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (world.seed % kinds[i].share == kinds[i].rest)
            kinds[i].choose(p);
    tell("plan: %u cores, faults until %lld s, one in %lld ms, a job in %lld ms, due "
         "within %lld s, fsync %s, %u replicas, durability %s, order %s, "
         "horizon %lld ms, %u buckets, %u consumers, %u servers, %u masters%s%s%s%s",
         p->cores, (long long)(p->faults_end_us / SECOND),
         p->fault_every_us == NEVER ? -1 : (long long)(p->fault_every_us / MS),
         (long long)(p->record_every_us / MS), (long long)p->far_ms / 1000,
         p->fsync_always ? "always" : "everysec", p->replicas, durability(),
         p->by_key ? "key" : "none", (long long)p->horizon_ms, p->buckets, p->consumers,
         p->servers, p->masters, p->latest ? ", start latest" : "",
         p->clock_jumps ? ", clock jumps" : "",
         p->slow_us      ? ", the sink fails and is slow"
         : p->sink_fails ? ", the sink fails"
                         : "",
         only[p->only]);
    plan_steps(p);
    tell("plan: %zu faults%s, %zu jobs", p->faults.n, p->left_out ? " of some kinds" : "",
         p->jobs.n);
    plan_keep(p, keep.at, keep.n);
    p->faults_end_us = plan_end_us(p);
}

void seed_write_conf(void)
{
    const struct plan *p = &world.plan;
    /* Not as an argument: their order of evaluation is up to the compiler. */
    int64_t in_flight_max = between(p->in_flight_max / 10, p->in_flight_max);
    unsigned factor = (unsigned)between(1, 3);
    FILE *out = fopen(conf_file, "w");
    must(out != NULL);
    fprintf(
        out,
        "redis: { url = \"%s\"; horizon = \"%lldms\"; durability = \"%s\"; };\n"
        "http: { listen = \"\"; }; admin: { listen = \"\"; };\n"
        "daemon: { log = \"info\"; batch_max = %lld; queue_max_jobs = %lld; };\n"
        "sources: { log: { type = \"kafka\"; brokers = \"broker:9092\"; topics = [ "
        "\"t\" ]; start = \"%s\"; };\n"
        "           session: { type = \"session\"; }; web: { type = \"web\"; };%s };\n"
        "sinks: { out: { type = \"remote\"; max_in_flight = %lld; };\n"
        "         lines: { type = \"queue\"; lease = \"5s\"; };\n",
        p->masters ? "redis+cluster://127.0.0.1:6379,127.0.0.1:6380"
                   : "redis://127.0.0.1:6379",
        (long long)p->horizon_ms, durability(), (long long)p->batch_max,
        (long long)p->queue_max_jobs, p->latest ? "latest" : "earliest",
        p->lab ? " lab: { type = \"lab\"; };" : "", (long long)in_flight_max);
    lab_write_conf(out, false);
    fprintf(out, "};\nroutes: {\n"
                 "  line: { from = \"web\"; to = \"lines\"; match = \"q\"; };\n");
    if (p->log_is_queued) /* before the route log */
        fprintf(out, "  rows: { from = \"log\"; to = \"lines\"; match = \"t\"; topic = "
                     "\"q\"; };\n");
    lab_write_conf(out, true);
    for (int i = 0; i < 2 - reconf.lacks_web; i++)
        fprintf(out,
                "  %s: { from = [ %s ]; to = \"out\"; retry: { first = \"1s\"; factor = "
                "%u.0; max = \"20s\"; };\n"
                "       order = \"%s\"; buckets = %u; };\n",
                i ? "web" : "log", i ? "\"web\"" : "\"log\", \"session\"", factor,
                p->by_key ? "key" : "none", reconf.buckets[i]);
    fprintf(out, "};\n");
    must(fclose(out) == 0);
}

/* ---------------------------------------------------------------------- its life */

static void heal(void)
{
    tell("faults have ended");
    world.healed = true;
    fault("the last one");
    reconf_end();
    servers_heal();
    cluster_heal();
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
    lab_init();
    seed_write_conf();
    servers_init();
    cluster_init();
    reached_watch();
    jobs_init();
    alive_init();
    consumers_init();
    judge_audits();
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
