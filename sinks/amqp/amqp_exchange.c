/* SPDX-License-Identifier: BSD-2-Clause */
/* amqp_exchange.c - the channel of an exchange: opening, publishing, confirms. */
#include "bridge/base/hash.h"
#include "bridge/base/retry.h"
#include "sinks/amqp/amqp_sink.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEADY_MS = 10 * 1000 /* a channel of this age does not count as a failure */ };

static const char rejected[] = "the broker rejected the message (basic.nack): a queue is "
                               "full, or its node has failed";
const char amqp_no_channel[] = "messages to too many exchanges are in flight";
static const char lost[] = "connection lost before the broker confirmed the message";

static void open_exchange(struct amqp_exchange *x);

/* -------------------------------------------------------------------- publishing */

static void publish(struct amqp_exchange *x, struct amqp_parcel *p)
{
    struct amqp_sink *s = x->s;
    amqp_basic_publish_t method = {.exchange = amqp_bytes_of(slice_of(x->name)),
                                   .routing_key = amqp_bytes_of(p->key),
                                   .mandatory = s->mandatory};
    bool dropped;

    TAILQ_REMOVE(&x->waiting, p, link);
    if (p->expires_ms > 0) {
        p->d->left_ms = p->expires_ms - loop_mono_ms();
        if (p->d->left_ms <= 0) {
            amqp_parcel_end(p, TRY_AGAIN, "the message expired before it was sent", 0);
            return;
        }
    }
    const struct slice props = amqp_compose(&s->composer, p->d, s->peer.user, &dropped);
    if (dropped)
        log_limited(&s->header_limit, LOG_WARN, sink_name(s->sink),
                    "dropped a header: its name has more than %d bytes", AMQP_NAME_MAX);
    if (!amqp_link_fits(s->link, props)) {
        amqp_parcel_end(p, REJECTED, "the headers are larger than a frame of the broker",
                        0);
        return;
    }
    if (s->mandatory) { /* to recognise a returned message */
        p->props_hash = hash_fnv1a(HASH_FNV1A, props);
        p->key_hash = hash_fnv1a(HASH_FNV1A, p->key);
    }
    p->seq = ++x->last_seq;
    TAILQ_INSERT_TAIL(&x->sent, p, link);
    x->in_flight++;
    amqp_link_send(s->link, x->channel, AMQP_BASIC_PUBLISH_METHOD, &method);
    amqp_link_send_content(s->link, x->channel, props, p->d->job->payload);
}

static unsigned window(const struct amqp_exchange *x)
{
    return x->suspects > 0 || !x->proven ? 1 : sink_max_in_flight(x->s->sink);
}

void amqp_exchange_feed(struct amqp_exchange *x)
{
    struct amqp_sink *s = x->s;

    if (TAILQ_EMPTY(&x->waiting) || !amqp_link_is_open(s->link) ||
        amqp_link_is_blocked(s->link))
        return;
    x->used_ms = loop_mono_ms();
    if (x->state == X_CLOSED && x->used_ms >= x->retry_ms)
        open_exchange(x);
    else if (x->state == X_CLOSED)
        amqp_sink_arm(s, x->retry_ms);
    while (x->state == X_OPEN && !TAILQ_EMPTY(&x->waiting) && x->in_flight < window(x))
        publish(x, TAILQ_FIRST(&x->waiting));
}

/* -------------------------------------------------------------------- confirms */

static void take_sent(struct amqp_exchange *x, struct amqp_parcel *p,
                      struct amqp_parcels *to)
{
    TAILQ_REMOVE(&x->sent, p, link);
    TAILQ_INSERT_TAIL(to, p, link);
    x->in_flight--;
    x->ghosts -= p->d == NULL;
}

