/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault.h - points at which the fault tests end the daemon. Any thread.
 *
 * `make faults` builds with TARRY_FAULTS; in every other build a point is nothing at all.
 * TARRY_FAULT=K2:kill:17 ends the process by SIGKILL as it passes K2 for the 17th time;
 * stop instead of kill stops it by SIGSTOP, exit calls _exit(1), lose loses what the
 * point stands for.
 *
 *   S1  a source has submitted a job        C1  a claim's reply with jobs was read
 *   S2  an enqueue was written to Redis     K1  a job was handed to its sink
 *   S3  its reply was read                  K2  the sink reported that it was delivered
 *   S4  the source was told: the offset is  K3  an ack was written to Redis
 *       stored, PUBACK or HTTP answer sent  K4  its reply was read
 *   M1  a move of far jobs was written      M2  its reply was read
 *   C2  can be lost: the reply of a claim
 */
#ifndef BRIDGE_FAULT_H
#define BRIDGE_FAULT_H

#include <stdbool.h>

#ifdef TARRY_FAULTS
bool fault_point(const char *name); /* NULL: none; true: lose it */
/* A command that stands for that point was added to what is to be written: the point is
 * passed by the next fault_written(). */
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
