/* SPDX-License-Identifier: BSD-2-Clause */
/* core_session.h - the source "session". */
#ifndef TESTS_SIM_CORE_SESSION_H
#define TESTS_SIM_CORE_SESSION_H

#include "bridge/plugin.h"
#include "tests/sim/core/core.h"

extern const struct source_ops source_session;
void core_session_on_event(void);

/* --- core_plugins.c --- */

struct job *core_job(const struct record *r);

#endif
