/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hash.h - uthash, by a hash that nobody can foresee.
 *
 * What the tables hold is named from outside: queues, targets. Whoever could find names
 * of one hash (for FNV a second's work) would make each look-up a walk through all of
 * them.
 */
#ifndef BRIDGE_HASH_H
#define BRIDGE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The same for the same bytes, until this process ends. Loop thread. */
uint32_t hash_of(const void *bytes, size_t n);

#define HASH_FUNCTION(bytes, n, hash) ((hash) = hash_of((bytes), (n)))
#include <uthash.h>

#endif
