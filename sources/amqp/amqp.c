/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp.c - the AMQP source: options, a channel for each queue, acknowledgements. Loop
 * thread.
 *
 * A message is acknowledged only after Redis has stored its job. A message that was not
 * stored is kept and submitted again, and so is one that arrives while the source pauses:
 * to requeue it would count as a delivery, and a quorum queue drops a message after
 * delivery-limit deliveries. The prefetch limits how many messages tarry keeps. If the
 * channel ends, the broker delivers its messages again. So a source that pauses opens no
 * channel: otherwise each half hour without Redis, after which RabbitMQ closes a channel
 * without acknowledgements, would count as a delivery.
 */
#include "bridge/base/retry.h"
#include "sources/amqp/amqp_job.h"
#include "sources/amqp/amqp_link.h"

#include <stdlib.h>

enum {
    QUEUES_MAX = AMQP_CHANNELS_MAX - 1,
    STEADY_MS = 10 * 1000,    /* a consumer of this age does not count as a failure */
    ACK_LATE_MS = 100,        /* stored, but an earlier message is not */
    STORE_RETRY_MS = 1000,    /* after a message was not stored */
    HELD_MAX_BYTES = 64 << 20 /* stop reading above this */
};

struct amqp_source;

/* A queue at the broker. Its channel has the number of its place, from 1. */
struct amqp_queue {
    struct amqp_source *s;
    const char *name;
    unsigned channel;
    enum { CLOSED, OPENING, CONSUMING, CLOSING } state;
    struct amqp_messages open; /* not acknowledged, in the order of their tags */
    unsigned stored, waiting;  /* of them, in these states */
    bool acking;               /* ack_stored() is deferred */
    struct timer *timer;       /* CONSUMING: of tick(); else of the next attempt */
    unsigned failures;
    int64_t opened_ms; /* monotonic */
    struct log_limit limit;
};

struct amqp_source {
    struct amqp_opts opts;
    struct opt_list names;
    int64_t prefetch, message_max_bytes;
    bool declare, message_id_is_id;
    int queue_type; /* index in the choices of the row */

    struct source *src;
    struct amqp_peer peer;
    struct amqp_link *link;
    struct amqp_queue *queues;
    bool paused, stopping, full;
    int64_t held_bytes; /* of all messages that are not acknowledged */
    struct log_limit store_limit;
};

#define AT(field) offsetof(struct amqp_source, field)
static const char *const queue_types[] = {"quorum", "classic"};
static const struct opt opts[] = {
    AMQP_PEER_ROWS(struct amqp_source),
    {"queues", OPT_LIST, AT(names), NULL, "Queues to consume.", .min = 0},
    {"prefetch", OPT_INT, AT(prefetch), "1000",
     "Number of messages of each queue that the broker may send before tarry "
     "acknowledges. At most this number can arrive twice after a failure.",
     .min = 1, .max = 65535},
    {"declare", OPT_BOOL, AT(declare), "false",
     "Whether to create a queue that does not exist, durable and of queue_type. If it "
     "exists with other arguments, the broker reports an error.",
     .min = 0},
    {"queue_type", OPT_CHOICE, AT(queue_type), "quorum",
     "Type of the queues that declare creates. quorum: replicated.",
     .choices = "quorum|classic"},
    {"message_id_is_id", OPT_BOOL, AT(message_id_is_id), "false",
     "Whether the message id is the id of the job, with the rules of the header "
     "delay-id, "
     "unless the message has this header.",
     .min = 0},
    {"message_max", OPT_BYTES, AT(message_max_bytes), "16MiB",
     "Maximum size of a message. A larger message becomes a dead letter with the first 4 "
     "KiB of its payload.",
     .min = 1024, .max = 256 * 1024 * 1024},
    {0}};

