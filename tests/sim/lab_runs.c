/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lab_runs.c - jobs that repeat: each run is delivered, in its order and not early, or is
 * a dead letter, also if another job has the id of that letter; none runs after a cancel.
 */
#include "tests/sim/lab.h"

#include "bridge/base/mem.h"
#include "bridge/plugin.h"

#include <glib.h>

enum { RUNS_MAX = 8 };
#define ROUTE "runs"

struct run {
    bool begun, ended;
    unsigned rejected; /* a repeated request may run again, and leave another letter */
    int64_t dead_us;   /* the core certainly knew that then; 0: never */
    int64_t handed_us;
    const struct sim_core *core; /* that delivers it, and has had no fault */
};

struct repeat {
    int64_t number;
    char id[80], due[24], every[32], count[16];
    int64_t first_ms, every_ms;
    int64_t accepted_us, cancelled_us;
    int64_t runs; /* 1: it does not repeat */
    struct run run[RUNS_MAX];
    bool vague, closed; /* closed: it may end early */
};

static GPtrArray *jobs;
static GHashTable *by_number;
static bool any_lost;

static void init(void)
{
    jobs = g_ptr_array_new();
    by_number = g_hash_table_new(NULL, NULL);
}

static void write_conf(FILE *out, bool routes)
{
    if (routes)
        fprintf(out,
                "  runs: { from = \"lab\"; to = \"runs\"; match = \"runs\"; topic = "
                "\"x\"; retry: { first = \"1s\"; factor = 1.0; max = \"1s\"; }; };\n");
    else
        fprintf(out, "  runs: { type = \"lab\"; };\n");
}

/* ----------------------------------------------------------------------- producing */

static void on_stored(struct lab_call *call, const struct lab_answer *answer)
{
    struct repeat *job = call->of;
    if (answer == NULL || answer->code == NOT_STORED) {
        job->vague = true; /* it may be stored twice */
        lab_send_later(call, skewed(10 * MS, 5 * SECOND));
        return;
    }
    if (answer->code == STORED_ALREADY && job->runs == 1)
        job->closed = true; /* the dead letter of that run was there before */
    job->accepted_us = world.now_us;
}

static void on_cancelled(struct lab_call *call, const struct lab_answer *answer)
{
    struct repeat *job = call->of;
    tell("lab: cancel of %s: %d", job->id, answer ? answer->code : -1);
    if (answer && answer->code == CANCELLED)
        job->cancelled_us = world.now_us;
}

static void cancel(void *arg, int64_t number)
{
    struct repeat *job = arg;
    struct lab_call *call =
        lab_call_new(LAB_CANCEL, ROUTE, job->id, on_cancelled, job, world.stream);
    (void)number;
    job->closed = true;
    /* The core may send the enqueue to Redis again after the cancel. */
    job->vague = job->vague || job->accepted_us == 0;
    lab_send(call);
}

static struct repeat *add(struct step *step, int64_t number, const char *id,
                          int64_t first_ms, int64_t runs)
{
    struct repeat *job = mem_alloc(sizeof(*job));
    job->number = number;
    snprintf(job->id, sizeof(job->id), "%s", id);
    job->first_ms = first_ms;
    job->every_ms = between(1, 20) * 1000;
    job->runs = runs;
    snprintf(job->due, sizeof(job->due), "%lld", (long long)first_ms);
    snprintf(job->every, sizeof(job->every), "every %llds",
             (long long)job->every_ms / 1000);
    snprintf(job->count, sizeof(job->count), "%d", (int)runs);
    g_ptr_array_add(jobs, job);
    g_hash_table_insert(by_number, (void *)(intptr_t)(number + 1), job);
    struct lab_call *call =
        lab_call_new(LAB_SUBMIT, ROUTE, job->id, on_stored, job, &step->stream);
    call->ask.number = number;
    call->ask.headers[0][0] = "deliver-at";
    call->ask.headers[0][1] = job->due;
    if (runs > 1) {
        call->ask.headers[1][0] = "delay-repeat";
        call->ask.headers[1][1] = job->every;
        call->ask.headers[2][0] = "delay-repeat-count";
        call->ask.headers[2][1] = job->count;
    }
    lab_send(call);
    return job;
}

static void produce(struct step *step, int64_t number)
{
    int64_t first_ms = servers_latest_ms() + skewed(100, 20000);
    char id[80];
    snprintf(id, sizeof(id), "run%lld", (long long)number);
    struct repeat *job = add(step, number, id, first_ms, between(2, RUNS_MAX));
    if (one_in(3)) { /* another job has the id of a run's dead letter */
        int64_t due_ms = first_ms + between(0, job->runs - 1) * job->every_ms;
        snprintf(id, sizeof(id), "run%lld@%lld", (long long)number, (long long)due_ms);
        add(step, lab_number(number, 1), id, first_ms + between(1, 200000), 1);
    }
    if (one_in(6))
        after(skewed(1, 100 * SECOND), cancel, job, 0);
}

/* ------------------------------------------------------------------------- judging */

static int64_t due_ms(const struct repeat *job, int64_t run)
{
    return job->first_ms + run * job->every_ms;
}

