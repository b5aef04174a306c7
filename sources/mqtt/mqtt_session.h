/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_session.h - the MQTT client of a worker process. Main thread of the worker only.
 *
 * Speaks frames to the source on the descriptor given, from threads of its own; when it
 * can go no further it says so there and ends the process.
 */
#ifndef SOURCES_MQTT_MQTT_SESSION_H
#define SOURCES_MQTT_MQTT_SESSION_H

#include "sources/mqtt/mqtt_frame.h"

struct mqtt_session;

/* Connects and subscribes, in the background. Takes setup; there is one per process. */
struct mqtt_session *mqtt_session_start(int source_fd, struct mqtt_setup *setup);
/* The message that was sent to the source last is stored: it may be acknowledged. */
void mqtt_session_stored(struct mqtt_session *s);
/* Says goodbye to the broker, which keeps the session, and ends the process. */
_Noreturn void mqtt_session_stop(struct mqtt_session *s);
/* Call again after so many ms at the latest; -1: no need. Ends the process when the
 * broker took too long. */
int mqtt_session_patience_ms(struct mqtt_session *s);

#endif
