/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_log.c - the topic "t": partitions of records with gaps in their offsets. It loses
 * its oldest records, gets more partitions, and is deleted and made anew.
 */
#include "tests/sim/world_log.h"

#include "bridge/plugin.h"

#include <glib.h>

enum { REWIND_S = 300 };

static uint64_t stream;    /* of its chances */
static unsigned lives;     /* of the topic */
static int64_t made_us;    /* when the present one was made anew; 0: never */
static unsigned count;     /* of partitions; 0: it does not exist */
static int64_t rewound_us; /* when an operator last asked for it; 0: never */
static GPtrArray *unsent;  /* struct job_seen: their producers wait for the topic */

static struct partition {
    GPtrArray *records; /* struct job_seen, by offset */
    int64_t low, end;
} parts[PARTITIONS_MAX];

static struct job_seen *record_of(const struct partition *p, guint i)
{
    return p->records->pdata[i];
}

/* Returns the index of the first record from that offset on. */
static guint find(const struct partition *p, int64_t offset)
{
    guint low = 0, high = p->records->len;
    while (low < high) {
        guint middle = (low + high) / 2;
        if (record_of(p, middle)->record.offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ------------------------------------------------------------------------ readers */

unsigned log_partitions(void)
{
    return count;
}

int64_t log_low(int32_t partition)
{
    return parts[partition].low;
}

int64_t log_end(int32_t partition)
{
    return parts[partition].end;
}

unsigned log_fetch(int32_t partition, int64_t from, const struct record **to,
                   unsigned max)
{
    const struct partition *p = &parts[partition];
    unsigned n = 0;
    for (guint i = find(p, from); i < p->records->len && n < max; i++)
        to[n++] = &record_of(p, i)->record;
    return n;
}

bool log_regains(const struct job_seen *job, int64_t since_us)
{
    return job->topic_life == lives && count > 0 && made_us <= since_us &&
           job->record.offset >= parts[job->record.partition].low;
}

/* Nobody will read these records (again). */
static void lose(const struct partition *p, guint end)
{
    for (guint i = 0; i < end; i++)
        if (!record_of(p, i)->accepted || record_of(p, i)->in_doubt)
            record_of(p, i)->lost = true;
}

void log_skip(int32_t partition, int64_t until)
{
    lose(&parts[partition], find(&parts[partition], until));
}

bool log_is_unread(int32_t partition)
{
    const struct partition *p = &parts[partition];
    bool unread = lives > 0;
    for (guint i = 0; i < p->records->len && unread; i++)
        unread = !record_of(p, i)->accepted;
    return unread;
}

unsigned log_offsets_at(int64_t to_ms, struct group_row *rows, int64_t *ends)
{
    rewound_us = world.now_us;
    for (unsigned i = 0; i < count; i++) {
        const struct partition *p = &parts[i];
        rows[i] = (struct group_row){(int32_t)i, p->end, 0};
        ends[i] = p->end;
        for (guint k = p->records->len; k-- > 0;) {
            struct job_seen *job = record_of(p, k);
            if (job->record.written_ms < to_ms)
                break;
            job->excused = true; /* it is delivered again */
            rows[i].offset = job->record.offset;
        }
    }
    return count;
}

void log_rebucketed(void)
{
    for (unsigned i = 0; i < count; i++) {
        for (guint k = parts[i].records->len; k-- > 0;) {
            struct job_seen *job = record_of(&parts[i], k);
            if (job->record.offset < group_committed((int32_t)i))
                break;
            job->excused = true;
        }
    }
}

/* Before the source notices that the topic is a new one, it may store some of its records
 * as those of the old one (docs/explanation/duplicates.md). */
void jobs_submitted(struct sim_core *core, int64_t number, unsigned incarnation)
{
    struct job_seen *job = job_at(number);
    (void)core;
    if (job->read_as > 0 && job->read_as != incarnation + 1 &&
        incarnation <= job->topic_life)
        job->excused = true;
    job->read_as = incarnation + 1;
    job->submitted_us = world.now_us;
}

void jobs_stored(struct sim_core *core, int64_t number, int outcome, const char *reason)
{
    static const char *const said[] = {"stored",    "replaced", "stored already", "dead",
                                       "cancelled", "refused",  "not stored"};
    struct job_seen *job = job_at(number);
    const char *kind = job->record.offset < 0 ? "message" : "record";
    tell("core%u: %s %lld is %s%s%s", core->index, kind, (long long)number, said[outcome],
         *reason ? ": " : "", reason);
    if (outcome == STORED_DEAD)
        broken("record %lld became a dead letter", (long long)number);
    if (outcome == STORED && job->accepted && job->record.offset < 0 && !job->excused)
        broken("message %lld is stored twice", (long long)number);
    if (outcome == NOT_STORED && strcmp(reason, STORED_REASON_ANEW) == 0)
        job->read_as = 0;
    /* Perhaps it is; then it comes again with another id. */
    if (job->record.offset < 0 && outcome == NOT_STORED)
        job->excused = true;
    bool was_skipped = outcome == STORED_ALREADY && job->lost;
    job->copies += outcome == STORED && job->record.offset >= 0;
    job->in_doubt =
        job->record.offset >= 0 && job->submitted_us <= servers_last_loss_us();
    if (outcome != NOT_STORED && !job->accepted && !was_skipped)
        job_accept(job);
}

/* ---------------------------------------------------------------------- producing */

static void append(struct job_seen *job)
{
    int32_t i = (int32_t)between(0, count - 1);
    struct partition *p = &parts[i];
    if (one_in(20)) /* the end of a transaction, or compacted */
        p->end += between(1, 5);
    job->topic_life = lives;
    /* A rewind may be executed later, when the partition has an owner again. */
    job->excused = rewound_us > 0 && rewound_us + REWIND_S * SECOND > world.now_us;
    job->record.offset = p->end++;
    job->record.partition = i;
    job->record.written_ms = world.now_us / 1000 + 1;
    g_ptr_array_add(p->records, job);
    tell("partition %d: record %lld at offset %lld, due %lld", (int)i,
         (long long)job->record.number, (long long)job->record.offset,
         (long long)job->record.due_ms);
}

void log_append(struct job_seen *job)
{
    job->record.offset = job->record.partition = 0; /* it is a record, also if unsent */
    if (count == 0) {
        tell("record %lld waits for the topic", (long long)job->record.number);
        g_ptr_array_add(unsent, job);
        return;
    }
    append(job);
    group_appended();
}

/* ------------------------------------------------------------------------- faults */

bool log_is_made(void)
{
    return count > 0;
}

void log_truncate(struct sim_core *core)
{
    int32_t i = (int32_t)between(0, count - 1);
    struct partition *p = &parts[i];
    (void)core;
    p->low = between(p->low, p->end);
    fault("a partition loses its oldest records");
    tell("partition %d begins at %lld", (int)i, (long long)p->low);
    guint end = find(p, p->low);
    lose(p, end);
    if (end > 0)
        g_ptr_array_remove_range(p->records, 0, end);
}

void log_grow(struct sim_core *core)
{
    (void)core;
    if (count == PARTITIONS_MAX)
        return;
    fault("the topic gets another partition");
    tell("it has %u", ++count);
    group_more_partitions();
}

static void make(void *arg, int64_t number)
{
    if (!group_knows_it_is_gone()) { /* else it may never know */
        after(100 * MS, make, arg, number);
        return;
    }
    count = (unsigned)between(1, PARTITIONS_MAX);
    lives++;
    made_us = world.now_us;
    fault("the topic is made anew");
    tell("it has %u partitions", count);
    group_topic_made();
    for (guint i = 0; i < unsent->len; i++)
        append(unsent->pdata[i]);
    g_ptr_array_set_size(unsent, 0);
    group_appended();
}

void log_delete(struct sim_core *core)
{
    (void)core;
    fault("the topic is deleted");
    for (unsigned i = 0; i < count; i++) {
        lose(&parts[i], parts[i].records->len);
        g_ptr_array_set_size(parts[i].records, 0);
        parts[i].low = parts[i].end = 0;
    }
    count = 0;
    group_topic_gone();
    uint64_t *before = draw_from(&stream);
    after(skewed(100 * MS, 20 * SECOND), make, NULL, 0);
    draw_from(before);
}

void log_init(void)
{
    stream = stream_new('l', 0);
    unsent = g_ptr_array_new();
    count = 3;
    for (int i = 0; i < PARTITIONS_MAX; i++)
        parts[i].records = g_ptr_array_new();
    group_init();
}

/* ------------------------------------------------------------------------ judging */

/* A record that a crash may have lost is not necessarily read again; it must leave. */
static const struct job_seen *first_unread(void)
{
    for (unsigned i = 0; i < count; i++)
        for (guint k = 0; k < parts[i].records->len; k++)
            if (record_of(&parts[i], k)->accepted_us == 0 &&
                !record_of(&parts[i], k)->lost)
                return record_of(&parts[i], k);
    return unsent->len > 0 ? unsent->pdata[0] : NULL;
}

bool log_is_stored(void)
{
    return first_unread() == NULL;
}

void log_judge(void)
{
    const struct job_seen *job = first_unread();
    if (job)
        broken("record %lld at offset %lld of partition %d is not stored",
               (long long)job->record.number, (long long)job->record.offset,
               (int)job->record.partition);
}
