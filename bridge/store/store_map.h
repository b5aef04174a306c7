/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_map.h - a Redis Cluster: which master has which slot. Internal to the store.
 *
 * A connection of its own asks CLUSTER INFO and CLUSTER SLOTS of one node after another,
 * each second while something is in doubt, else every ten; a node that says that the
 * cluster is down is not believed. MOVED is believed at once, but of one slot some times
 * only between two maps: two nodes may name each other. ASK is not followed: a
 * script names a key that never exists (KEY_WHOLE), so that a node that is handing a slot
 * over refuses it as a whole (TRYAGAIN) instead of stopping it half way, and it waits.
 */
#ifndef BRIDGE_STORE_MAP_H
#define BRIDGE_STORE_MAP_H

#include "bridge/redis/redis_slot.h"
#include "bridge/store/store_node.h"

struct map;

/* Begins to ask. Nodes are added to the store as they are found. */
struct map *map_new(struct store *st);
void map_free(struct map *map); /* NULL is fine */
/* NULL: no master is known for it. */
struct node *map_node(const struct map *map, unsigned slot);
/* Every slot has a master. */
bool map_is_whole(const struct map *map);
/* Why not, in words. */
const char *map_trouble(const struct map *map);
/* Something does not fit: it is asked again soon. */
void map_doubt(struct map *map);
/* "MOVED SLOT HOST:PORT" is noted. false: it is another text, or the slot went to and fro
 * too often; the next map tells. */
bool map_moved(struct map *map, const char *text);
/* "ASK SLOT HOST:PORT": the node that is named; NULL: another text. */
struct node *map_asked(struct map *map, const char *text);
/* Once a second. */
void map_tick(struct map *map);
/* Finds any node that can be reached, another one each time. */
const struct redis_finder *map_finder(const struct map *map);

#endif
