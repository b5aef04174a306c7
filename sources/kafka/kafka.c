/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka.c - the Kafka source: a member of a consumer group on the loop thread.
 *
 * Guarantee: an offset is committed only if Redis has stored all records below it at
 * least commit_lag ago, and has stored the offset itself. A partition is revoked after
 * its open records are answered; the rebalance waits a few seconds for that.
 */
#include "bridge/base/retry.h"
#include "bridge/job/cloudevent.h"
#include "bridge/plugin.h"
#include "sources/kafka/kafka_client.h"
#include "sources/kafka/kafka_conf.h"
#include "sources/kafka/kafka_group.h"
#include "sources/kafka/kafka_part.h"

#include <string.h>

enum {
    RECORDS_AHEAD = 200000, /* fetched and not read yet, regardless of size */
    SESSION_MS = 10000,     /* after this time the group drops a killed consumer */
    CLOSE_WAIT_MS = 5000,   /* for the group to confirm that we left */
    CLOSE_LOOK_MS = 20,
    SETTLE_WAIT_MS = 2000 /* for Redis to store the last marks */
};

struct kafka_source {
    /* options */
    struct kafka_link link;
    char *group_id, *group_instance_id;
    struct opt_list topics;
    int start_at, null_value;
    int64_t commit_interval_ms, commit_lag_ms, prefetch_bytes;
    /* running */
    struct source *src;
    struct kafka_client *client; /* NULL: between two attempts */
    struct kafka_group group;
    struct timer *retry; /* opens a new client */
    unsigned tries;
    bool stopping, leaving, closing; /* closing: a client is being destroyed */
    struct timer *leave_step;        /* the wait for the last marks, then for the group */
    int64_t close_until_ms;          /* monotonic */
    struct log_limit record_error;
};

/* In the order of the choices. */
enum start_at { START_EARLIEST, START_LATEST };
enum null_value { NULL_CANCELS, NULL_IS_JOB };

#define AT(field) offsetof(struct kafka_source, field)
static const struct opt opts[] = {
    KAFKA_LINK_ROWS(struct kafka_source),
    {"topics", OPT_LIST, AT(topics), NULL,
     "Topics to read. A name that begins with ^ is a regular expression.", .min = 0},
    {"group", OPT_STR, AT(group_id), "tarry",
     "Consumer group; instances with the same group share the partitions.", .min = 0},
    {"group_instance_id", OPT_STR, AT(group_instance_id), NULL,
     "Static membership: a name unique to this instance. The brokers then do not "
     "reassign partitions when the instance restarts.",
     .optional = true},
    {"start", OPT_CHOICE, AT(start_at), "earliest",
     "Where to start if neither the group nor Redis has an offset. If the topic no "
     "longer contains the stored offset, tarry continues with the oldest record.",
     .choices = "earliest|latest"},
    {"null_value", OPT_CHOICE, AT(null_value), "cancel",
     "Meaning of a record without a value and without a due time. cancel: it cancels the "
     "job whose id is its delay-id or key. job: it is a job. A CloudEvent is always a "
     "job.",
     .choices = "cancel|job"},
    {"commit_interval", OPT_MS, AT(commit_interval_ms), "1s",
     "How often tarry commits the offsets of stored records.", .min = 10, .max = 600000},
    {"commit_lag", OPT_MS, AT(commit_lag_ms), "2s",
     "Delay between storing a record in Redis and committing its offset. If Redis "
     "crashes and loses records younger than this, tarry reads them again. 0: no delay.",
     .min = 0, .max = 600000},
    {"prefetch", OPT_BYTES, AT(prefetch_bytes), "64MiB",
     "Maximum size of prefetched records, in bytes, for all partitions together.",
     .min = 1024, .max = 1073741824},
    {0}};

