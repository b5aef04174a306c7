/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_conf.c - the table of settings that are not passed through, and why.
 */
#include "sources/kafka/kafka_conf.h"

#include "bridge/base/log.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    NAME_MAX_BYTES = 128,
    TOPIC_MAX_BYTES = 249,
    WHY_BYTES = 256,
    METADATA_REFRESH_MS = 5000
};

struct owned {
    const char *name, *option; /* option NULL: it cannot be changed */
};

/* Theirs to make as long as the options tls and sasl are not used. */
static const struct owned of_link[] = {{"security.protocol", "tls and sasl"},
                                       {"sasl.mechanisms", "sasl"},
                                       {"sasl.mechanism", "sasl"},
                                       {"sasl.username", "user"},
                                       {"sasl.password", "password"},
                                       {"ssl.ca.location", "ca_file"},
                                       {"ssl.certificate.location", "cert_file"},
                                       {"ssl.key.location", "key_file"},
                                       {"ssl.key.password", "key_password"},
                                       {0}};

/* What would undo a guarantee, or has an option of its own, with its aliases. */
static const struct owned owned[] = {
    /* librdkafka's own way to a token server is not in Debian's build. */
    {"sasl.oauthbearer.method", "token_url"},
    {"sasl.oauthbearer.client.id", "token_client"},
    {"sasl.oauthbearer.client.secret", "token_secret"},
    {"sasl.oauthbearer.token.endpoint.url", "token_url"},
    {"sasl.oauthbearer.scope", "token_form"},
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
    {0}};

static const struct owned *find_in(const struct owned *rows, const char *name)
{
    for (; rows->name; rows++)
        if (strcmp(rows->name, name) == 0)
            return rows;
    return NULL;
}

static const struct owned *find_owned(const struct kafka_link *link, const char *name)
{
    const bool used = link->tls || link->sasl != KAFKA_SASL_NONE;
    const struct owned *row = used ? find_in(of_link, name) : NULL;

    return row ? row : find_in(owned, name);
}

/* librdkafka's text on a bad value repeats the value. */
static bool may_be_secret(const char *name)
{
    return redact_is_secret_name(slice_of(name)) || strstr(name, "oauthbearer");
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

static int pass_through(rd_kafka_conf_t *conf, const struct kafka_link *link,
                        const struct pair *pair, struct err *err)
{
    char name[NAME_MAX_BYTES];

    snprintf(name, sizeof(name), "%s", pair->name);
    for (char *p = name; *p; p++)
        if (*p == '_')
            *p = '.';
    const struct owned *row = find_owned(link, name);
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

static int set_all(rd_kafka_conf_t *conf, const struct kafka_setting *rows,
                   struct err *err)
{
    for (; rows->name; rows++)
        if (set_ours(conf, rows, err) < 0)
            return -1;
    return 0;
}

static int set_link(rd_kafka_conf_t *conf, const struct kafka_link *link, struct err *err)
{
    static const char *const protocols[][2] = {{NULL, "sasl_plaintext"},
                                               {"ssl", "sasl_ssl"}};
    static const char *const mechanisms[] = {[KAFKA_SASL_NONE] = NULL,
                                             [KAFKA_SASL_PLAIN] = "PLAIN",
                                             [KAFKA_SASL_SCRAM_256] = "SCRAM-SHA-256",
                                             [KAFKA_SASL_SCRAM_512] = "SCRAM-SHA-512",
                                             [KAFKA_SASL_GSSAPI] = "GSSAPI",
                                             [KAFKA_SASL_TOKEN] = "OAUTHBEARER"};
    const bool sasl = link->sasl != KAFKA_SASL_NONE;
    const char *key = link->key_file ? link->key_file : link->cert_file;
    const struct kafka_setting rows[] = {
        {"bootstrap.servers", link->brokers, 0},
        {"client.id", link->client_id, 0},
        /* New topics and partitions are noticed by this refresh alone; the default is
         * five minutes. */
        {"topic.metadata.refresh.interval.ms", NULL, METADATA_REFRESH_MS},
        {"security.protocol", protocols[link->tls][sasl], KAFKA_UNSET},
        {"ssl.ca.location", link->ca_file, KAFKA_UNSET},
        {"ssl.certificate.location", link->cert_file, KAFKA_UNSET},
        {"ssl.key.location", key, KAFKA_UNSET},
        {"ssl.key.password", link->key_password, KAFKA_UNSET},
        {"sasl.mechanisms", mechanisms[link->sasl], KAFKA_UNSET},
        {"sasl.username", link->user, KAFKA_UNSET},
        {"sasl.password", link->password, KAFKA_UNSET},
        {0}};

    return set_all(conf, rows, err);
}

rd_kafka_conf_t *kafka_conf_new(const struct kafka_link *link,
                                const struct kafka_setting *rows, struct err *err)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    if (set_link(conf, link, err) < 0 || set_all(conf, rows, err) < 0)
        goto fail;
    for (size_t i = 0; i < link->settings.n; i++)
        if (pass_through(conf, link, &link->settings.v[i], err) < 0)
            goto fail;
    return conf;
fail:
    rd_kafka_conf_destroy(conf);
    return NULL;
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
