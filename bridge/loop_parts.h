/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop_parts.h - what the files that make up loop.h need of each other. Nobody else's.
 */
#ifndef BRIDGE_LOOP_PARTS_H
#define BRIDGE_LOOP_PARTS_H

/* timer.c */
void timers_init(void);
void timers_arm(void); /* the turn ends: the next wait must end by the first deadline */
void timers_fini(void);

/* child.c */
void children_fini(void); /* SIGTERM to whatever still runs, and forget it */

#endif
