/* SPDX-License-Identifier: BSD-2-Clause */
/* calm.c - what must happen soon, long after the last fault: a producer is answered, a
 * due job leaves. */
#include "tests/sim/world_jobs.h"

enum { CALM_S = 60, CALM_AFTER_MOVE_S = 2 };
#define SOON_US (2 * SECOND)
#define ACCEPTED_US (5 * SECOND)
/* If calls take long: a cancel waits for the jobs before it, and delays those after it.
 */
#define ACCEPTED_SLOWLY_US (20 * SECOND)

static bool is_calm(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++)
        if (servers[i].script_failed_us > world.now_us - CALM_AFTER_MOVE_S * SECOND)
            return false;
    return faults_end_us() < world.now_us - CALM_S * SECOND;
}

/* Whether a claim takes so long that jobs may have to wait for the next one. */
static bool is_far_off(void)
{
    return world.plan.latency_max_us > MS;
}

static int64_t accepted_us(void)
{
    bool slowly = is_far_off() || world.plan.wait_for > 0;
    return slowly ? ACCEPTED_SLOWLY_US : ACCEPTED_US;
}

/* Long after the last fault a producer is answered soon. */
static void check_accepted(void *arg, int64_t number)
{
    const struct job_seen *job = arg;
    if (job->accepted_us || job->ended || job->lost)
        return;
    if (is_calm())
        broken("%s %lld is not accepted, and there is no fault",
               job->record.offset < 0 ? "request" : "record", (long long)number);
    after(accepted_us(), check_accepted, arg, number);
}

/* Whether others of its key may leave before it. */
static bool has_group(const struct job_seen *job)
{
    return world.plan.by_key && job->record.key;
}

/* Long after the last fault a job leaves soon. */
static void check_leaves(void *arg, int64_t number)
{
    const struct job_seen *job = arg;
    if (job_has_left(job) || job->sent_us || has_group(job))
        return;
    if (job_due_us(job) + SOON_US > world.now_us) {
        at(job_due_us(job) + SOON_US, check_leaves, arg, number);
        return;
    }
    if (is_calm() && !receiver_was_busy() && !is_far_off() && job->accepted &&
        job->accepted_us + SOON_US < world.now_us)
        broken("G2: %lld was due at %.3f, is not delivered, and there is no fault",
               (long long)number, (double)job_due_us(job) / 1e6);
    after(SOON_US, check_leaves, arg, number);
}

void calm_watch(struct job_seen *job)
{
    after(accepted_us(), check_accepted, job, job->record.number);
    if (!job->record.queued)
        after(SOON_US, check_leaves, job, job->record.number);
}
