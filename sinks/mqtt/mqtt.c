/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt.c - the MQTT sink: options, deliveries with their deadlines, and the connection.
 * Loop thread.
 *
 * A delivery is copied to a parcel. The sink sends its parcels in order, within the
 * limits of the broker, by a run (mqtt_run.h), and starts a new run when the connection
 * is lost. The broker's PUBACK or PUBCOMP confirms a delivery; at QoS 0, the write to the
 * socket.
 */
#include "bridge/base/retry.h"
#include "sinks/mqtt/mqtt_run.h"
#include "sources/mqtt/mqtt_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HOST_BYTES = 256,
    PAYLOAD_MAX = 268435455 - 131072, /* a packet's limit minus room for headers */
    CONNECT_MAX_MS = 20000,           /* more than paho's own limit */
    STEADY_MS = 10000,     /* a run of this length does not count as a failure */
    RETRY_AFTER_MS = 1000, /* without a connection */
    STOP_MAX_MS = 2000     /* for DISCONNECT */
};

struct mqtt_sink {
    struct mqtt_link link;
    int64_t qos;
    bool retain, retain_as_published;

    struct sink *sink;
    struct mqtt_target *target;
    LIST_HEAD(, mqtt_parcel) open;  /* deliveries not yet reported */
    struct mqtt_parcels waiting;    /* to be sent, in order */
    struct mqtt_run *run;           /* NULL: wait until connect_at_ms */
    LIST_HEAD(, mqtt_run) leaving;  /* runs that still disconnect */
    struct timer *timer;            /* fires at timer_at_ms, when something may be due */
    int64_t timer_at_ms;            /* monotonic, as below */
    int64_t connect_at_ms, stop_ms; /* stop_ms 0: not stopping */
    unsigned failures;              /* consecutive runs shorter than STEADY_MS */
    bool ended;
    struct log_limit header_limit, late_limit, away_limit;
};

#define AT(field) offsetof(struct mqtt_sink, field)
static const struct opt opts[] = {
    MQTT_LINK_ROWS(
        struct mqtt_sink,
        "Client id at the broker, which must be unique. Default: tarry-HOST-SINK-PID."),
    {"qos", OPT_INT, AT(qos), "1",
     "A message is delivered, with 0: when tarry has sent it; it may be lost. 1: when "
     "the "
     "broker has acknowledged it. 2: the same, and the broker passes on each attempt "
     "exactly once.",
     .max = 2},
    {"retain", OPT_BOOL, AT(retain), "false",
     "Whether the broker stores the last message of each topic for later subscribers.",
     .min = 0},
    {"retain_as_published", OPT_BOOL, AT(retain_as_published), "false",
     "Whether to set the retain flag for a message that an MQTT source received with it "
     "(header mqtt-retain: 1).",
     .min = 0},
    {0}};

static int check(const void *self, struct err *err)
{
    const struct mqtt_sink *m = self;

    return mqtt_link_check(&m->link, err);
}

/* --------------------------------------------------------------------- results */

/* Reports the delivery; does not free the parcel. */
static void report(struct mqtt_parcel *p, enum outcome outcome, const char *why)
{
    struct delivery *d = p->d;

    LIST_REMOVE(p, open);
    p->d = NULL;
    if (outcome == TRY_AGAIN)
        d->retry_after_ms = p->retry_after_ms;
    delivery_done(d, outcome, why);
}

/* Reports the result, unless the delivery is reported, and frees the parcel. */
static void finish(struct mqtt_parcel *p)
{
    if (p->d) {
        p->d->status = p->status;
        report(p, p->outcome, p->why);
    }
    free(p);
}

static void give_up(struct mqtt_parcel *p, enum outcome outcome, const char *why)
{
    mqtt_parcel_result(p, outcome, why);
    finish(p);
}

static void give_up_all(struct mqtt_parcels *parcels, const char *why)
{
    for (struct mqtt_parcel *p; (p = TAILQ_FIRST(parcels));) {
        TAILQ_REMOVE(parcels, p, link);
        give_up(p, TRY_AGAIN, why);
    }
}

/* --------------------------------------------------------------------- sending */

static bool is_up(const struct mqtt_sink *m)
{
    return m->run && m->run->was_connected;
}

