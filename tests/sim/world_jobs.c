/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_jobs.c - the producers and the receiver of the simulated world, and what must
 * hold of each job.
 *
 * The log has partitions. Each is read by one live core, from its committed offset. A
 * record counts as stored when the core says so; the world commits it COMMIT_LAG_US
 * later, as the Kafka source does. The web client sends a request again with the same id
 * until it gets an answer.
 */
#include "tests/sim/world_jobs.h"

#include "bridge/base/mem.h"
#include "bridge/plugin.h"

#include <glib.h>
#include <stdlib.h>

enum { DEADLINE_S = 180 };
#define COMMIT_LAG_US (2 * SECOND)

struct partition {
    GArray *numbers;                   /* of its records, by offset */
    int64_t position, committed, done; /* done: all before are stored */
    GArray *states;                    /* per offset: 0 unread, 1 open, 2 stored */
    struct sim_core *reader;
    unsigned open;
    bool rewinds; /* goes back to `back_to` when nothing is open */
    int64_t back_to;
    int64_t generation;
};

static GPtrArray *jobs;             /* struct job_seen */
static struct job_seen **by_number; /* a job: that of its step; a cancel: behind them */
static struct partition parts[PARTITIONS];

struct job_seen *job_at(int64_t number)
{
    must(number >= 0 && number < 2 * (int64_t)world.plan.jobs.n && by_number[number]);
    return by_number[number];
}

struct job_seen *job_nth(int64_t i)
{
    return jobs->pdata[i];
}

int64_t jobs_count(void)
{
    return jobs->len;
}

struct sim_core *any_core(void)
{
    unsigned first = (unsigned)(chance() % world.plan.cores);
    for (unsigned i = 0; i < world.plan.cores; i++) {
        struct sim_core *core = &cores[(first + i) % world.plan.cores];
        if (core->alive)
            return core;
    }
    return NULL;
}

/* ------------------------------------------------------------------ partitions */

static void tell_reader(struct partition *p)
{
    if (p->reader)
        core_event(p->reader, &(struct event){.kind = EVENT_RECORDS});
}

static void go_back(struct partition *p, int64_t offset)
{
    for (guint i = (guint)offset; i < p->states->len; i++)
        g_array_index(p->states, char, i) = 0;
    p->position = offset;
    p->done = offset;
    p->rewinds = false;
}

/* A new reader begins at the committed offset. */
static void assign(struct partition *p, struct sim_core *core)
{
    p->reader = core;
    p->open = 0;
    p->generation++;
    go_back(p, p->committed);
    p->done = p->committed;
    tell_reader(p);
}

void jobs_core_changed(struct sim_core *core)
{
    for (int i = 0; i < PARTITIONS; i++) {
        if (!core->alive && parts[i].reader == core)
            assign(&parts[i], any_core());
        else if (core->alive && (parts[i].reader == NULL || one_in(world.plan.cores)))
            assign(&parts[i], core);
    }
}

const struct record *jobs_read(struct sim_core *core)
{
    for (int i = 0; i < PARTITIONS; i++) {
        struct partition *p = &parts[i];
        if (p->reader != core || p->rewinds || p->position >= (int64_t)p->numbers->len)
            continue;
        int64_t offset = p->position++;
        g_array_index(p->states, char, offset) = 1;
        p->open++;
        struct job_seen *job = job_at(g_array_index(p->numbers, int64_t, offset));
        job->core = core;
        job->life = (unsigned)p->generation;
        return &job->record;
    }
    return NULL;
}

static void resume(void *arg, int64_t generation)
{
    struct partition *p = arg;
    if (p->generation != generation || !p->rewinds || p->open > 0)
        return;
    tell("partition %d is read again from %lld", (int)(p - parts), (long long)p->back_to);
    go_back(p, p->back_to);
    tell_reader(p);
}

static void rewind_to(struct partition *p, int64_t offset)
{
    p->back_to = p->rewinds && p->back_to < offset ? p->back_to : offset;
    p->rewinds = true;
    after(between(10 * MS, SECOND), resume, p, p->generation);
}

/* The Kafka source commits only while Redis answers, and what Redis still has. */
static void commit(void *arg, int64_t done)
{
    struct partition *p = arg;
    bool may_be_lost = server.down || server.last_loss_us + COMMIT_LAG_US >= world.now_us;
    if (done > p->committed && done <= p->done && !may_be_lost)
        p->committed = done;
}

void jobs_rewind(struct sim_core *core)
{
    for (int i = 0; i < PARTITIONS; i++)
        if (parts[i].reader == core)
            rewind_to(&parts[i], parts[i].committed);
}

/* Whether a crash may have lost what Redis answered, though the answer came after it. */
static bool spans_loss(const struct job_seen *asked)
{
    return asked->record.offset < 0 && asked->asked_us <= server.last_loss_us;
}

