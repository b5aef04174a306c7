/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_group.c - the consumer group that reads the log, as its
 * coordinator behaves: cooperative rebalances, sessions that expire while their member
 * still reads (zombies), static members, commits that are lost or late.
 */
#include "bridge/base/mem.h"
#include "tests/sim/world_group.h"

#include <stdlib.h>

#include <librdkafka/rdkafka.h>

enum { SESSION_S = 10, STATIC_SESSION_S = 45 };

uint64_t group_stream;
struct member *group_now[CORES_MAX];
GPtrArray *group_members;
unsigned group_topic_lives;
struct group_part group_parts[PARTITIONS_MAX];
static bool rebalances;
static bool has_begun; /* false: all commits are of the consumer before tarry */

/* --------------------------------------------------------------------- rebalances */

static void rebalance(void *arg, int64_t number);

void group_rebalance_soon(int64_t most_us)
{
    if (rebalances)
        return;
    rebalances = true;
    uint64_t *before = draw_from(&group_stream);
    after(skewed(MS, most_us), rebalance, NULL, 0);
    draw_from(before);
}

static unsigned owned_by(const struct member *m)
{
    unsigned n = 0;
    for (unsigned i = 0; i < log_partitions(); i++)
        n += group_parts[i].owner == m;
    return n;
}

static struct member *extreme(bool most)
{
    struct member *found = NULL;
    for (unsigned i = 0; i < world.plan.cores; i++) {
        struct member *m = group_now[i];
        if (m == NULL || !m->in_group || !m->is_open || m->leaves)
            continue;
        unsigned n = owned_by(m), best = found ? owned_by(found) : 0;
        if (found == NULL || (most ? n > best : n < best))
            found = m;
    }
    return found;
}

static void ask_back(struct member *m, int32_t partition)
{
    struct queued *q = member_event(m, GROUP_REVOKE);
    event_row(q, partition, RD_KAFKA_OFFSET_INVALID, 0);
    tell("partition %d is revoked from core%u", (int)partition, m->core->index);
}

/* Whether a revocation is under way: the group waits for it. */
static bool is_revoking(const struct member *m)
{
    for (guint i = 0; i < m->queue->len; i++)
        if (((struct queued *)m->queue->pdata[i])->event.kind == GROUP_REVOKE)
            return true;
    return m->applies;
}

/* Gives partitions without an owner away, then moves one from the member with the most to
 * the one with the least. */
static void rebalance(void *arg, int64_t number)
{
    struct queued *assigned[CORES_MAX] = {NULL};
    (void)arg, (void)number;
    rebalances = false;
    for (unsigned i = 0; i < log_partitions(); i++) {
        struct member *m = extreme(false);
        if (group_parts[i].owner || m == NULL)
            continue;
        group_parts[i].owner = m;
        struct queued **q = &assigned[m->core->index];
        *q = *q ? *q : member_event(m, GROUP_ASSIGN);
        event_row(*q, (int32_t)i, RD_KAFKA_OFFSET_INVALID, 0);
        tell("partition %u is assigned to core%u", i, m->core->index);
    }
    struct member *most = extreme(true), *least = extreme(false);
    if (most == NULL || owned_by(most) < owned_by(least) + 2)
        return;
    for (unsigned i = 0; i < log_partitions() && !is_revoking(most); i++)
        if (group_parts[i].owner == most)
            ask_back(most, (int32_t)i);
    group_rebalance_soon(3 * SECOND);
}

void group_release(struct member *m, int32_t partition)
{
    if (group_parts[partition].owner != m)
        return;
    group_parts[partition].owner = NULL;
    group_rebalance_soon(SECOND);
}

static void leave_group(struct member *m)
{
    m->in_group = false;
    for (int32_t i = 0; i < PARTITIONS_MAX; i++)
        group_release(m, i);
    group_rebalance_soon(SECOND);
}

/* The member learns that the group has dropped it. */
static void tell_lost(void *arg, int64_t number)
{
    struct member *m = arg;
    (void)number;
    if (!member_is_live(m) || !m->is_lost || m->leaves)
        return;
    m->knows = true;
    member_drop_events(m, GROUP_ASSIGN);
    member_drop_events(m, GROUP_REVOKE);
    struct queued *q = member_event(m, GROUP_REVOKE);
    for (int32_t i = 0; i < PARTITIONS_MAX; i++)
        if (m->held[i].assigned)
            event_row(q, i, RD_KAFKA_OFFSET_INVALID, 0);
}

static void expire(struct member *m)
{
    if (!m->in_group)
        return;
    tell("the session of core%u, life %u, has expired", m->core->index, m->life);
    leave_group(m);
    m->is_lost = true;
    uint64_t *before = draw_from(&group_stream);
    int64_t wakes_us = m->core->busy_until_us; /* it may be stopped */
    at((wakes_us > world.now_us ? wakes_us : world.now_us) + skewed(MS, 8 * SECOND),
       tell_lost, m, 0);
    draw_from(before);
}

