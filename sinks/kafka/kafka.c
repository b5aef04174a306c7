/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka.c - the Kafka sink: an idempotent producer on the loop thread.
 *
 * The delivery report of the broker (acks=all) decides the outcome; a queued record is
 * not delivered yet. librdkafka itself retries only within the timeout of the delivery,
 * and with sequence numbers, so that retries cause no duplicates.
 */
#include "bridge/base/retry.h"
#include "bridge/plugin.h"
#include "sinks/kafka/kafka_produce.h"
#include "sources/kafka/kafka_client.h"
#include "sources/kafka/kafka_conf.h"

#include <stdlib.h>
#include <sys/queue.h>

enum {
    PURGE_WAIT_MS = 2000, /* for the reports of a failed producer */
    DOWN_WAIT_MS = 1000,
    TIMEOUT_DEFAULT_MS = 30000,
    TIMEOUT_MAX_MS = 900000,
    RECONNECT_MAX_MS = 1000,
    TIMEOUT_MARGIN_MS = 3000, /* librdkafka checks for late records only periodically */
    QUEUE_ROOM = 1000         /* above the maximum in flight, so that only bytes limit the
                               * queue */
};

struct sent_record { /* an unfinished delivery; the opaque of its record */
    LIST_ENTRY(sent_record) link;
    STAILQ_ENTRY(sent_record) next; /* in rejected */
    struct delivery *d;
    int64_t started_ms; /* monotonic */
    rd_kafka_resp_err_t batch_error;
    bool alone; /* sent alone */
};

/* The broker's default maximum (message.max.bytes, for a batch). librdkafka's default is
 * 1,000,000. */
enum { RECORD_MAX = 1048588 };

struct kafka_sink {
    /* options */
    struct kafka_link link;
    int compression, partitioner;
    int64_t linger_ms, buffer_bytes;
    /* running */
    struct sink *sink;
    struct kafka_client *client; /* NULL: between two attempts */
    rd_kafka_topic_t *topic;     /* of the client: the last topic used; NULL: none */
    LIST_HEAD(, sent_record) sent_records;
    STAILQ_HEAD(, sent_record) rejected; /* with their batch: send them one by one */
    bool alone;                          /* one of them is being sent */
    struct log_limit batch_limit;
    bool failing;         /* waits for the reports of purged records */
    struct timer *failed; /* end of that wait */
    struct timer *retry;  /* creates a new producer */
    unsigned tries;
    bool stopping, closing; /* closing: a client is being destroyed */
};

static const char *const compressions[] = {"none", "lz4", "zstd", "gzip", "snappy"};
/* The first is the default of the Java client. */
static const char *const partitioners[] = {"murmur2_random", "consistent_random",
                                           "fnv1a_random", "random"};

#define AT(field) offsetof(struct kafka_sink, field)
static const struct opt opts[] = {
    KAFKA_LINK_ROWS(struct kafka_sink),
    {"compression", OPT_CHOICE, AT(compression), "none", "Compression of batches.",
     .choices = "none|lz4|zstd|gzip|snappy"},
    {"linger", OPT_MS, AT(linger_ms), "1ms",
     "How long a record waits for more records for its batch. 0ms delivers about 0.3 ms "
     "earlier, but can halve the throughput.",
     .max = 1000},
    {"partitioner", OPT_CHOICE, AT(partitioner), "java",
     "How the key selects the partition; java: like the Java client.",
     .choices = "java|crc32|fnv1a|random"},
    {"buffer", OPT_BYTES, AT(buffer_bytes), "256MiB",
     "Maximum size of the records that the brokers have not yet acknowledged, in bytes.",
     .min = 1048576, .max = 1073741824},
    {0}};

/* Returns a timeout below the lease: a later record would duplicate the next attempt.
 */
static int64_t record_timeout_ms(int64_t delivery_ms)
{
    if (delivery_ms <= 0)
        delivery_ms = TIMEOUT_DEFAULT_MS;
    if (delivery_ms > TIMEOUT_MAX_MS)
        delivery_ms = TIMEOUT_MAX_MS;
    return delivery_ms > 2 * TIMEOUT_MARGIN_MS ? delivery_ms - TIMEOUT_MARGIN_MS
                                               : delivery_ms / 2;
}

static rd_kafka_conf_t *make_conf(const struct kafka_sink *s, int64_t timeout_ms,
                                  unsigned in_flight, struct err *err)
{
    const struct kafka_setting rows[] = {
        {"acks", "all", 0},
        {"enable.idempotence", "true", 0},
        {"message.timeout.ms", NULL, record_timeout_ms(timeout_ms)},
        {"message.max.bytes", NULL, RECORD_MAX},
        {"queue.buffering.max.messages", NULL, (int64_t)in_flight + QUEUE_ROOM},
        {"queue.buffering.max.kbytes", NULL, s->buffer_bytes / 1024},
        {"linger.ms", NULL, s->linger_ms},
        {"compression.codec", compressions[s->compression], 0},
        {"partitioner", partitioners[s->partitioner], 0},
        {"delivery.report.only.error", "false", 0},
        {"log.queue", "true", 0},
        {"log.connection.close", "false", 0}, /* brokers close idle connections */
        {"statistics.interval.ms", NULL, KAFKA_STATISTICS_MS}, /* connections */
        /* While librdkafka waits to reconnect, it checks for late records only after the
         * wait.
         */
        {"reconnect.backoff.max.ms", NULL, RECONNECT_MAX_MS},
        {0}};

    return kafka_conf_new(&s->link, rows, err);
}

