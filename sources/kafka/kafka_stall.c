/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_client.h"

#include <inttypes.h>
#include <string.h>

#include <jansson.h>

static json_int_t number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static bool is_misplaced(const char *topic, const json_t *partition, struct buf *where)
{
    const json_int_t broker = number(partition, "broker");
    const json_int_t leader = number(partition, "leader");

    if (broker < 0 || leader < 0 || broker == leader) /* -1: none */
        return false;
    buf_addf(where,
             "librdkafka reads %s/%" PRId64 " from broker %" PRId64
             ", but its leader is broker %" PRId64,
             topic, (int64_t)number(partition, "partition"), (int64_t)broker,
             (int64_t)leader);
    return true;
}

static bool find(json_t *stats, struct buf *where)
{
    const char *name, *id;
    json_t *topic, *partition;

    json_object_foreach(json_object_get(stats, "topics"), name, topic)
        json_object_foreach(
            json_object_get(topic, "partitions"), id,
            partition) if (is_misplaced(name, partition, where)) return true;
    return false;
}

/* Each broker has an entry, also the coordinator of the group, which has a connection of
 * its own. */
static unsigned count_connected(json_t *stats)
{
    const char *name;
    json_t *broker;
    unsigned n = 0;

    json_object_foreach(json_object_get(stats, "brokers"), name, broker)
    {
        const char *state = json_string_value(json_object_get(broker, "state"));
        n += state && strcmp(state, "UP") == 0;
    }
    return n;
}

bool kafka_stall_find(const char *stats, size_t n, struct buf *where, unsigned *connected)
{
    json_t *root = json_loadb(stats, n, 0, NULL);
    const bool found = find(root, where);

    *connected = count_connected(root);
    json_decref(root);
    return found;
}

static bool reads_followers(rd_kafka_t *rk)
{
    size_t bytes = 0; /* of client.rack, with its end */

    rd_kafka_conf_get(rd_kafka_conf(rk), "client.rack", NULL, &bytes);
    return bytes > 1;
}

bool kafka_stall_lasts(struct buf *last, rd_kafka_t *rk, const char *stats,
                       unsigned *connected)
{
    struct buf now = {0};
    const bool lasts = kafka_stall_find(stats, strlen(stats), &now, connected) &&
                       rd_kafka_type(rk) == RD_KAFKA_CONSUMER && !reads_followers(rk) &&
                       strcmp(buf_str(&now), buf_str(last)) == 0;

    buf_free(last);
    *last = now;
    return lasts;
}
