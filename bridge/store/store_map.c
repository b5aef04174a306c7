/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_map.c - the slot map of a Redis Cluster.
 *
 * A separate connection sends CLUSTER INFO and CLUSTER SLOTS: every second while the map
 * is in doubt, else every ten. It tries one node after another. A node that reports a
 * failed cluster is ignored. MOVED changes the map at once, but at most MOVES_MAX times
 * per slot between two maps, because two nodes may redirect to each other. ASK is not
 * followed: in a cluster each script names a key that never exists (whole_key), so a node
 * that migrates the slot rejects the whole script (TRYAGAIN), and the call waits.
 */
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/redis/redis.h"
#include "bridge/store/batcher.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum {
    REST_MS = 10 * 1000, /* between two queries if the map is not in doubt */
    MOVES_MAX = 4,       /* MOVED replies per slot applied between two maps */
    HOST_BYTES = 256
};

struct map {
    struct store *store;
    struct redis *redis; /* the connection for the queries */
    struct redis_finder finder;
    char host[HOST_BYTES]; /* address of the queried node */
    struct node *slot[REDIS_SLOTS];
    unsigned char moves[REDIS_SLOTS]; /* by MOVED, since the last map */
    unsigned covered;                 /* slots with a master */
    unsigned turn;                    /* next index of the finder: nodes, then seeds */
    bool asking, doubt;               /* a query is open; query at the next tick */
    bool down;                        /* the queried node reports cluster_state:fail */
    bool nameless;    /* the last map has a master whose name is not announced */
    int64_t asked_ms; /* monotonic */
    char trouble[120];
};

/* --- nodes --- */

static struct node *node_at(struct map *map, const char *host, const char *port)
{
    struct store *st = map->store;
    for (unsigned i = 0; i < st->node_count; i++)
        if (strcmp(st->nodes[i]->place.host, host) == 0 &&
            strcmp(st->nodes[i]->place.port, port) == 0)
            return st->nodes[i];
    const struct redis_place place = {(char *)host, (char *)port};
    return store_add_node(st, &place);
}

static void give(struct map *map, unsigned slot, struct node *node)
{
    struct node *was = map->slot[slot];
    if (was == node)
        return;
    if (was)
        was->slots--;
    if (node)
        node->slots++;
    map->covered += (node != NULL) - (was != NULL);
    map->slot[slot] = node;
}

/* Of a redirection: WORD SLOT HOST:PORT; HOST may be an IPv6 address. */
static struct node *named(struct map *map, const char *word, const char *text,
                          unsigned *slot)
{
    char host[HOST_BYTES], port[8];
    size_t n = strlen(word);
    if (strncmp(text, word, n) != 0)
        return NULL;
    char *end;
    unsigned long number = strtoul(text + n, &end, 10);
    const char *colon = strrchr(end, ':');
    if (number >= REDIS_SLOTS || *end != ' ' || colon == NULL || colon <= end + 1)
        return NULL; /* "MOVED 7 :6379": the same host, which a map tells better */
    int host_n = (int)(colon - end - 1);
    int port_n = (int)strcspn(colon + 1, "@ ");
    if (host_n >= HOST_BYTES || port_n == 0 || port_n >= (int)sizeof(port))
        return NULL;
    snprintf(host, sizeof(host), "%.*s", host_n, end + 1);
    snprintf(port, sizeof(port), "%.*s", port_n, colon + 1);
    *slot = (unsigned)number;
    return node_at(map, host, port);
}

bool map_moved(struct map *map, const char *text)
{
    unsigned slot;
    struct node *node = named(map, "MOVED ", text, &slot);
    map->doubt = true;
    if (node == NULL)
        return false;
    if (node == map->slot[slot])
        return true;
    if (map->moves[slot] == MOVES_MAX)
        return false;
    map->moves[slot]++;
    give(map, slot, node);
    return true;
}

struct node *map_asked(struct map *map, const char *text)
{
    unsigned slot;
    return named(map, "ASK ", text, &slot);
}

struct node *map_node(const struct map *map, unsigned slot)
{
    return map->slot[slot];
}

bool map_is_whole(const struct map *map)
{
    return map->covered == REDIS_SLOTS;
}

const char *map_trouble(const struct map *map)
{
    return map->trouble;
}

void map_refresh_soon(struct map *map)
{
    map->doubt = true;
}

/* --- the answer --- */

/* Returns NULL if the address is not usable. */
static struct node *row_node(struct map *map, const struct redisReply *reply,
                             struct redis_slots *row)
{
    int result = redis_slots_read(reply, row);
    map->nameless = map->nameless || row->nameless;
    return result == 0 ? node_at(map, *row->host ? row->host : map->host, row->port)
                       : NULL;
}