static void check_run(const struct sim_core *core, struct repeat *job, int64_t i,
                      const struct lab_delivery *d)
{
    const struct run *run = &job->run[i];
    if (job->runs > 1 && d->run != i + 1)
        broken("lab: run %lld of %s says that it is run %lld", (long long)i + 1, job->id,
               (long long)d->run);
    if (job->vague)
        return;
    if (i > 0 && !job->run[i - 1].begun)
        broken("lab: core%u delivers run %lld of %s, and the one before was never begun",
               core->index, (long long)i + 1, job->id);
    if (job->cancelled_us && job->cancelled_us < world.now_us)
        broken("lab: core%u delivers run %lld of %s, which was cancelled at %.6f",
               core->index, (long long)i + 1, job->id, (double)job->cancelled_us / 1e6);
    if (run->core && core_is_calm_since(run->core, run->handed_us - 15 * SECOND))
        broken("G3: lab: core%u delivers run %lld of %s again", core->index,
               (long long)i + 1, job->id);
}

/* Two seconds after a rejection. A run of a cancelled job is not kept. */
static void note_dead(void *arg, int64_t i)
{
    struct repeat *job = arg;
    struct run *run = &job->run[i];
    if (run->core && core_is_calm_since(run->core, run->handed_us - 15 * SECOND))
        run->dead_us = job->closed ? 0 : world.now_us;
}

static void deliver(struct sim_core *core, void *delivery, const struct lab_delivery *d)
{
    struct repeat *job =
        g_hash_table_lookup(by_number, (void *)(intptr_t)(d->number + 1));
    must(job != NULL);
    int64_t i = job->runs > 1 ? (d->due_ms - job->first_ms) / job->every_ms : 0;
    tell("lab: core%u delivers %s, due %lld, attempt %u", core->index, d->id,
         (long long)d->due_ms, d->attempt);
    if (d->due_ms > servers_latest_ms())
        broken("G1: lab: %s is delivered before it is due", d->id);
    if (i < 0 || i >= job->runs || d->due_ms != due_ms(job, i)) {
        broken("lab: %s has no run that is due at %lld", job->id, (long long)d->due_ms);
        return;
    }
    check_run(core, job, i, d);
    struct run *run = &job->run[i];
    uint64_t *before = draw_from(&core->stream);
    unsigned dice = world.healed || job->runs == 1 ? 99 : (unsigned)between(0, 20);
    int outcome = dice == 0 ? TRY_AGAIN : dice < 4 ? REJECTED : DELIVERED;
    run->begun = true;
    run->ended = run->ended || outcome != TRY_AGAIN;
    run->rejected += outcome == REJECTED;
    if (outcome == REJECTED)
        after(2 * SECOND, note_dead, job, i);
    run->core = outcome == TRY_AGAIN ? NULL : core;
    run->handed_us = world.now_us;
    lab_outcome(core, delivery, skewed(100, 20 * MS), outcome);
    draw_from(before);
}

static void lost(int64_t since_us)
{
    for (guint i = 0; i < jobs->len; i++) {
        struct repeat *job = jobs->pdata[i];
        job->vague = true;
        for (int64_t n = 0; n < job->runs; n++)
            if (job->run[n].dead_us >= since_us)
                job->run[n].dead_us = 0;
    }
    any_lost = true;
}

static int64_t latest_us(void)
{
    int64_t latest_ms = 0;
    for (guint i = 0; i < jobs->len; i++) {
        const struct repeat *job = jobs->pdata[i];
        int64_t ms = due_ms(job, job->runs - 1);
        latest_ms = ms > latest_ms ? ms : latest_ms;
    }
    return servers_due_us(latest_ms);
}

static bool is_done(void)
{
    for (guint i = 0; i < jobs->len; i++) {
        const struct repeat *job = jobs->pdata[i];
        for (int64_t n = 0; n < job->runs && !job->vague && !job->closed; n++) {
            if (job->run[n].ended)
                continue;
            int64_t due_us = servers_due_us(due_ms(job, n)), from_us = faults_end_us();
            from_us = due_us > from_us ? due_us : from_us;
            /* Each run may wait for the one before. */
            if (world.now_us > from_us + (180 + 5 * n) * SECOND)
                broken("G2: lab: run %lld of %s was due at %.3f, and is not delivered",
                       (long long)n + 1, job->id, (double)due_us / 1e6);
            return false;
        }
    }
    return lab_redis("HLEN", "tarry:{runs/0}:pool", "") ==
               lab_redis("ZCARD", "tarry:{runs/0}:error", "") &&
           lab_redis("ZCARD", "tarry:{runs/0}:far", "") == 0;
}

/* A run is kept under ID@DUE or, if another job has that id, under ID@0DUE, and so on. */
static bool is_kept(const struct repeat *job, int64_t run)
{
    char id[128];
    for (int zeros = 0; zeros < 4; zeros++) {
        snprintf(id, sizeof(id), "%s@%.*s%lld", job->id, zeros, "000",
                 (long long)due_ms(job, run));
        if (lab_redis("ZSCORE", "tarry:{runs/0}:error", id) >= 0)
            return true;
    }
    return false;
}

static void judge(void)
{
    long long rejected = 0, letters = lab_redis("ZCARD", "tarry:{runs/0}:error", "");
    for (guint i = 0; i < jobs->len; i++) {
        const struct repeat *job = jobs->pdata[i];
        for (int64_t n = 0; n < job->runs; n++) {
            rejected += job->run[n].rejected;
            if (job->run[n].dead_us && !is_kept(job, n))
                broken("lab: run %lld of %s was rejected, but it is no dead letter",
                       (long long)n + 1, job->id);
        }
    }
    if (!any_lost && letters > rejected)
        broken("lab: %lld runs were rejected, but there are %lld dead letters", rejected,
               letters);
}

const struct lab_feature lab_runs = {
    .write_conf = write_conf,
    .init = init,
    .produce = produce,
    .deliver = deliver,
    .lost = lost,
    .latest_us = latest_us,
    .is_done = is_done,
    .judge = judge,
};
