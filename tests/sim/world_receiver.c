/* SPDX-License-Identifier: BSD-2-Clause */
/* world_receiver.c - the receiver of all deliveries: what happens to each attempt, and
 * what must hold of it. */
#include "bridge/base/mem.h"
#include "bridge/plugin.h"
#include "tests/sim/world_jobs.h"

#include <stdlib.h>

enum { LEASE_S = 15 }; /* of a claim; with its way */

/* Whether there was no fault that could have affected both moments. */
bool is_calm_since(int64_t us)
{
    return world.last_fault_us + 30 * SECOND < us;
}

/* A claim is for at most half of what a sink may have in flight, which is 20 or more. */
enum { BUSY = 8 };
static unsigned open_count;
static int64_t busy_us;

bool receiver_was_busy(void)
{
    return open_count >= BUSY || (busy_us > 0 && busy_us + 2 * SECOND > world.now_us);
}

struct sending {
    struct sim_core *core;
    unsigned life;
    void *delivery;
    struct job_seen *job;
    int64_t handed_us;
    enum outcome outcome;
    const char *why;
};

/* A second after the outcome: if nothing has happened to this core, the ack is done. */
static void settle(void *arg, int64_t number)
{
    struct sending *s = arg;
    (void)number;
    if (core_is_calm_since(s->core, s->handed_us - LEASE_S * SECOND))
        s->job->settled = true;
    free(s);
}

static void give_outcome(void *arg, int64_t number)
{
    struct sending *s = arg;
    (void)number;
    if (open_count-- >= BUSY)
        busy_us = world.now_us;
    if (s->outcome == TRY_AGAIN)
        s->job->retry_us = world.now_us;
    if (s->core->alive && s->core->life == s->life)
        core_event(s->core, &(struct event){.kind = EVENT_OUTCOME,
                                            .of = s->delivery,
                                            .outcome = s->outcome,
                                            .bytes = slice_of(s->why)});
    if (s->outcome == DELIVERED)
        after(SECOND, settle, s, 0);
    else
        free(s);
}

static void receive(void *arg, int64_t number)
{
    struct job_seen *job = arg;
    (void)number;
    tell("the receiver gets %lld", (long long)job->record.number);
    job->received++;
    world.totals.deliveries++;
    job->got_us = world.now_us;
}

/* What happens to one attempt: when the receiver gets it (NEVER: not), and the outcome.
 */
static void choose_end(struct sending *s, int64_t timeout_ms, int64_t *got_us,
                       int64_t *end_us)
{
    bool slow = world.plan.slow_us > 0 && !world.healed && one_in(2);
    *got_us = slow ? between(100, world.plan.slow_us) : skewed(100, 50 * MS);
    *end_us = *got_us + skewed(100, 20 * MS);
    s->outcome = DELIVERED;
    s->why = "";
    if (world.healed || !world.plan.sink_fails || !one_in(world.plan.sink_fails))
        return;
    switch (between(0, 4)) {
    case 0: /* a failure */
        *got_us = NEVER;
        s->outcome = TRY_AGAIN;
        s->why = "503";
        break;
    case 1: /* it hangs: the sink itself gives up in time */
        *got_us = one_in(2) ? NEVER : *got_us;
        *end_us = timeout_ms * MS - between(0, 100) * MS;
        s->outcome = TRY_AGAIN;
        s->why = "no answer in time";
        s->job->excused = true;
        break;
    case 2: /* its answer is lost */
        s->outcome = TRY_AGAIN;
        s->why = "connection reset";
        s->job->excused = true;
        break;
    case 3: /* an answer after the time that the sink has */
        *end_us = timeout_ms * MS + between(0, 15000) * MS;
        s->job->excused = true;
        break;
    default: /* rejected */
        if (!one_in(4))
            break;
        *got_us = NEVER;
        s->outcome = REJECTED;
        s->why = "400";
    }
}

/* A failed attempt is counted. */
static void check_attempt(const struct sim_core *core, struct job_seen *job,
                          unsigned attempt)
{
    bool is_counted = job->retry_us && !job->excused &&
                      world.last_fault_us + 15 * SECOND < job->retry_us;
    if (is_counted && attempt <= job->attempt)
        broken("core%u delivers %lld as attempt %u after attempt %u has failed",
               core->index, (long long)job->record.number, attempt, job->attempt);
    job->attempt = attempt;
}

static void check_delivery(const struct sim_core *core, const struct job_seen *job)
{
    long long number = job->record.number;
    int64_t latest_ms = servers_latest_ms();
    if (job->record.due_ms > latest_ms)
        broken("G1: core%u delivers %lld %lld ms before it is due", core->index, number,
               (long long)(job->record.due_ms - latest_ms));
    if (job->cancelled && job->cancelled_us < world.now_us && !job->lost && !job->excused)
        broken("core%u delivers %lld, which was cancelled at %.6f", core->index, number,
               (double)job->cancelled_us / 1e6);
    if (job->settled && !job->excused)
        broken("G3: core%u delivers %lld again, which was acked long ago", core->index,
               number);
    if (job->handed_us && !job->excused && is_calm_since(job->handed_us))
        broken("G3: core%u delivers %lld again, and there was no fault", core->index,
               number);
    const struct sim_core *by = job->handed_by;
    if (by && !job->excused && core_is_calm_since(by, job->handed_us - LEASE_S * SECOND))
        broken(
            "G3: core%u delivers %lld again, and nothing has happened to core%u, which "
            "has it since %.6f",
            core->index, number, by->index, (double)job->handed_us / 1e6);
}

static int64_t round_up(int64_t us)
{
    int64_t every_us = world.plan.outcomes_every_us;
    return (us + every_us - 1) / every_us * every_us;
}

void jobs_deliver(struct sim_core *core, void *delivery, struct slice payload,
                  unsigned attempt, int64_t timeout_ms, bool dead)
{
    struct sending *s = mem_alloc(sizeof(*s));
    int64_t got_us, end_us;
    s->core = core;
    s->life = core->life;
    s->handed_us = world.now_us;
    s->delivery = delivery;
    open_count++;
    s->job = job_at(strtoll(payload.p, NULL, 10));
    tell("core%u delivers %lld, attempt %u%s", core->index,
         (long long)s->job->record.number, attempt, dead ? ", a dead letter" : "");
    job_excuse_unanswered(s->job);
    check_delivery(core, s->job);
    order_check(core, s->job);
    check_attempt(core, s->job, attempt);
    uint64_t *before = draw_from(s->job->stream);
    choose_end(s, timeout_ms, &got_us, &end_us);
    s->job->sent_us = world.now_us;
    s->job->handed_by = s->outcome == DELIVERED ? core : NULL;
    if (s->outcome == DELIVERED) /* else it comes again */
        s->job->handed_us = world.now_us;
    if (s->outcome == REJECTED) {
        s->job->dead = true;
        s->job->rejected++;
    }
    if (got_us != NEVER)
        after(got_us, receive, s->job, 0);
    at(round_up(world.now_us + end_us), give_outcome, s, 0);
    draw_from(before);
}
