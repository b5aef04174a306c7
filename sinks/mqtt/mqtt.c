/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt.c - the MQTT sink: options, deliveries, their deadlines. Loop thread.
 *
 * A delivery is copied to a parcel for the connection to the broker (mqtt_conn.c). The
 * broker's PUBACK or PUBCOMP confirms it; at QoS 0, the write to the socket. Headers
 * become user properties, which MQTT 3.1.1 does not support.
 */
#include "bridge/job/cloudevent.h"
#include "bridge/plugin.h"
#include "sinks/mqtt/mqtt_conn.h"
#include "sources/mqtt/mqtt_client.h"
#include "sources/mqtt/mqtt_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HOST_BYTES = 256,
    PAYLOAD_MAX = 268435455 - 131072 /* a packet's limit minus room for headers */
};

struct mqtt_sink {
    struct mqtt_link link;
    int64_t qos;
    bool retain, retain_as_published;

    struct sink *sink;
    struct mqtt_conn *conn;
    LIST_HEAD(, mqtt_parcel) open; /* deliveries not yet reported */
    struct timer *timer;           /* fires at their earliest deadline or before */
    int64_t timer_at_ms;
    struct log_limit header_limit, late_limit;
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

/* --------------------------------------------------------------------- parcels */

/* Can a property contain the header? Otherwise the broker would close the connection,
 * which affects every message in flight. Only correlation data may be arbitrary bytes,
 * and only the first such header. */
static bool header_fits(const struct header *h, bool *correlated)
{
    bool text = mqtt_text_ok(h->name) && mqtt_text_ok(h->value);

    if (slice_is_nocase(h->name, "mqtt-response-topic"))
        return mqtt_topic_check(h->value, NULL) == 0;
    if (!slice_is_nocase(h->name, "mqtt-correlation-data") || *correlated)
        return text;
    *correlated = h->value.n <= MQTT_TEXT_MAX;
    return *correlated;
}

static size_t parcel_bytes(const struct delivery *d)
{
    size_t n = d->target.n + 1 + d->job->payload.n;

    for (unsigned i = 0; i < d->header_count; i++)
        n += d->headers[i].name.n + d->headers[i].value.n;
    return n + d->header_count * sizeof(struct header);
}

static struct slice keep(char **at, struct slice s)
{
    char *to = *at;

    *at = slice_put(to, s);
    return (struct slice){to, s.n};
}

static bool is_trace(struct slice name)
{
    return slice_is_nocase(name, "traceparent") || slice_is_nocase(name, "tracestate");
}

/* Renames a CloudEvents header for MQTT; name and value are its storage. false: drop the
 * header. If two headers get the same name, the attribute wins, since the event requires
 * it; for trace context the plain header wins, since it is newer. */
static bool of_event(const struct delivery *d, struct header *h, struct buf *name,
                     struct buf *value)
{
    buf_clear(name);
    buf_clear(value);
    if (cloudevent_out(h, CE_MQTT, name, value)) {
        *h = (struct header){buf_slice(name), buf_slice(value)};
        return !is_trace(h->name) || !delivery_header(d, buf_str(name));
    }
    buf_add_str(name, "ce_");
    buf_add_slice(name, h->name);
    return is_trace(h->name) || !delivery_header(d, buf_str(name));
}

static void keep_headers(struct mqtt_sink *m, struct mqtt_parcel *p,
                         const struct delivery *d, char **at)
{
    const bool event = cloudevent_is(d->job);
    bool correlated = false;
    struct buf name = {0}, value = {0};

    for (unsigned i = 0; i < d->header_count; i++) {
        struct header h = d->headers[i];
        if (slice_is_nocase(h.name, MQTT_RETAIN_HEADER))
            continue; /* it sets the flag, or is ignored */
        if (event && !of_event(d, &h, &name, &value))
            continue;
        if (header_fits(&h, &correlated))
            p->headers[p->header_count++] =
                (struct header){keep(at, h.name), keep(at, h.value)};
        else
            log_limited(
                &m->header_limit, LOG_WARN, sink_name(m->sink),
                "dropped a header that is not UTF-8 text: MQTT cannot transport it");
    }
    buf_free(&name);
    buf_free(&value);
}

void mqtt_parcel_result(struct mqtt_parcel *p, enum outcome outcome, const char *why)
{
    p->outcome = outcome;
    snprintf(p->why, sizeof(p->why), "%s", why);
}

void mqtt_parcel_free(struct mqtt_parcel *p)
{
    free(p->memory);
    free(p);
}

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

static void on_parcel_returned(struct mqtt_parcel *p)
{
    if (p->d) {
        p->d->status = p->status;
        report(p, p->outcome, p->why);
    }
    mqtt_parcel_free(p);
}

static bool is_retained(const struct mqtt_sink *m, const struct delivery *d)
{
    const struct header *h = delivery_header(d, MQTT_RETAIN_HEADER);

    return m->retain ||
           (m->retain_as_published && d->dead == NULL && h && slice_is(h->value, "1"));
}

static struct mqtt_parcel *new_parcel(struct mqtt_sink *m, struct delivery *d)
{
    struct mqtt_parcel *p = mem_alloc(sizeof(*p));