/* Reports may start the next deliveries, so the parcels are in a list of their own. */
static void end_all(struct amqp_parcels *parcels, enum outcome outcome, const char *why,
                    int64_t retry_after_ms)
{
    for (struct amqp_parcel *p; (p = TAILQ_FIRST(parcels));) {
        TAILQ_REMOVE(parcels, p, link);
        if (p->d)
            p->d->status = p->code;
        if (p->returned)
            amqp_parcel_end(p, TRY_AGAIN, p->returned, 0);
        else
            amqp_parcel_end(p, outcome, why, retry_after_ms);
    }
}

static void confirm(struct amqp_exchange *x, uint64_t tag, bool multiple, bool acked)
{
    struct amqp_parcels done = TAILQ_HEAD_INITIALIZER(done);
    struct amqp_parcel *p, *next;

    for (p = TAILQ_FIRST(&x->sent); p && p->seq <= tag; p = next) {
        next = TAILQ_NEXT(p, link);
        if (multiple || p->seq == tag)
            take_sent(x, p, &done);
    }
    x->proven = true;
    end_all(&done, acked ? DELIVERED : TRY_AGAIN, rejected, 0);
    amqp_exchange_feed(x);
}

static void mark_returned(struct amqp_parcel *p, const struct amqp_message *m)
{
    if (p->returned)
        return;
    p->code = (int)m->code;
    const char *todo = m->exchange.n > 0
                           ? "bind a queue to the exchange for this routing key"
                           : "create the queue";
    p->returned = mem_format("the broker returned the message: %.*s (%u), exchange "
                             "\"%.*s\", routing key \"%.*s\"; %s",
                             SLICE_ARG(m->text), m->code, SLICE_ARG(m->exchange),
                             SLICE_ARG(m->key), todo);
}

static bool is_same(const struct amqp_parcel *p, const struct amqp_message *m,
                    uint64_t props_hash, uint64_t key_hash)
{
    if (p->props_hash != props_hash || p->key_hash != key_hash || p->returned)
        return false;
    if (p->d == NULL)
        return true;
    const struct slice payload = p->d->job->payload;
    return payload.n == m->whole_bytes &&
           slice_eq((struct slice){payload.p, m->body.n}, m->body);
}

/* basic.return contains no number, but the message itself; its confirm follows. If it is
 * not recognised, every message with its routing key counts as returned: a duplicate does
 * less harm than a loss. */
static void on_message(void *arg, struct amqp_message *m)
{
    struct amqp_sink *s = arg;
    struct amqp_exchange *x = s->exchanges[m->channel - 1];
    const uint64_t props_hash = hash_fnv1a(HASH_FNV1A, m->props);
    const uint64_t key_hash = hash_fnv1a(HASH_FNV1A, m->key);
    struct amqp_parcel *p;

    TAILQ_FOREACH (p, &x->sent, link)
        if (is_same(p, m, props_hash, key_hash))
            break;
    if (p)
        mark_returned(p, m);
    else
        TAILQ_FOREACH (p, &x->sent, link)
            if (p->key_hash == key_hash)
                mark_returned(p, m);
    free(m);
}

/* -------------------------------------------------------------------- the channel */

/* Sends everything at once. The passive declare reports a missing exchange before a
 * message is published to it. */
static void open_exchange(struct amqp_exchange *x)
{
    struct amqp_link *l = x->s->link;
    amqp_exchange_declare_t declare = {.exchange = amqp_bytes_of(slice_of(x->name)),
                                       .type = amqp_bytes_of(SLICE_LIT("direct")),
                                       .passive = 1};
    amqp_confirm_select_t select = {0};

    x->state = X_OPENING;
    x->last_seq = 0;
    x->proven = false;
    amqp_link_open_channel(l, x->channel);
    if (*x->name)
        amqp_link_send(l, x->channel, AMQP_EXCHANGE_DECLARE_METHOD, &declare);
    amqp_link_send(l, x->channel, AMQP_CONFIRM_SELECT_METHOD, &select);
}

static void on_opened(struct amqp_exchange *x)
{
    x->state = X_OPEN;
    x->opened_ms = loop_mono_ms();
    x->missing = false;
    x->why[0] = '\0';
    amqp_exchange_feed(x);
}

