/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_worker.h - the process that holds one MQTT subscription: `tarry worker mqtt`.
 */
#ifndef SOURCES_MQTT_MQTT_WORKER_H
#define SOURCES_MQTT_MQTT_WORKER_H

/* The whole life of the process; speaks frames on descriptor 3. Gives the exit code. */
int mqtt_worker_main(int argc, char **argv);

#endif
