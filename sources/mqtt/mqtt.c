/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt.c - the MQTT source: options, and a slot for each worker process. Loop thread.
 *
 * A message is acknowledged (PUBACK) only after Redis has stored its job; see
 * mqtt_relay.c. With several workers the topics become shared subscriptions, which do
 * not preserve order.
 */
#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_client.h"
#include "sources/mqtt/mqtt_job.h"
#include "sources/mqtt/mqtt_slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS_MAX = 64, FILTER_BYTES_MAX = 65536, HOST_BYTES = 256 };

struct mqtt_source {
    struct mqtt_link link;
    struct opt_list topics;
    int64_t qos;
    int64_t session_expiry_ms;
    int64_t receive_max;
    int64_t workers;
    char *share_group;
    bool retained;
    int64_t message_max_bytes;

    struct source *src;
    struct mqtt_slot *slots[WORKERS_MAX];
    unsigned running;
};

#define AT(field) offsetof(struct mqtt_source, field)
static const struct opt opts[] = {
    MQTT_LINK_ROWS(
        struct mqtt_source,
        "Client id of the session at the broker, which must be unique and must not "
        "change. Default: tarry-HOST-SOURCE. With several workers, worker N appends -N."),
    {"topics", OPT_LIST, AT(topics), NULL,
     "Topic filters to subscribe to. Use $delayed/# for EMQX's $delayed/SECONDS/topic. "
     "If you remove a filter from the list, the broker keeps it until the session is "
     "removed.",
     .min = 0},
    {"qos", OPT_INT, AT(qos), "1",
     "1: each accepted message is stored at least once. 0: messages in transit are lost "
     "if a connection or process fails.",
     .max = 1},
    {"session_expiry", OPT_MS, AT(session_expiry_ms), "1d",
     "How long the broker stores messages while tarry is disconnected; MQTT 5 only.",
     .min = 1000, .max = INT64_C(4294967294) * 1000},
    {"receive_max", OPT_INT, AT(receive_max), "200",
     "Number of messages that the broker may send to a worker before it receives a "
     "PUBACK. At most this number can arrive twice after a failure. MQTT 3.1.1 has no "
     "such limit: the worker stops reading instead.",
     .min = 1, .max = 65535},
    {"workers", OPT_INT, AT(workers), "1",
     "Number of worker processes, each with one connection. One is enough for most "
     "brokers. Several workers use a shared subscription; only the first worker "
     "subscribes to topics that begin with $.",
     .min = 1, .max = WORKERS_MAX},
    {"share_group", OPT_STR, AT(share_group), "tarry",
     "Name of the shared subscription of several workers.", .min = 0},
    {"retained", OPT_BOOL, AT(retained), "false",
     "Whether to accept retained messages. With MQTT 3.1.1 the broker sends them again "
     "at every connection.",
     .min = 0},
    {"message_max", OPT_BYTES, AT(message_max_bytes), "16MiB",
     "Maximum size of a message. A larger message becomes a dead letter with the first 4 "
     "KiB of its payload.",
     .min = 1024, .max = 256 * 1024 * 1024},
    {0}};

static int check_share_group(const struct mqtt_source *m, struct err *err)
{
    if (m->share_group[0] == '\0' || strpbrk(m->share_group, "/+#") ||
        !mqtt_text_ok(slice_of(m->share_group)))
        return err_set(
            err, "share_group must be a single topic level without '/', '+' and '#'");
    return 0;
}

/* mosquitto (2.0.11) silently delivers no topic that begins with $ to a shared
 * subscription. Only the first worker subscribes to such a filter. */
static bool shareable(const char *filter)
{
    return filter[0] != '$';
}

static int check_topics(const struct mqtt_source *m, struct err *err)
{
    size_t bytes = 0, shared = 0;

    if (m->topics.n == 0)
        return err_set(err, "topics must contain at least one topic filter");
    for (size_t i = 0; i < m->topics.n; i++) {
        const char *filter = m->topics.v[i];
        bytes += strlen(filter);
        shared += shareable(filter);
        if (mqtt_filter_check(slice_of(filter), err) != 0)
            return err_in(err, "topics");
        if (m->workers > 1 && strncmp(filter, "$share/", 7) == 0)
            return err_set(err,
                           "topics: leave out \"$share/...\": workers > 1 adds it, with "
                           "share_group");
    }
    if (m->workers > 1 && shared == 0)
        return err_set(err,
                       "topics: what begins with '$' cannot be shared among workers; set "
                       "workers = 1");
    if (bytes > FILTER_BYTES_MAX || m->topics.n > 1024)
        return err_set(
            err,
            "topics has %zu filters of %zu bytes; at most 1024 of %d bytes in all "
            "fit",
            m->topics.n, bytes, FILTER_BYTES_MAX);
    return 0;
}

