/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_parts.h - what redis.c and redis_greet.c share.
 */
#ifndef BRIDGE_REDIS_PARTS_H
#define BRIDGE_REDIS_PARTS_H

#include "bridge/redis/redis.h"
#include "bridge/redis/resp.h"

struct net;
struct redisReader;
struct timer;

enum redis_phase { RESTING, FINDING, OPENING, GREETING, READY, GONE };

struct subscription {
    struct subscription *next;
    char *channel;
    redis_message_cb *cb;
    void *arg;
};

struct redis {
    struct redis_conf conf;
    redis_state_cb *on_state;
    void *arg;
    enum redis_phase phase;
    struct net *net;
    struct redisReader *reader;
    struct redis_pool replies; /* the one at a time that reader makes */
    uint64_t connection; /* counts them: tells in a callback that this one has gone */

    struct redis_queue open;
    int64_t heard_ms;             /* when the last reply came */
    size_t unparsed_bytes;        /* fed since then */
    struct timer *deadline_timer; /* one for all commands: the oldest counts */
    struct resp command;          /* the last one */

    struct timer *connect_timer; /* RESTING: begins again; else: gives up */
    unsigned failures; /* in a row: since a call was answered or a message came */
    int64_t up_ms;     /* since when it is up */
    bool denied;       /* the last failure was: only the operator can help */
    struct subscription *subscriptions;
};

/* As redis_command, before it is up. */
void redis_send(struct redis *r, const struct slice *args, unsigned count,
                redis_reply_cb *cb, void *arg);

/* Logs in and looks who answers; ends in redis_ready() or redis_reconnect(). */
void redis_greet(struct redis *r);
void redis_ready(struct redis *r);
/* Loses the connection over an error reply to what. */
void redis_greet_failed(struct redis *r, const char *what,
                        const struct redisReply *reply);

#endif