static void send_first(struct mqtt_sink *m)
{
    struct mqtt_parcel *p = TAILQ_FIRST(&m->waiting);

    TAILQ_REMOVE(&m->waiting, p, link);
    if (p->d == NULL) {
        free(p);
    } else if (p->expires_ms > 0 && p->expires_ms <= loop_mono_ms()) {
        give_up(p, TRY_AGAIN, "the message expired before it was sent");
    } else if (p->packet_bytes > m->run->client.limits.packet_max_bytes) {
        give_up(p, REJECTED,
                "the message is larger than the broker's maximum packet size");
    } else {
        p->sent = true;
        mqtt_run_send(m->run, p);
    }
}

/* The lower of our and the broker's limit. */
static unsigned window(const struct mqtt_sink *m)
{
    const unsigned theirs = m->run->client.limits.receive_max,
                   ours = m->target->max_in_flight;

    return m->qos > 0 && theirs < ours ? theirs : ours;
}

static void feed(struct mqtt_sink *m)
{
    while (is_up(m) && !TAILQ_EMPTY(&m->waiting) && m->run->held < window(m))
        send_first(m);
}

/* --------------------------------------------------------------------- runs */

static void arm(struct mqtt_sink *m, int64_t at_ms)
{
    const int64_t now = loop_mono_ms();

    if (timer_is_set(m->timer) && m->timer_at_ms <= at_ms)
        return;
    m->timer_at_ms = at_ms;
    timer_set(m->timer, at_ms > now ? at_ms - now : 0);
}

/* Ends the run. Its thread may need longer, and keeps the parcel that paho has. */
static void leave(struct mqtt_sink *m)
{
    struct mqtt_parcels unsent = TAILQ_HEAD_INITIALIZER(unsent);
    struct mqtt_parcels sent = TAILQ_HEAD_INITIALIZER(sent);
    struct mqtt_run *run = m->run;
    struct mqtt_parcel *p;

    m->run = NULL;
    LIST_INSERT_HEAD(&m->leaving, run, link);
    mqtt_run_leave(run, &unsent, &sent);
    TAILQ_FOREACH (p, &unsent, link)
        p->sent = false;
    TAILQ_CONCAT(&unsent, &m->waiting, link);
    TAILQ_CONCAT(&m->waiting, &unsent, link);
    give_up_all(&sent, "connection lost before the broker answered");
}

static void connect_later(struct mqtt_sink *m)
{
    m->connect_at_ms = loop_mono_ms() + retry_broker_ms(++m->failures);
    arm(m, m->connect_at_ms);
}

static void end_run(struct mqtt_sink *m, const char *why)
{
    const struct mqtt_run *run = m->run;

    if (run->was_connected && loop_mono_ms() - run->connected_ms >= STEADY_MS)
        m->failures = 0;
    connect_later(m);
    /* Log every lost connection, but failed attempts at a limited rate. */
    if (run->was_connected)
        m->away_limit = (struct log_limit){0};
    log_limited(&m->away_limit, LOG_WARN, sink_name(m->sink),
                "client %s: %s; trying again", m->target->peer.client_id, why);
    leave(m);
    arm(m, 0); /* for parcels that wait again */
}

static void on_ended(void *arg)
{
    struct mqtt_sink *m = arg;

    mqtt_target_drop(m->target);
    timer_del(m->timer);
    sink_stopped(m->sink);
}

static void end_if_stopped(struct mqtt_sink *m)
{
    if (m->stop_ms == 0 || m->ended || !LIST_EMPTY(&m->leaving))
        return;
    m->ended = true;
    loop_defer(on_ended, m);
}

static void on_state(struct mqtt_sink *m, enum mqtt_run_state state, const char *why)
{
    struct mqtt_run *run = m->run;

    if (state == RUN_CONNECTED && !run->was_connected) {
        run->was_connected = true;
        run->connected_ms = loop_mono_ms();
        log_info(sink_name(m->sink), "connected as %s", m->target->peer.client_id);
    }
    if (state == RUN_ENDED)
        end_run(m, why);
    feed(m);
}

