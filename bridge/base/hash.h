/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hash.h - the two hashes: one that nobody can foresee, for tables (uthash), and FNV-1a,
 * which is the same in every process.
 *
 * The tables hold names from outside: queues, targets. With names of one hash (for FNV-1a
 * a second's work) an attacker would make each look-up a walk through all of them.
 */
#ifndef BRIDGE_HASH_H
#define BRIDGE_HASH_H

#include "bridge/base/buf.h"

#include <stddef.h>
#include <stdint.h>

/* The same for the same bytes, until this process ends. Loop thread. */
uint32_t hash_of(const void *bytes, size_t n);

/* FNV-1a, 64 bits, continued from the hash of what came before. Its last bits differ too
 * little between texts that end alike. Pure; any thread. */
#define HASH_FNV1A UINT64_C(14695981039346656037) /* of nothing */
uint64_t hash_fnv1a(uint64_t from, struct slice s);

#define HASH_FUNCTION(bytes, n, hash) ((hash) = hash_of((bytes), (n)))
#include <uthash.h>

#endif
