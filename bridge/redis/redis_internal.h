/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_internal.h - shared by redis.c and redis_greet.c.
 */
#ifndef BRIDGE_REDIS_INTERNAL_H
#define BRIDGE_REDIS_INTERNAL_H

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
    struct redis_pool replies; /* memory of the reply that reader builds */
    uint64_t connection; /* counter: a callback detects that its connection was closed */

    struct redis_queue open;
    int64_t heard_ms;             /* monotonic time of the last reply */
    size_t unparsed_bytes;        /* bytes read since then */
    struct timer *deadline_timer; /* deadline of the oldest command */
    struct resp command;          /* the last command */

    struct timer *connect_timer; /* RESTING: reconnects; else: connection timeout */
    unsigned failures; /* consecutive, since the last reply to a call or message */
    int64_t up_ms;     /* time when the connection became ready */
    bool denied;       /* the last failure was REDIS_DENIED */
    struct subscription *subscriptions;
};

/* Like redis_command(), but r need not be up. */
void redis_send(struct redis *r, const struct slice *args, unsigned count,
                redis_reply_cb *cb, void *arg);

/* Logs in and checks the server; then calls redis_ready() or redis_reconnect(). */
void redis_handshake(struct redis *r);
void redis_ready(struct redis *r);
/* Closes the connection after an error reply to the command what. */
void redis_handshake_failed(struct redis *r, const char *what,
                            const struct redisReply *reply);

#endif
