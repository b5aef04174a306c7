/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe.h - dials all that a configuration names, without a daemon: Redis, brokers, and
 * the hosts of callbacks. Nothing is written anywhere.
 */
#ifndef BRIDGE_PROBE_H
#define BRIDGE_PROBE_H

#include <stdbool.h>

struct conf;

/* Prints a line for each, as a table or as JSON. Gives how many failed. Changes conf as a
 * start of the daemon would. */
unsigned probe_all(struct conf *conf, bool human);

#endif
