/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/kafka/kafka_conf.h"

#include "bridge/base/log.h"
#include "bridge/base/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    NAME_MAX_BYTES = 128,
    TOPIC_MAX_BYTES = 249,
    WHY_BYTES = 256,
    METADATA_REFRESH_MS = 5000
};

struct owned {
    const char *name, *option; /* option NULL: not configurable */
};

/* Users may set these only while the options tls and sasl are unused. */
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

/* Settings, with aliases, that would break a guarantee or that have their own option. */
static const struct owned owned[] = {
    /* Debian's librdkafka is built without its own client for token servers. */
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
    {"message.timeout.ms", NULL}, /* derived from the leases of the routes */
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
    {"statistics.interval.ms", NULL},
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

/* librdkafka's error text for an invalid value contains the value. */
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
        return err_set(err, "librdkafka rejects the value of \"%s\"", name);
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
        return err_set(err, "kafka.%s: remove it and use the option %s", pair->name,
                       row->option);
    if (row)
        return err_set(err, "kafka.%s: remove it; tarry sets it so that no job is lost",
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
        /* Only this refresh detects new topics and partitions. Its default is five
         * minutes. */
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
        return err_set(err, "the topic is empty");
    if (n > TOPIC_MAX_BYTES)
        return err_set(err, "the topic has %zu bytes; Kafka allows at most %d", n,
                       TOPIC_MAX_BYTES);
    bool dots = n <= 2;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)topic[i]) &&
            !strchr("._-", topic[i] ? topic[i] : ' '))
            return err_set(err, "the topic contains a character that Kafka does not "
                                "allow; use letters, digits and . _ -");
        dots = dots && topic[i] == '.';
    }
    return dots ? err_set(err, "a topic cannot be named . or ..") : 0;
}

/* ------------------------------------------------------------------ the options */

/* [PROTOCOL://]HOST[:PORT] */
static int check_broker(struct slice broker, struct err *err)
{
    const char *end = broker.p + broker.n, *p = memrchr(broker.p, '/', broker.n);
    const char *bracket = memrchr(broker.p, ']', broker.n);

    p = bracket ? bracket : p ? p : broker.p;
    const char *colon = memrchr(p, ':', (size_t)(end - p));
    if (colon == NULL)
        return 0;
    return text_check_port((struct slice){colon + 1, (size_t)(end - colon - 1)}, 1, err);
}

static int check_brokers(const char *brokers, struct err *err)
{
    bool any = false;

    for (struct slice rest = slice_of(brokers); rest.p;) {
        struct slice broker = text_trim(text_cut(&rest, ','));
        if (check_broker(broker, err) < 0)
            return err_in(err, "brokers");
        for (size_t i = 0; i < broker.n; i++)
            any = any || isalnum((unsigned char)broker.p[i]);
    }
    return any ? 0
               : err_set(err, "brokers: no broker in \"%s\"; write host:port, host:port",
                         brokers);
}

static int check_tls(const struct kafka_link *link, struct err *err)
{
    if (!link->tls && (link->ca_file || link->cert_file || link->key_file))
        return err_set(err, "ca_file, cert_file and key_file require tls = true");
    if (link->key_file && link->cert_file == NULL)
        return err_set(err, "key_file requires cert_file");
    if (link->key_password && link->cert_file == NULL)
        return err_set(err, "key_password requires cert_file");
    return 0;
}

static bool is_of(const struct kafka_link *link, enum kafka_sasl first,
                  enum kafka_sasl last)
{
    return link->sasl >= (int)first && link->sasl <= (int)last;
}

static int check_user(const struct kafka_link *link, struct err *err)
{
    const bool wanted = is_of(link, KAFKA_SASL_PLAIN, KAFKA_SASL_SCRAM_512);

    if (wanted && (link->user == NULL || link->password == NULL))
        return err_set(err, "sasl plain and scram require user and password");
    if (!wanted && (link->user || link->password))
        return err_set(err, "user and password require sasl = \"plain\", "
                            "\"scram-sha-256\" or \"scram-sha-512\"");
    return 0;
}

/* Does this part of a URL after the scheme name the local host and nothing else? */
static bool is_this_host(const char *authority)
{
    struct in_addr a;
    char host[sizeof("255.255.255.255")] = "";
    size_t n = strncmp(authority, "[::1]", 5) == 0 ? 5 : strcspn(authority, ":/?#");
    const char *end = authority + n;

    if (*end == ':')
        end += 1 + strspn(end + 1, "0123456789");
    if (n >= sizeof(host) || strchr("/?#", *end) == NULL) /* strchr() also matches the
                                                           * NUL */
        return false;
    memcpy(host, authority, n);
    return strcmp(host, "[::1]") == 0 || strcasecmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET, host, &a) == 1 &&
            ntohl(a.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET);
}

/* Our secret is sent to this URL, so the URL must be encrypted or local. */
static bool keeps_secrets(const char *url)
{
    return strncasecmp(url, "https://", 8) == 0 ||
           (strncasecmp(url, "http://", 7) == 0 && is_this_host(url + 7));
}

/* Without a token from tarry, librdkafka would wait for one for ever. */
static bool passes_on_oauthbearer(const struct kafka_link *link)
{
    for (size_t i = 0; i < link->settings.n; i++) {
        const struct pair *pair = &link->settings.v[i];
        if (strncmp(pair->name, "sasl_mechanism", strlen("sasl_mechanism")) == 0 &&
            strcasestr(pair->value, "OAUTHBEARER"))
            return true;
    }
    return false;
}

static int check_token(const struct kafka_link *link, struct err *err)
{
    const bool wanted = is_of(link, KAFKA_SASL_TOKEN, KAFKA_SASL_TOKEN);
    const bool server = link->token_client || link->token_secret || link->token_ca_file ||
                        link->token_form.n > 0;

    if (passes_on_oauthbearer(link))
        return err_set(err, "kafka: for OAUTHBEARER remove sasl_mechanisms, and set sasl "
                            "= \"oauthbearer\" with token_file or token_url");
    if (!wanted && (link->token_file || link->token_url || server))
        return err_set(err, "the options token_... require sasl = \"oauthbearer\"");
    if (wanted && (link->token_file == NULL) == (link->token_url == NULL))
        return err_set(err, "sasl oauthbearer requires either token_file or token_url");
    if (server && link->token_url == NULL)
        return err_set(
            err,
            "token_client, token_secret, token_form and token_ca_file require token_url");
    if (link->token_url && (!link->token_client || !link->token_secret))
        return err_set(err, "token_url requires token_client and token_secret");
    if (link->token_url && !keeps_secrets(link->token_url))
        return err_set(
            err, "token_url must begin with https://, since tarry sends token_secret to "
                 "it; http:// is allowed only for localhost, 127.0.0.0/8 and [::1]");
    return 0;
}

int kafka_link_check(const struct kafka_link *link, struct err *err)
{
    if (check_brokers(link->brokers, err) < 0 || check_tls(link, err) < 0 ||
        check_user(link, err) < 0)
        return -1;
    return check_token(link, err);
}
