/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop_parts.h - what the files that make up loop.h need of each other. Nobody else's.
 */
#ifndef BRIDGE_LOOP_PARTS_H
#define BRIDGE_LOOP_PARTS_H

#include <stdbool.h>

/* timer.c */
void timers_init(void);
/* The turn ends: the next wait must end by the first deadline. true: one has passed
 * already, and the loop must not wait at all. */
bool timers_arm(void);
/* Calls back those whose deadline has passed. */
void timers_fire(void);
void timers_fini(void);

/* child.c */
void children_fini(void); /* SIGTERM to whatever still runs, and forget it */

#endif
