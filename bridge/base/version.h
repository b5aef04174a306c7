/* SPDX-License-Identifier: BSD-2-Clause */
/* version.h - the only definition of the version number. */
#ifndef BRIDGE_BASE_VERSION_H
#define BRIDGE_BASE_VERSION_H

#include <stdio.h>

#define TARRY_VERSION "0.1.0"

/* The git commit of the build, with "-dirty" after local changes; "" outside a git tree.
 * The Makefile generates it. */
extern const char tarry_revision[];

/* Prints the versions of tarry and of its libraries at run time, one per line. */
void version_print(FILE *out);

#endif
