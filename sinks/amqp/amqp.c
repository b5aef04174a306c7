/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp.c - the AMQP sink: options, targets, deliveries with their deadlines. Loop thread.
 *
 * The broker's confirm is the outcome. A returned message was confirmed but is in no
 * queue: it is retried by the schedule of the route, since a queue may be bound later.
 */
#include "sinks/amqp/amqp_sink.h"

#include <stdlib.h>

enum { RETRY_AFTER_MS = 1000 /* without a connection */ };

#define AT(field) offsetof(struct amqp_sink, field)
static const struct opt opts[] = {
    AMQP_PEER_ROWS(struct amqp_sink),
    {"exchange", OPT_STR, AT(exchange), "",
     "Exchange to publish to; the target is the routing key. The default exchange \"\" "
     "routes to the queue that the target names.",
     .min = 0},
    {"exchange_in_target", OPT_BOOL, AT(exchange_in_target), "false",
     "Whether the target is EXCHANGE/ROUTING.KEY, split at the first slash.", .min = 0},
    {"mandatory", OPT_BOOL, AT(mandatory), "true",
     "Whether a message for which the exchange has no queue counts as failed and is "
     "retried. false: the broker drops it, and it counts as delivered.",
     .min = 0},
    {0}};

static int check(const void *self, struct err *err)
{
    const struct amqp_sink *s = self;

    if (strlen(s->exchange) > AMQP_NAME_MAX)
        return err_set(err, "exchange has more than %d bytes", AMQP_NAME_MAX);
    if (s->exchange_in_target && *s->exchange)
        return err_set(err, "exchange has no effect with exchange_in_target = true: "
                            "remove one of them");
    return amqp_opts_check(&s->opts, err);
}

/* Splits a target. whole: false if it is only the start. -1: the broker cannot accept
 * it. */
static int split(const struct amqp_sink *s, struct slice target, bool whole,
                 struct slice *exchange, struct slice *key, struct err *err)
{
    *exchange = slice_of(s->exchange);
    *key = target;
    if (s->exchange_in_target) {
        const char *slash = target.n ? memchr(target.p, '/', target.n) : NULL;
        if (slash == NULL)
            return whole
                       ? err_set(err, "the target must be EXCHANGE/ROUTING.KEY, because "
                                      "of exchange_in_target")
                       : 0;
        const size_t n = (size_t)(slash - target.p);
        *exchange = (struct slice){target.p, n};
        *key = (struct slice){slash + 1, target.n - n - 1};
    }
    if (exchange->n > AMQP_NAME_MAX || key->n > AMQP_NAME_MAX)
        return err_set(err, "an exchange and a routing key have at most %d bytes",
                       AMQP_NAME_MAX);
    return 0;
}

static int check_target(const void *self, const struct probe_target *target,
                        struct err *err)
{
    struct slice exchange, key;

    return split(self, target->text, target->whole, &exchange, &key, err);
}

/* -------------------------------------------------------------------- results */

void amqp_parcel_report(struct amqp_parcel *p, enum outcome outcome, const char *why,
                        int64_t retry_after_ms)
{
    struct delivery *d = p->d;

    if (d == NULL)
        return;
    LIST_REMOVE(p, open);
    p->d = NULL;
    if (outcome == TRY_AGAIN)
        d->retry_after_ms = retry_after_ms;
    delivery_done(d, outcome, why);
}

void amqp_parcel_end(struct amqp_parcel *p, enum outcome outcome, const char *why,
                     int64_t retry_after_ms)
{
    p->x->suspects -= p->suspect;
    amqp_parcel_report(p, outcome, why, retry_after_ms);
    free(p->returned);
    free(p);
}

/* -------------------------------------------------------------------- time */

void amqp_sink_arm(struct amqp_sink *s, int64_t at_ms)
{
    const int64_t now = loop_mono_ms();

    if (timer_is_set(s->timer) && s->timer_at_ms <= at_ms)
        return;
    s->timer_at_ms = at_ms;
    timer_set(s->timer, at_ms > now ? at_ms - now : 0);
}

static void give_up(struct amqp_sink *s, struct amqp_parcel *p)
{
    struct amqp_exchange *x = p->x;
    const char *why = amqp_link_why(s->link);

    if (p->seq > 0) {
        log_limited(&s->late_limit, LOG_WARN, sink_name(s->sink),
                    "the broker did not confirm a message in time");
        amqp_parcel_report(p, TRY_AGAIN, "the broker did not confirm the message in time",
                           0);
        amqp_exchange_late(x);
        return;
    }
    TAILQ_REMOVE(&x->waiting, p, link);
    if (*why == '\0')
        why = *x->why ? x->why : "the broker did not confirm earlier messages in time";
    amqp_parcel_end(p, TRY_AGAIN, why, RETRY_AFTER_MS);
}

