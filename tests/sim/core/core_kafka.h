/* SPDX-License-Identifier: BSD-2-Clause */
/* core_kafka.h - the source "log": sources/kafka over the log of the world. */
#ifndef TESTS_SIM_CORE_KAFKA_H
#define TESTS_SIM_CORE_KAFKA_H

#include "bridge/plugin.h"
#include "tests/sim/host.h"

#include <librdkafka/rdkafka.h>

/* The next event of the only consumer; NULL: none. */
rd_kafka_event_t *core_kafka_event(void);

/* source_kafka, with calls that tell the world when it is paused. */
extern struct source_ops source_log;
void core_kafka_on_event(const struct event *event);

#endif