static int check(const void *self, struct err *err)
{
    const struct mqtt_source *m = self;

    if (mqtt_link_check(&m->link, err) != 0 || check_share_group(m, err) != 0)
        return -1;
    return check_topics(m, err);
}

/* worker: counts from 1; 0: the only worker. The caller frees the result. */
static char *client_id(const struct mqtt_source *m, unsigned worker)
{
    struct buf id = {0};
    char host[HOST_BYTES] = "";

    gethostname(host, sizeof(host) - 1);
    if (m->link.client_id)
        buf_add_str(&id, m->link.client_id);
    else
        buf_addf(&id, "tarry-%s-%s", host, source_name(m->src));
    if (worker > 0)
        buf_addf(&id, "-%u", worker);
    char *text = mem_strdup(buf_str(&id));
    buf_free(&id);
    return text;
}

/* worker: as in client_id(). */
static struct opt_list filters(const struct mqtt_source *m, unsigned worker)
{
    struct opt_list list = {.v = mem_alloc(m->topics.n * sizeof(char *))};
    struct buf text = {0};

    for (size_t i = 0; i < m->topics.n; i++) {
        bool shared = worker > 0 && shareable(m->topics.v[i]);
        if (worker > 1 && !shared)
            continue;
        buf_clear(&text);
        if (shared)
            buf_addf(&text, "$share/%s/", m->share_group);
        buf_add_str(&text, m->topics.v[i]);
        list.v[list.n++] = mem_strdup(buf_str(&text));
    }
    buf_free(&text);
    return list;
}

static int start(struct source *src, void *self, struct err *err)
{
    struct mqtt_source *m = self;

    if (check(self, err) != 0)
        return -1;
    m->src = src;
    for (unsigned i = 0; i < (unsigned)m->workers; i++) {
        unsigned worker = m->workers > 1 ? i + 1 : 0;
        struct mqtt_setup setup = {.filters = filters(m, worker),
                                   .qos = (unsigned)m->qos,
                                   .session_expiry_s =
                                       (uint32_t)(m->session_expiry_ms / 1000),
                                   .receive_max = (unsigned)m->receive_max,
                                   .retained = m->retained,
                                   .message_max = (uint64_t)m->message_max_bytes};
        mqtt_peer_init(&setup.peer, &m->link, client_id(m, worker));
        m->slots[i] = mqtt_slot_new(src, &setup);
    }
    return 0;
}

static void pause_source(struct source *src, void *self, bool paused)
{
    struct mqtt_source *m = self;

    (void)src;
    for (unsigned i = 0; i < (unsigned)m->workers; i++)
        mqtt_slot_pause(m->slots[i], paused);
}

static void free_slots(void *arg)
{
    struct mqtt_source *m = arg;

    for (unsigned i = 0; i < (unsigned)m->workers; i++)
        mqtt_slot_free(m->slots[i]);
    source_stopped(m->src);
}

static void on_slot_stopped(void *arg)
{
    struct mqtt_source *m = arg;

    if (--m->running == 0)
        loop_defer(free_slots, m); /* deferred: the caller may be a slot */
}

static void stop(struct source *src, void *self)
{
    struct mqtt_source *m = self;

    (void)src;
    m->running = (unsigned)m->workers;
    for (unsigned i = 0; i < (unsigned)m->workers; i++)
        mqtt_slot_stop(m->slots[i], on_slot_stopped, m);
}

static int probe(const void *self, struct buf *said, struct err *err)
{
    const struct mqtt_source *m = self;
    return mqtt_probe(&m->link, said, err);
}

static unsigned connections(const void *self)
{
    const struct mqtt_source *m = self;
    unsigned n = 0;

    for (unsigned i = 0; i < (unsigned)m->workers; i++)
        n += mqtt_slot_is_connected(m->slots[i]);
    return n;
}

const struct source_ops source_mqtt = {
    .name = "mqtt",
    .help = "Subscribes to an MQTT broker and acknowledges what Redis has stored.",
    .size = sizeof(struct mqtt_source),
    .opts = opts,
    .awaits = true,
    .check = check,
    .start = start,
    .pause = pause_source,
    .stop = stop,
    .probe = probe,
    .read_topic = mqtt_job_topic,
    .connections = connections};
