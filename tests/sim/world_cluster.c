/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_cluster.c - a Redis Cluster: what each node believes, slots that move, nodes that
 * do not hear the others, failovers.
 *
 * `owner` is what holds in the end. Each node learns a change of it a little later. A
 * node whose clock of silence of a master has run out rejects all keys (CLUSTERDOWN).
 */
#include "tests/sim/world.h"

#include "bridge/base/mem.h"

#include <stdlib.h>

enum { LOOK_MS = 200, REJOIN_MS = 2000, KEYS_PER_STEP = 10, ALL_SLOTS = -1 };

static unsigned char owner[REDIS_MODEL_SLOTS];
static struct {
    int64_t unseen_us[SERVERS_MAX]; /* since when it does not hear that node; 0: it does
                                     */
    int64_t rejoins_us;             /* after a start it rejects keys until then */
    bool is_alone;                  /* its connections to the other nodes are cut */
} nodes[SERVERS_MAX];
static int64_t node_timeout_us;

/* The slot that moves; there is at most one. */
static struct {
    bool is_open;
    unsigned slot;
    struct server *from, *to;
    unsigned steps_left; /* then its keys go back; 0: never */
    bool goes_back;
} move;

static struct redis_view *view_of(const struct server *s)
{
    return redis_model_view(s->redis);
}

static bool owns_slots(const struct server *s)
{
    return memchr(owner, (int)s->index, sizeof(owner)) != NULL;
}

bool cluster_moves(struct slice key)
{
    return move.is_open && redis_model_slot(key) == move.slot;
}

struct server *cluster_holder(struct slice key)
{
    unsigned slot = redis_model_slot(key);
    bool has_moved =
        move.is_open && move.slot == slot && redis_model_has_key(move.to->redis, key);
    return has_moved ? move.to : &servers[owner[slot]];
}

/* --------------------------------------------------- what the nodes tell each other */

static bool hears(const struct server *s, const struct server *of)
{
    return !s->down && !of->down && !nodes[s->index].is_alone &&
           !nodes[of->index].is_alone;
}

static bool hears_any(const struct server *s)
{
    bool any = false;
    for (unsigned i = 0; i < world.plan.servers; i++)
        any = any || (i != s->index && hears(s, &servers[i]));
    return any;
}

static void learn_slot(struct redis_view *view, unsigned slot)
{
    bool moves = move.is_open && move.slot == slot;
    view->owner[slot] = owner[slot];
    if (!moves)
        view->importing[slot] = view->migrating[slot] = REDIS_NO_NODE;
}

/* Learns who owns the slot, or all slots. */
static void learn(void *arg, int64_t slot)
{
    struct server *s = arg;
    struct redis_view *view = view_of(s);
    bool changes = slot == ALL_SLOTS ? memcmp(view->owner, owner, sizeof(owner)) != 0
                                     : view->owner[slot] != owner[slot];
    if (!hears_any(s) && !world.healed) {
        after(SECOND, learn, s, slot);
        return;
    }
    for (unsigned i = 0; slot == ALL_SLOTS && i < REDIS_MODEL_SLOTS; i++)
        learn_slot(view, i);
    if (slot != ALL_SLOTS)
        learn_slot(view, (unsigned)slot);
    if (changes)
        fault("Redis %u learns who owns %s", s->index,
              slot == ALL_SLOTS ? "the slots" : "the slot");
}

static void learn_later(struct server *s, int64_t most_us, int64_t slot)
{
    after(skewed(MS, most_us), learn, s, slot);
}

struct message {
    struct server *to;
    size_t channel_n, n;
    char bytes[];
};

static void arrive(void *arg, int64_t number)
{
    struct message *m = arg;
    (void)number;
    if (!m->to->down)
        redis_model_publish(m->to->redis, (struct slice){m->bytes, m->channel_n},
                            (struct slice){m->bytes + m->channel_n, m->n - m->channel_n});
    free(m);
}

static void on_publish(void *arg, struct slice channel, struct slice text)
{
    const struct server *from = arg;
    for (unsigned i = 0; i < world.plan.servers; i++) {
        if (i == from->index || !hears(from, &servers[i]))
            continue;
        struct message *m = mem_alloc(sizeof(*m) + channel.n + text.n);
        m->to = &servers[i];
        m->channel_n = channel.n;
        m->n = channel.n + text.n;
        slice_put(slice_put(m->bytes, channel), text);
        after(skewed(10, 5 * MS), arrive, m, 0);
    }
}