    p->memory = mem_alloc(parcel_bytes(d));
    p->headers = p->memory; /* first, since they need the alignment */
    char *at = (char *)p->memory + d->header_count * sizeof(struct header);
    p->topic = at;
    keep(&at, d->target);
    *at++ = '\0';
    p->payload = keep(&at, d->job->payload);
    if (m->link.version == 1)
        keep_headers(m, p, d, &at);
    p->returned = on_parcel_returned;
    p->d = d;
    p->unsent_ms = loop_mono_ms() + d->timeout_ms / 2;
    p->retain = is_retained(m, d);
    p->expires_ms = d->left_ms > 0 ? loop_mono_ms() + d->left_ms : 0;
    return p;
}

/* ------------------------------------------------------------------- deadlines */

static void arm(struct mqtt_sink *m, int64_t at_ms, int64_t now)
{
    if (timer_is_set(m->timer) && m->timer_at_ms <= at_ms)
        return;
    m->timer_at_ms = at_ms;
    timer_set(m->timer, at_ms > now ? at_ms - now : 0);
}

static void on_deadline(void *arg)
{
    struct mqtt_sink *m = arg;
    int64_t now = loop_mono_ms();
    bool late = false;

    for (struct mqtt_parcel *p = LIST_FIRST(&m->open), *next; p; p = next) {
        next = LIST_NEXT(p, open);
        if (p->deadline_ms > now) {
            arm(m, p->deadline_ms, now);
            continue;
        }
        late = true;
        report(p, TRY_AGAIN, "the broker did not answer in time");
    }
    if (!late)
        return;
    log_limited(&m->late_limit, LOG_WARN, sink_name(m->sink),
                "the broker did not answer in time; reconnecting");
    mqtt_conn_reconnect(m->conn);
}

/* -------------------------------------------------------------------- plugin */

static void deliver(struct sink *sink, void *self, struct delivery *d)
{
    struct mqtt_sink *m = self;
    int64_t now = loop_mono_ms();
    struct err err;

    (void)sink;
    if (mqtt_topic_check(d->target, &err) != 0) {
        delivery_done(d, REJECTED, err.text);
        return;
    }
    if (d->job->payload.n > PAYLOAD_MAX) {
        delivery_done(d, REJECTED,
                      "the message is larger than the largest possible MQTT packet");
        return;
    }
    struct mqtt_parcel *p = new_parcel(m, d);
    p->deadline_ms = now + d->timeout_ms - d->timeout_ms / 10;
    LIST_INSERT_HEAD(&m->open, p, open);
    arm(m, p->deadline_ms, now);
    mqtt_conn_post(m->conn, p);
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
    const struct mqtt_sink *m = self;

    return mqtt_conn_is_up(m->conn);
}

static void on_conn_ended(void *arg)
{
    struct mqtt_sink *m = arg;

    mqtt_conn_free(m->conn);
    timer_del(m->timer);
    sink_stopped(m->sink);
}

static int start(struct sink *sink, void *self, struct err *err)
{
    struct mqtt_sink *m = self;

    if (check(self, err) != 0)
        return -1;
    m->sink = sink;
    struct mqtt_conn_spec spec = {.name = sink_name(sink),
                                  .qos = (unsigned)m->qos,
                                  .retain = m->retain || m->retain_as_published,
                                  .max_in_flight = sink_max_in_flight(sink),
                                  .ended = on_conn_ended,
                                  .ended_arg = m};
    mqtt_peer_init(&spec.peer, &m->link, client_id(m));
    m->conn = mqtt_conn_new(&spec, err);
    if (m->conn == NULL)
        return -1;
    m->timer = timer_new(on_deadline, m);
    return 0;
}

static void stop(struct sink *sink, void *self)
{
    struct mqtt_sink *m = self;

    (void)sink;
    timer_stop(m->timer);
    mqtt_conn_stop(m->conn);
}

static int probe(const void *self, const struct probe_target *target, struct buf *said,
                 struct err *err)
{
    const struct mqtt_sink *s = self;
    (void)target; /* brokers cannot check a topic before a message arrives */
    return mqtt_probe(&s->link, said, err);
}

static unsigned connections(const void *self)
{
    return mqtt_conn_is_up(((const struct mqtt_sink *)self)->conn);
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
    .connections = connections};
