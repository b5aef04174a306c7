/* SPDX-License-Identifier: BSD-2-Clause */
/* world_group.h - between the group (world_group.c) and its members (world_member.c). */
#ifndef TESTS_SIM_WORLD_GROUP_H
#define TESTS_SIM_WORLD_GROUP_H

#include "tests/sim/world_log.h"

#include <glib.h>

/* What librdkafka knows of a partition. */
struct held {
    bool assigned, paused, at_end; /* at_end: it has reported that */
    int64_t position, received;    /* to fetch next; after the last one received, or -1 */
    int64_t start;                 /* where it was assigned or sought */
    int64_t may_commit, committed; /* -1: none */
    int64_t low, end;              /* of the last fetch; -1: none yet */
    unsigned life;                 /* of the topic, when it last fetched */
    bool is_of_mark; /* "latest" without an offset of the group: the end, or a mark */
    unsigned version, ahead; /* ahead: fetched, not received */
};

struct queued {
    struct group_event event;
    unsigned version; /* of a fetch */
};

struct member {
    struct sim_core *core;
    unsigned life;
    bool is_open, leaves, has_left; /* is_open: the consumer exists */
    bool in_group;
    bool is_lost, knows; /* the group has dropped it, and it does not rejoin yet */
    bool applies;        /* a rebalance event was received and is not applied yet */
    bool fetches, heard_gone;
    int64_t arrives_us; /* of its last commit: the next one is not earlier */
    GPtrArray *queue;   /* struct queued */
    struct held held[PARTITIONS_MAX];
};

extern uint64_t group_stream; /* of their chances */
extern struct member *group_now[CORES_MAX];
extern unsigned group_topic_lives;
extern GPtrArray *group_members; /* of all lives */
extern struct group_part {
    struct member *owner; /* NULL: none */
    int64_t committed;    /* -1: none */
} group_parts[PARTITIONS_MAX];

/* --- world_member.c --- */

bool member_is_live(const struct member *m);
bool member_is_stopped(const struct member *m); /* with the threads of librdkafka */
void member_wake(const struct member *m);
struct queued *member_event(struct member *m, int kind);
void event_row(struct queued *q, int32_t partition, int64_t offset, int error);
void member_drop_events(struct member *m, int kind);
void member_fetch_soon(struct member *m);

/* --- world_group.c --- */

void group_rebalance_soon(int64_t most_us);
void group_release(struct member *m, int32_t partition);
/* Sends a commit, or none (-1). It may be lost; then the next one repeats it. releases:
 * the partition, when it arrives. */
void group_commit(struct member *m, int32_t partition, int64_t offset, bool releases);
void group_ask_offsets(struct member *m, const struct group_row *rows, unsigned n,
                       uint64_t round);
void group_join(struct sim_core *core);
/* Of a consumer that is closed without leaving, or whose core died. */
void group_abandon(struct member *m);
void group_end_session(void *member, int64_t number);

#endif
