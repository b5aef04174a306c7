/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process.h - what the kernel says of this process, for the metrics.
 */
#ifndef BRIDGE_PROCESS_H
#define BRIDGE_PROCESS_H

#include <stdint.h>

struct process {
    double cpu_s;   /* user and system */
    double start_s; /* since 1970 */
    int64_t resident_bytes, virtual_bytes;
    int64_t fds, fds_max; /* -1: not known, or no limit */
};
/* What the kernel does not tell is 0. */
void process_look(struct process *p);

#endif
