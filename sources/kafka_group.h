/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_group.h - our membership of a consumer group: partitions come and go. Loop
 * thread.
 *
 * A partition that leaves is given up after its open records are answered, for which the
 * rebalance waits a few seconds.
 */
#ifndef SOURCES_KAFKA_GROUP_H
#define SOURCES_KAFKA_GROUP_H

#include "sources/kafka_client.h"
#include "sources/kafka_part.h"

struct kafka_group {
    const char *who;
    struct kafka_client *client; /* NULL: there is none at present */
    struct kafka_parts parts;
    bool paused;
    rd_kafka_event_t *revoke; /* a revocation that waits for answers; NULL: none */
    struct timer *limit;      /* of that wait */
};

void kafka_group_init(struct kafka_group *g, const char *who);
void kafka_group_fini(struct kafka_group *g); /* after kafka_group_leave() */

void kafka_group_join(struct kafka_group *g, struct kafka_client *client);
/* Forgets the client and every partition; committed is what librdkafka has committed. */
void kafka_group_leave(struct kafka_group *g);

/* Takes ev, of RD_KAFKA_EVENT_REBALANCE. */
void kafka_group_rebalance(struct kafka_group *g, rd_kafka_event_t *ev);
/* After each kafka_part_answer(): something may have waited for it. */
void kafka_group_answered(struct kafka_group *g);
/* Partitions that come later are paused too. */
void kafka_group_pause(struct kafka_group *g, bool paused);

#endif