static void on_news(void *arg)
{
    struct mqtt_run *run = arg;
    struct mqtt_sink *m = run->owner;
    struct mqtt_parcels answered = TAILQ_HEAD_INITIALIZER(answered);
    char why[MQTT_WHY_MAX];

    pthread_mutex_lock(&run->lock);
    TAILQ_CONCAT(&answered, &run->answered, link);
    enum mqtt_run_state state = run->state;
    bool finished = run->finished;
    memcpy(why, run->why, sizeof(why));
    pthread_mutex_unlock(&run->lock);
    for (struct mqtt_parcel *p; (p = TAILQ_FIRST(&answered));) {
        TAILQ_REMOVE(&answered, p, link);
        run->held--;
        finish(p);
    }
    if (run == m->run)
        on_state(m, state, why);
    if (!finished || run == m->run)
        return;
    LIST_REMOVE(run, link);
    mqtt_run_free(run);
    end_if_stopped(m);
}

static void start_run(struct mqtt_sink *m)
{
    struct err err;

    m->run = mqtt_run_start(m->target, m, on_news, &err);
    if (m->run)
        return;
    log_limited(&m->away_limit, LOG_WARN, sink_name(m->sink), "%s; trying again",
                err.text);
    connect_later(m);
}

/* --------------------------------------------------------------------- time */

static void check_deadlines(struct mqtt_sink *m, int64_t now)
{
    LIST_HEAD(, mqtt_parcel) due = LIST_HEAD_INITIALIZER(due);
    bool late = false;

    /* First collects them, since each report may start the next delivery. */
    for (struct mqtt_parcel *p = LIST_FIRST(&m->open), *next; p; p = next) {
        const int64_t limit_ms = p->sent ? p->deadline_ms : p->unsent_ms;
        next = LIST_NEXT(p, open);
        if (limit_ms > now) {
            arm(m, limit_ms);
            continue;
        }
        LIST_REMOVE(p, open);
        LIST_INSERT_HEAD(&due, p, open);
        if (!p->sent)
            TAILQ_REMOVE(&m->waiting, p, link);
    }
    for (struct mqtt_parcel *p; (p = LIST_FIRST(&due));) {
        if (p->sent) {
            late = true;
            report(p, TRY_AGAIN, "the broker did not answer in time");
        } else {
            p->retry_after_ms = RETRY_AFTER_MS;
            give_up(p, TRY_AGAIN, "the broker did not accept the message in time");
        }
    }
    if (!late)
        return;
    log_limited(&m->late_limit, LOG_WARN, sink_name(m->sink),
                "the broker did not answer in time; reconnecting");
    if (is_up(m)) /* otherwise the message would block the window */
        end_run(m, "the broker did not acknowledge a message in time");
}

static void forget_runs(struct mqtt_sink *m)
{
    for (struct mqtt_run *run; (run = LIST_FIRST(&m->leaving));) {
        LIST_REMOVE(run, link);
        mqtt_run_free(run);
    }
    end_if_stopped(m);
}

static void on_time(void *arg)
{
    struct mqtt_sink *m = arg;
    const int64_t now = loop_mono_ms();

    if (m->stop_ms > 0) {
        if (now >= m->stop_ms)
            forget_runs(m);
        else
            arm(m, m->stop_ms);
        return;
    }
    check_deadlines(m, now);
    if (m->run == NULL && now >= m->connect_at_ms)
        start_run(m);
    else if (m->run == NULL)
        arm(m, m->connect_at_ms);
    if (m->run == NULL || m->run->was_connected)
        return;
    if (now - m->run->started_ms > CONNECT_MAX_MS)
        end_run(m, "the broker does not answer");
    else
        arm(m, m->run->started_ms + CONNECT_MAX_MS + 1);
}

/* --------------------------------------------------------------------- plugin */

static bool is_retained(const struct mqtt_sink *m, const struct delivery *d)
{
    const struct header *h = delivery_header(d, MQTT_RETAIN_HEADER);

    return m->retain ||
           (m->retain_as_published && d->dead == NULL && h && slice_is(h->value, "1"));
}

