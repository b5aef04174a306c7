/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_internal.h - the state of a connection, for redis.c and redis_greet.c only.
 */
#ifndef BRIDGE_REDIS_INTERNAL_H
#define BRIDGE_REDIS_INTERNAL_H

#include "bridge/redis/redis.h"
#include "bridge/redis/resp.h"

#include <hiredis/hiredis.h>

enum phase { RESTING, FINDING, OPENING, GREETING, READY, GONE };

struct redis {
    struct redis_conf conf;
    redis_state_cb *on_state;
    void *arg;
    enum phase phase;
    struct net *net;
    redisReader *reader;
    struct redis_pool replies; /* memory of the reply that reader builds */
    uint64_t connection; /* counter: a callback detects that its connection was closed */
    struct redis_queue open;
    int64_t heard_ms; /* monotonic time of the last reply */
    int64_t lost_ms;  /* monotonic: since when a reply is missing, if this connection has
                       * received none; 0: it has */
    size_t unparsed_bytes;        /* bytes read since then */
    struct timer *deadline_timer; /* deadline of the oldest command */
    struct resp command;          /* the last command */
    struct timer *connect_timer;  /* RESTING: reconnects; else: connection timeout */
    unsigned failures; /* consecutive, since the last reply to a call or message */
    int64_t up_ms;     /* time when the connection became ready */
    bool denied;       /* the last failure was REDIS_DENIED */
    const char *const *channels; /* subscribed to; NULL: none */
    size_t channel_count;
    redis_message_cb *on_message;
    void *message_arg;
};

/* Like redis_command(), but r need not be ready. */
void redis_send(struct redis *r, const struct slice *args, unsigned count,
                redis_reply_cb *cb, void *arg);
/* Sends the first commands of a connection, whose last reply makes r ready. */
void redis_greet(struct redis *r);
/* Subscribes to the channels, if there are any; r must be ready. */
void redis_greet_channels(struct redis *r);

#endif
