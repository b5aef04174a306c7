/* SPDX-License-Identifier: BSD-2-Clause */
/* loop_internal.h - shared by the files that implement loop.h; no other file includes it.
 */
#ifndef BRIDGE_LOOP_INTERNAL_H
#define BRIDGE_LOOP_INTERNAL_H

#include <stdbool.h>

/* timer.c */
void timers_init(void);
/* Ends a turn: limits the next wait to the earliest deadline. Returns true if a deadline
 * has passed and the loop must not wait. */
bool timers_arm(void);
/* Calls the callbacks of all expired timers. */
void timers_fire(void);
void timers_fini(void);

/* child.c */
void children_fini(void); /* sends SIGTERM to running children and frees their objects */

#endif