static void deliver(struct sink *sink, void *self, struct delivery *d)
{
    struct mqtt_sink *m = self;
    const int64_t now = loop_mono_ms();
    bool dropped;
    struct err err;

    if (mqtt_topic_check(d->target, &err) != 0) {
        delivery_done(d, REJECTED, err.text);
        return;
    }
    if (d->job->payload.n > PAYLOAD_MAX) {
        delivery_done(d, REJECTED,
                      "the message is larger than the largest possible MQTT packet");
        return;
    }
    struct mqtt_parcel *p = mqtt_parcel_new(d, m->target->peer.v5, &dropped);
    if (dropped)
        log_limited(&m->header_limit, LOG_WARN, sink_name(sink),
                    "dropped a header that is not UTF-8 text: MQTT cannot transport it");
    p->d = d;
    p->retain = is_retained(m, d);
    p->unsent_ms = now + d->timeout_ms / 2;
    p->deadline_ms = now + d->timeout_ms - d->timeout_ms / 10;
    LIST_INSERT_HEAD(&m->open, p, open);
    TAILQ_INSERT_TAIL(&m->waiting, p, link);
    arm(m, p->unsent_ms);
    feed(m);
}

static char *client_id(const struct mqtt_sink *m)
{
    static unsigned made; /* during a reload two sinks have the same name */
    char host[HOST_BYTES] = "", id[2 * HOST_BYTES], more[16] = "";

    if (m->link.client_id)
        return mem_strdup(m->link.client_id);
    gethostname(host, sizeof(host) - 1);
    if (made++ > 0)
        snprintf(more, sizeof(more), "-%u", made);
    snprintf(id, sizeof(id), "tarry-%s-%.128s-%ld%s", host, sink_name(m->sink),
             (long)getpid(), more);
    return mem_strdup(id);
}

/* The broker disconnects a client if another one connects with the same id. */
static bool alone(const void *self)
{
    const struct mqtt_sink *m = self;

    return m->link.client_id != NULL;
}

/* Connecting may take paho a second while its other connections are idle. */
static bool ready(const void *self)
{
    return is_up(self);
}

static int start(struct sink *sink, void *self, struct err *err)
{
    struct mqtt_sink *m = self;

    if (check(self, err) != 0)
        return -1;
    m->sink = sink;
    TAILQ_INIT(&m->waiting);
    m->target = mem_alloc(sizeof(*m->target));
    *m->target = (struct mqtt_target){.users = 1,
                                      .qos = (unsigned)m->qos,
                                      .retain = m->retain || m->retain_as_published,
                                      .max_in_flight = sink_max_in_flight(sink)};
    mqtt_peer_init(&m->target->peer, &m->link, client_id(m));
    m->run = mqtt_run_start(m->target, m, on_news, err);
    if (m->run == NULL) {
        mqtt_target_drop(m->target);
        return -1;
    }
    m->timer = timer_new(on_time, m);
    arm(m, 0);
    return 0;
}

/* All deliveries are reported. */
static void stop(struct sink *sink, void *self)
{
    struct mqtt_sink *m = self;
    /* paho cannot interrupt a connect. */
    const bool connecting = m->run && !m->run->was_connected;

    (void)sink;
    m->stop_ms = loop_mono_ms() + (connecting ? 0 : STOP_MAX_MS);
    if (m->run)
        leave(m);
    give_up_all(&m->waiting, "stopping");
    arm(m, m->stop_ms);
    end_if_stopped(m);
}

static int probe(const void *self, const struct probe_target *target, struct buf *said,
                 struct err *err)
{
    const struct mqtt_sink *s = self;
    (void)target; /* brokers cannot check a topic before a message arrives */
    return mqtt_probe(&s->link, said, err);
}

static int check_target(const void *self, const struct probe_target *target,
                        struct err *err)
{
    (void)self;
    return mqtt_topic_check(target->text, err);
}

static unsigned connections(const void *self)
{
    return is_up(self);
}

const struct sink_ops sink_mqtt = {
    .name = "mqtt",
    .help = "Publishes jobs to an MQTT broker. Only MQTT 5 transports headers.",
    .size = sizeof(struct mqtt_sink),
    .opts = opts,
    .target = "{topic}",
    .max_in_flight = 200,
    .alone = alone,
    .ready = ready,
    .check = check,
    .start = start,
    .deliver = deliver,
    .stop = stop,
    .probe = probe,
    .connections = connections,
    .check_target = check_target};
