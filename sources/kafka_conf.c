/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_conf.c - the table of settings that are not passed through, and why.
 */
#include "sources/kafka_conf.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 128, TOPIC_MAX_BYTES = 249, WHY_BYTES = 256 };

/* What would undo a guarantee, or has an option of its own, with its aliases. */
static const struct owned {
    const char *name, *option; /* option NULL: it cannot be changed */
} owned[] = {
    {"bootstrap.servers", "brokers"},
    {"metadata.broker.list", "brokers"},
    {"client.id", "client_id"},
    {"group.id", "group"},
    {"group.instance.id", "group_instance_id"},
    {"auto.offset.reset", "start"},
    {"auto.commit.interval.ms", "commit_interval"},
    {"queued.max.messages.kbytes", "prefetch"},
    {"compression.codec", "compression"},
    {"compression.type", "compression"},
    {"linger.ms", "linger"},
    {"queue.buffering.max.ms", "linger"},
    {"partitioner", "partitioner"},
    {"queue.buffering.max.messages", "max_in_flight"},
    {"queue.buffering.max.kbytes", "buffer"},
    {"message.timeout.ms", NULL}, /* follows from the lease of the routes */
    {"delivery.timeout.ms", NULL},
    {"enable.auto.offset.store", NULL},
    {"enable.auto.commit", NULL},
    {"auto.commit.enable", NULL},
    {"offset.store.method", NULL},
    {"enable.partition.eof", NULL},
    {"partition.assignment.strategy", NULL},
    {"group.protocol", NULL},
    {"group.protocol.type", NULL},
    {"acks", NULL},
    {"request.required.acks", NULL},
    {"enable.idempotence", NULL},
    {"transactional.id", NULL},
    {"delivery.report.only.error", NULL},
    {"plugin.library.paths", NULL},
    {"log.queue", NULL},
};

static const struct owned *find_owned(const char *name)
{
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        if (strcmp(owned[i].name, name) == 0)
            return &owned[i];
    return NULL;
}

/* librdkafka's text on a bad value repeats the value. */
static bool may_be_secret(const char *name)
{
    static const char *const parts[] = {"password", "secret", ".key", "oauthbearer",
                                        ".pem"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(name, parts[i]))
            return true;
    return false;
}

static int set(rd_kafka_conf_t *conf, const char *name, const char *value,
               struct err *err)
{
    char why[WHY_BYTES];
    rd_kafka_conf_res_t res = rd_kafka_conf_set(conf, name, value, why, sizeof(why));

    if (res == RD_KAFKA_CONF_OK)
        return 0;
    if (res == RD_KAFKA_CONF_UNKNOWN)
        return err_set(err, "librdkafka has no setting \"%s\"", name);
    if (may_be_secret(name))
        return err_set(err, "librdkafka takes no such value for \"%s\"", name);
    return err_set(err, "librdkafka: %s", why);
}

static int pass_through(rd_kafka_conf_t *conf, const struct opt_pair *pair,
                        struct err *err)
{
    char name[NAME_MAX_BYTES];

    snprintf(name, sizeof(name), "%s", pair->name);
    for (char *p = name; *p; p++)
        if (*p == '_')
            *p = '.';
    const struct owned *row = find_owned(name);
    if (row && row->option)
        return err_set(err, "kafka.%s: leave it out, and use the option %s", pair->name,
                       row->option);
    if (row)
        return err_set(err,
                       "kafka.%s: leave it out; no job may be lost, so tarry sets it",
                       pair->name);
    char where[NAME_MAX_BYTES + 8];
    snprintf(where, sizeof(where), "kafka.%s", pair->name);
    return set(conf, name, pair->value, err) < 0 ? err_in(err, where) : 0;
}

static int set_ours(rd_kafka_conf_t *conf, const struct kafka_setting *row,
                    struct err *err)
{
    char number[24];

    if (row->text)
        return set(conf, row->name, row->text, err);
    if (row->number == KAFKA_UNSET)
        return 0;
    snprintf(number, sizeof(number), "%" PRId64, row->number);
    return set(conf, row->name, number, err);
}

rd_kafka_conf_t *kafka_conf_new(const struct kafka_setting *rows,
                                const struct opt_pairs *theirs, struct err *err)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    for (; rows->name; rows++)
        if (set_ours(conf, rows, err) < 0)
            goto fail;
    for (size_t i = 0; i < theirs->n; i++)
        if (pass_through(conf, &theirs->v[i], err) < 0)
            goto fail;
    return conf;
fail:
    rd_kafka_conf_destroy(conf);
    return NULL;
}

int kafka_brokers_check(const char *brokers, struct err *err)
{
    for (const char *p = brokers; *p; p++)
        if (isalnum((unsigned char)*p))
            return 0;
    return err_set(err, "brokers: no broker in \"%s\"; write host:port, host:port",
                   brokers);
}

int kafka_topic_check(const char *topic, size_t n, struct err *err)
{
    if (n == 0)
        return err_set(err, "no topic is given");
    if (n > TOPIC_MAX_BYTES)
        return err_set(err, "a topic of %zu bytes; Kafka allows %d", n, TOPIC_MAX_BYTES);
    bool dots = n <= 2;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)topic[i]) &&
            !strchr("._-", topic[i] ? topic[i] : ' '))
            return err_set(err, "Kafka allows only letters, digits and . _ - in a topic");
        dots = dots && topic[i] == '.';
    }
    return dots ? err_set(err, "a topic cannot be named . or ..") : 0;
}
