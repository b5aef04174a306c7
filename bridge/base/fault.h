/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault.h - points at which the fault tests end the daemon. Any thread.
 *
 * `make faults` builds with TARRY_FAULTS; in every other build a fault point is empty.
 * TARRY_FAULT=K2:kill:17 kills the process by SIGKILL when it passes K2 for the 17th
 * time. Instead of kill: "stop" sends SIGSTOP, "exit" calls _exit(1), "lose" drops what
 * the point describes.
 *
 *   S1  a source submitted a job           C1  the reply of a claim with jobs was read
 *   S2  an enqueue was written to Redis    K1  a job was handed to its sink
 *   S3  the reply of the enqueue was read  K2  the sink reported a delivery
 *   S4  the source was answered: offset    K3  an ack was written to Redis
 *       stored, PUBACK or HTTP sent        K4  the reply of the ack was read
 *   M1  a move of far jobs was written     M2  the reply of the move was read
 *   C2  the reply of a claim; can be lost
 */
#ifndef BRIDGE_FAULT_H
#define BRIDGE_FAULT_H

#include <stdbool.h>

#ifdef TARRY_FAULTS
bool fault_point(const char *name); /* name NULL: no point; returns true: drop it */
/* Records that a command of this point is queued for writing. The next fault_written()
 * passes the point. */
void fault_queued(const char *name);
void fault_written(void);
#define FAULT(name) ((void)fault_point(name))
#define FAULT_LOSES(name) fault_point(name)
#define FAULT_QUEUED(name) fault_queued(name)
#define FAULT_WRITTEN() fault_written()
#else
#define FAULT(name) ((void)0)
#define FAULT_LOSES(name) false
#define FAULT_QUEUED(name) ((void)0)
#define FAULT_WRITTEN() ((void)0)
#endif

#endif