void group_end_session(void *arg, int64_t number)
{
    (void)number;
    expire(arg);
}

/* ------------------------------------------------------------------------ commits */

struct commit {
    struct member *m;
    int32_t partition;
    int64_t offset;
    unsigned life; /* of the topic */
    bool releases, is_lost;
};

static void on_commit(void *arg, int64_t number)
{
    struct commit *c = arg;
    struct member *m = c->m;
    struct held *h = &m->held[c->partition];
    int error = 0;
    (void)number;
    if (c->offset >= 0) {
        if (!m->in_group || group_parts[c->partition].owner != m)
            error = RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID;
        else if (c->is_lost || c->life != group_topic_lives ||
                 (unsigned)c->partition >= log_partitions())
            error = RD_KAFKA_RESP_ERR__TIMED_OUT;
        else
            group_parts[c->partition].committed = h->committed = c->offset;
        has_begun = true;
        member_event(m, GROUP_COMMITTED)->event.error = error;
        tell("core%u commits partition %d up to %lld%s", m->core->index,
             (int)c->partition, (long long)c->offset, error ? ", in vain" : "");
    }
    if (c->releases)
        group_release(m, c->partition);
    free(c);
}

void group_commit(struct member *m, int32_t partition, int64_t offset, bool releases)
{
    struct commit *c = mem_alloc(sizeof(*c));
    uint64_t *before = draw_from(&group_stream);
    bool is_slow = one_in(10) && !world.healed;
    int64_t us = world.now_us + skewed(MS, is_slow ? 3 * SECOND : 30 * MS);
    *c = (struct commit){m, partition, offset, group_topic_lives, releases, false};
    c->is_lost = !world.healed && world.plan.fault_every_us != NEVER && one_in(30);
    m->arrives_us = us > m->arrives_us ? us : m->arrives_us;
    at(m->arrives_us, on_commit, c, 0);
    draw_from(before);
}

static void commit_stored(void *arg, int64_t number)
{
    struct member *m = arg;
    (void)number;
    if (!member_is_live(m))
        return;
    for (int32_t i = 0; i < PARTITIONS_MAX && !member_is_stopped(m); i++) {
        const struct held *h = &m->held[i];
        if (h->assigned && h->may_commit > h->committed)
            group_commit(m, i, h->may_commit, false);
    }
    after(SECOND, commit_stored, m, 0);
}

static void answer_offsets(void *arg, int64_t number)
{
    struct queued *q = arg;
    struct member *m = group_members->pdata[number];
    bool fails =
        !world.healed && world.plan.fault_every_us != NEVER && one_in(has_begun ? 15 : 2);
    for (unsigned i = 0; i < q->event.n; i++) {
        struct group_row *row = &q->event.rows[i];
        int64_t offset = group_parts[row->partition].committed;
        row->offset = offset >= 0 ? offset : RD_KAFKA_OFFSET_INVALID;
        if (fails && one_in(2)) {
            row->offset = RD_KAFKA_OFFSET_INVALID;
            row->error = RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT;
        }
    }
    if (fails && one_in(2))
        q->event.error = RD_KAFKA_RESP_ERR__TIMED_OUT;
    g_ptr_array_add(m->queue, q);
    member_wake(m);
}

void group_ask_offsets(struct member *m, const struct group_row *rows, unsigned n,
                       uint64_t round)
{
    struct queued *q = mem_alloc(sizeof(*q));
    guint number = 0;
    g_ptr_array_find(group_members, m, &number);
    q->event = (struct group_event){.kind = GROUP_OFFSETS, .round = round, .n = n};
    memcpy(q->event.rows, rows, n * sizeof(*rows));
    bool is_slow = one_in(10) && !world.healed;
    after(skewed(MS, is_slow ? 8 * SECOND : 50 * MS), answer_offsets, q, number);
}

/* --------------------------------------------------------------------- membership */

/* A static member: it gets its partitions without a rebalance. */
static void take_over(struct member *m, struct member *old)
{
    struct queued *q = owned_by(old) > 0 ? member_event(m, GROUP_ASSIGN) : NULL;
    old->in_group = false;
    for (unsigned i = 0; i < PARTITIONS_MAX; i++) {
        if (group_parts[i].owner != old)
            continue;
        group_parts[i].owner = i < log_partitions() ? m : NULL;
        if (group_parts[i].owner)
            event_row(q, (int32_t)i, RD_KAFKA_OFFSET_INVALID, 0);
    }
}

