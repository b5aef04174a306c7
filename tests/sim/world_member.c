/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_member.c - a member of the consumer group: one consumer, as librdkafka 2.0.2
 * behaves. Its events wait until its core asks for them. The next rebalance event follows
 * only after the last was applied. A resumed partition continues after the last record
 * that the core received, whatever was sought before.
 */
#include "bridge/base/mem.h"
#include "tests/sim/world_group.h"

#include <stdlib.h>

#include <librdkafka/rdkafka.h>

enum { AHEAD_MAX = 3 };

bool member_is_live(const struct member *m)
{
    return m->is_open && m->core->alive && m->core->life == m->life;
}

/* With the threads of librdkafka. */
bool member_is_stopped(const struct member *m)
{
    return m->core->busy_until_us > world.now_us + 100 * MS;
}

/* ------------------------------------------------------------------------- events */

void member_wake(const struct member *m)
{
    if (member_is_live(m))
        core_event(m->core, &(struct event){.kind = EVENT_GROUP});
}

struct queued *member_event(struct member *m, int kind)
{
    struct queued *q = mem_alloc(sizeof(*q));
    q->event.kind = kind;
    g_ptr_array_add(m->queue, q);
    member_wake(m);
    return q;
}

void event_row(struct queued *q, int32_t partition, int64_t offset, int error)
{
    q->event.rows[q->event.n++] = (struct group_row){partition, offset, error};
}

void member_drop_events(struct member *m, int kind)
{
    for (guint i = m->queue->len; i-- > 0;) {
        struct queued *q = m->queue->pdata[i];
        if ((int)q->event.kind != kind)
            continue;
        free(q);
        g_ptr_array_remove_index(m->queue, i);
    }
}

static bool is_rebalance(const struct queued *q)
{
    return q->event.kind == GROUP_ASSIGN || q->event.kind == GROUP_REVOKE;
}

/* ----------------------------------------------------------------------- fetching */

/* The offset is out of range: begins with the oldest record. */
static void check_range(struct held *h, int32_t partition)
{
    if (h->position >= log_low(partition) && h->position <= log_end(partition))
        return;
    tell("offset %lld of partition %d is out of range", (long long)h->position,
         (int)partition);
    h->position = log_low(partition);
}

static void fetch_part(struct member *m, int32_t i)
{
    struct held *h = &m->held[i];
    struct queued read;
    check_range(h, i);
    /* It has read nothing, so it cannot know that its offset is of an earlier topic; nor
     * if nobody has read the new one, and that is as long (docs/reference/limits.md). */
    if (h->received < 0 &&
        (h->life != group_topic_lives || h->is_of_mark || log_is_unread(i)))
        log_skip(i, h->position);
    else
        h->life = group_topic_lives;
    h->low = log_low(i);
    h->end = log_end(i);
    unsigned max = (unsigned)between(1, one_in(3) ? 3 : world.plan.read_max);
    read.event.record_count = log_fetch(i, h->position, read.event.records, max);
    if (read.event.record_count > 0) {
        struct queued *q = member_event(m, GROUP_FETCH);
        memcpy(q->event.records, read.event.records, sizeof(read.event.records));
        q->event.record_count = read.event.record_count;
        q->version = h->version;
        event_row(q, i, q->event.records[q->event.record_count - 1]->offset + 1, 0);
        h->position = q->event.rows[0].offset;
        h->ahead++;
    } else if (world.plan.latest && !h->at_end) {
        struct queued *q = member_event(m, GROUP_ERROR);
        q->event.error = RD_KAFKA_RESP_ERR__PARTITION_EOF;
        event_row(q, i, h->end, 0);
        h->at_end = true;
    }
}

static void fetch(void *arg, int64_t number)
{
    struct member *m = arg;
    (void)number;
    m->fetches = false;
    if (!member_is_live(m))
        return;
    if (member_is_stopped(m)) {
        member_fetch_soon(m);
        return;
    }
    bool more = false;
    for (unsigned i = 0; i < log_partitions(); i++) {
        struct held *h = &m->held[i];
        if (!h->assigned || h->paused || h->ahead >= AHEAD_MAX)
            continue;
        fetch_part(m, (int32_t)i);
        more = more || h->position < log_end((int32_t)i);
    }
    if (more)
        member_fetch_soon(m);
}

void member_fetch_soon(struct member *m)
{
    if (m->fetches || !member_is_live(m))
        return;
    m->fetches = true;
    uint64_t *before = draw_from(&group_stream);
    after(skewed(500, 50 * MS), fetch, m, 0);
    draw_from(before);
}

/* Drops what was fetched and not received, and continues there. */
static void move(struct held *h, int64_t position)
{
    h->version++;
    h->ahead = 0;
    h->at_end = false;
    h->position = position;
}

/* -------------------------------------------------------------- calls of librdkafka */

