/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp_sink.h - the parts of the AMQP sink: options and deadlines (amqp.c), a channel for
 * each exchange (amqp_exchange.c), properties of a message (amqp_compose.c). Loop thread.
 */
#ifndef SINKS_AMQP_AMQP_SINK_H
#define SINKS_AMQP_AMQP_SINK_H

#include "bridge/plugin.h"
#include "sources/amqp/amqp_link.h"

#include <sys/queue.h>

/* -------------------------------------------------------------------- properties */

/* Memory for the properties of one message, reused. A zeroed struct is valid. */
struct amqp_composer {
    struct buf values[AMQP_PROPS], table, out;
};
/* Returns the encoded properties, borrowed until the next call. If the job came from
 * AMQP, these are its own, with tarry's headers. user: the login; the broker rejects
 * another user id. dropped: set to true if AMQP cannot transport a header. */
struct slice amqp_compose(struct amqp_composer *c, const struct delivery *d,
                          const char *user, bool *dropped);
void amqp_composer_free(struct amqp_composer *c);

/* -------------------------------------------------------------------- deliveries */

struct amqp_exchange;

struct amqp_parcel {
    struct delivery *d; /* NULL: already reported, but the broker may still confirm it */
    struct slice key;   /* routing key; part of d->target */
    struct amqp_exchange *x;
    uint64_t seq; /* number in its channel, from 1; 0: not sent */
    uint64_t props_hash, key_hash;
    char *returned; /* why the broker returned it; NULL: it did not */
    int code;       /* reply code of the return */
    bool suspect; /* in flight when the broker closed the channel because of a message */
    int64_t unsent_ms, deadline_ms; /* monotonic; see deliver() */
    int64_t expires_ms;             /* monotonic; 0: never */
    LIST_ENTRY(amqp_parcel) open;   /* those with d */
    TAILQ_ENTRY(amqp_parcel) link;
};
TAILQ_HEAD(amqp_parcels, amqp_parcel);

/* An exchange, with its own channel: an error of the broker closes the channel, and must
 * not affect messages to other exchanges. */
struct amqp_exchange {
    struct amqp_sink *s;
    char *name;
    unsigned channel;
    enum { X_CLOSED, X_OPENING, X_OPEN, X_CLOSING } state;
    struct amqp_parcels waiting, sent; /* in order */
    unsigned in_flight, ghosts;        /* in sent; of them, already reported */
    unsigned suspects; /* in waiting and sent. While there are any, one message is
                        * in flight: an error is about this one */
    bool proven; /* the broker has confirmed a message on this channel; until then one is
                  * in flight, since a broker with an alarm does not read further ones */
    uint64_t last_seq;
    unsigned failures;
    int64_t opened_ms, retry_ms, used_ms; /* monotonic */
    bool missing; /* the last attempt to open it failed, for the reason why */
    char why[AMQP_WHY_MAX];
    struct log_limit limit;
};

struct amqp_sink {
    struct amqp_opts opts;
    char *exchange;
    bool exchange_in_target, mandatory;

    struct sink *sink;
    struct amqp_peer peer;
    struct amqp_link *link;
    struct amqp_composer composer;
    struct amqp_exchange *exchanges[AMQP_CHANNELS_MAX]; /* channel - 1; NULL: none */
    unsigned exchange_count;
    LIST_HEAD(, amqp_parcel) open; /* deliveries not yet reported */
    struct timer *timer;           /* fires at timer_at_ms, when something may be due */
    int64_t timer_at_ms;
    struct log_limit header_limit, late_limit;
};

/* --- amqp.c --- */
void amqp_sink_arm(struct amqp_sink *s, int64_t at_ms);
/* Reports the delivery, unless it is reported. Does not free the parcel. */
void amqp_parcel_report(struct amqp_parcel *p, enum outcome outcome, const char *why,
                        int64_t retry_after_ms);
/* The same for a parcel in no list, and frees it. */
void amqp_parcel_end(struct amqp_parcel *p, enum outcome outcome, const char *why,
                     int64_t retry_after_ms);

/* --- amqp_exchange.c --- */
extern const struct amqp_link_cbs amqp_sink_cbs; /* arg: the sink */
/* Returns the exchange; NULL: all channels are in use. */
extern const char amqp_no_channel[]; /* for people */
struct amqp_exchange *amqp_exchange_get(struct amqp_sink *s, struct slice name);
/* Sends what may be sent. */
void amqp_exchange_feed(struct amqp_exchange *x);
/* A parcel was reported before the broker confirmed it. */
void amqp_exchange_late(struct amqp_exchange *x);
void amqp_exchange_free(struct amqp_exchange *x);

#endif
