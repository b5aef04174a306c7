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

enum { KAFKA_STATISTICS_MS = 5000 };

struct kafka_client;

struct kafka_events {
    int mask; /* RD_KAFKA_EVENT_... without those that the client handles: log, error,
                 statistics */
    /* Takes ownership of ev. Must not close the client. */
    void (*event)(void *arg, rd_kafka_event_t *ev);
    /* Reports an error that the client has logged. Borrows ev. May be NULL. */
    void (*error)(void *arg, rd_kafka_event_t *ev);
    /* Reports that the handle no longer works. May close the client. */
    void (*fatal)(void *arg, const char *why);
};

/* Opens a client. Takes ownership of conf, which must be made from link. who: name for
 * log lines. Borrows events and link until the client is closed. */
struct kafka_client *kafka_client_open(const char *who, rd_kafka_type_t type,
                                       const struct kafka_link *link,
                                       rd_kafka_conf_t *conf,
                                       const struct kafka_events *events, void *arg,
                                       struct err *err);
rd_kafka_t *kafka_client_rk(const struct kafka_client *c);
rd_kafka_queue_t *kafka_client_queue(const struct kafka_client *c);
/* Returns the number of open connections to brokers, at most KAFKA_STATISTICS_MS ago. c
 * may be NULL. */
unsigned kafka_client_connections(const struct kafka_client *c);
/* Handles all queued events. The client calls it for each new event and every second. */
void kafka_client_poll(struct kafka_client *c);
/* Stops handling events (true) or resumes (false). Keep it short: rebalances wait as
 * well. */
void kafka_client_pause(struct kafka_client *c, bool paused);
/* Records that a broker answered. */
void kafka_client_reached(struct kafka_client *c);
/* Makes the client call fatal() later, from the loop. */
void kafka_client_fail(struct kafka_client *c, const char *why);

/* Makes a consumer start to leave its group. Close the client once
 * rd_kafka_consumer_closed() is true. */
int kafka_client_leave(struct kafka_client *c, struct err *err);
/* Closes the client and takes ownership of c. Calls done later, when librdkafka has
 * stopped or after a few seconds; no other callback follows. done NULL: blocks instead,
 * for a failed start. */
void kafka_client_close(struct kafka_client *c, loop_cb *done, void *arg);

#endif