/* First collects what is due, since each report may start the next delivery. */
static void check_deadlines(struct amqp_sink *s, int64_t now)
{
    LIST_HEAD(, amqp_parcel) due = LIST_HEAD_INITIALIZER(due);

    for (struct amqp_parcel *p = LIST_FIRST(&s->open), *next; p; p = next) {
        const int64_t limit_ms = p->seq > 0 ? p->deadline_ms : p->unsent_ms;
        next = LIST_NEXT(p, open);
        if (limit_ms > now) {
            amqp_sink_arm(s, limit_ms);
            continue;
        }
        LIST_REMOVE(p, open);
        LIST_INSERT_HEAD(&due, p, open);
    }
    for (struct amqp_parcel *p; (p = LIST_FIRST(&due));) {
        LIST_REMOVE(p, open);
        LIST_INSERT_HEAD(&s->open, p, open);
        give_up(s, p);
    }
}

static void on_time(void *arg)
{
    struct amqp_sink *s = arg;

    check_deadlines(s, loop_mono_ms());
    for (unsigned i = 0; i < s->exchange_count; i++)
        amqp_exchange_feed(s->exchanges[i]);
}

/* -------------------------------------------------------------------- plugin */

static void deliver(struct sink *sink, void *self, struct delivery *d)
{
    struct amqp_sink *s = self;
    const int64_t now = loop_mono_ms();
    struct slice exchange, key;
    struct err err;

    (void)sink;
    if (split(s, d->target, true, &exchange, &key, &err) != 0) {
        delivery_done(d, REJECTED, err.text);
        return;
    }
    struct amqp_exchange *x = amqp_exchange_get(s, exchange);
    if (x == NULL || (x->missing && x->retry_ms > now)) {
        d->retry_after_ms = x ? x->retry_ms - now : RETRY_AFTER_MS;
        delivery_done(d, TRY_AGAIN, x ? x->why : amqp_no_channel);
        return;
    }
    struct amqp_parcel *p = mem_alloc(sizeof(*p));
    *p = (struct amqp_parcel){.d = d,
                              .key = key,
                              .x = x,
                              .unsent_ms = now + d->timeout_ms / 2,
                              .expires_ms = d->left_ms > 0 ? now + d->left_ms : 0,
                              .deadline_ms = now + d->timeout_ms - d->timeout_ms / 10};
    LIST_INSERT_HEAD(&s->open, p, open);
    TAILQ_INSERT_TAIL(&x->waiting, p, link);
    amqp_sink_arm(s, p->unsent_ms);
    amqp_exchange_feed(x);
}

static bool ready(const void *self)
{
    const struct amqp_sink *s = self;

    return amqp_link_is_open(s->link);
}

static int start(struct sink *sink, void *self, struct err *err)
{
    struct amqp_sink *s = self;

    if (check(self, err) != 0)
        return -1;
    s->sink = sink;
    amqp_peer_init(&s->peer, &s->opts, sink_name(sink));
    s->timer = timer_new(on_time, s);
    s->link = amqp_link_new(&s->peer, 0, &amqp_sink_cbs, s);
    return 0;
}

static void on_stopped(void *arg)
{
    struct amqp_sink *s = arg;

    for (unsigned i = 0; i < s->exchange_count; i++)
        amqp_exchange_free(s->exchanges[i]);
    amqp_link_free(s->link);
    amqp_peer_free(&s->peer);
    amqp_composer_free(&s->composer);
    timer_del(s->timer);
    sink_stopped(s->sink);
}

/* All deliveries are reported. */
static void stop(struct sink *sink, void *self)
{
    struct amqp_sink *s = self;

    (void)sink;
    amqp_link_stop(s->link, on_stopped);
}

/* Asks for the exchange, or for the queue if the default exchange routes to it. */
static int probe(const void *self, const struct probe_target *target, struct buf *said,
                 struct err *err)
{
    const struct amqp_sink *s = self;
    struct slice exchange, key;

    if (split(s, target->text, target->whole, &exchange, &key, err) != 0)
        return -1;
    char *name = mem_strndup(exchange.n ? exchange.p : "", exchange.n);
    char *queue = mem_strndup(key.n ? key.p : "", key.n);
    const struct opt_list queues = {.v = &queue, .n = 1};
    const bool ask = exchange.n == 0 && target->whole && key.n > 0;
    int rc = amqp_probe(&s->opts, ask ? &queues : NULL, name, said, err);
    free(name);
    free(queue);
    return rc;
}

static unsigned connections(const void *self)
{
    const struct amqp_sink *s = self;

    return amqp_link_is_open(s->link) && !amqp_link_is_blocked(s->link);
}

const struct sink_ops sink_amqp = {
    .name = "amqp",
    .help = "Publishes jobs to RabbitMQ (AMQP 0-9-1), with publisher confirms.",
    .size = sizeof(struct amqp_sink),
    .opts = opts,
    .target = "{topic}",
    .max_in_flight = 1000,
    .ready = ready,
    .check = check,
    .start = start,
    .deliver = deliver,
    .stop = stop,
    .probe = probe,
    .connections = connections,
    .check_target = check_target};
