/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_group.h - our membership of a consumer group: partitions come and go. Loop
 * thread.
 *
 * A partition that comes begins where kafka_start.h says. One that leaves is given up
 * after its open records are answered and its offset was marked and handed over, for
 * which the rebalance waits a few seconds.
 */
#ifndef SOURCES_KAFKA_KAFKA_GROUP_H
#define SOURCES_KAFKA_KAFKA_GROUP_H

#include "sources/kafka/kafka_client.h"
#include "sources/kafka/kafka_marks.h"
#include "sources/kafka/kafka_part.h"
#include "sources/kafka/kafka_start.h"

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
/* Takes no ev: that the group was asked for, of kafka_start.h. */
void kafka_group_committed(struct kafka_group *g, rd_kafka_event_t *ev);

#endif