static int check(const void *self, struct err *err)
{
    const struct amqp_source *s = self;

    if (amqp_opts_check(&s->opts, err) != 0)
        return -1;
    if (s->names.n == 0 || s->names.n > QUEUES_MAX)
        return err_set(err, "queues must contain 1 to %d queues", QUEUES_MAX);
    for (size_t i = 0; i < s->names.n; i++) {
        const size_t n = strlen(s->names.v[i]);
        if (n == 0 || n > AMQP_NAME_MAX)
            return err_set(err, "queues: the name of a queue has 1 to %d bytes",
                           AMQP_NAME_MAX);
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->names.v[i], s->names.v[k]) == 0)
                return err_set(err, "queues: %s is listed twice", s->names.v[i]);
    }
    return 0;
}

static void warn(const void *self, struct buf *lines)
{
    const struct amqp_source *s = self;

    amqp_opts_warn(&s->opts, lines);
}

/* ------------------------------------------------------------------- messages */

/* Stop reading while too many bytes are kept. */
static void count_bytes(struct amqp_source *s, int64_t more)
{
    s->held_bytes += more;
    const bool full = s->held_bytes > (s->full ? HELD_MAX_BYTES / 2 : HELD_MAX_BYTES);
    if (full == s->full)
        return;
    s->full = full;
    amqp_link_set_reading(s->link, !full);
}

static int64_t bytes_of(const struct amqp_message *m)
{
    return (int64_t)(sizeof(*m) + m->exchange.n + m->key.n + m->props.n + m->body.n);
}

/* Removes a message that is acknowledged, or whose channel has ended. */
static void drop(struct amqp_queue *q, struct amqp_message *m)
{
    TAILQ_REMOVE(&q->open, m, link);
    count_bytes(q->s, -bytes_of(m));
    q->stored -= m->state == AMQP_STORED;
    q->waiting -= m->state == AMQP_WAITS;
    m->forgotten = true;
    if (m->state != AMQP_OPEN) /* otherwise on_stored() frees it */
        free(m);
}

static void drop_all(struct amqp_queue *q)
{
    for (struct amqp_message *m = TAILQ_FIRST(&q->open), *next; m; m = next) {
        next = TAILQ_NEXT(m, link);
        drop(q, m);
    }
}

static void ack(struct amqp_queue *q, uint64_t tag, bool multiple)
{
    amqp_basic_ack_t method = {.delivery_tag = tag, .multiple = multiple};

    amqp_link_send(q->s->link, q->channel, AMQP_BASIC_ACK_METHOD, &method);
}

static void tick_in(struct amqp_queue *q, int64_t ms)
{
    if (!timer_is_set(q->timer))
        timer_set(q->timer, ms);
}

/* Acknowledges, by one method, the messages in front that are stored. */
static void ack_stored(void *arg)
{
    struct amqp_queue *q = arg;
    uint64_t tag = 0;

    q->acking = false;
    for (struct amqp_message *m = TAILQ_FIRST(&q->open), *next;
         m && m->state == AMQP_STORED; m = next) {
        next = TAILQ_NEXT(m, link);
        tag = m->tag;
        drop(q, m);
    }
    if (tag > 0) {
        ack(q, tag, true);
        FAULT("S4");
    }
    if (q->stored > 0)
        tick_in(q, ACK_LATE_MS);
}

static void ack_later(struct amqp_queue *q)
{
    if (!q->acking)
        loop_defer(ack_stored, q);
    q->acking = true;
}

/* Acknowledges the stored messages behind one that is not stored. */
static void ack_each(struct amqp_queue *q)
{
    for (struct amqp_message *m = TAILQ_FIRST(&q->open), *next; m; m = next) {
        next = TAILQ_NEXT(m, link);
        if (m->state != AMQP_STORED)
            continue;
        ack(q, m->tag, false);
        drop(q, m);
    }
}

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct amqp_message *m = arg;
    struct amqp_queue *q = m->owner;
    const bool stored = reply->outcome != NOT_STORED && reply->outcome != REFUSED;

    if (m->forgotten) {
        free(m);
        return;
    }
    m->state = stored ? AMQP_STORED : AMQP_WAITS;
    if (stored) {
        q->stored++;
        ack_later(q);
        return;
    }
    q->waiting++;
    log_limited(&q->s->store_limit, LOG_WARN, source_name(q->s->src),
                "a message could not be stored; tarry keeps it and tries again");
    tick_in(q, STORE_RETRY_MS);
}

