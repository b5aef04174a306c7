/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_group.h - our membership of a consumer group: partitions are assigned and
 * revoked. Loop thread.
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
    rd_kafka_topic_partition_list_t *list; /* with committed offsets; NULL: none waits */
    bool latest;                           /* start = "latest" */
    bool has_committed;
    const struct kafka_fields *fields; /* with the marks; NULL: Redis has not answered */
    unsigned round;      /* of the request; answers to earlier ones are ignored */
    struct timer *limit; /* for both answers */
    /* Takes list, its offsets set. */
    void (*done)(void *arg, rd_kafka_topic_partition_list_t *list);
    void *arg;
};

void kafka_start_init(struct kafka_start *s, const char *who, const char *group_id,
                      bool latest);
void kafka_start_fini(struct kafka_start *s);

/* Requests the committed offsets; the caller requests the marks. Copies list. */
void kafka_start_begin(struct kafka_start *s, struct kafka_client *client,
                       const rd_kafka_topic_partition_list_t *list);
/* Its first half, without the request. Copies list. */
void kafka_start_expect(struct kafka_start *s,
                        const rd_kafka_topic_partition_list_t *list);
/* The answers. ev stays the caller's. */
void kafka_start_marks(struct kafka_start *s, const struct kafka_fields *fields);
void kafka_start_committed(struct kafka_start *s, rd_kafka_event_t *ev);
/* The offsets in the group's answer, each with its own error. */
void kafka_start_offsets(struct kafka_start *s,
                         const rd_kafka_topic_partition_list_t *answer);
/* The mark of that partition, also in done; -1: none is known. */
int64_t kafka_start_mark(const struct kafka_start *s,
                         const rd_kafka_topic_partition_t *row);
/* Ends the wait, with what is known; does nothing where no assignment waits. */
void kafka_start_hurry(struct kafka_start *s);
/* Forgets the assignment that waits. */
void kafka_start_drop(struct kafka_start *s);

/* --------------------------------------------------------------------- the membership */

struct kafka_group {
    const char *who;
    struct kafka_client *client; /* NULL: none */
    struct kafka_parts parts;
    struct kafka_marks marks;
    struct kafka_start start;
    bool paused;
    struct timer *long_pause; /* until then the client only stops serving events */
    rd_kafka_event_t *assign; /* an assignment that waits for start; NULL: none */
    rd_kafka_event_t *revoke; /* a revocation that waits for answers; NULL: none */
    bool revoke_marked;       /* all is answered: it waits for its marks */
    struct timer *limit;      /* of that wait */
    struct timer *read_again; /* reads the marks again after Redis did not answer */
    unsigned read_tries;
    void (*settled)(void *arg); /* see kafka_group_settle() */
    void *arg;
};

/* commit_lag_ms: commits trail storing by so much. latest: a new group skips the records
 * that are there. */
void kafka_group_init(struct kafka_group *g, struct source *src, const char *group_id,
                      int64_t commit_lag_ms, bool latest);
void kafka_group_fini(struct kafka_group *g); /* after kafka_group_leave() */

void kafka_group_join(struct kafka_group *g, struct kafka_client *client);
/* Forgets the client and every partition. Requests to Redis may still be on their way
 * (parts.asks). */
void kafka_group_leave(struct kafka_group *g);

/* Takes ev, of RD_KAFKA_EVENT_REBALANCE. */
void kafka_group_rebalance(struct kafka_group *g, rd_kafka_event_t *ev);
/* An error of a partition; ev stays the caller's. */
void kafka_group_error(struct kafka_group *g, rd_kafka_event_t *ev);
/* Call after each kafka_part_answer(): a revocation may wait for it. */
void kafka_group_answered(struct kafka_group *g);
/* Also pauses partitions that are assigned later. */
void kafka_group_pause(struct kafka_group *g, bool paused);
/* Pauses for good, before the end; still serves rebalances. */
void kafka_group_hold(struct kafka_group *g);
/* Redis is back, perhaps without its last writes: holds every partition until its mark
 * was read, and goes back to the mark. */
void kafka_group_reread(struct kafka_group *g);
/* Looks for new rewinds. */
void kafka_group_look(struct kafka_group *g);
/* Marks and hands to librdkafka all that is stored, ignoring the lag. Calls done once,
 * also if Redis is away. */
void kafka_group_settle(struct kafka_group *g, void (*done)(void *arg), void *arg);

#endif