/* Whether it has not heard a master for too long. */
static bool lacks_a_master(const struct server *s)
{
    bool lacks = false;
    for (unsigned i = 0; i < world.plan.servers; i++) {
        int64_t *since_us = &nodes[s->index].unseen_us[i];
        if (i == s->index || hears(s, &servers[i]) || !owns_slots(&servers[i]))
            *since_us = 0;
        else if (*since_us == 0)
            *since_us = world.now_us;
        lacks = lacks || (*since_us && world.now_us - *since_us > node_timeout_us);
    }
    return lacks;
}

static void look(void *arg, int64_t number)
{
    (void)arg, (void)number;
    for (unsigned i = 0; i < world.plan.servers; i++) {
        struct redis_view *view = view_of(&servers[i]);
        bool down = lacks_a_master(&servers[i]) || world.now_us < nodes[i].rejoins_us;
        if (down != view->down && !servers[i].down)
            fault("to Redis %u the cluster is %s", i, down ? "down" : "whole");
        view->down = down;
    }
    after(LOOK_MS * MS, look, NULL, 0);
}

void cluster_server_starts(struct server *s)
{
    if (world.plan.masters == 0)
        return;
    nodes[s->index].rejoins_us = world.healed ? 0 : world.now_us + REJOIN_MS * MS;
    view_of(s)->down = !world.healed;
    learn_later(s, REJOIN_MS * MS, ALL_SLOTS);
}

/* ----------------------------------------------------------------- a slot that moves */

static bool has_fault(const struct server *s)
{
    const struct redis_faults *f = redis_model_faults(s->redis);
    return s->down || f->oom || f->readonly || f->misconf || f->busy || f->loading;
}

static void finish_move(void)
{
    struct server *owns = move.goes_back ? move.from : move.to;
    fault("the slot %u is at Redis %u", move.slot, owns->index);
    move.is_open = false;
    owner[move.slot] = (unsigned char)owns->index;
    learn(owns, move.slot);
    for (unsigned i = 0; i < world.plan.servers; i++) {
        struct server *s = &servers[i];
        if (move.goes_back && s == move.to)
            learn(s, move.slot); /* SETSLOT STABLE */
        else if (s != owns)
            learn_later(s, s == move.from ? 3 * SECOND : 15 * SECOND, move.slot);
    }
}

/* Moves some keys. Returns whether that was all. */
static bool move_keys(int64_t n)
{
    struct server *from = move.goes_back ? move.to : move.from,
                  *to = move.goes_back ? move.from : move.to;
    struct buf key = {0};
    bool found = true;
    server_inherits(to, from);
    for (; n > 0 && found; n--) {
        found = redis_model_find_key(from->redis, (int)move.slot, chance(), &key);
        if (found)
            tell("the key %s moves to Redis %u", buf_str(&key), to->index);
        if (found)
            redis_model_migrate(from->redis, to->redis, buf_slice(&key));
    }
    if (!found) /* a node that starts deletes keys of slots that are not its own */
        redis_model_sync(from->redis);
    buf_free(&key);
    return !found;
}

static void move_on(void *arg, int64_t number)
{
    (void)arg, (void)number;
    if (!move.is_open)
        return;
    if (has_fault(move.from) || has_fault(move.to) || !hears(move.from, move.to)) {
        after(SECOND, move_on, NULL, 0);
        return;
    }
    fault("keys of the slot move");
    view_of(move.from)->migrating[move.slot] = (unsigned char)move.to->index;
    if (move_keys(one_in(2) ? 1 : between(1, KEYS_PER_STEP))) {
        finish_move();
        return;
    }
    move.goes_back = move.goes_back || (move.steps_left > 0 && --move.steps_left == 0);
    after(skewed(MS, 10 * SECOND), move_on, NULL, 0);
}

static struct server *other_master(const struct server *than)
{
    struct server *s;
    do
        s = any_server();
    while (s == than || view_of(s)->is_replica);
    return s;
}

static unsigned choose_slot(void)
{
    struct buf key = {0};
    unsigned slot = (unsigned)between(0, REDIS_MODEL_SLOTS - 1);
    if (!one_in(6)) {
        uint64_t first = chance(); /* no argument: their order is up to the compiler */
        if (redis_model_find_key(any_server()->redis, -1, first, &key))
            slot = redis_model_slot(buf_slice(&key));
    }
    buf_free(&key);
    return slot;
}

