/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_stall.h"

#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

static json_int_t number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

/* Returns the broker that librdkafka believes to read the partition from; -1: none. */
static json_int_t believed_broker(const json_t *stats, const char *topic,
                                  json_int_t partition)
{
    char name[24];
    const json_t *topics = json_object_get(stats, "topics");
    const json_t *partitions =
        json_object_get(json_object_get(topics, topic), "partitions");

    snprintf(name, sizeof(name), "%" JSON_INTEGER_FORMAT, partition);
    return number(json_object_get(partitions, name), "broker");
}

static bool is_misplaced(const json_t *stats, json_int_t broker, const json_t *reads,
                         struct buf *where)
{
    const char *topic = json_string_value(json_object_get(reads, "topic"));
    const json_int_t partition = number(reads, "partition");
    const json_int_t believed = topic ? believed_broker(stats, topic, partition) : -1;

    if (believed < 0 || believed == broker)
        return false;
    buf_addf(where,
             "librdkafka reads %s/%" PRId64 " from broker %" PRId64
             ", but it should read it from broker %" PRId64,
             topic, (int64_t)partition, (int64_t)broker, (int64_t)believed);
    return true;
}

static bool find(json_t *stats, struct buf *where)
{
    const char *name;
    json_t *broker, *reads;

    json_object_foreach(json_object_get(stats, "brokers"), name, broker)
    {
        const json_int_t id = number(broker, "nodeid");
        if (id < 0) /* an address of the option brokers: it reads nothing */
            continue;
        json_object_foreach(json_object_get(broker, "toppars"), name,
                            reads) if (is_misplaced(stats, id, reads, where)) return true;
    }
    return false;
}

bool kafka_stall_find(const char *stats, size_t n, struct buf *where)
{
    json_t *root = json_loadb(stats, n, 0, NULL);
    const bool found = find(root, where);

    json_decref(root);
    return found;
}
