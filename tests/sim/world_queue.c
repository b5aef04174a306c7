/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_queue.c - the consumers of the queue. Each pulls some jobs, and then
 * acknowledges, releases or abandons each; sometimes after its lease.
 */
#include "bridge/base/mem.h"
#include "bridge/queue.h"
#include "tests/sim/world_jobs.h"

enum { HOLDS_MAX = 20, LEASE_S = 5 };

static struct consumer {
    struct ask ask;
    struct sim_core *core; /* that it asks; NULL: it waits for no answer */
    unsigned life, asks;   /* asks: counts, so that old timers are ignored */
    struct pulled holds[HOLDS_MAX];
    unsigned count, next; /* jobs; the one that it works on */
} consumers[CONSUMERS_MAX];

static void work(void *arg, int64_t asks);
static void pull(void *arg, int64_t asks);
static void finish(void *arg, int64_t asks);

static int64_t number_of(const struct consumer *c)
{
    return c - consumers;
}

/* Calls fn later, unless the consumer does something else before. */
static void later(struct consumer *c, int64_t us, void (*fn)(void *arg, int64_t asks))
{
    c->core = NULL;
    after(us, fn, c, ++c->asks);
}

static void give_up(void *arg, int64_t asks)
{
    struct consumer *c = arg;
    if (c->core == NULL || c->asks != (unsigned)asks)
        return;
    later(c, 0, c->ask.id ? finish : pull);
}

/* Sends what c->ask says to any core. */
static void send(struct consumer *c, enum event_kind kind)
{
    struct sim_core *core = any_core();
    c->asks++;
    if (core == NULL) {
        later(c, SECOND, c->ask.id ? finish : pull);
        return;
    }
    c->core = core;
    c->life = core->life;
    core_event(core, &(struct event){.kind = kind, .number = number_of(c)});
    after(c->ask.wait_ms * MS + 20 * SECOND, give_up, c, c->asks);
}

const struct ask *consumer_ask(struct sim_core *core, int64_t consumer)
{
    (void)core;
    return &consumers[consumer].ask;
}

static bool waits_for(const struct consumer *c, const struct sim_core *core)
{
    return c->core == core && c->life == core->life;
}

static const char *const said[] = {"done", "no such job", "refused", "no route",
                                   "no answer of Redis"};

/* ------------------------------------------------------------------------- pulling */

static void pull(void *arg, int64_t asks)
{
    struct consumer *c = arg;
    if (c->asks != (unsigned)asks)
        return;
    c->ask = (struct ask){.max = (unsigned)skewed(1, HOLDS_MAX)};
    c->ask.wait_ms = skewed(0, 20000);
    send(c, EVENT_PULL);
}

/* The reply of a pull may arrive late, after another consumer has got the job, or has
 * acknowledged it after its lease. So leases are compared by the time at which Redis
 * granted them. */
static void check_pulled(const struct consumer *c, struct job_seen *job, int64_t lease)
{
    long long number = job->record.number;
    bool is_on_time = world.last_fault_us + 15 * SECOND < world.now_us;
    int64_t latest_ms = servers_latest_ms();
    if (job->record.due_ms > latest_ms)
        broken("G1: consumer %d receives %lld %lld ms before it is due",
               (int)number_of(c), number, (long long)(job->record.due_ms - latest_ms));
    /* Unless the clock shows a time again. */
    if (lease == job->lease_token && servers_regained_us() < world.now_us)
        broken("consumer %d receives %lld with a token that it had before",
               (int)number_of(c), number);
    if (world.plan.clock_jumps || job->lost || job->excused)
        return;
    if (job->acked && job->acked_us + (is_on_time ? 1 : 20) * SECOND < world.now_us)
        broken("consumer %d receives %lld, which was acknowledged", (int)number_of(c),
               number);
    if (!job->asked_end && lease > job->lease_end_ms &&
        lease - LEASE_S * 1000 < job->lease_end_ms)
        broken("consumer %d receives %lld until %lld, which another holds until %lld",
               (int)number_of(c), number, (long long)lease, (long long)job->lease_end_ms);
}

