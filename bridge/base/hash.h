/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hash.h - two hashes: a keyed one for hash tables (uthash), and FNV-1a, which is equal
 * in every process.
 *
 * The tables contain names from outside, such as queues and targets. With FNV-1a an
 * attacker could find colliding names in a second and turn each look-up into a linear
 * search.
 */
#ifndef BRIDGE_HASH_H
#define BRIDGE_HASH_H

#include "bridge/base/buf.h"

#include <stddef.h>
#include <stdint.h>

/* The key is random for each process. Loop thread. */
uint32_t hash_of(const void *bytes, size_t n);

/* FNV-1a, 64 bits. from: HASH_FNV1A, or the hash of the preceding bytes. Texts with equal
 * endings differ little in the low bits. Pure; any thread. */
#define HASH_FNV1A UINT64_C(14695981039346656037) /* of an empty text */
uint64_t hash_fnv1a(uint64_t from, struct slice s);

#define HASH_FUNCTION(bytes, n, hash) ((hash) = hash_of((bytes), (n)))
#include <uthash.h>

#endif
