/* SPDX-License-Identifier: BSD-2-Clause */
/* dead.h - a dead letter as JSON. */
#ifndef BRIDGE_DEAD_H
#define BRIDGE_DEAD_H

#include "bridge/job/job.h"
#include "bridge/job/tries.h"

struct dead_item {
    struct slice id;
    const struct job *job; /* NULL: its record cannot be read, and raw contains it */
    struct slice raw;
    const struct tries *tries;
    int64_t buried_ms;
    bool refused;   /* it was replayed replays_max times */
    int64_t due_ms; /* of a replayed letter; -1: it was not replayed */
};

/* Appends {"id":...} of a letter that was listed. */
void dead_show(struct buf *out, const struct dead_item *item);

#endif
