/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * amqp_peer.h - the connection options of the AMQP source and sink. No I/O.
 */
#ifndef SOURCES_AMQP_AMQP_PEER_H
#define SOURCES_AMQP_AMQP_PEER_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/opt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The options as read from the configuration. */
struct amqp_opts {
    char *url;
    char *user, *password;
    char *ca_file, *cert_file, *key_file, *key_password;
    int64_t heartbeat_ms;
};

/* Option rows for a plugin's struct that contains a struct amqp_opts named `opts`. */
/* clang-format off */
#define AMQP_PEER_ROWS(owner)                                                           \
    {"url", OPT_STR, offsetof(owner, opts.url),                                         \
     .help = "URL of the broker: amqp://[user:password@]host[:5672][/vhost], or "       \
             "amqps://...[:5671] for TLS. Without a vhost: /."},                        \
    {"user", OPT_STR, offsetof(owner, opts.user), .optional = true,                     \
     .help = "User name, unless the url contains it. Without one: guest, or EXTERNAL "  \
             "with a client certificate."},                                             \
    {"password", OPT_SECRET, offsetof(owner, opts.password), .optional = true,          \
     .help = "Password of user, preferably as ${env:NAME} or ${file:PATH}."},           \
    {"ca_file", OPT_FILE, offsetof(owner, opts.ca_file), .optional = true,              \
     .help = "PEM file of the CA certificates to trust instead of the system's; "       \
             "requires amqps://."},                                                     \
    {"cert_file", OPT_FILE, offsetof(owner, opts.cert_file), .optional = true,          \
     .help = "PEM file of the client certificate and its chain, if the broker "         \
             "requires one."},                                                          \
    {"key_file", OPT_KEY_FILE, offsetof(owner, opts.key_file), .optional = true,        \
     .help = "PEM file of the private key of cert_file. Required only if cert_file "    \
             "does not contain it."},                                                   \
    {"key_password", OPT_SECRET, offsetof(owner, opts.key_password), .optional = true,  \
     .help = "Password of the private key, if it is encrypted."},                       \
    {"heartbeat", OPT_MS, offsetof(owner, opts.heartbeat_ms), "30s", .min = 2000,       \
     .max = 3600000,                                                                    \
     .help = "tarry sends a heartbeat after half of this time without traffic, and "    \
             "closes the connection after twice this time without any from the "        \
             "broker. The broker may request a shorter time."}
/* clang-format on */

/* Checks combinations of options. */
int amqp_opts_check(const struct amqp_opts *opts, struct err *err);
/* Appends warnings, see source_ops.warn. */
void amqp_opts_warn(const struct amqp_opts *opts, struct buf *lines);

/* The options in the form that connecting needs. All strings are owned. */
struct amqp_peer {
    char *name; /* of the source or sink; in log lines and, after "tarry: ", at the broker
                 */
    char *host, *port, *vhost;
    bool tls;
    char *user, *password; /* user NULL: EXTERNAL */
    char *ca_file, *cert_file, *key_file, *key_password;
    unsigned heartbeat_s;
};
/* opts must have passed amqp_opts_check(). */
void amqp_peer_init(struct amqp_peer *peer, const struct amqp_opts *opts,
                    const char *name);
void amqp_peer_free(struct amqp_peer *peer); /* wipes the passwords */

/* Fills host, port, vhost, tls, user and password. user NULL: the url has none. On
 * failure there is nothing to free. No error text contains the url, since it may contain
 * a password. */
int amqp_url_parse(const char *url, struct amqp_peer *peer, struct err *err);

#endif
