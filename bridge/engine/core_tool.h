/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_tool.h - the core in a program that is no daemon (import, audit): it connects the
 * stores, waits for them, does its work by running the loop, and ends.
 */
#ifndef BRIDGE_ENGINE_CORE_TOOL_H
#define BRIDGE_ENGINE_CORE_TOOL_H

#include "bridge/base/mem.h"

#include <stdint.h>

struct bridge;

struct tool {
    struct bridge *bridge; /* conf and only_looks are set by the caller */
    struct err unfit;      /* why these keys must be left alone; "": they need not */
};

/* Starts the core and runs the loop until every store is up; half a second after it began
 * to run, the loop returns in any case, also later, so that who waits can look at the
 * time. Gives EX_OK, or an exit code and err. */
int tool_start(struct tool *tool, int64_t patience_ms, struct err *err);
/* Undoes any part of it. */
void tool_end(struct tool *tool);

#endif