static rd_kafka_conf_t *make_conf(const struct kafka_source *k, struct err *err)
{
    const struct kafka_setting rows[] = {
        {"group.id", k->group_id, 0},
        {"group.instance.id", k->group_instance_id, KAFKA_UNSET},
        /* A static member rejoins under its name, so its restart may take longer. */
        {"session.timeout.ms", NULL, k->group_instance_id ? KAFKA_UNSET : SESSION_MS},
        /* Also applies if the topic no longer contains the offset: then no existing
         * record is skipped. kafka_start.c implements start = "latest". */
        {"auto.offset.reset", "earliest", 0},
        {"auto.commit.interval.ms", NULL, k->commit_interval_ms},
        {"queued.max.messages.kbytes", NULL, k->prefetch_bytes / 1024},
        /* If either limit is reached, librdkafka (2.0.2) checks again only after a
         * second. The queued records should last that long. */
        {"queued.min.messages", NULL, RECORDS_AHEAD},
        {"enable.auto.commit", "true", 0},
        {"enable.auto.offset.store", "false", 0}, /* we store offsets after Redis
                                                   * answered */
        {"partition.assignment.strategy", "cooperative-sticky", 0},
        {"enable.partition.eof", k->start_at == START_LATEST ? "true" : "false", 0},
        {"log.queue", "true", 0},
        {"log.connection.close", "false", 0}, /* brokers close idle connections */
        {"statistics.interval.ms", NULL, KAFKA_STATISTICS_MS}, /* see kafka_stall.c */
        {0}};

    return kafka_conf_new(&k->link, rows, err);
}

static int check(const void *self, struct err *err)
{
    const struct kafka_source *k = self;

    if (kafka_link_check(&k->link, err) < 0)
        return -1;
    if (k->group_id[0] == '\0')
        return err_set(err, "group: must not be empty");
    if (k->topics.n == 0)
        return err_set(err, "topics: must contain at least one topic");
    for (size_t i = 0; i < k->topics.n; i++) {
        const char *topic = k->topics.v[i];
        if (topic[0] != '^' && kafka_topic_check(topic, strlen(topic), err) < 0)
            return err_in(err, "topics");
    }
    rd_kafka_conf_t *conf = make_conf(k, err);
    if (conf == NULL)
        return -1;
    rd_kafka_conf_destroy(conf);
    return 0;
}

/* -------------------------------------------------------------------- records */

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct kafka_read *read = arg;
    struct kafka_part *part = read->owner;
    struct kafka_group *group = part->parts->owner;

    if (reply->outcome == NOT_STORED && strcmp(reply->reason, STORED_REASON_ANEW) == 0)
        kafka_part_recreated(read);
    kafka_part_answer(read, reply->outcome != NOT_STORED && reply->outcome != REFUSED);
    kafka_group_answered(group);
}

/* A CloudEvent without data has a null value too, but does not cancel. */
static bool is_tombstone(const struct kafka_source *k, const struct job *job)
{
    return k->null_value == NULL_CANCELS && job->payload.p == NULL && !cloudevent_is(job);
}

static void take(struct kafka_source *k, const rd_kafka_message_t *m)
{
    struct kafka_part *part =
        kafka_part_find(&k->group.parts, rd_kafka_topic_name(m->rkt), m->partition);
    struct kafka_read *read =
        part ? kafka_part_read(part, m->offset, kafka_record_ms(m)) : NULL;

    if (read == NULL)
        return;
    struct job *job = kafka_job_new(part, m);
    job->tombstone = is_tombstone(k, job);
    source_submit(k->src, job, on_stored, read);
}

static void on_fetch(struct kafka_source *k, rd_kafka_event_t *ev)
{
    const rd_kafka_message_t *m;

    while ((m = rd_kafka_event_message_next(ev)) != NULL) {
        if (m->err) {
            log_limited(&k->record_error, LOG_WARN, source_name(k->src), "%s",
                        rd_kafka_message_errstr(m));
            continue;
        }
        kafka_client_reached(k->client);
        take(k, m);
    }
}

/* A failed commit needs no retry: the next commit covers it, or the new owner reads the
 * records again. */
