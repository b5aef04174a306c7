/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_slot.h - one worker process of the MQTT source, started again whenever it ends.
 *
 * A slot makes jobs of the worker's messages, one at a time, and answers each when Redis
 * has it. Loop thread.
 */
#ifndef SOURCES_MQTT_MQTT_SLOT_H
#define SOURCES_MQTT_MQTT_SLOT_H

#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_frame.h"

struct mqtt_slot;
typedef void mqtt_slot_cb(void *arg);

/* Starts the worker. Takes setup. Submits jobs for src, and logs under its name. */
struct mqtt_slot *mqtt_slot_new(struct source *src, struct mqtt_setup *setup);
/* Stops reading from the worker (true), or goes on. */
void mqtt_slot_pause(struct mqtt_slot *slot, bool paused);
/* Ends the worker, whose session stays at the broker; then calls back, within seconds. */
void mqtt_slot_stop(struct mqtt_slot *slot, mqtt_slot_cb *stopped, void *arg);
/* Call when it has stopped and no job is open. NULL is fine. */
void mqtt_slot_free(struct mqtt_slot *slot);

#endif
