/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lab_paced.c - a route with a rate, of its own or of each target: in no time t more than
 * rate x t + burst deliveries begin, and no job waits longer than the rate explains.
 */
#include "tests/sim/lab.h"

#include "bridge/base/mem.h"
#include "bridge/plugin.h"

#include <glib.h>

enum { TARGETS = 3, BACKLOG_S = 10, BURST_MAX = 8 };

struct paced {
    int64_t number;
    unsigned target;
    char due[24];
    int64_t due_ms, asked_us, accepted_us; /* asked_us: first */
    bool left, vague;                      /* vague: a crash may have lost it */
};

static struct {
    double per_s;
    unsigned burst;
    bool of_target, shared;
    int64_t step_us;
} rule;
static GPtrArray *jobs;
static GHashTable *by_number;
static unsigned
    backlog[TARGETS]; /* jobs that are due and have not left; also failed ones */

/* Until when the rate is used up, per core and target. */
static struct {
    unsigned life;
    double used_us;
} used[CORES_MAX + 1][TARGETS];

static const char *const topics[TARGETS] = {"paced/a", "paced/b", "paced/c"};

static void init(void)
{
    static uint64_t stream;
    stream = stream_new('r', 0);
    uint64_t *before = draw_from(&stream);
    rule.per_s = one_in(2) ? (double)between(2, 10) : (double)between(10, 100);
    rule.burst = (unsigned)between(1, BURST_MAX);
    /* Clocks that are set concern mostly the places that are promised in Redis. */
    unsigned others = world.plan.clock_jumps ? 4 : 2;
    rule.of_target = !one_in(others);
    rule.shared = !one_in(others);
    rule.step_us = (int64_t)(1e6 / rule.per_s);
    draw_from(before);
    jobs = g_ptr_array_new();
    by_number = g_hash_table_new(NULL, NULL);
    tell("lab: %.0f deliveries per second and %u at once, %s, %s", rule.per_s, rule.burst,
         rule.of_target ? "to each target" : "of the route",
         rule.shared ? "of all cores" : "of each core");
}

static void write_conf(FILE *out, bool routes)
{
    const char *prefix = rule.of_target ? "target_" : "";
    if (routes)
        fprintf(out,
                "  paced: { from = \"lab\"; to = \"paced\"; match = \"paced/#\"; topic = "
                "\"{topic}\";\n"
                "    %srate = %.1f; %sburst = %u; shared = %s; retry: { first = \"1s\"; "
                "factor = 1.0; max = \"1s\"; }; };\n",
                prefix, rule.per_s, prefix, rule.burst, rule.shared ? "true" : "false");
    else
        fprintf(out, "  paced: { type = \"lab\"; };\n");
}

/* ----------------------------------------------------------------------- producing */

static void on_stored(struct lab_call *call, const struct lab_answer *answer)
{
    struct paced *job = call->of;
    if (answer == NULL || answer->code == NOT_STORED) {
        lab_send_later(call, skewed(10 * MS, 5 * SECOND));
        return;
    }
    job->accepted_us = world.now_us;
}

static int64_t wait_us(unsigned target)
{
    return (int64_t)(backlog[target] + 1) * rule.step_us * 2;
}

/* Returns whether no fault excuses that the job waits since then. A clock that was set
 * back excuses a job that was asked for before, and so perhaps stored without an answer:
 * its lease, or its place in the rate, may wait for that time. In the next second a core
 * may count from the old time (docs/reference/limits.md). */
static bool must_have_left(const struct paced *job, int64_t since_us)
{
    bool is_later = job->asked_us > world.hurt_us + 2 * SECOND;
    int64_t over_us = is_later ? faults_over_us() : faults_end_us();
    return job->accepted_us && over_us < since_us - 30 * SECOND && !lab_is_slow();
}

static void become_due(void *arg, int64_t number);

/* A job that is due leaves when the rate permits. */
static void check_waits(void *arg, int64_t since_us)
{
    const struct paced *job = arg;
    if (job->left || job->vague)
        return;
    if (servers_due_us(job->due_ms) > since_us) { /* a clock was set back meanwhile */
        become_due(arg, 0);
        return;
    }
    if (must_have_left(job, since_us))
        broken("lab: %lld to %s waits since %.3f, with %u others, and there is no fault",
               (long long)job->number, topics[job->target],
               (double)servers_due_us(job->due_ms) / 1e6, backlog[job->target]);
    after(wait_us(job->target) + 20 * SECOND, check_waits, arg, world.now_us);
}

static void become_due(void *arg, int64_t number)
{
    const struct paced *job = arg;
    int64_t due_us = servers_due_us(job->due_ms);
    (void)number;
    if (due_us > world.now_us)
        at(due_us, become_due, arg, 0);
    else
        after(wait_us(job->target) + 20 * SECOND, check_waits, arg, world.now_us);
}

