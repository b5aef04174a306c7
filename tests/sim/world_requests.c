/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_requests.c - the clients of "web". Each sends its request again, with the same
 * id, until it gets an answer.
 */
#include "tests/sim/world_jobs.h"

#include "bridge/plugin.h"

static void send_again_later(struct job_seen *job)
{
    uint64_t *before = draw_from(job->stream);
    job->core = NULL;
    after(skewed(10 * MS, 5 * SECOND), request_send, NULL, job->record.number);
    draw_from(before);
}

/* The client waits 30 s for the answer. */
static void give_up_waiting(void *arg, int64_t number)
{
    struct job_seen *job = job_at(number);
    if (job->asked != (unsigned)(uintptr_t)arg || job->ended)
        return;
    alive_answered(job->first_asked_us, false);
    send_again_later(job);
}

void request_send(void *arg, int64_t number)
{
    struct job_seen *job = job_at(number);
    struct sim_core *core = any_core();
    (void)arg;
    if (job->ended)
        return;
    if (core == NULL) {
        send_again_later(job);
        return;
    }
    job->core = core;
    job->life = core->life;
    job->excused = job->excused || job->asked > 0;
    if (job->asked++ == 0)
        job->first_asked_us = world.now_us;
    job->asked_us = world.now_us;
    core_event(core, &(struct event){.kind = EVENT_REQUEST, .number = number});
    after(30 * SECOND, give_up_waiting, (void *)(uintptr_t)job->asked, number);
}

const struct record *jobs_request(struct sim_core *core, int64_t number)
{
    (void)core;
    return &job_at(number)->record;
}

static void on_cancel_answer(struct job_seen *ask, int outcome)
{
    static const char *const said[] = {"cancelled", "too late", "delivered",
                                       "not found", "no route", "unknown"};
    struct job_seen *job = job_at(ask->cancels);
    ask->ended = true; /* it is not sent again: only the first answer is final */
    tell("cancel of %lld: %s", (long long)job->record.number,
         outcome < 0 ? "no source" : said[outcome]);
    /* An earlier request for this cancel, whose answer was lost, may have removed it. */
    bool maybe = ask->asked > 1 ||
                 outcome == CANCEL_UNKNOWN; /* executed, but too few replicas have it */
    /* Sent to Redis again after its clock was set: its first outcome has expired. */
    maybe = maybe || (outcome == CANCEL_NOT_FOUND && world.plan.clock_jumps);
    job->may_drop = job->may_drop || outcome == CANCEL_TOO_LATE || maybe;
    if (outcome != CANCELLED)
        return;
    job->cancelled = true;
    job->lost = job->lost || job_spans_loss(ask);
    job->cancelled_us = world.now_us;
}

void jobs_answered(struct sim_core *core, int64_t number, int outcome)
{
    struct job_seen *job = job_at(number);
    if (job->core != core || job->life != core->life || job->ended)
        return; /* the client does not wait any more */
    if (job->record.cancels) {
        on_cancel_answer(job, outcome);
        return;
    }
    tell("core%u: request %lld is answered %d", core->index, (long long)number, outcome);
    if (outcome == STORED_ALREADY && job->asked == 1)
        broken("request %lld is answered as known, but was sent once", (long long)number);
    if (outcome == STORED || outcome == STORED_ALREADY) {
        job_accept(job);
        job->ended = true;
        return;
    }
    if (!reconf.lacks_web)
        alive_answered(job->first_asked_us, false);
    job->excused = true;
    send_again_later(job);
}
