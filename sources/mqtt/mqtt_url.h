/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_url.h - the address of an MQTT broker: mqtt://[user[:password]@]host[:port],
 * mqtts://.
 *
 * Pure. No error text repeats the address, which may hold a password.
 */
#ifndef SOURCES_MQTT_MQTT_URL_H
#define SOURCES_MQTT_MQTT_URL_H

#include "bridge/base/mem.h"

#include <stdbool.h>

struct mqtt_url {
    bool tls;
    char *host; /* an IPv6 address without its brackets */
    unsigned port;
    char *user, *password; /* percent signs decoded; NULL: none */
};

/* Fills in url; on failure nothing is left to free. */
int mqtt_url_parse(const char *text, struct mqtt_url *url, struct err *err);
void mqtt_url_free(
    struct mqtt_url *url); /* wipes the password; ready for the next parse */

/* The address as paho wants it: tcp://host:port or ssl://host:port. Gives; free(). */
char *mqtt_url_paho(const struct mqtt_url *url);

#endif
