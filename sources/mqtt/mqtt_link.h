/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_link.h - the options by which the MQTT source and sink reach a broker.
 *
 * Knows no library: the same rows, checks and waits for both plugins. Any thread.
 */
#ifndef SOURCES_MQTT_MQTT_LINK_H
#define SOURCES_MQTT_MQTT_LINK_H

#include "bridge/base/mem.h"
#include "bridge/conf/opt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the file. */
struct mqtt_link {
    char *url;
    int version; /* index in the choices of the row: 0 is 3.1.1, 1 is 5 */
    char *client_id;
    char *user, *password;
    char *ca_file, *cert_file, *key_file, *key_password;
    struct opt_list alpn;
    int64_t keepalive_ms;
};

/* The rows of a struct mqtt_link that stands as `link` in the plugin's struct. */
#define MQTT_LINK_ROWS(owner, client_id_help)                                            \
    {.name = "url",                                                                      \
     .type = OPT_STR,                                                                    \
     .offset = offsetof(owner, link.url),                                                \
     .help = "the broker: mqtt://[user:password@]host[:1883], or mqtts://...[:8883] "    \
             "for TLS"},                                                                 \
        {.name = "version",                                                              \
         .type = OPT_CHOICE,                                                             \
         .offset = offsetof(owner, link.version),                                        \
         .def = "5",                                                                     \
         .choices = "3.1.1|5",                                                           \
         .help = "of the protocol; only MQTT 5 carries headers, as user properties"},    \
        {.name = "client_id",                                                            \
         .type = OPT_STR,                                                                \
         .offset = offsetof(owner, link.client_id),                                      \
         .optional = true,                                                               \
         .help = client_id_help},                                                        \
        {.name = "user",                                                                 \
         .type = OPT_STR,                                                                \
         .offset = offsetof(owner, link.user),                                           \
         .optional = true,                                                               \
         .help = "user name, if it does not stand in the url"},                          \
        {.name = "password",                                                             \
         .type = OPT_SECRET,                                                             \
         .offset = offsetof(owner, link.password),                                       \
         .optional = true,                                                               \
         .help = "password, best as ${env:NAME} or ${file:PATH}"},                       \
        {.name = "ca_file",                                                              \
         .type = OPT_FILE,                                                               \
         .offset = offsetof(owner, link.ca_file),                                        \
         .optional = true,                                                               \
         .help = "PEM file of the authorities to trust instead of the system's; "        \
                 "mqtts:// only"},                                                       \
        {.name = "cert_file",                                                            \
         .type = OPT_FILE,                                                               \
         .offset = offsetof(owner, link.cert_file),                                      \
         .optional = true,                                                               \
         .help =                                                                         \
             "PEM file of our own certificate and its chain, if the broker wants one"},  \
        {.name = "key_file",                                                             \
         .type = OPT_KEY_FILE,                                                           \
         .offset = offsetof(owner, link.key_file),                                       \
         .optional = true,                                                               \
         .help = "PEM file of the key of cert_file; needed only if it is not in the "    \
                 "same file"},                                                           \
        {.name = "key_password",                                                         \
         .type = OPT_SECRET,                                                             \
         .offset = offsetof(owner, link.key_password),                                   \
         .optional = true,                                                               \
         .help = "password of the key, if it has one"},                                  \
        {.name = "alpn",                                                                 \
         .type = OPT_LIST,                                                               \
         .offset = offsetof(owner, link.alpn),                                           \
         .def = "",                                                                      \
         .help = "names of the protocol to offer by TLS (ALPN), where the broker "       \
                 "shares its port with others: mqtt, or x-amzn-mqtt-ca at AWS"},         \
    {                                                                                    \
        .name = "keepalive", .type = OPT_MS,                                             \
        .offset = offsetof(owner, link.keepalive_ms), .def = "30s", .min = 1000,         \
        .max = 65535000,                                                                 \
        .help = "a silent connection is tried after so long, and given up after "        \
                "two and a half times as long; whole seconds"                            \
    }

/* What the rows alone cannot tell; no I/O. */
int mqtt_link_check(const struct mqtt_link *link, struct err *err);

/* The same, ready for the library. */
struct mqtt_peer {
    char *uri; /* as paho wants it */
    char *client_id;
    char *user, *password; /* NULL: none */
    char *ca_file, *cert_file, *key_file, *key_password;
    char *alpn; /* as TLS has it: a byte of length before each name */
    bool v5;
    unsigned keepalive_s;
};
/* link has passed its check. Takes client_id. */
void mqtt_peer_init(struct mqtt_peer *peer, const struct mqtt_link *link,
                    char *client_id);
void mqtt_peer_free(struct mqtt_peer *peer); /* wipes the passwords */

/* How long to wait before the next connection after so many that failed (from 1). */
int64_t mqtt_backoff_ms(unsigned failures);

#endif