void group_join(struct sim_core *core)
{
    struct member *m = mem_alloc(sizeof(*m)), *old = group_now[core->index];
    m->core = core;
    m->life = core->life;
    m->is_open = m->in_group = true;
    m->heard_gone = log_partitions() == 0;
    m->queue = g_ptr_array_new();
    g_ptr_array_add(group_members, m);
    group_now[core->index] = m;
    if (old && old->in_group && world.plan.static_members) {
        tell("core%u takes its place in the group again", core->index);
        take_over(m, old);
    }
    group_rebalance_soon(3 * SECOND);
    after(SECOND, commit_stored, m, 0);
}

void group_abandon(struct member *m)
{
    m->is_open = false;
    if (m->in_group)
        after((world.plan.static_members ? STATIC_SESSION_S : SESSION_S) * SECOND,
              group_end_session, m, 0);
}

/* -------------------------------------------------------------------------- the world */

void jobs_core_changed(struct sim_core *core)
{
    session_core_changed(core);
    uint64_t *before = draw_from(&group_stream);
    struct member *m = group_now[core->index];
    if (!core->alive && m && m->is_open)
        group_abandon(m);
    draw_from(before);
}

/* A core that stalls, or that the group cannot reach: others read its partitions,
 * and it reads on for a while. */
void group_drop(struct sim_core *core)
{
    if (group_now[core->index] == NULL || !group_now[core->index]->in_group)
        return;
    fault("a member of the group is dropped, and does not know");
    expire(group_now[core->index]);
}

bool group_may_rewind(void)
{
    return world.plan.rewinds;
}

/* Rewinds the route to a time in the last minute. */
void group_rewind(struct sim_core *core)
{
    int64_t to_ms = (world.now_us - skewed(0, 60 * SECOND)) / 1000;
    fault("an operator rewinds the log");
    tell("core%u rewinds to %lld", core->index, (long long)to_ms);
    core_event(core, &(struct event){.kind = EVENT_REWIND, .number = to_ms});
}

void group_appended(void)
{
    for (unsigned i = 0; i < world.plan.cores; i++)
        if (group_now[i])
            member_fetch_soon(group_now[i]);
}

static void on_silence(void *arg, int64_t number)
{
    struct member *m = arg;
    (void)number;
    if (member_is_live(m) && member_is_stopped(m))
        expire(m);
}

void group_stalled(struct sim_core *core)
{
    uint64_t *before = draw_from(&group_stream);
    if (group_now[core->index])
        after(SESSION_S * SECOND, on_silence, group_now[core->index], 0);
    draw_from(before);
}

void group_more_partitions(void)
{
    group_rebalance_soon(10 * SECOND);
}

static void tell_gone(void *arg, int64_t number)
{
    (void)number;
    struct queued *q = member_event(arg, GROUP_ERROR);
    q->event.error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    event_row(q, RD_KAFKA_PARTITION_UA, 0, 0);
}

/* The group forgets the offsets of a deleted topic. */
void group_topic_gone(void)
{
    uint64_t *before = draw_from(&group_stream);
    group_topic_lives++;
    for (int i = 0; i < PARTITIONS_MAX; i++)
        group_parts[i].committed = -1;
    for (unsigned i = 0; i < world.plan.cores; i++)
        if (group_now[i] && member_is_live(group_now[i])) {
            group_now[i]->heard_gone = false;
            after(skewed(MS, SECOND), tell_gone, group_now[i], 0);
        }
    draw_from(before);
}

int64_t group_committed(int32_t partition)
{
    return group_parts[partition].committed;
}

bool group_knows_it_is_gone(void)
{
    for (unsigned i = 0; i < world.plan.cores; i++)
        if (group_now[i] && member_is_live(group_now[i]) && !group_now[i]->heard_gone)
            return false;
    return true;
}

void group_topic_made(void)
{
    for (int i = 0; i < PARTITIONS_MAX; i++)
        if (group_parts[i].owner && (unsigned)i >= log_partitions()) {
            struct member *m = group_parts[i].owner;
            ask_back(m, i);
        }
    group_rebalance_soon(10 * SECOND);
}

void group_init(void)
{
    group_stream = stream_new('g', 0);
    group_members = g_ptr_array_new();
    uint64_t *before = draw_from(&group_stream);
    /* Another consumer of the group has read the partitions that exist, and its session
     * must expire first. Redis has no mark of them. */
    rebalances = one_in(2);
    for (unsigned i = 0; i < PARTITIONS_MAX; i++)
        group_parts[i].committed = rebalances && i < log_partitions() ? 0 : -1;
    has_begun = !rebalances;
    if (rebalances) {
        tell("another consumer of the group has read the log so far");
        after(between(2, 20) * SECOND, rebalance, NULL, 0);
    }
    draw_from(before);
}