static void accept_job(struct job_seen *job)
{
    job->accepted = true;
    job->accepted_us = world.now_us;
    job->lost = spans_loss(job);
}

void jobs_stored(struct sim_core *core, const struct record *record, int outcome)
{
    struct partition *p = &parts[record->partition];
    struct job_seen *job = job_at(record->number);
    if (p->reader != core || job->life != (unsigned)p->generation)
        return; /* revoked */
    p->open--;
    tell("core%u: record %lld is %s", core->index, (long long)record->number,
         outcome == NOT_STORED       ? "not stored"
         : outcome == STORED_ALREADY ? "stored already"
                                     : "stored");
    if (outcome == NOT_STORED) {
        rewind_to(p, record->offset);
        return;
    }
    if (outcome == STORED_DEAD)
        broken("record %lld became a dead letter", (long long)record->number);
    accept_job(job);
    g_array_index(p->states, char, record->offset) = 2;
    int64_t before = p->done;
    while (p->done < p->position && g_array_index(p->states, char, p->done) == 2)
        p->done++;
    if (p->done > before)
        after(COMMIT_LAG_US, commit, p, p->done);
    if (p->rewinds && p->open == 0)
        after(10 * MS, resume, p, p->generation);
}

/* -------------------------------------------------------------------- requests */

static void send_request(void *arg, int64_t number);

static void send_again_later(struct job_seen *job)
{
    uint64_t *before = draw_from(job->stream);
    job->core = NULL;
    after(skewed(10 * MS, 5 * SECOND), send_request, NULL, job->record.number);
    draw_from(before);
}

/* The client waits 30 s for the answer. */
static void give_up_waiting(void *arg, int64_t number)
{
    struct job_seen *job = job_at(number);
    if (job->asked == (unsigned)(uintptr_t)arg && !job->ended)
        send_again_later(job);
}

static void send_request(void *arg, int64_t number)
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
    job->asked++;
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
    bool maybe_before = outcome == CANCEL_NOT_FOUND && ask->asked > 1;
    job->may_drop = job->may_drop || outcome == CANCEL_TOO_LATE || maybe_before;
    if (outcome != CANCELLED)
        return;
    job->cancelled = true;
    job->lost = job->lost || spans_loss(ask);
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
    if (outcome == STORED || outcome == STORED_ALREADY) {
        accept_job(job);
        job->ended = true;
        return;
    }
    job->excused = true;
    send_again_later(job);
}

/* ------------------------------------------------------------------- producing */

static struct job_seen *add_job(int64_t number, uint64_t *stream)
{
    struct job_seen *job = mem_alloc(sizeof(*job));
    job->record.number = number;
    job->record.offset = job->record.partition = -1;
    job->stream = stream;
    by_number[number] = job;
    g_ptr_array_add(jobs, job);
    return job;
}

static struct job_seen *add_produced(struct step *step)
{
    static const int64_t near_ms = 5000;
    struct job_seen *job = add_job(step->number, &step->stream);
    int64_t now_ms = server_now_us() / 1000;
    world.totals.jobs++;
    job->record.written_ms = now_ms;
    if (!one_in(10))
        job->record.due_ms =
            now_ms + (one_in(3) ? between(-1000, near_ms) : skewed(0, world.plan.far_ms));
    if (one_in(4)) /* many at one time */
        job->record.due_ms = job->record.due_ms / 10000 * 10000;
    if (one_in(2))
        job->record.key = mem_format("key%d", (int)between(0, 5));
    return job;
}

static void add_cancel(struct job_seen *of, struct step *step)
{
    struct job_seen *ask =
        add_job(step->number + (int64_t)world.plan.jobs.n, &step->stream);
    ask->record.cancels = true;
    ask->record.id = of->record.id;
    ask->cancels = of->record.number;
    send_request(NULL, ask->record.number);
}

static void add_record(struct job_seen *job)
{
    int i = (int)between(0, PARTITIONS - 1);
    struct partition *p = &parts[i];
    char unread = 0;
    job->record.offset = p->numbers->len;
    job->record.partition = i;
    if (one_in(8))
        job->record.id = mem_format("record-%lld", (long long)job->record.number);
    g_array_append_val(p->numbers, job->record.number);
    g_array_append_val(p->states, unread);
    tell("partition %d: record %lld at offset %lld, due %lld", i,
         (long long)job->record.number, (long long)job->record.offset,
         (long long)job->record.due_ms);
    tell_reader(p);
}

static void add_request(struct job_seen *job)
{
    job->record.queued = world.plan.consumers > 0 && one_in(2);
    job->record.id = mem_format("job-%lld", (long long)job->record.number);
    tell("request %lld, due %lld", (long long)job->record.number,
         (long long)job->record.due_ms);
    send_request(NULL, job->record.number);
}

