/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_tool.h - the core in a program that is not a daemon (import, audit): it connects
 * the stores, waits for them, and runs the loop for its work.
 */
#ifndef BRIDGE_ENGINE_CORE_TOOL_H
#define BRIDGE_ENGINE_CORE_TOOL_H

#include "bridge/base/mem.h"

#include <stdint.h>

struct bridge;

struct tool {
    struct bridge *bridge;   /* the caller sets conf and read_only */
    struct err incompatible; /* why this tarry must not use the keys; "": it may */
};

/* Start the core, and run the loop until every store is up, for patience_ms at most. From
 * then on loop_run() returns at least every 500 ms, so that the caller can check its time
 * limit. Returns EX_OK, or an exit code and err. */
int tool_start(struct tool *tool, int64_t patience_ms, struct err *err);
/* Stop and free everything, also after a failed tool_start(). */
void tool_end(struct tool *tool);

#endif