static int check(const void *self, struct err *err)
{
    const struct kafka_sink *s = self;

    if (kafka_link_check(&s->link, err) < 0)
        return -1;
    rd_kafka_conf_t *conf = make_conf(s, 0, 0, err);
    if (conf == NULL)
        return -1;
    rd_kafka_conf_destroy(conf);
    return 0;
}

/* -------------------------------------------------------------------- outcome */

static void report(struct delivery *d, enum outcome outcome, rd_kafka_resp_err_t code)
{
    d->status = code > 0 ? (int)code : 0; /* below 0: librdkafka's own codes */
    delivery_done(d, outcome, outcome == DELIVERED ? NULL : rd_kafka_err2str(code));
}

static void finish(struct sent_record *r, enum outcome outcome, rd_kafka_resp_err_t code)
{
    struct delivery *d = r->d;

    LIST_REMOVE(r, link);
    free(r);
    report(d, outcome, code); /* last: it may start the next delivery */
}

/* Reports the outcome of the code for this record. */
static void finish_by_code(struct sent_record *r, rd_kafka_resp_err_t code)
{
    int64_t after_ms;
    const enum outcome outcome = kafka_outcome(code, &after_ms);

    if (after_ms > 0)
        r->d->retry_after_ms = after_ms;
    finish(r, outcome, code);
}

static void send_record(struct kafka_sink *s, struct sent_record *r)
{
    rd_kafka_resp_err_t code =
        kafka_produce(kafka_client_rk(s->client), &s->topic, r->d, r);

    if (code == RD_KAFKA_RESP_ERR__FATAL)
        kafka_client_fail(s->client, rd_kafka_err2str(code));
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    if (r->alone)
        s->alone = false;
    finish_by_code(r, code);
}

/* Is there time to send it again? Both sends must end before the lease expires. */
static bool has_time(const struct sent_record *r)
{
    return loop_mono_ms() - r->started_ms < r->d->timeout_ms / 4;
}

/* Sends records of a rejected batch one by one, so that only the record that caused the
 * error is rejected. */
static void send_next_alone(struct kafka_sink *s)
{
    while (!s->alone && s->client && !s->failing && !STAILQ_EMPTY(&s->rejected)) {
        struct sent_record *r = STAILQ_FIRST(&s->rejected);
        STAILQ_REMOVE_HEAD(&s->rejected, next);
        if (has_time(r)) {
            r->alone = s->alone = true;
            send_record(s, r);
        } else {
            finish(r, TRY_AGAIN, r->batch_error);
        }
    }
}

static void queue_to_send_alone(struct kafka_sink *s, struct sent_record *r,
                                rd_kafka_resp_err_t code)
{
    log_limited(&s->batch_limit, LOG_WARN, sink_name(s->sink),
                "the broker rejects a whole batch: %s; tarry sends its records one by "
                "one. If max.message.bytes of the topic is low, set batch_size in kafka: "
                "{ } to that value",
                rd_kafka_err2str(code));
    r->batch_error = code;
    STAILQ_INSERT_TAIL(&s->rejected, r, next);
}

static void on_report(struct kafka_sink *s, rd_kafka_event_t *ev)
{
    /* An event is the answer to a single batch (librdkafka 2.0.2). */
    const bool is_batch = rd_kafka_event_message_count(ev) > 1;
    const rd_kafka_message_t *m;

    while ((m = rd_kafka_event_message_next(ev)) != NULL) {
        struct sent_record *r = m->_private;
        if (r->alone)
            r->alone = s->alone = false;
        if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            s->tries = 0;
            kafka_client_reached(s->client);
        }
        if (is_batch && kafka_is_of_record(m->err))
            queue_to_send_alone(s, r, m->err);
        else
            finish_by_code(r, m->err);
    }
    send_next_alone(s);
    if (s->failing && LIST_EMPTY(&s->sent_records))
        timer_set(s->failed, 0);
}

static void on_event(void *arg, rd_kafka_event_t *ev)
{
    if (rd_kafka_event_type(ev) == RD_KAFKA_EVENT_DR)
        on_report(arg, ev);
    rd_kafka_event_destroy(ev);
}

static void retry_later(struct delivery *d)
{
    d->retry_after_ms = DOWN_WAIT_MS;
    delivery_done(d, TRY_AGAIN,
                  "the Kafka producer is being replaced after a fatal error");
}