static void submit(struct amqp_queue *q, struct amqp_message *m)
{
    m->state = AMQP_OPEN;
    source_submit(q->s->src, amqp_job_new(m, q->s->message_id_is_id), on_stored, m);
}

/* A submission may pause the source. */
static void submit_waiting(struct amqp_queue *q)
{
    struct amqp_message *m;

    TAILQ_FOREACH (m, &q->open, link) {
        if (q->waiting == 0 || q->s->paused)
            return;
        if (m->state != AMQP_WAITS)
            continue;
        q->waiting--;
        submit(q, m);
    }
}

static void on_message(void *arg, struct amqp_message *m)
{
    struct amqp_source *s = arg;
    struct amqp_queue *q = &s->queues[m->channel - 1];

    m->owner = q;
    m->state = AMQP_WAITS;
    TAILQ_INSERT_TAIL(&q->open, m, link);
    count_bytes(s, bytes_of(m));
    if (s->paused)
        q->waiting++;
    else
        submit(q, m);
}

/* -------------------------------------------------------------------- consuming */

/* Sends everything at once. If a step fails, the broker closes the channel. */
static void open_queue(struct amqp_queue *q)
{
    struct amqp_source *s = q->s;
    const amqp_bytes_t name = amqp_bytes_of(slice_of(q->name));
    amqp_table_entry_t type = {.key = amqp_bytes_of(SLICE_LIT("x-queue-type")),
                               .value = {.kind = AMQP_FIELD_KIND_UTF8,
                                         .value = {.bytes = amqp_bytes_of(slice_of(
                                                       queue_types[s->queue_type]))}}};
    amqp_queue_declare_t declare = {
        .queue = name, .durable = 1, .arguments = {.num_entries = 1, .entries = &type}};
    amqp_basic_qos_t qos = {.prefetch_count = (uint16_t)s->prefetch};
    amqp_basic_consume_t consume = {.queue = name};

    q->state = OPENING;
    amqp_link_open_channel(s->link, q->channel);
    if (s->declare)
        amqp_link_send(s->link, q->channel, AMQP_QUEUE_DECLARE_METHOD, &declare);
    amqp_link_send(s->link, q->channel, AMQP_BASIC_QOS_METHOD, &qos);
    amqp_link_send(s->link, q->channel, AMQP_BASIC_CONSUME_METHOD, &consume);
}

static void fail_queue(struct amqp_queue *q, const char *why)
{
    if (q->state == CONSUMING && loop_mono_ms() - q->opened_ms >= STEADY_MS)
        q->failures = 0;
    if (q->state == CONSUMING)
        q->limit = (struct log_limit){0};
    log_limited(&q->limit, LOG_WARN, source_name(q->s->src), "queue %s: %s; trying again",
                q->name, why);
    drop_all(q);
    timer_set(q->timer, retry_broker_ms(++q->failures));
}

/* Opens the closed queues, except those whose next attempt is later. */
static void open_queues(struct amqp_source *s)
{
    const unsigned most = amqp_link_is_open(s->link) ? amqp_link_channels(s->link) : 0;

    for (unsigned i = 0; i < s->names.n && i < most && !s->paused; i++)
        if (s->queues[i].state == CLOSED && !timer_is_set(s->queues[i].timer))
            open_queue(&s->queues[i]);
}

static void on_method(void *arg, unsigned channel, amqp_method_number_t id,
                      const void *method)
{
    struct amqp_source *s = arg;
    struct amqp_queue *q = &s->queues[channel - 1];
    char why[AMQP_WHY_MAX];

    if (id == AMQP_BASIC_CONSUME_OK_METHOD) {
        q->state = CONSUMING;
        q->opened_ms = loop_mono_ms();
        log_info(source_name(s->src), "consuming queue %s", q->name);
    } else if (id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *close = method;
        amqp_close_why(why, close->reply_code, close->reply_text);
        fail_queue(q, why);
        q->state = CLOSED;
    } else if (id == AMQP_BASIC_CANCEL_METHOD) {
        fail_queue(q, "the broker cancelled the consumer: the queue was deleted, or its "
                      "node has failed");
        q->state = CLOSING;
        amqp_link_close_channel(s->link, channel);
    } else if (id == AMQP_CHANNEL_CLOSE_OK_METHOD) {
        q->state = CLOSED;
    }
}

