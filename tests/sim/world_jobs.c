/* SPDX-License-Identifier: BSD-2-Clause */
/* world_jobs.c - the jobs of the simulated world: their producers, and what must hold of
 * each. */
#include "tests/sim/world_jobs.h"

#include "bridge/base/mem.h"

#include <glib.h>
#include <stdlib.h>

enum { DEADLINE_S = 180, RECENT = 10 };

static GPtrArray *jobs;             /* struct job_seen */
static struct job_seen **by_number; /* a job: that of its step; a cancel: behind them */
static char keys[KEYS_MAX][8];

struct job_seen *job_at(int64_t number)
{
    must(number >= 0 && number < 2 * (int64_t)world.plan.jobs.n && by_number[number]);
    return by_number[number];
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

/* Whether a crash may have lost what Redis answered, though the answer came after it. */
bool job_spans_loss(const struct job_seen *asked)
{
    return asked->record.offset < 0 && asked->asked_us <= servers_last_loss_us();
}

void job_excuse_unanswered(struct job_seen *job)
{
    bool is_calm = job->core ? core_is_calm_since(job->core, job->asked_us)
                             : world.last_fault_us < job->asked_us;
    if (job->record.offset < 0 && !job->accepted && !is_calm)
        job->excused = true;
}

void job_accept(struct job_seen *job)
{
    if (job->received > 0)
        job_excuse_unanswered(job);
    job->accepted = true;
    job->accepted_us = world.now_us;
    job->accepted_ms = servers_latest_ms();
    job->lost = job_spans_loss(job);
    order_accepted(job);
}

/* ------------------------------------------------------------------- producing */

static struct job_seen *add_job(int64_t number, uint64_t *stream)
{
    struct job_seen *job = mem_alloc(sizeof(*job));
    job->record.number = number;
    job->record.offset = job->record.partition = -1;
    job->stream = stream;
    job->key = -1;
    by_number[number] = job;
    g_ptr_array_add(jobs, job);
    return job;
}

static struct job_seen *add_produced(struct step *step)
{
    static const int64_t near_ms = 5000;
    struct job_seen *job = add_job(step->number, &step->stream);
    int64_t now_ms = server_now_us(&servers[0]) / 1000;
    world.totals.jobs++;
    job->record.written_ms = now_ms;
    if (!one_in(10))
        job->record.due_ms =
            now_ms + (one_in(3) ? between(-1000, near_ms) : skewed(0, world.plan.far_ms));
    if (one_in(4)) /* many at one time */
        job->record.due_ms = job->record.due_ms / 10000 * 10000;
    if (one_in(2)) {
        job->key = (int)between(0, world.plan.keys - 1);
        job->record.key = keys[job->key];
    }
    return job;
}

static void add_cancel(struct job_seen *of, struct step *step)
{
    struct job_seen *ask =
        add_job(step->number + (int64_t)world.plan.jobs.n, &step->stream);
    ask->record.cancels = true;
    ask->record.id = of->record.id;
    ask->cancels = of->record.number;
    of->asked_cancel = true;
    tell("a client cancels %lld", (long long)of->record.number);
    request_send(NULL, ask->record.number);
}

static void add_record(struct job_seen *job)
{
    job->record.queued = world.plan.log_is_queued;
    if (job->record.queued || one_in(8)) /* a consumer must know it */
        job->record.id = mem_format("record-%lld", (long long)job->record.number);
    log_append(job);
}

static void add_request(struct job_seen *job)
{
    job->of_web = true;
    job->record.queued = world.plan.consumers > 0 && one_in(world.plan.queued);
    job->record.id = mem_format("job-%lld", (long long)job->record.number);
    tell("request %lld, due %lld", (long long)job->record.number,
         (long long)job->record.due_ms);
    request_send(NULL, job->record.number);
}

/* Returns a job up to that number; NULL: it has not been produced. Older ones have mostly
 * left. */
static struct job_seen *any_job(int64_t last)
{
    int64_t first = one_in(2) || last < RECENT ? 0 : last - RECENT;
    return by_number[between(first, last)];
}

/* Produces the job of a step, and sometimes cancels an earlier one. */
static void produce(struct step *step)
{
    draw_from(&step->stream);
    world.plan.jobs.begun = step->number + 1;
    if (lab_produce(step))
        return;
    struct job_seen *job = add_produced(step);
    if (one_in(2))
        add_record(job);
    else if (world.plan.sessions && one_in(world.plan.messages))
        session_append(job);
    else
        add_request(job);
    calm_watch(job);
    if (one_in(world.plan.cancels) && (job = any_job(step->number)) &&
        job->record.offset < 0 && !job->record.queued && job->accepted && job->asked == 1)
        add_cancel(job, step);
}

/* Produces the jobs from that number on that are due for it. */
static void produce_due(void *arg, int64_t number)
{
    struct steps *steps = &world.plan.jobs;
    size_t i = (size_t)number;
    (void)arg;
    for (; i < steps->n && (!steps->at[i].kept || steps->at[i].us <= world.now_us); i++)
        if (steps->at[i].kept)
            produce(&steps->at[i]);
    if (i < steps->n)
        at(steps->at[i].us, produce_due, NULL, (int64_t)i);
}

void jobs_init(void)
{
    jobs = g_ptr_array_new();
    log_init();
    session_init();
    by_number = mem_alloc(2 * world.plan.jobs.n * sizeof(struct job_seen *));
    produce_due(NULL, 0);
    for (int i = 0; i < KEYS_MAX; i++)
        snprintf(keys[i], sizeof(keys[i]), "key%d", i);
}

/* ----------------------------------------------------------------------- judging */

void jobs_server_lost(int64_t since_us, bool promised)
{
    reconf_meta(true);
    lab_server_lost(since_us);
    for (guint i = 0; i < jobs->len; i++) {
        struct job_seen *job = jobs->pdata[i];
        bool accepted_now = !promised && job->accepted_us >= since_us;
        bool cancelled_now = !promised && job->cancelled && job->cancelled_us >= since_us;
        /* Its ack was executed after its delivery. */
        bool delivered_now =
            job->handed_us > 0 && job->handed_us + 12 * SECOND > since_us;
        /* Or later, and its answer is yet to come. */
        bool ack_is_out = job->asked_end && !job->acked;
        job->lost = job->lost ||
                    (job->accepted && job->record.offset < 0 && accepted_now) ||
                    cancelled_now;
        if (job->record.offset >= 0 && job->accepted && accepted_now) {
            job->accepted = false; /* until it is read and stored again */
            job->lost = job->lost || !log_regains(job, since_us);
        }
        job->excused = job->excused || delivered_now || ack_is_out;
    }
}

bool job_has_left(const struct job_seen *job)
{
    if (job->record.queued)
        return job->asked_end || job->lost;
    if (job->record.cancels || job->received > 0 || job->dead || job->cancelled)
        return true;
    return job->lost || job->may_drop;
}

/* Without a due time it is due when it is accepted, by the clock that is ahead of the
 * others. */
int64_t job_due_us(const struct job_seen *job)
{
    bool has_clocks = world.plan.masters > 0 && job->record.due_ms == 0;
    return servers_due_us(has_clocks ? job->accepted_ms : job->record.due_ms);
}

/* G2, and that due jobs leave in time once the faults have ended. job: has not left. */
static void check_left(const struct job_seen *job)
{
    int64_t from_us =
        job_due_us(job) > world.last_fault_us ? job_due_us(job) : world.last_fault_us;
    if (servers_regained_us() > from_us) /* leases and retries wait for the clock */
        from_us = servers_regained_us();
    if (world.now_us > from_us + DEADLINE_S * SECOND)
        broken("G2: %s %lld %s, was due at %.3f, and is not delivered",
               job->record.queued       ? "queue job"
               : job->record.offset < 0 ? "request"
                                        : "record",
               (long long)job->record.number,
               job->accepted ? "was accepted" : "was never accepted",
               (double)job_due_us(job) / 1e6);
}

/* All jobs by their due time; those before `first` have left for ever. */
static struct {
    struct job_seen **at;
    size_t n, first;
} waiting;

static int by_due(const void *a, const void *b)
{
    const struct record *x = &(*(struct job_seen *const *)a)->record,
                        *y = &(*(struct job_seen *const *)b)->record;
    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* When no more jobs are produced. */
static void collect_waiting(void)
{
    waiting.n = jobs->len;
    waiting.at = mem_alloc(waiting.n * sizeof(waiting.at[0]));
    for (size_t i = 0; i < waiting.n; i++)
        waiting.at[i] = jobs->pdata[i];
    qsort(waiting.at, waiting.n, sizeof(waiting.at[0]), by_due);
}

/* The end of a consumer's job is certain only with an answer. */
static bool has_left_for_ever(const struct job_seen *job)
{
    return job->record.queued ? job->acked || job->lost : job_has_left(job);
}

bool jobs_are_done(void)
{
    static int64_t looked_us;
    bool done = true;
    if (!world.healed || world.now_us < looked_us)
        return false;
    looked_us = world.now_us + SECOND;
    if (waiting.at == NULL)
        collect_waiting();
    while (waiting.first < waiting.n && has_left_for_ever(waiting.at[waiting.first]))
        waiting.first++;
    for (size_t i = waiting.first; i < waiting.n && !world.failed; i++) {
        const struct job_seen *job = waiting.at[i];
        if (job_has_left(job))
            continue;
        done = false;
        if (job_due_us(job) > world.now_us)
            break;
        check_left(job);
    }
    return done && log_is_stored() && session_is_stored() && lab_is_done();
}

int64_t jobs_latest_us(void)
{
    int64_t latest_us = world.now_us;
    if (servers_regained_us() > latest_us)
        latest_us = servers_regained_us();
    if (lab_latest_us() > latest_us)
        latest_us = lab_latest_us();
    for (guint i = 0; i < jobs->len; i++)
        latest_us = job_due_us(jobs->pdata[i]) > latest_us ? job_due_us(jobs->pdata[i])
                                                           : latest_us;
    return latest_us + (DEADLINE_S + 2) * SECOND;
}

/* Returns how many dead letters the rejections may have made: at most one of each copy.
 */
static int64_t dead_max(void)
{
    int64_t n = 0;
    for (guint i = 0; i < jobs->len; i++) {
        const struct job_seen *job = jobs->pdata[i];
        unsigned copies = job->copies > 1 ? job->copies : 1;
        n += job->rejected < copies ? job->rejected : copies;
    }
    return n;
}

void jobs_judge(void)
{
    for (guint i = 0; i < jobs->len && !world.failed; i++)
        if (!job_has_left(jobs->pdata[i]))
            broken("G2: %lld is not delivered",
                   (long long)((struct job_seen *)jobs->pdata[i])->record.number);
    log_judge();
    lab_judge();
    if (!world.failed)
        judge_redis(dead_max());
    if (!world.failed)
        judge_keys();
    if (!world.failed)
        memory_judge();
}
