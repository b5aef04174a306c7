/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kafka_conf.h - how the Kafka source and sink reach the brokers: their common options,
 * and the settings of librdkafka that follow from these.
 *
 * No I/O. No error text repeats a secret.
 */
#ifndef SOURCES_KAFKA_KAFKA_CONF_H
#define SOURCES_KAFKA_KAFKA_CONF_H

#include "bridge/base/mem.h"
#include "bridge/opt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <librdkafka/rdkafka.h>

enum kafka_sasl { /* in the order of the choices */
                  KAFKA_SASL_NONE,
                  KAFKA_SASL_PLAIN,
                  KAFKA_SASL_SCRAM_256,
                  KAFKA_SASL_SCRAM_512,
                  KAFKA_SASL_GSSAPI,
                  KAFKA_SASL_TOKEN
};

/* The common options. */
struct kafka_link {
    char *brokers, *client_id;
    bool tls;
    char *ca_file, *cert_file, *key_file, *key_password;
    int sasl; /* enum kafka_sasl */
    char *user, *password;
    char *token_file; /* KAFKA_SASL_TOKEN: this, or the server at token_url */
    char *token_url, *token_client, *token_secret, *token_ca_file;
    struct pairs token_form; /* further fields of the request: scope, audience */
    struct pairs settings;   /* of librdkafka, passed through */
};

/* Option rows for a plugin's struct that contains a struct kafka_link named `link`. */
/* clang-format off */
#define KAFKA_LINK_ROWS(owner)                                                          \
    {"brokers", OPT_STR, offsetof(owner, link.brokers), NULL,                           \
     "Brokers to contact first: host:port, host:port.", .min = 0},                      \
    {"client_id", OPT_STR, offsetof(owner, link.client_id), "tarry",                    \
     "Client id, used in the brokers' logs and quotas.", .min = 0},                     \
    {"tls", OPT_BOOL, offsetof(owner, link.tls), "false",                               \
     "Whether to use TLS. tarry checks that the brokers' certificates contain their "   \
     "host names.", .min = 0},                                                          \
    {"ca_file", OPT_FILE, offsetof(owner, link.ca_file), NULL,                          \
     "PEM file of the CA certificates to trust instead of the system's.",               \
     .optional = true},                                                                 \
    {"cert_file", OPT_FILE, offsetof(owner, link.cert_file), NULL,                      \
     "PEM file of the client certificate and its chain, if the brokers require one.",   \
     .optional = true},                                                                 \
    {"key_file", OPT_KEY_FILE, offsetof(owner, link.key_file), NULL,                    \
     "PEM file of the private key of cert_file. Required only if cert_file does not "   \
     "contain it.", .optional = true},                                                  \
    {"key_password", OPT_SECRET, offsetof(owner, link.key_password), NULL,              \
     "Password of the private key, if it is encrypted.", .optional = true},             \
    {"sasl", OPT_CHOICE, offsetof(owner, link.sasl), "none",                            \
     "SASL mechanism. plain and scram require user and password, oauthbearer a "        \
     "token. Configure gssapi (Kerberos) in kafka: { sasl_kerberos_... }.",             \
     .choices = "none|plain|scram-sha-256|scram-sha-512|gssapi|oauthbearer"},           \
    {"user", OPT_STR, offsetof(owner, link.user), NULL,                                 \
     "User name for plain and scram.", .optional = true},                               \
    {"password", OPT_SECRET, offsetof(owner, link.password), NULL,                      \
     "Password of user, preferably as ${file:PATH} or ${cred:NAME}.",                   \
     .optional = true},                                                                 \
    {"token_file", OPT_STR, offsetof(owner, link.token_file), NULL,                     \
     "oauthbearer: file that contains the token. tarry reads it again before the "      \
     "token expires.", .optional = true},                                               \
    {"token_url", OPT_STR, offsetof(owner, link.token_url), NULL,                       \
     "oauthbearer: https:// URL of the token server, which issues tokens for "          \
     "token_client and token_secret (client credentials, RFC 6749). http:// is "        \
     "allowed only for the local host.", .optional = true},                             \
    {"token_client", OPT_STR, offsetof(owner, link.token_client), NULL,                 \
     "Client id at the token server.", .optional = true},                               \
    {"token_secret", OPT_SECRET, offsetof(owner, link.token_secret), NULL,              \
     "Client secret at the token server.", .optional = true},                           \
    {"token_form", OPT_PAIRS, offsetof(owner, link.token_form), "",                     \
     "Additional form fields of the token request: { scope = \"kafka\"; }.", .min = 0}, \
    {"token_ca_file", OPT_FILE, offsetof(owner, link.token_ca_file), NULL,              \
     "PEM file of the CA certificates to trust for the token server instead of the "    \
     "system's.", .optional = true},                                                    \
    {"kafka", OPT_PAIRS, offsetof(owner, link.settings), "",                            \
     "Additional settings of librdkafka. Write _ for each dot: "                        \
     "socket_keepalive_enable = true.", .min = 0}
/* clang-format on */

/* Checks combinations of options. No I/O. */
int kafka_link_check(const struct kafka_link *link, struct err *err);

/* A librdkafka setting from tarry. text NULL: uses number; KAFKA_UNSET: not set. */
struct kafka_setting {
    const char *name, *text;
    int64_t number;
};
enum { KAFKA_UNSET = -1 };

/* Applies link, then rows, then link->settings; later settings override earlier ones.
 * rows ends with a row of zeros. The caller frees the result with
 * rd_kafka_conf_destroy(). NULL: a setting is unknown, invalid or reserved for tarry. */
rd_kafka_conf_t *kafka_conf_new(const struct kafka_link *link,
                                const struct kafka_setting *rows, struct err *err);

/* Checks that the name is valid for a topic. n: bytes. */
int kafka_topic_check(const char *topic, size_t n, struct err *err);

#endif
