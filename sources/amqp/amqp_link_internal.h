/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp_link_internal.h - what amqp_link.c (connecting, receiving) and amqp_send.c share.
 */
#ifndef SOURCES_AMQP_AMQP_LINK_INTERNAL_H
#define SOURCES_AMQP_AMQP_LINK_INTERNAL_H

#include "bridge/base/net.h"
#include "sources/amqp/amqp_link.h"

struct amqp_channel {
    bool closing; /* channel.close was sent */
    struct amqp_content content;
};

enum amqp_link_state { DOWN, CONNECTING, STARTING, OPENING, OPEN, STOPPING, STOPPED };

struct amqp_link {
    const struct amqp_peer *peer;
    const struct amqp_link_cbs *cbs;
    void *arg;
    uint64_t body_max;
    enum amqp_link_state state;
    struct net *net;
    struct buf in; /* the start of a frame */
    amqp_pool_t pool;
    struct amqp_channel *channels[AMQP_CHANNELS_MAX + 1];
    unsigned channel_max;
    size_t frame_max;
    struct timer
        *timer; /* DOWN: of the connect; STOPPING: its limit; else of the login */
    struct timer *beat;
    int64_t beat_ms, received_ms, opened_ms; /* monotonic, but for beat_ms */
    bool sent, deaf;                         /* since the last beat; not reading */
    bool blocked;
    unsigned failures;
    char why[AMQP_WHY_MAX];
    struct log_limit away_limit;
    loop_cb *stopped;
};

/* Sends, in any state with a connection. */
void amqp_link_put(struct amqp_link *l, unsigned channel, amqp_method_number_t id,
                   void *method);
void amqp_link_put_beat(struct amqp_link *l);
/* Sends channel.close-ok, or for channel 0 connection.close-ok. */
void amqp_link_put_close_ok(struct amqp_link *l, unsigned channel);

#endif
