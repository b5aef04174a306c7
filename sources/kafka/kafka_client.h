/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_client.h - a librdkafka handle on the loop: events, log lines, errors, the end.
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
    /* An error, which is logged by the client; ev stays its own. May be NULL. */
    void (*error)(void *arg, rd_kafka_event_t *ev);
    /* The handle is of no more use; the owner may close it from within. */
    void (*fatal)(void *arg, const char *why);
};

/* Takes conf, which was made of link. who speaks in the log; events and link are borrowed
 * until the close. */
struct kafka_client *kafka_client_open(const char *who, rd_kafka_type_t type,
                                       const struct kafka_link *link,
                                       rd_kafka_conf_t *conf,
                                       const struct kafka_events *events, void *arg,
                                       struct err *err);
rd_kafka_t *kafka_client_rk(const struct kafka_client *c);
rd_kafka_queue_t *kafka_client_queue(const struct kafka_client *c);
/* Serves what is there; done by itself when something comes, and each second. */
void kafka_client_poll(struct kafka_client *c);
/* Serves nothing until it is told to go on. Not for long: nobody hears of a rebalance. */
void kafka_client_rest(struct kafka_client *c, bool rest);
/* A broker answered: ends the state of "no broker can be reached". */
void kafka_client_alive(struct kafka_client *c);
/* To be treated as a fatal error event, but not from within. */
void kafka_client_fail(struct kafka_client *c, const char *why);

/* A consumer begins to leave its group; the queue tells of the rest, then comes the
 * close.
 */
int kafka_client_leave(struct kafka_client *c, struct err *err);
/* Takes c. No callback but done, when librdkafka has let go or after a few seconds; never
 * from within. done NULL: blocks instead, for a start that failed. */
void kafka_client_close(struct kafka_client *c, loop_cb *done, void *arg);

/* How long to wait before try n (1 is the first) to build the client anew; with jitter.
 */
int64_t kafka_backoff_ms(unsigned n);

#endif
