/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_slot.h - one worker process of the MQTT source, started again whenever it ends.
 *
 * A slot turns the worker's messages into jobs, one at a time, and answers each when the
 * core says that Redis has it. Loop thread.
 */
#ifndef SOURCES_MQTT_MQTT_SLOT_H
#define SOURCES_MQTT_MQTT_SLOT_H

#include "bridge/plugin.h"
#include "sources/mqtt/mqtt_frame.h"

struct mqtt_slot;
typedef void mqtt_slot_cb(void *arg);

/* Starts the worker. Takes setup. src is told of the jobs, and speaks in the log. */
struct mqtt_slot *mqtt_slot_new(struct source *src, struct mqtt_setup *setup);
/* Reads no further from the worker (true), or goes on. */
void mqtt_slot_pause(struct mqtt_slot *slot, bool paused);
/* Ends the worker, which keeps its session; then calls back. Bounded. */
void mqtt_slot_stop(struct mqtt_slot *slot, mqtt_slot_cb *stopped, void *arg);
/* When it has stopped, and no job is with the core. NULL is fine. */
void mqtt_slot_free(struct mqtt_slot *slot);

#endif
