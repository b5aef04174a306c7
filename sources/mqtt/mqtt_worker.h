/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mqtt_worker.h - the worker process with one MQTT subscription: `tarry worker mqtt`.
 */
#ifndef SOURCES_MQTT_MQTT_WORKER_H
#define SOURCES_MQTT_MQTT_WORKER_H

/* Runs the process. Exchanges frames on descriptor 3. Returns the exit code. */
int mqtt_worker_main(int argc, char **argv);

#endif
