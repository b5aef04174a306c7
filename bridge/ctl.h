/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.h - the operator's commands: they ask a running daemon over its HTTP API
 * (etc/openapi.yaml).
 */
#ifndef BRIDGE_CTL_H
#define BRIDGE_CTL_H

/* argv[0] is the program, [1] one of cancel, job, dead, targets, go-on. Gives the exit
 * code: 0 done; 1 there is no such thing, or it is too late; 64 used wrongly; 69 no
 * daemon answers, or its Redis is away; 130 interrupted. What begins with "--" and is no
 * flag goes behind a "--". */
int ctl_main(int argc, char **argv);

#endif