static void on_time(void *arg)
{
    struct amqp_queue *q = arg;

    if (!amqp_link_is_open(q->s->link))
        return;
    if (q->state == CLOSED) {
        open_queues(q->s);
    } else if (q->state == CLOSING) {
        timer_set(q->timer, STORE_RETRY_MS);
    } else {
        ack_each(q);
        submit_waiting(q);
    }
}

static void on_open(void *arg)
{
    struct amqp_source *s = arg;

    open_queues(s);
    for (unsigned i = amqp_link_channels(s->link); i < s->names.n; i++)
        log_error(
            source_name(s->src),
            "queue %s: the broker allows only %u channels; raise channel_max of the "
            "broker",
            s->queues[i].name, amqp_link_channels(s->link));
}

static void on_closed(void *arg, const char *why)
{
    struct amqp_source *s = arg;
    (void)why;

    for (unsigned i = 0; i < s->names.n; i++) {
        struct amqp_queue *q = &s->queues[i];
        drop_all(q);
        timer_stop(q->timer);
        q->state = CLOSED;
    }
}

/* -------------------------------------------------------------------- plugin */

static int start(struct source *src, void *self, struct err *err)
{
    static const struct amqp_link_cbs cbs = {.on_open = on_open,
                                             .on_closed = on_closed,
                                             .on_method = on_method,
                                             .on_message = on_message};
    struct amqp_source *s = self;

    if (check(self, err) != 0)
        return -1;
    s->src = src;
    s->queues = mem_alloc(s->names.n * sizeof(*s->queues));
    for (unsigned i = 0; i < s->names.n; i++) {
        struct amqp_queue *q = &s->queues[i];
        *q = (struct amqp_queue){.s = s, .name = s->names.v[i], .channel = i + 1};
        TAILQ_INIT(&q->open);
        q->timer = timer_new(on_time, q);
    }
    amqp_peer_init(&s->peer, &s->opts, source_name(src));
    s->link = amqp_link_new(&s->peer, (uint64_t)s->message_max_bytes, &cbs, s);
    return 0;
}

static void pause_source(struct source *src, void *self, bool paused)
{
    struct amqp_source *s = self;

    (void)src;
    s->paused = paused;
    for (unsigned i = 0; i < s->names.n; i++)
        submit_waiting(&s->queues[i]);
    open_queues(s);
}

static void on_stopped(void *arg)
{
    struct amqp_source *s = arg;

    for (unsigned i = 0; i < s->names.n; i++) {
        drop_all(&s->queues[i]);
        timer_del(s->queues[i].timer);
    }
    amqp_link_free(s->link);
    amqp_peer_free(&s->peer);
    loop_defer_free(s->queues); /* ack_stored() may be deferred */
    source_stopped(s->src);
}

/* All submissions are answered. */
static void stop(struct source *src, void *self)
{
    struct amqp_source *s = self;

    (void)src;
    s->paused = true;
    for (unsigned i = 0; i < s->names.n; i++) {
        ack_stored(&s->queues[i]);
        ack_each(&s->queues[i]);
    }
    amqp_link_stop(s->link, on_stopped);
}

static int probe(const void *self, struct buf *said, struct err *err)
{
    const struct amqp_source *s = self;
    return amqp_probe(&s->opts, s->declare ? NULL : &s->names, "", said, err);
}

static unsigned connections(const void *self)
{
    const struct amqp_source *s = self;
    return amqp_link_is_open(s->link);
}

const struct source_ops source_amqp = {
    .name = "amqp",
    .help = "Consumes queues of RabbitMQ (AMQP 0-9-1) and acknowledges what Redis has "
            "stored.",
    .size = sizeof(struct amqp_source),
    .opts = opts,
    .check = check,
    .start = start,
    .pause = pause_source,
    .stop = stop,
    .probe = probe,
    .warn = warn,
    .connections = connections};