void consumer_pulled(struct sim_core *core, int64_t consumer, int code,
                     const struct pulled *jobs, unsigned n)
{
    struct consumer *c = &consumers[consumer];
    bool waits = waits_for(c, core) && c->ask.id == NULL;
    must(n <= HOLDS_MAX);
    if (code != QUEUE_OK && code != QUEUE_NONE)
        tell("consumer %d: %s", (int)consumer, said[code]);
    if (code != QUEUE_OK)
        n = 0;
    for (unsigned i = 0; i < n; i++) {
        struct job_seen *job = job_at(jobs[i].number);
        tell("consumer %d receives %lld%s", (int)consumer, (long long)jobs[i].number,
             waits ? "" : ", which it does not expect");
        check_pulled(c, job, jobs[i].lease);
        job->lease_token = jobs[i].lease;
        if (jobs[i].lease > job->lease_end_ms)
            job->lease_end_ms = jobs[i].lease;
        job->handed_us = world.now_us;
        job->received++;
        world.totals.deliveries++;
    }
    if (!waits)
        return;
    for (unsigned i = 0; i < n; i++)
        c->holds[i] = jobs[i];
    c->count = n;
    c->next = 0;
    if (n > 0)
        later(c, skewed(100, 200 * MS), work);
    else
        later(c, skewed(MS, SECOND), pull);
}

/* ----------------------------------------------------------------------- finishing */

/* What to do with the next job. */
static void work(void *arg, int64_t asks)
{
    struct consumer *c = arg;
    if (c->asks != (unsigned)asks)
        return;
    if (c->next == c->count) {
        later(c, skewed(MS, 100 * MS), pull);
        return;
    }
    const struct job_seen *job = job_at(c->holds[c->next].number);
    c->ask = (struct ask){.id = job->record.id, .lease = c->holds[c->next].lease};
    if (!world.healed && one_in(15)) { /* abandons it */
        c->next++;
        later(c, skewed(MS, 100 * MS), work);
        return;
    }
    c->ask.release = !world.healed && one_in(15);
    later(c,
          !world.healed && one_in(20) ? between(LEASE_S - 1, LEASE_S + 10) * SECOND
                                      : skewed(100, 100 * MS),
          finish);
}

static void finish(void *arg, int64_t asks)
{
    struct consumer *c = arg;
    if (c->asks != (unsigned)asks)
        return;
    struct job_seen *job = job_at(c->holds[c->next].number);
    if (!c->ask.release)
        job->asked_end = true;
    else if (job->lease_end_ms == c->ask.lease)
        job->lease_end_ms = 0; /* it may be available from now on */
    send(c, EVENT_FINISH);
}

void consumer_finished(struct sim_core *core, int64_t consumer, int code)
{
    struct consumer *c = &consumers[consumer];
    if (!waits_for(c, core) || c->ask.id == NULL)
        return;
    struct job_seen *job = job_at(c->holds[c->next].number);
    tell("consumer %d %s %lld: %s", (int)consumer,
         c->ask.release ? "releases" : "acknowledges", (long long)job->record.number,
         said[code]);
    if (code == QUEUE_AWAY) {
        later(c, skewed(MS, 2 * SECOND), finish);
        return;
    }
    job->handed_us = world.now_us;
    /* Without the answer to its request the core may send it to Redis again. */
    job->excused = job->excused || !job->accepted;
    if (code == QUEUE_OK && !c->ask.release && !job->acked) {
        job->asked_end = true; /* an earlier holder may have been refused meanwhile */
        job->acked = true;
        job->acked_us = world.now_us;
    }
    if (code == QUEUE_REFUSED && !c->ask.release && !job->acked)
        job->asked_end = false; /* a later holder decides */
    c->next++;
    later(c, skewed(100, 10 * MS), work);
}

void consumers_init(void)
{
    for (unsigned i = 0; i < world.plan.consumers; i++)
        later(&consumers[i], skewed(SECOND, 5 * SECOND), pull);
}
