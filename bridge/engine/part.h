/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * part.h - the two states of a part (a source, sink or route): its role in a reload, and
 * whether its plugin runs.
 */
#ifndef BRIDGE_ENGINE_PART_H
#define BRIDGE_ENGINE_PART_H

enum part_use {
    PART_USED,      /* the configuration in use contains it, and it runs */
    PART_SUSPENDED, /* the same, but a reload holds it: it starts no new work.
                     * Afterwards it is stopped, or resumes */
    PART_NEW,       /* a reload has created it, and has not switched to it yet */
    PART_LEAVING,  /* a reload has taken it out: it finishes its work, then it is freed */
    PART_RETURNING /* leaving, but a reload under way will use it again: not freed */
};

/* Of a source or sink. */
enum part_run {
    PART_IDLE, /* created; ops->start has not succeeded yet */
    PART_RUNS,
    PART_STOPPING, /* ops->stop was called */
    PART_STOPPED   /* the plugin has reported it, or a reload could not start it again */
};

#endif
