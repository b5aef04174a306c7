/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_paho.h - what the MQTT worker and the sink's thread share of the paho library.
 *
 * paho has one mutex for all clients of a process and holds it while it calls back. So:
 * no call into paho on the loop thread, and none with a lock that a callback takes.
 */
#ifndef SOURCES_MQTT_MQTT_PAHO_H
#define SOURCES_MQTT_MQTT_PAHO_H

#include "sources/mqtt/mqtt_link.h"

#include <MQTTAsync.h>

enum { PAHO_CONNECT_TIMEOUT_S = 10, PAHO_WHY_MAX = 192 };

/* What TLS had to say about a failed connection; "" nothing. Zeroed is ready. */
struct paho_tls_why {
    bool used; /* it is a connection by TLS */
    char text[PAHO_WHY_MAX];
};

/* A client without persistence. peer, and why, must live as long as the client. -1: err.
 */
int paho_create(MQTTAsync *client, const struct mqtt_peer *peer, int buffered_max,
                struct err *err);

/* Fills in address-independent options; tls is where TLS options go, and is pointed to.
 * The caller adds callbacks, the session's fate and properties. */
void paho_connect_options(MQTTAsync_connectOptions *opts, MQTTAsync_SSLOptions *tls,
                          const struct mqtt_peer *peer, struct paho_tls_why *why);

/* A failure in words: reason is MQTT 5's, code paho's or CONNACK's, message may be NULL.
 */
void paho_why(char *out, size_t size, enum MQTTReasonCodes reason, int code,
              const char *message, const struct paho_tls_why *tls);

/* Begins to disconnect in order; one of both is called with context once the broker has
 * been told. false: there is no connection, and none is called. */
bool paho_disconnect(MQTTAsync client, bool v5, MQTTAsync_onSuccess *done,
                     MQTTAsync_onSuccess5 *done5, void *context);

/* A descriptor of our own of the connection to the broker, which stays when paho closes
 * its own; for paho_leave(). -1: there is no connection. */
int paho_hold(void);

/* Ends a process of one client amid messages. A socket that closes with some of them
 * unread resets the connection, and the PUBACKs that the broker had not read by then are
 * lost to it: so this only stops sending, and reads on until the broker has hung up, for
 * limit_ms at most. Any thread; what paho reads meanwhile must not be acknowledged. */
_Noreturn void paho_leave(int held, int limit_ms);

#endif
