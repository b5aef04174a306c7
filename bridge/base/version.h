/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * version.h - the one place where the version number stands.
 */
#ifndef BRIDGE_BASE_VERSION_H
#define BRIDGE_BASE_VERSION_H

#include <stdio.h>

#define TARRY_VERSION "0.1.0"

/* The commit of the tree that it was built from, with "-dirty" where that was changed; ""
 * where it was no git tree. Made by the Makefile. */
extern const char tarry_revision[];

/* Prints our version and those of the libraries that run with us, a line each. */
void version_print(FILE *out);

#endif