static void deliver(struct sink *sink, void *self, struct delivery *d)
{
    struct kafka_sink *s = self;
    struct err err;

    (void)sink;
    if (kafka_topic_check(d->target.p, d->target.n, &err) < 0) {
        delivery_done(d, REJECTED, err.text);
        return;
    }
    if (s->client == NULL || s->failing) {
        retry_later(d);
        return;
    }
    struct sent_record *r = mem_alloc(sizeof(*r));
    r->d = d;
    r->started_ms = loop_mono_ms();
    LIST_INSERT_HEAD(&s->sent_records, r, link);
    send_record(s, r);
}

/* --------------------------------------------------------------- open, close */

static void on_fatal(void *arg, const char *why);
static const struct kafka_events events = {
    .mask = RD_KAFKA_EVENT_DR, .event = on_event, .fatal = on_fatal};

static int open_client(struct kafka_sink *s, struct err *err)
{
    rd_kafka_conf_t *conf =
        make_conf(s, sink_timeout_ms(s->sink), sink_max_in_flight(s->sink), err);

    if (conf == NULL)
        return -1;
    s->client = kafka_client_open(sink_name(s->sink), RD_KAFKA_PRODUCER, &s->link, conf,
                                  &events, s, err);
    return s->client ? 0 : -1;
}

static void on_gone(void *arg)
{
    struct kafka_sink *s = arg;

    s->closing = false;
    if (!s->stopping) {
        timer_set(s->retry, retry_broker_ms(++s->tries));
        return;
    }
    timer_del(s->failed);
    timer_del(s->retry);
    sink_stopped(s->sink);
}

static void close_client(struct kafka_sink *s)
{
    timer_stop(s->failed);
    s->failing = false;
    s->closing = true;
    if (s->topic)
        rd_kafka_topic_destroy(s->topic);
    s->topic = NULL;
    kafka_client_close(s->client, on_gone, s);
    s->client = NULL;
}

static void on_retry(void *arg)
{
    struct kafka_sink *s = arg;
    struct err err;

    if (open_client(s, &err) == 0)
        return;
    log_warn(sink_name(s->sink), "%s; trying again", err.text);
    timer_set(s->retry, retry_broker_ms(++s->tries));
}

/* Called when every report has arrived, or after the wait for the missing ones. */
static void on_failed(void *arg)
{
    struct kafka_sink *s = arg;
    struct sent_record *next;

    close_client(s); /* from here on no report is added */
    STAILQ_INIT(&s->rejected);
    s->alone = false;
    for (struct sent_record *r = LIST_FIRST(&s->sent_records); r; r = next) {
        next = LIST_NEXT(r, link);
        finish_by_code(r, RD_KAFKA_RESP_ERR__PURGE_INFLIGHT);
    }
}

/* librdkafka 2.0.2 stops an idempotent producer for good when it loses track of sequence
 * numbers. Records in sent_record may have been written already; they are delivered
 * again. */
static void on_fatal(void *arg, const char *why)
{
    struct kafka_sink *s = arg;

    log_error(sink_name(s->sink), "fatal error, tarry replaces the producer: %s", why);
    s->failing = true;
    rd_kafka_purge(kafka_client_rk(s->client), RD_KAFKA_PURGE_F_QUEUE |
                                                   RD_KAFKA_PURGE_F_INFLIGHT |
                                                   RD_KAFKA_PURGE_F_NON_BLOCKING);
    timer_set(s->failed, LIST_EMPTY(&s->sent_records) ? 0 : PURGE_WAIT_MS);
}

static int start(struct sink *sink, void *self, struct err *err)
{
    struct kafka_sink *s = self;

    s->sink = sink;
    LIST_INIT(&s->sent_records);
    STAILQ_INIT(&s->rejected);
    if (open_client(s, err) < 0)
        return -1;
    s->failed = timer_new(on_failed, s);
    s->retry = timer_new(on_retry, s);
    return 0;
}

static void stop(struct sink *sink, void *self)
{
    struct kafka_sink *s = self;

    (void)sink;
    s->stopping = true;
    timer_stop(s->retry);
    if (s->client)
        close_client(s); /* nothing to flush: every record has been reported */
    else if (!s->closing)
        on_gone(s);
}

static int probe(const void *self, const struct probe_target *target, struct buf *said,
                 struct err *err)
{
    const struct kafka_sink *s = self;
    char *topic = mem_strndup(target->text.p, target->text.n);
    int bad = kafka_probe(&s->link, &topic, target->whole ? 1 : 0, said, err);
    free(topic);
    return bad;
}

/* A prefix alone may be too short, but not too long. */
static int check_target(const void *self, const struct probe_target *target,
                        struct err *err)
{
    (void)self;
    struct slice text = target->text;
    bool dots = !target->whole && text.n <= 2 && *text.p == '.';
    return dots ? 0 : kafka_topic_check(text.p, text.n, err);
}

static unsigned connections(const void *self)
{
    return kafka_client_connections(((const struct kafka_sink *)self)->client);
}

const struct sink_ops sink_kafka = {
    .name = "kafka",
    .help = "Writes jobs to Kafka topics.",
    .size = sizeof(struct kafka_sink),
    .opts = opts,
    .max_in_flight = 10000,
    .check = check,
    .start = start,
    .deliver = deliver,
    .stop = stop,
    .probe = probe,
    .connections = connections,
    .check_target = check_target,
};
