/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_group.h - membership in a consumer group: assigns and revokes partitions. Loop
 * thread.
 *
 * Before a partition is revoked, its open records must be answered, and its offset must
 * be marked in Redis and passed to librdkafka. The rebalance waits a few seconds for
 * that.
 */
#ifndef SOURCES_KAFKA_KAFKA_GROUP_H
#define SOURCES_KAFKA_KAFKA_GROUP_H

#include "sources/kafka/kafka_client.h"
#include "sources/kafka/kafka_marks.h"
#include "sources/kafka/kafka_part.h"

/* --------------------------------------------- kafka_start.c: where partitions begin */

/* Reading starts at the offset that the group committed. If the mark in Redis
 * (kafka_marks.h) is lower, Redis has lost its last writes and reading starts at the
 * mark. The assignment waits a few seconds for both answers. If the committed offset is
 * still unknown then, reading starts at the mark.
 *
 * With start = "latest", a partition without a committed offset starts at the mark, or at
 * the end if it has no mark. In this mode the assignment waits until the group
 * answers. */
struct kafka_start {
    const char *who;
    const char *group_id;
    struct kafka_client *client;
    rd_kafka_topic_partition_list_t *list; /* with committed offsets; NULL: no assignment
                                            * waits */
    bool latest;                           /* start = "latest" */
    bool has_committed;
    const struct kafka_fields *fields; /* with the marks; NULL: Redis has not answered */
    unsigned round;      /* number of the request; answers to earlier requests are
                          * ignored */
    struct timer *limit; /* for both answers */
    /* Takes ownership of list, which contains the start offsets. */
    void (*done)(void *arg, rd_kafka_topic_partition_list_t *list);
    void *arg;
};

void kafka_start_init(struct kafka_start *s, const char *who, const char *group_id,
                      bool latest);
void kafka_start_fini(struct kafka_start *s);

/* Requests the committed offsets; the caller requests the marks. Copies list. */
void kafka_start_begin(struct kafka_start *s, struct kafka_client *client,
                       const rd_kafka_topic_partition_list_t *list);
/* Starts the wait for both answers without sending the request. Copies list. */
void kafka_start_wait(struct kafka_start *s, const rd_kafka_topic_partition_list_t *list);
/* Pass in the answers. ev is borrowed. */
void kafka_start_marks(struct kafka_start *s, const struct kafka_fields *fields);
void kafka_start_committed(struct kafka_start *s, rd_kafka_event_t *ev);
/* Passes in the committed offsets, each with its own error. */
void kafka_start_offsets(struct kafka_start *s,
                         const rd_kafka_topic_partition_list_t *answer);
/* Returns the mark of the partition, also within done(); -1: no known mark. */
int64_t kafka_start_mark(const struct kafka_start *s,
                         const rd_kafka_topic_partition_t *row);
/* Ends the wait and uses the answers so far. Does nothing if no assignment waits. */
void kafka_start_now(struct kafka_start *s);
/* Drops the waiting assignment. */
void kafka_start_drop(struct kafka_start *s);

/* --------------------------------------------------------------------- the membership */

struct kafka_group {
    const char *who;
    struct kafka_client *client; /* NULL: none */
    struct kafka_parts parts;
    struct kafka_marks marks;
    struct kafka_start start;
    bool paused;
    struct timer *long_pause; /* end of a short pause, in which the client only stops
                               * handling events; then partitions are paused */
    rd_kafka_event_t *assign; /* an assignment that waits for start; NULL: none */
    rd_kafka_event_t *revoke; /* a revocation that waits for answers; NULL: none */
    bool revoke_marked;       /* all records are answered; the revocation waits for its
                               * marks */
    struct timer *limit;      /* of that wait */
    struct timer *retry_read; /* retries to read the marks after Redis did not answer */
    unsigned read_tries;
    void (*settled)(void *arg); /* see kafka_group_settle() */
    void *arg;
};

/* commit_lag_ms: delay between storing a record and committing its offset. latest: a new
 * group skips existing records. */
void kafka_group_init(struct kafka_group *g, struct source *src, const char *group_id,
                      int64_t commit_lag_ms, bool latest);
void kafka_group_fini(struct kafka_group *g); /* after kafka_group_leave() */

void kafka_group_join(struct kafka_group *g, struct kafka_client *client);
/* Drops the client and every partition. Requests to Redis may still be open
 * (parts.open_requests). */
void kafka_group_leave(struct kafka_group *g);

/* Takes ownership of ev, an RD_KAFKA_EVENT_REBALANCE. */
void kafka_group_rebalance(struct kafka_group *g, rd_kafka_event_t *ev);
/* Handles an error of a partition. Borrows ev. */
void kafka_group_error(struct kafka_group *g, rd_kafka_event_t *ev);
/* Call after each kafka_part_answer(): a revocation may wait for it. */
void kafka_group_answered(struct kafka_group *g);
/* Pauses or resumes reading, also for partitions assigned later. */
void kafka_group_pause(struct kafka_group *g, bool paused);
/* Pauses for good before a stop. Rebalances are still handled. */
void kafka_group_pause_for_stop(struct kafka_group *g);
/* Call when Redis is back, perhaps without its last writes. Pauses every partition until
 * its mark is read, then rewinds to the mark. */
void kafka_group_rewind(struct kafka_group *g);
/* Reads Redis for new rewinds. */
void kafka_group_check_rewinds(struct kafka_group *g);
/* Marks all stored records and passes their offsets to librdkafka without the commit lag.
 * Calls done once, also if Redis is unavailable. */
void kafka_group_settle(struct kafka_group *g, void (*done)(void *arg), void *arg);
/* Calls cb for each assigned partition with the number of records that Redis has not
 * stored. Their end is the one of the last fetch: no request is sent. So the lag of a
 * partition that is not fetched, for example while the source is paused, does not grow.
 * Markers of transactions count as records. */
void kafka_group_lag(const struct kafka_group *g, lag_cb *cb, void *arg);

#endif
