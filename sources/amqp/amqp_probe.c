/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp_probe.c - tarry check --connect: connects as the daemon does, and asks for the
 * queues and the exchange, without creating them. Runs a loop of its own.
 */
#include "sources/amqp/amqp_link.h"

#include <stdio.h>

struct probe {
    struct amqp_link *link;
    const struct opt_list *queues;
    const char *exchange;
    size_t asked; /* number of the queues that were asked for */
    bool exchange_asked;
    bool done; /* why "": everything exists */
    char why[AMQP_WHY_MAX];
};

static void end(struct probe *p, const char *why)
{
    if (!p->done)
        snprintf(p->why, sizeof(p->why), "%s", why);
    p->done = true;
    loop_stop();
}

static void ask_next(struct probe *p)
{
    if (p->queues && p->asked < p->queues->n) {
        amqp_queue_declare_t declare = {
            .queue = amqp_bytes_of(slice_of(p->queues->v[p->asked++])), .passive = 1};
        amqp_link_send(p->link, 1, AMQP_QUEUE_DECLARE_METHOD, &declare);
    } else if (*p->exchange && !p->exchange_asked) {
        amqp_exchange_declare_t declare = {
            .exchange = amqp_bytes_of(slice_of(p->exchange)), .passive = 1};
        p->exchange_asked = true;
        amqp_link_send(p->link, 1, AMQP_EXCHANGE_DECLARE_METHOD, &declare);
    } else {
        end(p, "");
    }
}

static void on_open(void *arg)
{
    struct probe *p = arg;

    amqp_link_open_channel(p->link, 1);
}

static void on_closed(void *arg, const char *why)
{
    end(arg, why);
}

static void on_method(void *arg, unsigned channel, amqp_method_number_t id,
                      const void *method)
{
    char why[AMQP_WHY_MAX];
    (void)channel;

    if (id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *m = method;
        amqp_close_why(why, m->reply_code, m->reply_text);
        end(arg, why);
        return;
    }
    ask_next(arg);
}

static void on_late(void *arg)
{
    end(arg, "the broker does not answer in time");
}

int amqp_probe(const struct amqp_opts *opts, const struct opt_list *queues,
               const char *exchange, struct buf *said, struct err *err)
{
    static const struct amqp_link_cbs cbs = {
        .on_open = on_open, .on_closed = on_closed, .on_method = on_method};
    struct probe p = {.queues = queues, .exchange = exchange};
    struct amqp_peer peer;

    loop_init();
    amqp_peer_init(&peer, opts, "check");
    p.link = amqp_link_new(&peer, 0, &cbs, &p);
    struct timer *late = timer_new(on_late, &p);
    timer_set(late, PROBE_WAIT_MS);
    loop_run();
    if (p.why[0] == '\0') {
        buf_add_str(said, "the broker accepts the login");
        if (p.asked > 0 || p.exchange_asked)
            buf_addf(said, "; the %s exist%s", p.exchange_asked ? "exchange" : "queues",
                     p.exchange_asked ? "s" : "");
    } else {
        err_set(err, "%s:%s: %s", peer.host, peer.port, p.why);
    }
    timer_del(late);
    amqp_link_free(p.link);
    loop_fini();
    amqp_peer_free(&peer);
    return p.why[0] == '\0' ? 0 : -1;
}