/* Frees nodes without slots. A node known only from MOVED has a slot. */
static void drop_nodes(struct store *st)
{
    for (unsigned i = 0; i < st->node_count;) {
        struct node *node = st->nodes[i];
        if (node->slots > 0) {
            i++;
            continue;
        }
        st->nodes[i] = st->nodes[--st->node_count];
        log_info("redis", "%s:%s no longer has slots", node->place.host,
                 node->place.port);
        node_free(node);
    }
}

static const char *what_lacks(const struct map *map)
{
    if (map_is_whole(map))
        return "";
    return map->nameless ? "a master of the cluster announces no host name: set its "
                           "cluster-announce-hostname"
                         : "the cluster has slots without a master";
}

static void on_slots(void *arg, const struct redisReply *reply)
{
    struct map *map = arg;
    struct node **fresh;
    map->asking = false;
    if (reply == NULL || map->down || reply->type != REDIS_REPLY_ARRAY)
        return;
    map->nameless = false;
    memset(map->moves, 0, sizeof(map->moves));
    fresh = mem_alloc(REDIS_SLOTS * sizeof(struct node *));
    for (size_t i = 0; i < reply->elements; i++) {
        struct redis_slots row;
        struct node *node = row_node(map, reply->element[i], &row);
        for (unsigned slot = row.first; node && slot <= row.last; slot++)
            fresh[slot] = node;
    }
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        give(map, slot, fresh[slot]);
    free(fresh);
    snprintf(map->trouble, sizeof(map->trouble), "%s", what_lacks(map));
    if (*map->trouble)
        log_limited(&map->store->complain, LOG_WARN, "redis", "%s", map->trouble);
    drop_nodes(map->store);
    if (!map->store->up)
        store_node_up(map->store);
}

/* The first of two replies. If the node reports a failed cluster, its map is ignored. */
static void on_info(void *arg, const struct redisReply *reply)
{
    struct map *map = arg;
    const char *text = reply && reply->str ? reply->str : "";
    bool error = reply && reply->type == REDIS_REPLY_ERROR;
    map->down = strstr(text, "cluster_state:ok") == NULL;
    if (reply == NULL || !map->down)
        return;
    snprintf(map->trouble, sizeof(map->trouble),
             "the slots of the cluster are unknown: %.80s",
             error ? text : "a node reports cluster_state:fail");
    log_limited(&map->store->complain, LOG_WARN, "redis", "%s", map->trouble);
    map->doubt = true;
}

static void ask(struct map *map)
{
    const struct slice info[] = {SLICE_LIT("CLUSTER"), SLICE_LIT("INFO")};
    const struct slice slots[] = {SLICE_LIT("CLUSTER"), SLICE_LIT("SLOTS")};
    map->asking = true;
    map->doubt = false;
    map->asked_ms = loop_mono_ms();
    redis_command(map->redis, info, 2, on_info, map);
    redis_command(map->redis, slots, 2, on_slots, map);
}

void map_tick(struct map *map)
{
    if (!redis_is_up(map->redis) || map->asking)
        return;
    if (map->down) { /* another node may know better */
        map->down = false;
        redis_reconnect(map->redis, "asking another node");
        return;
    }
    if (map->doubt || !map_is_whole(map) || !store_is_up(map->store) ||
        loop_mono_ms() - map->asked_ms >= REST_MS)
        ask(map);
}

static void on_state(void *arg, enum redis_state state, const char *why)
{
    struct map *map = arg;
    if (state == REDIS_UP) {
        ask(map);
    } else if (state == REDIS_DOWN && map->covered == 0) {
        snprintf(map->trouble, sizeof(map->trouble), "no node of the cluster answers: %s",
                 why);
    }
}

/* --- life --- */

static void find(void *self, struct redis *r)
{
    struct map *map = self;
    const struct store *st = map->store;
    const struct redis_url *url = &st->conf.redis.url;
    unsigned n = st->node_count + (unsigned)url->place_count;
    unsigned i = map->turn++ % n;
    const struct redis_place *place =
        i < st->node_count ? &st->nodes[i]->place : &url->places[i - st->node_count];
    if (r == map->redis)
        snprintf(map->host, sizeof(map->host), "%s", place->host);
    redis_found(r, place->host, place->port);
}

static void forget(void *self, struct redis *r)
{
    (void)self;
    (void)r; /* it is answered at once */
}

const struct redis_finder *map_finder(const struct map *map)
{
    return &map->finder;
}

struct map *map_new(struct store *st)
{
    struct map *map = mem_alloc(sizeof(*map));
    struct redis_conf conf = st->conf.redis;
    map->store = st;
    map->finder = (struct redis_finder){find, forget, map, NULL};
    snprintf(map->trouble, sizeof(map->trouble), "looking for the nodes of the cluster");
    conf.finder = &map->finder;
    conf.master_only = false;
    map->redis = redis_new(&conf, on_state, map);
    return map;
}

void map_free(struct map *map)
{
    if (map == NULL)
        return;
    redis_free(map->redis);
    loop_defer_free(map); /* its connection may be on the way out of a callback */
}