/* The broker has closed the channel because of one of several messages in flight: sends
 * them again, one at a time. Reporting them would count as an attempt of each, and they
 * could meet again. Returned messages are reported. */
static void suspect_all(struct amqp_exchange *x, struct amqp_parcels *ended)
{
    struct amqp_parcels suspects = TAILQ_HEAD_INITIALIZER(suspects);
    struct amqp_parcel *p;

    while ((p = TAILQ_FIRST(&x->sent)))
        take_sent(x, p, p->d && !p->returned ? &suspects : ended);
    TAILQ_FOREACH (p, &suspects, link) {
        x->suspects += !p->suspect;
        p->suspect = true;
        p->seq = 0;
    }
    TAILQ_CONCAT(&suspects, &x->waiting, link);
    TAILQ_CONCAT(&x->waiting, &suspects, link);
}

/* The broker has closed the channel, or tarry closes it (closing). Reports may start
 * deliveries, so the state is set before them. */
static void fail(struct amqp_exchange *x, bool closing, unsigned code, const char *why)
{
    struct amqp_parcels ended = TAILQ_HEAD_INITIALIZER(ended);
    /* Errors of this code are about a message itself, such as its size. */
    const bool of_message = code == AMQP_PRECONDITION_FAILED && x->state == X_OPEN;
    const bool culprit = of_message && x->in_flight == 1;

    if (x->state == X_OPEN && loop_mono_ms() - x->opened_ms >= STEADY_MS) {
        x->failures = 0;
        x->limit = (struct log_limit){0};
    }
    const int64_t wait_ms = of_message ? 0 : retry_broker_ms(++x->failures);
    x->missing = x->state == X_OPENING;
    x->retry_ms = loop_mono_ms() + wait_ms;
    x->state = closing ? X_CLOSING : X_CLOSED;
    snprintf(x->why, sizeof(x->why), "%s", why);
    log_limited(&x->limit, LOG_WARN, sink_name(x->s->sink), "exchange \"%s\": %s",
                x->name, why);
    if (of_message && !culprit)
        suspect_all(x, &ended);
    while (!TAILQ_EMPTY(&x->sent))
        take_sent(x, TAILQ_FIRST(&x->sent), &ended);
    if (x->missing)
        TAILQ_CONCAT(&ended, &x->waiting, link);
    amqp_sink_arm(x->s, x->retry_ms);
    end_all(&ended, culprit ? REJECTED : TRY_AGAIN, x->why, wait_ms);
}

void amqp_exchange_late(struct amqp_exchange *x)
{
    x->ghosts++;
    if (x->ghosts < window(x) || x->state != X_OPEN)
        return;
    amqp_link_close_channel(x->s->link, x->channel);
    fail(x, true, 0, "the broker does not confirm messages");
}

static void on_method(void *arg, unsigned channel, amqp_method_number_t id,
                      const void *method)
{
    struct amqp_sink *s = arg;
    struct amqp_exchange *x = s->exchanges[channel - 1];
    char why[AMQP_WHY_MAX];

    if (id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *m = method;
        confirm(x, m->delivery_tag, m->multiple, true);
    } else if (id == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *m = method;
        confirm(x, m->delivery_tag, m->multiple, false);
    } else if (id == AMQP_CONFIRM_SELECT_OK_METHOD) {
        on_opened(x);
    } else if (id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *m = method;
        amqp_close_why(why, m->reply_code, m->reply_text);
        fail(x, false, m->reply_code, why);
    } else if (id == AMQP_CHANNEL_CLOSE_OK_METHOD) {
        x->state = X_CLOSED;
        amqp_exchange_feed(x);
    }
}

static unsigned channels(const struct amqp_sink *s)
{
    return amqp_link_is_open(s->link) ? amqp_link_channels(s->link) : AMQP_CHANNELS_MAX;
}

/* Returns how many of the exchanges have a channel. A broker may allow fewer channels
 * than the one before it; the others stay unused. */