static void assign(struct member *m, const struct group_row *row)
{
    struct held *h = &m->held[row->partition];
    int64_t offset = row->offset, committed = group_parts[row->partition].committed;
    if (offset == RD_KAFKA_OFFSET_END) {
        offset = log_end(row->partition);
    } else if (offset < 0) {
        offset = committed >= 0 ? committed : log_low(row->partition);
    }
    tell("core%u begins partition %d at %lld", m->core->index, (int)row->partition,
         (long long)offset);
    *h = (struct held){.assigned = true,
                       .life = group_topic_lives,
                       .is_of_mark = world.plan.latest && committed < 0,
                       .position = offset,
                       .start = offset,
                       .received = -1,
                       .may_commit = -1,
                       .committed = -1,
                       .low = -1,
                       .end = -1,
                       .version = h->version + 1};
    member_fetch_soon(m);
}

static void unassign(struct member *m, const struct group_row *row)
{
    struct held *h = &m->held[row->partition];
    if (h->assigned)
        group_commit(m, row->partition, h->may_commit > h->committed ? h->may_commit : -1,
                     true);
    else
        group_release(m, row->partition);
    h->assigned = false;
    move(h, h->start);
}

/* After an event was applied. */
static void applied(struct member *m, bool revoked)
{
    m->applies = false;
    if (revoked && m->knows && !m->leaves) {
        m->is_lost = m->knows = false;
        m->in_group = true;
        group_rebalance_soon(3 * SECOND);
    }
    member_wake(m);
}

static void leave(struct member *m)
{
    m->leaves = true;
    struct queued *q = member_event(m, GROUP_REVOKE);
    for (int32_t i = 0; i < PARTITIONS_MAX; i++)
        if (m->held[i].assigned)
            event_row(q, i, RD_KAFKA_OFFSET_INVALID, 0);
}

static int call_row(struct member *m, enum group_call call, const struct group_row *row)
{
    struct held *h = &m->held[row->partition];
    if (call == CALL_ASSIGN)
        assign(m, row);
    else if (!h->assigned)
        return RD_KAFKA_RESP_ERR__STATE;
    else if ((call == CALL_PAUSE && !h->paused) || (call == CALL_RESUME && h->paused))
        move(h, h->received >= 0 ? h->received : h->start);
    else if (call == CALL_SEEK)
        move(h, h->start = row->offset);
    else if (call == CALL_STORE)
        h->may_commit = row->offset;
    else if (call == CALL_COMMIT)
        group_commit(m, row->partition, h->may_commit = h->committed = row->offset,
                     false);
    if (call == CALL_PAUSE || call == CALL_RESUME)
        h->paused = call == CALL_PAUSE;
    return 0;
}

static int call(struct member *m, enum group_call call, const struct group_row *rows,
                unsigned n, uint64_t round)
{
    int error = 0;
    if (call == CALL_LEAVE)
        leave(m);
    else if (call == CALL_CLOSE)
        group_abandon(m);
    else if (call == CALL_OFFSETS)
        group_ask_offsets(m, rows, n, round);
    for (unsigned i = 0; i < n && call != CALL_OFFSETS; i++)
        if (call == CALL_UNASSIGN)
            unassign(m, &rows[i]);
        else
            error = call_row(m, call, &rows[i]) ? RD_KAFKA_RESP_ERR__STATE : error;
    if (call == CALL_UNASSIGN && m->leaves) {
        m->has_left = true;
        if (!world.plan.static_members) /* after its last commits */
            at(m->arrives_us + 1, group_end_session, m, 0);
    }
    if (call == CALL_ASSIGN || call == CALL_UNASSIGN)
        applied(m, call == CALL_UNASSIGN);
    member_fetch_soon(m);
    return error;
}

int group_call(struct sim_core *core, enum group_call what, const struct group_row *rows,
               unsigned n, uint64_t round)
{
    uint64_t *before = draw_from(&group_stream);
    int error = 0;
    if (what == CALL_JOIN)
        group_join(core);
    else
        error = call(group_now[core->index], what, rows, n, round);
    draw_from(before);
    return error;
}

/* Whether the core receives it; a fetch from before a pause or a seek is dropped. */
static bool receive(struct member *m, const struct queued *q)
{
    if (q->event.kind == GROUP_FETCH) {
        struct held *h = &m->held[q->event.rows[0].partition];
        if (!h->assigned || h->version != q->version)
            return false;
        h->ahead--;
        h->received = q->event.rows[0].offset;
        member_fetch_soon(m);
    }
    m->heard_gone =
        m->heard_gone || q->event.error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    m->applies = m->applies || is_rebalance(q);
    return true;
}

bool group_event(struct sim_core *core, struct group_event *event)
{
    struct member *m = group_now[core->index];
    for (guint i = 0; i < m->queue->len; i++) {
        struct queued *q = m->queue->pdata[i];
        if (is_rebalance(q) && m->applies)
            continue;
        g_ptr_array_remove_index(m->queue, i--);
        bool is_received = receive(m, q);
        *event = q->event;
        free(q);
        if (is_received)
            return true;
    }
    return false;
}

bool group_has_left(struct sim_core *core)
{
    return group_now[core->index]->has_left;
}

bool group_is_lost(struct sim_core *core)
{
    return group_now[core->index]->knows;
}

bool group_watermarks(struct sim_core *core, int32_t partition, int64_t *low,
                      int64_t *end)
{
    const struct held *h = &group_now[core->index]->held[partition];
    *low = h->low;
    *end = h->end;
    return h->assigned && h->end >= 0;
}
