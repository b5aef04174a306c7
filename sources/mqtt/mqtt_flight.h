/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_flight.h - the messages of one MQTT session that the broker may send again. Pure.
 *
 * A run is the life of one worker process. A message of a run is in flight until STORED
 * was sent for it. Messages in flight at the end of the run certainly
 * have no PUBACK, so the broker sends them again. They are recognised in a later run by
 * packet id, DUP flag and content. If unsure, a message counts as new: a duplicate does
 * less harm than a loss.
 */
#ifndef SOURCES_MQTT_MQTT_FLIGHT_H
#define SOURCES_MQTT_MQTT_FLIGHT_H

#include "sources/mqtt/mqtt_packet.h"

enum { FLIGHT_IDS = 65536 }; /* packet ids of MQTT, and 0 */

struct flight_message {
    void *owner; /* for the callback of the submission */
    enum { FLIGHT_OPEN, FLIGHT_STORED, FLIGHT_NOT_STORED } state;
    bool in_run;    /* in flight in the current run */
    bool forgotten; /* no longer in the flight; flight_settle() frees it */
    unsigned msgid; /* 0 at QoS 0 */
    uint64_t hash;
    struct flight_message *next; /* in the current run */
};

struct mqtt_flight {
    struct flight_message *first, *last;        /* of the current run, in order */
    struct flight_message *earlier[FLIGHT_IDS]; /* of earlier runs, by packet id */
};

/* Adds a message of the current run. Returns it, owned by the flight. *again: the broker
 * sent it again; do not submit it, since it is stored or being stored. */
struct flight_message *flight_add(struct mqtt_flight *f, const struct mqtt_message *m,
                                  bool *again);
/* Call exactly once for a message that was submitted: Redis has the job, or never will.
 */
void flight_settle(struct flight_message *m, bool stored);
/* Removes the stored messages in front and returns their number, for a STORED frame. */
unsigned flight_take_stored(struct mqtt_flight *f);
/* The run ended: its remaining messages are now those of an earlier run. */
void flight_end_run(struct mqtt_flight *f);
/* Forgets all messages, since the packet ids belong to another session. */
void flight_forget(struct mqtt_flight *f);

#endif