static unsigned usable(const struct amqp_sink *s)
{
    const unsigned most = channels(s);

    return s->exchange_count < most ? s->exchange_count : most;
}

static void feed_all(void *arg)
{
    struct amqp_sink *s = arg;
    struct amqp_parcels ended = TAILQ_HEAD_INITIALIZER(ended);

    for (unsigned i = usable(s); i < s->exchange_count; i++)
        TAILQ_CONCAT(&ended, &s->exchanges[i]->waiting, link);
    end_all(&ended, TRY_AGAIN, amqp_no_channel, 0);
    for (unsigned i = 0; i < s->exchange_count; i++)
        amqp_exchange_feed(s->exchanges[i]);
}

static void on_closed(void *arg, const char *why)
{
    struct amqp_sink *s = arg;
    (void)why;

    for (unsigned i = 0; i < s->exchange_count; i++) {
        struct amqp_exchange *x = s->exchanges[i];
        struct amqp_parcels ended = TAILQ_HEAD_INITIALIZER(ended);
        while (!TAILQ_EMPTY(&x->sent))
            take_sent(x, TAILQ_FIRST(&x->sent), &ended);
        x->state = X_CLOSED;
        x->retry_ms = 0;
        x->missing = false;
        end_all(&ended, TRY_AGAIN, lost, 0);
    }
}

const struct amqp_link_cbs amqp_sink_cbs = {.on_open = feed_all,
                                            .on_closed = on_closed,
                                            .on_blocked = feed_all,
                                            .on_method = on_method,
                                            .on_message = on_message};

/* -------------------------------------------------------------------- all exchanges */

static bool is_idle(const struct amqp_exchange *x)
{
    return TAILQ_EMPTY(&x->waiting) && TAILQ_EMPTY(&x->sent) &&
           (x->state == X_OPEN || x->state == X_CLOSED);
}

/* Returns the channel that was unused for the longest time; NULL: all are in use. */
static struct amqp_exchange *find_idle(const struct amqp_sink *s)
{
    struct amqp_exchange *found = NULL;

    for (unsigned i = 0; i < usable(s); i++) {
        struct amqp_exchange *x = s->exchanges[i];
        if (is_idle(x) && (found == NULL || x->used_ms < found->used_ms))
            found = x;
    }
    return found;
}

/* Gives the channel to another exchange, once the broker has closed it. */
static void rename_exchange(struct amqp_exchange *x, struct slice name)
{
    if (x->state == X_OPEN) {
        amqp_link_close_channel(x->s->link, x->channel);
        x->state = X_CLOSING;
    }
    free(x->name);
    x->name = mem_strndup(name.n ? name.p : "", name.n);
    x->failures = 0;
    x->retry_ms = 0;
    x->missing = false;
}

struct amqp_exchange *amqp_exchange_get(struct amqp_sink *s, struct slice name)
{
    for (unsigned i = 0; i < usable(s); i++)
        if (slice_is(name, s->exchanges[i]->name))
            return s->exchanges[i];
    struct amqp_exchange *x = NULL;
    if (s->exchange_count >= channels(s)) {
        x = find_idle(s);
        if (x)
            rename_exchange(x, name);
        return x;
    }
    x = mem_alloc(sizeof(*x));
    *x = (struct amqp_exchange){.s = s,
                                .name = mem_strndup(name.n ? name.p : "", name.n),
                                .channel = s->exchange_count + 1};
    TAILQ_INIT(&x->waiting);
    TAILQ_INIT(&x->sent);
    s->exchanges[s->exchange_count++] = x;
    return x;
}

void amqp_exchange_free(struct amqp_exchange *x)
{
    struct amqp_parcels ended = TAILQ_HEAD_INITIALIZER(ended);

    while (!TAILQ_EMPTY(&x->sent)) /* reported, but not confirmed */
        take_sent(x, TAILQ_FIRST(&x->sent), &ended);
    end_all(&ended, TRY_AGAIN, lost, 0);
    free(x->name);
    free(x);
}