/* Produces the job of a step, and sometimes cancels an earlier one. */
static void produce(void *arg, int64_t number)
{
    struct step *step = arg;
    draw_from(&step->stream);
    world.plan.jobs.begun = step->number + 1;
    struct job_seen *job = add_produced(step);
    if (one_in(2))
        add_record(job);
    else
        add_request(job);
    if (one_in(16) && (job = by_number[between(0, number)]) && job->record.offset < 0 &&
        !job->record.queued && job->accepted && job->asked == 1)
        add_cancel(job, step);
}

void jobs_init(void)
{
    jobs = g_ptr_array_new();
    for (int i = 0; i < PARTITIONS; i++) {
        parts[i].numbers = g_array_new(FALSE, FALSE, sizeof(int64_t));
        parts[i].states = g_array_new(FALSE, FALSE, 1);
    }
    by_number = mem_alloc(2 * world.plan.jobs.n * sizeof(struct job_seen *));
    for (size_t i = 0; i < world.plan.jobs.n; i++)
        if (world.plan.jobs.at[i].kept)
            at(world.plan.jobs.at[i].us, produce, &world.plan.jobs.at[i], (int64_t)i);
}

/* ----------------------------------------------------------------------- judging */

void jobs_server_lost(void)
{
    for (guint i = 0; i < jobs->len; i++) {
        struct job_seen *job = jobs->pdata[i];
        /* Redis writes to the disk every second, here. */
        bool accepted_now = job->accepted_us + 2 * SECOND > world.now_us;
        bool cancelled_now =
            job->cancelled && job->cancelled_us + 2 * SECOND > world.now_us;
        bool delivered_now = job->handed_us + 12 * SECOND > world.now_us;
        job->lost = job->lost ||
                    (job->accepted && job->record.offset < 0 && accepted_now) ||
                    cancelled_now;
        if (job->record.offset >= 0 && accepted_now)
            job->accepted = false; /* until it is read and stored again */
        job->excused = job->excused || delivered_now;
        if (job->record.offset >= 0 && accepted_now)
            job->accepted = false; /* until it is read again */
    }
}

/* Whether it has left, as far as the world can know. */
static bool has_left(const struct job_seen *job)
{
    if (job->record.queued)
        return job->asked_end || job->lost;
    if (job->record.cancels || job->received > 0 || job->dead || job->cancelled)
        return true;
    return job->lost || job->may_drop;
}

static int64_t due_us(const struct job_seen *job)
{
    return job->record.due_ms * MS - server.clock_us;
}

/* G2, and that due jobs leave in time once the faults have ended. */
static void check_left(const struct job_seen *job)
{
    int64_t from_us =
        due_us(job) > world.last_fault_us ? due_us(job) : world.last_fault_us;
    if (!has_left(job) && world.now_us > from_us + DEADLINE_S * SECOND)
        broken("G2: %s %lld %s, was due at %.3f, and is not delivered",
               job->record.queued       ? "queue job"
               : job->record.offset < 0 ? "request"
                                        : "record",
               (long long)job->record.number,
               job->accepted ? "was accepted" : "was never accepted",
               (double)due_us(job) / 1e6);
}

bool jobs_are_done(void)
{
    static int64_t looked_us;
    bool done = true;
    if (!world.healed || world.now_us < looked_us)
        return false;
    looked_us = world.now_us + SECOND;
    for (guint i = 0; i < jobs->len && !world.failed; i++) {
        done = done && has_left(jobs->pdata[i]);
        check_left(jobs->pdata[i]);
    }
    for (int i = 0; i < PARTITIONS; i++)
        done = done && parts[i].done == (int64_t)parts[i].numbers->len;
    return done;
}

int64_t jobs_latest_us(void)
{
    int64_t latest_us = world.now_us;
    for (guint i = 0; i < jobs->len; i++)
        latest_us =
            due_us(jobs->pdata[i]) > latest_us ? due_us(jobs->pdata[i]) : latest_us;
    return latest_us + (DEADLINE_S + 2) * SECOND;
}

void jobs_judge(void)
{
    for (guint i = 0; i < jobs->len && !world.failed; i++)
        if (!has_left(jobs->pdata[i]))
            broken("G2: %lld is not delivered", (long long)job_nth(i)->record.number);
    for (int i = 0; i < PARTITIONS && !world.failed; i++)
        if (parts[i].done < (int64_t)parts[i].numbers->len)
            broken("partition %d is read and stored only up to %lld", i,
                   (long long)parts[i].done);
    if (!world.failed)
        judge_redis(jobs_dead());
}