static void produce(struct step *step, int64_t number)
{
    int64_t now_ms = (world.now_us + servers[0].clock_us) / 1000,
            n = one_in(4) ? between(2, 40) : 1;
    for (int64_t i = 0; i < n; i++) {
        unsigned target = rule.of_target ? (unsigned)between(0, TARGETS - 1) : 0;
        if (backlog[target] > BACKLOG_S * rule.per_s)
            continue;
        struct paced *job = mem_alloc(sizeof(*job));
        job->number = lab_number(number, i);
        job->target = target;
        job->asked_us = world.now_us;
        job->due_ms = now_ms + skewed(0, 5000);
        snprintf(job->due, sizeof(job->due), "%lld", (long long)job->due_ms);
        backlog[target]++;
        g_ptr_array_add(jobs, job);
        g_hash_table_insert(by_number, (void *)(intptr_t)(job->number + 1), job);
        struct lab_call *call = lab_call_new(
            LAB_SUBMIT, topics[target], mem_format("paced-%lld", (long long)job->number),
            on_stored, job, &step->stream);
        call->ask.number = job->number;
        call->ask.headers[0][0] = "deliver-at";
        call->ask.headers[0][1] = job->due;
        become_due(job, 0);
        lab_send(call);
    }
}

/* ------------------------------------------------------------------------- judging */

/* index: of the core; CORES_MAX: of all. late_us: by which an answer of Redis may be
 * late. */
static void check_rate(unsigned index, unsigned life, unsigned target, int64_t late_us)
{
    double step_us = 1e6 / rule.per_s, now_us = (double)world.now_us;
    if (used[index][target].life != life) {
        used[index][target].life = life;
        used[index][target].used_us = 0;
    }
    double *until_us = &used[index][target].used_us;
    *until_us = (*until_us > now_us ? *until_us : now_us) + step_us;
    if (*until_us > now_us + rule.burst * step_us + 1000 + (double)late_us)
        broken("lab: more than %.0f deliveries per second and %u at once begin%s to %s",
               rule.per_s, rule.burst, index == CORES_MAX ? " in all cores" : "",
               rule.of_target ? topics[target] : "the route");
}

static void deliver(struct sim_core *core, void *delivery, const struct lab_delivery *d)
{
    struct paced *job = g_hash_table_lookup(by_number, (void *)(intptr_t)(d->number + 1));
    must(job != NULL);
    tell("lab: core%u delivers %lld to %s, attempt %u", core->index, (long long)d->number,
         d->route_target, d->attempt);
    if (job->due_ms > servers_latest_ms())
        broken("G1: lab: %lld is delivered before it is due", (long long)d->number);
    check_rate(core->index, core->life, job->target, 0);
    if (rule.shared && lab_is_calm_since(world.now_us))
        check_rate(CORES_MAX, 0, job->target, 50 * world.plan.latency_max_us);
    uint64_t *before = draw_from(&core->stream);
    bool fails = !world.healed && world.plan.sink_fails && one_in(16);
    if (!fails && !job->left) {
        job->left = true;
        backlog[job->target] -= !job->vague;
    }
    lab_outcome(core, delivery, skewed(100, 20 * MS), fails ? TRY_AGAIN : DELIVERED);
    draw_from(before);
}

static void lost(int64_t since_us)
{
    for (guint i = 0; i < jobs->len; i++) {
        struct paced *job = jobs->pdata[i];
        bool kept = job->accepted_us > 0 && job->accepted_us < since_us;
        if (job->left || job->vague || kept)
            continue;
        job->vague = true;
        backlog[job->target]--;
    }
}

static int64_t latest_us(void)
{
    int64_t latest_ms = 0;
    for (guint i = 0; i < jobs->len; i++) {
        const struct paced *job = jobs->pdata[i];
        latest_ms = job->due_ms > latest_ms ? job->due_ms : latest_ms;
    }
    return servers_due_us(latest_ms) + (int64_t)jobs->len * rule.step_us;
}

static bool is_done(void)
{
    for (guint i = 0; i < jobs->len; i++) {
        const struct paced *job = jobs->pdata[i];
        if (job->left || job->vague)
            continue;
        int64_t due_us = servers_due_us(job->due_ms), from_us = faults_end_us();
        from_us = due_us > from_us ? due_us : from_us;
        if (world.now_us > from_us + 180 * SECOND + wait_us(job->target))
            broken("G2: lab: %lld to %s was due at %.3f, and is not delivered",
                   (long long)job->number, topics[job->target], (double)due_us / 1e6);
        return false;
    }
    return lab_redis("HLEN", "tarry:{paced/0}:pool", "") == 0;
}

const struct lab_feature lab_paced = {
    .write_conf = write_conf,
    .init = init,
    .produce = produce,
    .deliver = deliver,
    .lost = lost,
    .latest_us = latest_us,
    .is_done = is_done,
};