static void on_committed(struct kafka_source *k, rd_kafka_resp_err_t code)
{
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        kafka_client_reached(k->client);
    else if (code != RD_KAFKA_RESP_ERR__NO_OFFSET &&
             code != RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS)
        log_limited(&k->group.parts.commits, LOG_WARN, source_name(k->src),
                    "cannot commit offsets: %s", rd_kafka_err2str(code));
}

static void on_event(void *arg, rd_kafka_event_t *ev)
{
    struct kafka_source *k = arg;

    switch (rd_kafka_event_type(ev)) {
    case RD_KAFKA_EVENT_REBALANCE:
        k->tries = 0;
        kafka_group_rebalance(&k->group, ev);
        return;
    case RD_KAFKA_EVENT_FETCH:
        on_fetch(k, ev);
        break;
    case RD_KAFKA_EVENT_OFFSET_COMMIT:
        on_committed(k, rd_kafka_event_error(ev));
        break;
    case RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT:
        kafka_start_committed(&k->group.start, ev);
        break;
    default:
        break;
    }
    rd_kafka_event_destroy(ev);
}

static void on_error(void *arg, rd_kafka_event_t *ev)
{
    struct kafka_source *k = arg;
    kafka_group_error(&k->group, ev);
}

/* --------------------------------------------------------------- open, close */

static void on_fatal(void *arg, const char *why);
static void on_client_closed(void *arg);
static const struct kafka_events events = {.mask = RD_KAFKA_EVENT_FETCH |
                                                   RD_KAFKA_EVENT_REBALANCE |
                                                   RD_KAFKA_EVENT_OFFSET_COMMIT,
                                           .event = on_event,
                                           .error = on_error,
                                           .fatal = on_fatal};

/* Closes the client completely, for good or before the next attempt. */
static void close_client(struct kafka_source *k)
{
    kafka_group_leave(&k->group);
    k->closing = true;
    kafka_client_close(k->client, on_client_closed, k);
    k->client = NULL;
}

