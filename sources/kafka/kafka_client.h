/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_client.h - a librdkafka handle on the loop: events, log lines, errors, closing.
 *
 * Shared by the Kafka source and sink. Loop thread. librdkafka's own threads wake the
 * loop through a descriptor; nothing here blocks.
 */
#ifndef SOURCES_KAFKA_KAFKA_CLIENT_H
#define SOURCES_KAFKA_KAFKA_CLIENT_H

#include "bridge/base/mem.h"
#include "bridge/base/loop.h"
#include "sources/kafka/kafka_conf.h"

#include <stdbool.h>

#include <librdkafka/rdkafka.h>

struct kafka_client;

struct kafka_events {
    int mask; /* RD_KAFKA_EVENT_..., beside log and error, which are handled here */
    /* Takes ev. Must not close the client. */
    void (*event)(void *arg, rd_kafka_event_t *ev);
    /* An error, which the client logs; ev stays the client's. May be NULL. */
    void (*error)(void *arg, rd_kafka_event_t *ev);
    /* The handle no longer works; the owner may close it from within. */
    void (*fatal)(void *arg, const char *why);
};

/* Takes conf, which was made of link. who: in log lines. Borrows events and link until
 * the close. */
struct kafka_client *kafka_client_open(const char *who, rd_kafka_type_t type,
                                       const struct kafka_link *link,
                                       rd_kafka_conf_t *conf,
                                       const struct kafka_events *events, void *arg,
                                       struct err *err);
rd_kafka_t *kafka_client_rk(const struct kafka_client *c);
rd_kafka_queue_t *kafka_client_queue(const struct kafka_client *c);
/* Serves all events that are there. Called whenever an event arrives, and each second. */
void kafka_client_poll(struct kafka_client *c);
/* Stops serving events (true), or goes on. Not for long: rebalances wait, too. */
void kafka_client_rest(struct kafka_client *c, bool rest);
/* Notes that a broker answered. */
void kafka_client_alive(struct kafka_client *c);
/* Makes the client call fatal(), not from within. */
void kafka_client_fail(struct kafka_client *c, const char *why);

/* A consumer begins to leave its group. Close it when rd_kafka_consumer_closed(). */
int kafka_client_leave(struct kafka_client *c, struct err *err);
/* Takes c. Calls back only done: when librdkafka has ended, or after a few seconds; never
 * from within. done NULL: blocks instead, for a start that failed. */
void kafka_client_close(struct kafka_client *c, loop_cb *done, void *arg);

#endif
