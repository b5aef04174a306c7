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

/* ------------------------------------------------- kafka_token.c: SASL OAUTHBEARER */

/* Tokens come from a file, or from a token server by client credentials (RFC 6749, 4.4).
 * librdkafka can only query a token server itself if it was built with libcurl; Debian's
 * is not. No error text contains a token or a secret. */

/* Where to get a token. Contains copies, since a thread may outlive the options. */
struct kafka_token_request {
    char *file;                            /* NULL: use the server */
    char *url, *client, *secret, *ca_file; /* ca_file NULL: the system's authorities */
    char *form;                            /* the request's body */
};
void kafka_token_request_init(struct kafka_token_request *req,
                              const struct kafka_link *link);
void kafka_token_request_free(struct kafka_token_request *req); /* wipes the secret */

struct kafka_token {
    char *value;
    int64_t expires_ms; /* expiry, ms since 1970; guessed if neither the token nor the
                         * server contains it */
};
/* Gets a token; free it with kafka_token_free(). Any thread. Blocks, for about 15 s at
 * most. */
int kafka_token_get(const struct kafka_token_request *req, struct kafka_token *token,
                    struct err *err);
void kafka_token_free(struct kafka_token *token); /* wipes it */

/* Gets a token and passes it to librdkafka, if link uses tokens. Blocks. */
int kafka_token_log_in(rd_kafka_t *rk, const struct kafka_link *link, struct err *err);

/* Gets tokens in a thread, so that no file system or token server blocks the loop. Call
 * on the loop thread. */
struct kafka_login;

/* Borrows rk until kafka_login_free(). NULL: link uses no tokens. */
struct kafka_login *kafka_login_new(const struct kafka_link *link, rd_kafka_t *rk);
/* Passes a token, or the reason for its absence, to librdkafka. On failure librdkafka
 * emits an error event and asks again after 10 s. login may be NULL. */
void kafka_login_refresh(struct kafka_login *login);
void kafka_login_free(struct kafka_login *login); /* login may be NULL */

/* ------------------------------------------------ kafka_stall.c: reads the statistics */

/* Finds a partition that librdkafka reads from the wrong broker. If the leader changes
 * twice in quick succession, or an old answer follows a new one, the first change of
 * broker may still be in progress when librdkafka (2.0.2) applies the second. It then
 * stays at the first broker for good: that broker refuses each fetch, but librdkafka
 * mistakes it for a follower of the leader that it knows already
 * (https://github.com/confluentinc/librdkafka/issues/3399). Only a new client helps.
 * Format: https://github.com/confluentinc/librdkafka/blob/master/STATISTICS.md. */

/* Adds to where a sentence about the first such partition. false: there is none.
 * connected: receives the number of open connections to brokers. */
bool kafka_stall_find(const char *stats, size_t n, struct buf *where,
                      unsigned *connected);

/* Call with each statistics of rk. Returns whether the same partition was found in the
 * last one, too: a change of broker in progress looks the same. last: what was found,
 * empty at first; the caller frees it. Always false for a producer, and with client.rack,
 * since followers are then read on purpose. connected: as above. */
bool kafka_stall_lasts(struct buf *last, rd_kafka_t *rk, const char *stats,
                       unsigned *connected);

/* ---------------------------------------------- kafka_query.c: `tarry check --connect`
 */

/* Uses a handle of its own. Appends the number of brokers, and of partitions for each
 * topic. Ignores names that begin with ^. -1: err names what is missing. Blocks. */
int kafka_probe(const struct kafka_link *link, char *const *topics, size_t n,
                struct buf *said, struct err *err);

#endif
