/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_link.h - the connection options of the MQTT source and sink.
 *
 * Does not use paho. Any thread.
 */
#ifndef SOURCES_MQTT_MQTT_LINK_H
#define SOURCES_MQTT_MQTT_LINK_H

#include "bridge/base/mem.h"
#include "bridge/opt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The options as read from the configuration. */
struct mqtt_link {
    char *url;
    int version; /* index in the choices of the row: 0 is 3.1.1, 1 is 5 */
    char *client_id;
    char *user, *password;
    char *ca_file, *cert_file, *key_file, *key_password;
    struct opt_list alpn;
    int64_t keepalive_ms;
};

/* Option rows for a plugin's struct that contains a struct mqtt_link named `link`. */
/* clang-format off */
#define MQTT_LINK_ROWS(owner, client_id_help)                                           \
    {"url", OPT_STR, offsetof(owner, link.url),                                         \
     .help = "URL of the broker: mqtt://[user:password@]host[:1883], or "               \
             "mqtts://...[:8883] for TLS."},                                            \
    {"version", OPT_CHOICE, offsetof(owner, link.version), "5", .choices = "3.1.1|5",   \
     .help = "Version of the protocol. Only MQTT 5 transports headers, as user "        \
             "properties."},                                                            \
    {"client_id", OPT_STR, offsetof(owner, link.client_id), .optional = true,           \
     .help = client_id_help},                                                           \
    {"user", OPT_STR, offsetof(owner, link.user), .optional = true,                     \
     .help = "User name, unless the url contains it."},                                 \
    {"password", OPT_SECRET, offsetof(owner, link.password), .optional = true,          \
     .help = "Password of user, preferably as ${env:NAME} or ${file:PATH}."},           \
    {"ca_file", OPT_FILE, offsetof(owner, link.ca_file), .optional = true,              \
     .help = "PEM file of the CA certificates to trust instead of the system's; "       \
             "requires mqtts://."},                                                     \
    {"cert_file", OPT_FILE, offsetof(owner, link.cert_file), .optional = true,          \
     .help = "PEM file of the client certificate and its chain, if the broker "         \
             "requires one."},                                                          \
    {"key_file", OPT_KEY_FILE, offsetof(owner, link.key_file), .optional = true,        \
     .help = "PEM file of the private key of cert_file. Required only if cert_file "    \
             "does not contain it."},                                                   \
    {"key_password", OPT_SECRET, offsetof(owner, link.key_password), .optional = true,  \
     .help = "Password of the private key, if it is encrypted."},                       \
    {"alpn", OPT_LIST, offsetof(owner, link.alpn), "",                                  \
     .help = "Protocol names to offer by TLS ALPN, if the broker shares its port "      \
             "with other protocols: mqtt, or x-amzn-mqtt-ca at AWS."},                  \
    {"keepalive", OPT_MS, offsetof(owner, link.keepalive_ms), "30s", .min = 1000,       \
     .max = 65535000,                                                                   \
     .help = "tarry pings the broker after this time without traffic, and closes "      \
             "the connection after two and a half times as long; whole seconds. "       \
             "With MQTT 5 the broker may set a shorter time."}
/* clang-format on */

/* Checks combinations of options; no I/O. */
int mqtt_link_check(const struct mqtt_link *link, struct err *err);

/* The options in the form that connecting needs. */
struct mqtt_peer {
    char *uri; /* tcp://host:port or ssl://host:port, for paho */
    char *host, *port;
    bool tls;
    char *client_id;
    char *user, *password; /* NULL: none */
    char *ca_file, *cert_file, *key_file, *key_password;
    char *alpn; /* TLS format: a length byte before each name; NULL: none */
    bool v5;
    unsigned keepalive_s;
};
/* link must have passed mqtt_link_check(). Takes ownership of client_id. */
void mqtt_peer_init(struct mqtt_peer *peer, const struct mqtt_link *link,
                    char *client_id);
void mqtt_peer_free(struct mqtt_peer *peer); /* wipes the passwords */

/* The address of a broker: mqtt://[user[:password]@]host[:port] or mqtts://. No error
 * text contains it, since it may contain a password. */
struct mqtt_url {
    bool tls;
    char *host; /* an IPv6 address has no brackets */
    unsigned port;
    char *user, *password; /* percent signs decoded; NULL: none */
};

/* Fills url. On failure there is nothing to free. */
int mqtt_url_parse(const char *text, struct mqtt_url *url, struct err *err);
void mqtt_url_free(
    struct mqtt_url *url); /* wipes the password; url may be parsed again */

/* Returns the address for paho: tcp://host:port or ssl://host:port. The caller frees
 * it. */
char *mqtt_url_paho(const struct mqtt_url *url);

#endif
