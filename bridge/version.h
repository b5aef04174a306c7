/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * version.h - the one place where the version number stands.
 */
#ifndef BRIDGE_VERSION_H
#define BRIDGE_VERSION_H

#define TARRY_VERSION "0.1.0"

#endif
