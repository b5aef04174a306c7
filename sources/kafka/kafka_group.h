/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_group.h - our membership of a consumer group: partitions come and go. Loop
 * thread.
 *
 * A partition that leaves is given up after its open records are answered and its offset
 * was marked and handed over. The rebalance waits a few seconds for that.
 */
#ifndef SOURCES_KAFKA_KAFKA_GROUP_H
#define SOURCES_KAFKA_KAFKA_GROUP_H

#include "sources/kafka/kafka_client.h"
#include "sources/kafka/kafka_marks.h"
#include "sources/kafka/kafka_part.h"

/* --------------------------------------------- kafka_start.c: where partitions begin */

/* An assigned partition begins at the offset that the group has committed, unless Redis'
 * mark (kafka_marks.h) is lower: then Redis has lost its last writes, and it begins at
 * the mark. The assignment waits some seconds at most for both answers. A partition whose
 * committed offset is not known by then begins at the mark.
 *
 * With start = "latest" a partition without a committed offset begins at the mark, and
 * where there is none at the end. Then it waits until the group has answered. */
struct kafka_start {
    const char *who;
    const char *group_id;
    struct kafka_client *client;
    rd_kafka_topic_partition_list_t *list; /* NULL: none waits; offsets: the committed */
    bool latest;                           /* a new group begins at the end */
    bool has_committed, has_marks;
    int64_t *marks;      /* of each */
    unsigned round;      /* tells answers to earlier questions apart */
    struct timer *limit; /* for both answers */
    /* Takes list, its offsets set. sure: both answers were there. */
    void (*done)(void *arg, rd_kafka_topic_partition_list_t *list, const int64_t *marks,
                 bool sure);
    void *arg;
};

void kafka_start_init(struct kafka_start *s, const char *who, const char *group_id,
                      bool latest);
void kafka_start_fini(struct kafka_start *s);

/* Begins to ask the group; the marks are asked for by the caller. Copies list. */
void kafka_start_begin(struct kafka_start *s, struct kafka_client *client,
                       const rd_kafka_topic_partition_list_t *list);
/* Its first half: what is to be known of each, without asking. Copies list. */
void kafka_start_expect(struct kafka_start *s,
                        const rd_kafka_topic_partition_list_t *list);
/* The answers. ev stays the caller's. */
void kafka_start_marks(struct kafka_start *s, const struct kafka_marks *m);
void kafka_start_committed(struct kafka_start *s, rd_kafka_event_t *ev);
/* The offsets in the group's answer, each with its own error. */
void kafka_start_offsets(struct kafka_start *s,
                         const rd_kafka_topic_partition_list_t *answer);
/* Done now, with what is known; nothing where none waits. */
void kafka_start_hurry(struct kafka_start *s);
/* Forgets what waits. */
void kafka_start_drop(struct kafka_start *s);

/* --------------------------------------------------------------------- the membership */

struct kafka_group {
    const char *who;
    struct kafka_client *client; /* NULL: there is none at present */
    struct kafka_parts parts;
    struct kafka_marks marks;
    struct kafka_start start;
    bool paused;
    struct timer *long_pause; /* until then the client rests */
    rd_kafka_event_t *assign; /* waits for start; NULL: none */
    rd_kafka_event_t *revoke; /* a revocation that waits for answers; NULL: none */
    bool revoke_marked;       /* it waits for its marks */
    struct timer *limit;      /* of that wait */
    struct timer *read_again; /* the marks, after Redis did not answer */
    unsigned read_tries;
    void (*settled)(void *arg); /* see kafka_group_settle() */
    void *arg;
};

/* commit_lag_ms: what may be committed trails by so much what is stored. latest: where
 * the group is new, what is there is not read. */
void kafka_group_init(struct kafka_group *g, struct source *src, const char *group_id,
                      int64_t commit_lag_ms, bool latest);
void kafka_group_fini(struct kafka_group *g); /* after kafka_group_leave() */

void kafka_group_join(struct kafka_group *g, struct kafka_client *client);
/* Forgets the client and every partition; committed is what librdkafka has committed.
 * What was asked of Redis may still be on its way (parts.asks). */
void kafka_group_leave(struct kafka_group *g);

/* Takes ev, of RD_KAFKA_EVENT_REBALANCE. */
void kafka_group_rebalance(struct kafka_group *g, rd_kafka_event_t *ev);
/* An error of a partition; ev stays the caller's. */
void kafka_group_error(struct kafka_group *g, rd_kafka_event_t *ev);
/* After each kafka_part_answer(): something may have waited for it. */
void kafka_group_answered(struct kafka_group *g);
/* For as long as it takes; partitions that come later are paused too. */
void kafka_group_pause(struct kafka_group *g, bool paused);
/* For good, before the end: rebalances are served on. */
void kafka_group_hold(struct kafka_group *g);
/* Redis is back, perhaps without what it took last: every partition is held until its
 * mark was read, and goes back to it. */
void kafka_group_reread(struct kafka_group *g);
/* A rewind may have been asked for. */
void kafka_group_look(struct kafka_group *g);
/* Hands over all that is stored, without the lag. done: it was marked before, or can't
 * be. Once. */
void kafka_group_settle(struct kafka_group *g, void (*done)(void *arg), void *arg);

#endif
