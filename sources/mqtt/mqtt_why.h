/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_why.h - why an MQTT broker refused something, in words for the log and for dead
 * letters. Used by the source and the sink. Any thread.
 */
#ifndef SOURCES_MQTT_MQTT_WHY_H
#define SOURCES_MQTT_MQTT_WHY_H

#include <stdbool.h>
#include <stddef.h>

#include <MQTTReasonCodes.h>

enum { MQTT_WHY_MAX = 192 };

/* What is known about a failure. Zeroed fields are unknown. */
struct mqtt_failure {
    enum MQTTReasonCodes reason; /* of MQTT 5 */
    int code;                    /* of paho or CONNACK */
    const char *message;         /* paho's text */
    bool tls;                    /* a TLS connection that was never complete */
    const char *tls_why;         /* "TLS: reason" */
};

/* Writes the text of the failure, with advice, to out. */
void mqtt_why(char *out, size_t size, const struct mqtt_failure *f);

/* Writes "TLS: reason" to out. line: OpenSSL's error line. */
void mqtt_why_tls(char *out, size_t size, const char *line, size_t len);

#endif
