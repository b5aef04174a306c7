/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp_link.h - one connection to an AMQP 0-9-1 broker, with its channels. Reconnects by
 * itself. Loop thread.
 *
 * The sockets of librabbitmq block, and so do its login and its writes. But its encoder
 * and decoder of methods need no socket. So the link uses them on a stream of the loop
 * (bridge/base/net.h), which also does TLS: no thread, and the confirms, returns and
 * deliveries of a turn are handled together.
 */
#ifndef SOURCES_AMQP_AMQP_LINK_H
#define SOURCES_AMQP_AMQP_LINK_H

#include "bridge/plugin.h"
#include "sources/amqp/amqp_content.h"
#include "sources/amqp/amqp_peer.h"

enum { AMQP_CHANNELS_MAX = 256 };

struct amqp_link_cbs {
    /* The broker accepts the login. Channels 1 to amqp_link_channels() may be opened. */
    void (*on_open)(void *arg);
    /* The connection has ended, or the attempt failed. All channels are closed. */
    void (*on_closed)(void *arg, const char *why);
    /* amqp_link_is_blocked() has changed. NULL: ignored. */
    void (*on_blocked)(void *arg);
    /* A method on a channel, borrowed. channel.close is already answered. */
    void (*on_method)(void *arg, unsigned channel, amqp_method_number_t id,
                      const void *method);
    /* Takes ownership. NULL: no messages are expected. */
    void (*on_message)(void *arg, struct amqp_message *m);
};

struct amqp_link;

/* Connects. peer and cbs: borrowed until amqp_link_free(). body_max: a longer body is cut
 * to AMQP_BODY_KEPT bytes. No callback is called inside any function here. */
struct amqp_link *amqp_link_new(const struct amqp_peer *peer, uint64_t body_max,
                                const struct amqp_link_cbs *cbs, void *arg);
/* Closes the connection, after what was sent, then calls stopped(arg), within 2 s. No
 * other callback follows. */
void amqp_link_stop(struct amqp_link *l, loop_cb *stopped);
/* No callback follows. NULL is allowed. */
void amqp_link_free(struct amqp_link *l);

bool amqp_link_is_open(const struct amqp_link *l);
/* Returns whether the broker accepts no messages for now (connection.blocked). */
bool amqp_link_is_blocked(const struct amqp_link *l);
/* Returns why there is no open connection, or why it is blocked. */
const char *amqp_link_why(const struct amqp_link *l);
unsigned amqp_link_channels(const struct amqp_link *l);
/* Returns whether a frame may contain these properties. */
bool amqp_link_fits(const struct amqp_link *l, struct slice props);
/* See net_set_reading(). */
void amqp_link_set_reading(struct amqp_link *l, bool reading);

/* Send; ignored unless the link is open. The method is borrowed. */
void amqp_link_send(struct amqp_link *l, unsigned channel, amqp_method_number_t id,
                    void *method);
/* Sends a message after basic.publish. props must fit into a frame. */
void amqp_link_send_content(struct amqp_link *l, unsigned channel, struct slice props,
                            struct slice body);
void amqp_link_open_channel(struct amqp_link *l, unsigned channel);
/* What arrives before channel.close-ok, which is passed to on_method, is dropped. */
void amqp_link_close_channel(struct amqp_link *l, unsigned channel);

/* --- amqp_login.c --- */
/* Calls send once with connection.start-ok, borrowed. */
typedef void amqp_send_cb(void *arg, amqp_method_number_t id, void *method);
void amqp_link_login(const struct amqp_peer *peer, amqp_send_cb *send, void *arg);

/* --- amqp_probe.c --- */
/* For `tarry check --connect`. Connects, then declares the queues and the exchange
 * passively; exchange "": none. */
int amqp_probe(const struct amqp_opts *opts, const struct opt_list *queues,
               const char *exchange, struct buf *said, struct err *err);

#endif