void cluster_move_slot(struct sim_core *core)
{
    (void)core;
    if (move.is_open)
        return;
    move.slot = choose_slot();
    move.from = &servers[owner[move.slot]];
    move.to = other_master(move.from);
    move.goes_back = false;
    move.steps_left = one_in(6) ? (unsigned)between(1, 5) : 0;
    if (has_fault(move.from) || has_fault(move.to) || !hears(move.from, move.to))
        return;
    move.is_open = true;
    fault("a slot begins to move");
    tell("slot %u, from Redis %u to Redis %u", move.slot, move.from->index,
         move.to->index);
    if (one_in(4)) { /* at once, as Redis 8.4 does */
        while (!move_keys(KEYS_PER_STEP))
            ;
        finish_move();
        learn(move.from, move.slot);
        return;
    }
    view_of(move.to)->importing[move.slot] = (unsigned char)move.from->index;
    after(skewed(MS, SECOND), move_on, NULL, 0);
}

/* ------------------------------------------------------------------------- failovers */

/* Returns a node without slots, or NULL. */
static struct server *spare(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++)
        if (!owns_slots(&servers[i]) && !has_fault(&servers[i]))
            return &servers[i];
    return NULL;
}

static void take_over(struct server *from, struct server *to)
{
    fault("Redis takes over from another");
    tell("Redis %u takes over from Redis %u", to->index, from->index);
    redis_model_copy(from->redis, to->redis);
    server_inherits(to, from);
    for (unsigned i = 0; i < REDIS_MODEL_SLOTS; i++)
        if (owner[i] == from->index)
            owner[i] = (unsigned char)to->index;
    view_of(to)->is_replica = false;
    view_of(from)->is_replica = true;
    learn(to, ALL_SLOTS);
    for (unsigned i = 0; i < world.plan.servers; i++)
        if (&servers[i] != to)
            learn_later(&servers[i], 5 * SECOND, ALL_SLOTS);
}

static void elect(void *arg, int64_t number)
{
    struct server *from = arg, *to = spare();
    (void)number;
    if (from->down && to && !move.is_open && owns_slots(from))
        take_over(from, to);
}

static void restart(void *arg, int64_t number)
{
    struct server *s = arg;
    (void)number;
    if (s->down)
        server_start(s);
}

void cluster_fail_over(struct sim_core *core)
{
    (void)core;
    struct server *from = any_server(), *to = spare();
    if (move.is_open || from->down || to == NULL || !owns_slots(from))
        return;
    if (one_in(3) && hears(from, to)) { /* planned: CLUSTER FAILOVER */
        take_over(from, to);
        learn(from, ALL_SLOTS);
        return;
    }
    server_crash(from, (size_t)skewed(0, 100)); /* what the replica lacks */
    after(node_timeout_us + skewed(500 * MS, 2 * SECOND), elect, from, 0);
    after(node_timeout_us + skewed(10 * MS, 60 * SECOND), restart, from, 0);
}

static void hear_again(void *arg, int64_t number)
{
    const struct server *s = arg;
    (void)number;
    fault("Redis %u hears the other nodes again", s->index);
    nodes[s->index].is_alone = false;
}

void cluster_isolate(struct sim_core *core)
{
    struct server *s = any_server();
    (void)core;
    if (nodes[s->index].is_alone)
        return;
    fault("Redis %u does not hear the other nodes", s->index);
    nodes[s->index].is_alone = true;
    after(skewed(SECOND, 60 * SECOND), hear_again, s, 0);
}

/* ------------------------------------------------------------------------------ life */

void cluster_init(void)
{
    unsigned masters = world.plan.masters;
    if (masters == 0)
        return;
    node_timeout_us = between(1, 15) * SECOND;
    for (unsigned i = 0; i < REDIS_MODEL_SLOTS; i++)
        owner[i] = (unsigned char)(i * masters / REDIS_MODEL_SLOTS);
    for (unsigned i = 0; i < world.plan.servers; i++) {
        struct redis_view *view = view_of(&servers[i]);
        view->self = i;
        view->is_replica = i >= masters;
        for (unsigned k = 0; k < world.plan.servers; k++)
            view->port[k] = servers[k].port;
        memcpy(view->owner, owner, sizeof(owner));
        redis_model_on_publish(servers[i].redis, on_publish, &servers[i]);
    }
    look(NULL, 0);
}

/* Whether each node that runs accepts keys. */
bool cluster_is_whole(void)
{
    for (unsigned i = 0; i < world.plan.servers && world.plan.masters > 0; i++)
        if (!servers[i].down && view_of(&servers[i])->down)
            return false;
    return true;
}

void cluster_heal(void)
{
    if (world.plan.masters == 0)
        return;
    while (move.is_open && !move_keys(KEYS_PER_STEP))
        ;
    if (move.is_open)
        finish_move();
    for (unsigned i = 0; i < world.plan.servers; i++) {
        nodes[i].is_alone = false;
        nodes[i].rejoins_us = 0;
        learn(&servers[i], ALL_SLOTS);
    }
}
