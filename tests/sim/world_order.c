/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_order.c - order = "key": no job leaves before one of its key that is due earlier
 * and was accepted before its due time.
 *
 * A lane has the accepted jobs of one key and one route, in a heap: the one that
 * is due first is on top. A job that has left remains until it is on top.
 */
#include "tests/sim/world_jobs.h"

#include "bridge/base/mem.h"

static struct lane {
    struct job_seen **heap;
    size_t n, cap;
} lanes[2][KEYS_MAX];

static struct lane *lane_of(const struct job_seen *job)
{
    bool applies = world.plan.by_key && !world.plan.clock_jumps && job->key >= 0 &&
                   job->record.due_ms > 0 && !job->record.queued;
    return applies ? &lanes[job->of_web][job->key] : NULL;
}

static bool is_before(const struct lane *lane, size_t a, size_t b)
{
    return lane->heap[a]->record.due_ms < lane->heap[b]->record.due_ms;
}

static void swap(struct lane *lane, size_t a, size_t b)
{
    struct job_seen *job = lane->heap[a];
    lane->heap[a] = lane->heap[b];
    lane->heap[b] = job;
}

static void pop(struct lane *lane)
{
    lane->heap[0] = lane->heap[--lane->n];
    for (size_t i = 0, child; (child = 2 * i + 1) < lane->n; i = child) {
        child += child + 1 < lane->n && is_before(lane, child + 1, child);
        if (!is_before(lane, child, i))
            break;
        swap(lane, child, i);
    }
}

/* Whether its due time found it accepted, and no client wants to cancel it. */
static bool counts(const struct job_seen *job)
{
    return job->accepted && !job->asked_cancel &&
           job->accepted_us < servers_due_us(job->record.due_ms);
}

/* A crash before the answer arrived may have lost the record. It is read again, later. */
static bool may_be_read_again(const struct job_seen *job)
{
    int64_t written_us = (job->record.written_ms - 1) * MS;
    return job->record.offset >= 0 && written_us <= servers_last_loss_us();
}

void order_accepted(struct job_seen *job)
{
    struct lane *lane = lane_of(job);
    if (lane == NULL || !counts(job) || may_be_read_again(job))
        return;
    if (lane->n == lane->cap) {
        lane->cap = lane->cap ? 2 * lane->cap : 64;
        lane->heap = mem_realloc(lane->heap, lane->cap * sizeof(lane->heap[0]));
    }
    size_t i = lane->n++;
    lane->heap[i] = job;
    for (; i > 0 && is_before(lane, i, (i - 1) / 2); i = (i - 1) / 2)
        swap(lane, i, (i - 1) / 2);
}

void order_check(const struct sim_core *core, const struct job_seen *job)
{
    struct lane *lane = lane_of(job);
    while (lane && lane->n > 0 && (job_has_left(lane->heap[0]) || !counts(lane->heap[0])))
        pop(lane);
    if (lane && lane->n > 0 && lane->heap[0]->record.due_ms < job->record.due_ms)
        broken("order: core%u delivers %lld before %lld, of the same key and due earlier",
               core->index, (long long)job->record.number,
               (long long)lane->heap[0]->record.number);
}
