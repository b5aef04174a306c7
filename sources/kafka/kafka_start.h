/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_start.h - where partitions that are assigned begin to be read.
 *
 * At the offset that the group has committed, unless Redis' mark (kafka_marks.h) is
 * lower: then Redis has lost what it took last, and they begin at the mark. Both are
 * asked for, and the assignment waits for the answers, for some seconds at most. A
 * partition whose committed offset is not known by then begins at the mark.
 *
 * With start = "latest" a group without an offset begins at the mark, and where there is
 * none at the end; it is not begun before the group has answered. Loop thread.
 */
#ifndef SOURCES_KAFKA_KAFKA_START_H
#define SOURCES_KAFKA_KAFKA_START_H

#include "sources/kafka/kafka_client.h"
#include "sources/kafka/kafka_marks.h"

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

#endif
