/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_probe.h - for `tarry check --connect`: connects to the broker under a name of its
 * own, and leaves.
 */
#ifndef SOURCES_MQTT_MQTT_PROBE_H
#define SOURCES_MQTT_MQTT_PROBE_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "sources/mqtt/mqtt_link.h"

/* Blocks. */
int mqtt_probe(const struct mqtt_link *link, struct buf *said, struct err *err);

#endif
