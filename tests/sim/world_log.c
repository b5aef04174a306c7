/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_log.c - the log: partitions of records, as Kafka has.
 *
 * Each partition is read by one live core. A record counts as stored when the core says
 * so. COMMIT_LAG_US later the core writes the offset to Redis as a mark, and then commits
 * it, as the Kafka source does. A new reader starts at the lower one of both; the reader
 * goes back to the mark if Redis may have lost writes.
 */
#include "tests/sim/world_jobs.h"

#include "bridge/plugin.h"

#include <glib.h>

#define COMMIT_LAG_US (2 * SECOND)

static struct partition {
    GArray *numbers;                   /* of its records, by offset */
    int64_t position, committed, done; /* done: all before are stored */
    int64_t ripe;                      /* they were COMMIT_LAG_US ago */
    int64_t written;                   /* the mark that its reader wrote last */
    GArray *states;                    /* per offset: 0 unread, 1 open, 2 stored */
    struct sim_core *reader;
    unsigned open;
    bool knows_mark; /* the reader; before, it reads nothing */
    bool rewinds;    /* goes back to `back_to` when nothing is open */
    int64_t back_to;
    int64_t generation;
} parts[PARTITIONS];

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
    p->ripe = p->ripe < offset ? p->ripe : offset;
    p->written = -1;
    p->rewinds = false;
}

static void assign(struct partition *p, struct sim_core *core)
{
    p->reader = core;
    p->open = 0;
    p->knows_mark = false;
    p->generation++;
    go_back(p, p->committed);
    tell_reader(p);
}

bool jobs_lack_marks(struct sim_core *core)
{
    for (int i = 0; i < PARTITIONS; i++)
        if (parts[i].reader == core && !parts[i].knows_mark)
            return true;
    return false;
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
        if (p->reader != core || !p->knows_mark || p->rewinds ||
            p->position >= (int64_t)p->numbers->len)
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

static void ripen(void *arg, int64_t done)
{
    struct partition *p = arg;
    if (done > p->ripe && done <= p->done)
        p->ripe = done;
}

void jobs_committable(struct sim_core *core, int64_t *offsets)
{
    for (int i = 0; i < PARTITIONS; i++) {
        struct partition *p = &parts[i];
        bool is_new = p->reader == core && p->knows_mark && !p->rewinds && p->ripe > 0 &&
                      p->ripe != p->written;
        offsets[i] = is_new ? p->ripe : -1;
    }
}

void jobs_commit(struct sim_core *core, const int64_t *offsets)
{
    for (int i = 0; i < PARTITIONS; i++) {
        struct partition *p = &parts[i];
        if (offsets[i] < 0 || p->reader != core || p->rewinds || offsets[i] > p->ripe)
            continue; /* revoked, or rewound meanwhile */
        p->committed = p->written = offsets[i];
        tell("partition %d is committed up to %lld", i, (long long)offsets[i]);
    }
}

void jobs_rewind(struct sim_core *core, const int64_t *marks)
{
    for (int i = 0; i < PARTITIONS; i++) {
        struct partition *p = &parts[i];
        int64_t mark = marks[i] > 0 ? marks[i] : 0;
        if (p->reader != core)
            continue;
        if (!p->knows_mark)
            go_back(p, mark < p->committed ? mark : p->committed);
        else if (mark < p->position)
            rewind_to(p, mark);
        p->knows_mark = true;
    }
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
    job_accept(job);
    g_array_index(p->states, char, record->offset) = 2;
    int64_t before = p->done;
    while (p->done < p->position && g_array_index(p->states, char, p->done) == 2)
        p->done++;
    if (p->done > before)
        after(COMMIT_LAG_US, ripen, p, p->done);
    if (p->rewinds && p->open == 0)
        after(10 * MS, resume, p, p->generation);
}

void log_append(struct job_seen *job)
{
    int i = (int)between(0, PARTITIONS - 1);
    struct partition *p = &parts[i];
    char unread = 0;
    job->record.offset = p->numbers->len;
    job->record.partition = i;
    g_array_append_val(p->numbers, job->record.number);
    g_array_append_val(p->states, unread);
    tell("partition %d: record %lld at offset %lld, due %lld", i,
         (long long)job->record.number, (long long)job->record.offset,
         (long long)job->record.due_ms);
    tell_reader(p);
}

void log_init(void)
{
    for (int i = 0; i < PARTITIONS; i++) {
        parts[i].numbers = g_array_new(FALSE, FALSE, sizeof(int64_t));
        parts[i].states = g_array_new(FALSE, FALSE, 1);
    }
}

bool log_is_stored(void)
{
    bool stored = true;
    for (int i = 0; i < PARTITIONS; i++)
        stored = stored && parts[i].done == (int64_t)parts[i].numbers->len;
    return stored;
}

void log_judge(void)
{
    for (int i = 0; i < PARTITIONS && !world.failed; i++)
        if (parts[i].done < (int64_t)parts[i].numbers->len)
            broken("partition %d is read and stored only up to %lld", i,
                   (long long)parts[i].done);
}
