/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_slot.h - one worker process of the MQTT source, restarted whenever it exits.
 *
 * A slot submits the worker's messages as jobs, and reports to it once per turn of the
 * loop how many Redis has stored. Loop thread.
 */
#ifndef SOURCES_MQTT_MQTT_SLOT_H
#define SOURCES_MQTT_MQTT_SLOT_H

#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_frame.h"

struct mqtt_slot;
typedef void mqtt_slot_cb(void *arg);

/* Starts the worker. Takes ownership of setup. Submits jobs and logs on behalf of src. */
struct mqtt_slot *mqtt_slot_new(struct source *src, struct mqtt_setup *setup);
/* Stops reading from the worker (true) or resumes (false). */
void mqtt_slot_pause(struct mqtt_slot *slot, bool paused);
/* Stops the worker, then calls stopped within seconds. The broker keeps the session. */
void mqtt_slot_stop(struct mqtt_slot *slot, mqtt_slot_cb *stopped, void *arg);
/* Returns whether the worker is connected to the broker. slot may be NULL. */
bool mqtt_slot_is_connected(const struct mqtt_slot *slot);
/* Call once the slot has stopped and no job is open. slot may be NULL. */
void mqtt_slot_free(struct mqtt_slot *slot);

#endif
