/* SPDX-License-Identifier: BSD-2-Clause */
/* core.h - shared by the files that replace the edges of a simulated core. */
#ifndef TESTS_SIM_CORE_H
#define TESTS_SIM_CORE_H

#include "tests/sim/host.h"

extern struct sim_entry sim_entry;
#define HOST (sim_entry.host)
#define CORE (sim_entry.core)

void core_net_event(const struct event *event);
void core_plugin_event(const struct event *event);
void core_lab_event(void *call);

#endif