static int subscribe(const struct kafka_source *k, rd_kafka_t *rk, struct err *err)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)k->topics.n);

    for (size_t i = 0; i < k->topics.n; i++)
        rd_kafka_topic_partition_list_add(list, k->topics.v[i], RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t code = rd_kafka_subscribe(rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    return code ? err_set(err, "cannot subscribe: %s", rd_kafka_err2str(code)) : 0;
}

static int open_client(struct kafka_source *k, struct err *err)
{
    rd_kafka_conf_t *conf = make_conf(k, err);

    if (conf == NULL)
        return -1;
    struct kafka_client *client = kafka_client_open(
        source_name(k->src), RD_KAFKA_CONSUMER, &k->link, conf, &events, k, err);
    if (client == NULL)
        return -1;
    if (subscribe(k, kafka_client_rk(client), err) < 0) {
        kafka_client_close(client, NULL, NULL);
        return -1;
    }
    k->client = client;
    kafka_group_join(&k->group, client);
    return 0;
}

static void on_client_closed(void *arg)
{
    struct kafka_source *k = arg;

    k->closing = false;
    if (k->stopping && k->group.parts.open_requests > 0) { /* each gets an answer or an
                                                            * error from Redis */
        timer_set(k->retry, CLOSE_LOOK_MS);
        return;
    }
    if (!k->stopping) {
        timer_set(k->retry, retry_broker_ms(++k->tries));
        return;
    }
    kv_watch(k->src, NULL, NULL);
    kafka_group_fini(&k->group);
    timer_del(k->retry);
    timer_del(k->leave_step);
    source_stopped(k->src);
}

static void on_retry(void *arg)
{
    struct kafka_source *k = arg;
    struct err err;

    if (k->stopping) {
        on_client_closed(k);
        return;
    }
    if (open_client(k, &err) == 0)
        return;
    timer_set(k->retry, retry_broker_ms(++k->tries));
    log_warn(source_name(k->src), "%s; trying again", err.text);
}

static void on_fatal(void *arg, const char *why)
{
    struct kafka_source *k = arg;

    log_error(source_name(k->src), "fatal error, tarry replaces the consumer: %s", why);
    timer_stop(k->leave_step);
    close_client(k);
}

static void check_closed(struct kafka_source *k)
{
    if (loop_mono_ms() >= k->close_until_ms) {
        log_warn(source_name(k->src), "tarry could not leave the consumer group in time; "
                                      "the last records may be read again");
    } else if (!rd_kafka_consumer_closed(kafka_client_rk(k->client))) {
        timer_set(k->leave_step, CLOSE_LOOK_MS);
        return;
    }
    close_client(k);
}

/* Call once the last marks are written or have failed. */
static void leave(void *arg)
{
    struct kafka_source *k = arg;
    struct err err;

    timer_stop(k->leave_step);
    if (k->client == NULL || k->leaving)
        return;
    k->leaving = true;
    if (kafka_client_leave(k->client, &err) < 0) {
        log_warn(source_name(k->src), "cannot close the consumer: %s", err.text);
        close_client(k);
        return;
    }
    k->close_until_ms = loop_mono_ms() + CLOSE_WAIT_MS;
    timer_set(k->leave_step, 0);
}

static void on_leave_step(void *arg)
{
    struct kafka_source *k = arg;

    if (k->leaving)
        check_closed(k);
    else
        leave(k);
}

/* The kv has changed, perhaps by another instance. */
static void on_kv(void *arg)
{
    kafka_group_check_rewinds(&((struct kafka_source *)arg)->group);
}

static int start(struct source *src, void *self, struct err *err)
{
    struct kafka_source *k = self;

    k->src = src;
    kafka_group_init(&k->group, src, k->group_id, k->commit_lag_ms,
                     k->start_at == START_LATEST);
    if (open_client(k, err) < 0) {
        kafka_group_fini(&k->group);
        return -1;
    }
    k->retry = timer_new(on_retry, k);
    k->leave_step = timer_new(on_leave_step, k);
    kv_watch(src, on_kv, k);
    return 0;
}

static void pause_source(struct source *src, void *self, bool paused)
{
    struct kafka_source *k = self;

    (void)src;
    kafka_group_pause(&k->group, paused);
}

static void rewind_to_stored(struct source *src, void *self)
{
    struct kafka_source *k = self;

    (void)src;
    kafka_group_rewind(&k->group);
}

static void stop(struct source *src, void *self)
{
    struct kafka_source *k = self;

    (void)src;
    k->stopping = true;
    timer_stop(k->retry);
    if (k->client == NULL) {
        if (!k->closing)
            on_client_closed(k);
        return;
    }
    kafka_group_pause_for_stop(&k->group);
    timer_set(k->leave_step, SETTLE_WAIT_MS);
    kafka_group_settle(&k->group, leave, k);
}

static void rewind_route(struct source *src, void *self, const char *route, int64_t to_ms,
                         bool dry_run, rewind_cb *cb, void *arg)
{
    struct kafka_source *k = self;
    const struct kafka_rewind what = {.route = route,
                                      .to_ms = to_ms,
                                      .dry_run = dry_run,
                                      .link = &k->link,
                                      .topics = k->topics.v,
                                      .topic_count = k->topics.n};

    (void)src;
    kafka_rewind(&k->group.marks, &what, cb, arg);
}

static int probe(const void *self, struct buf *said, struct err *err)
{
    const struct kafka_source *k = self;
    return kafka_probe(&k->link, k->topics.v, k->topics.n, said, err);
}

static unsigned connections(const void *self)
{
    return kafka_client_connections(((const struct kafka_source *)self)->client);
}

static void report_lag(const void *self, lag_cb *cb, void *arg)
{
    kafka_group_lag(&((const struct kafka_source *)self)->group, cb, arg);
}

const struct source_ops source_kafka = {
    .name = "kafka",
    .help = "Reads Kafka topics as a member of a consumer group.",
    .size = sizeof(struct kafka_source),
    .opts = opts,
    .check = check,
    .start = start,
    .pause = pause_source,
    .rewind_to_stored = rewind_to_stored,
    .rewind = rewind_route,
    .stop = stop,
    .probe = probe,
    .connections = connections,
    .lag = report_lag,
};
