/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world_replicas.c - the replicas of the Redis servers: they receive the commands late,
 * and one of them may become the server.
 *
 * Replication is asynchronous: the promoted replica may lack what the server has
 * answered. With durability = "replicas:N" nothing that a core has accepted may be lost,
 * if N replicas are all of them, or if the one that has most is promoted.
 */
#include "tests/sim/world.h"

#include "bridge/base/mem.h"

#include <stdlib.h>

static struct replica {
    struct server *server;
    struct redis_replica *model;
    uint64_t stream;      /* of its chances */
    unsigned connections; /* so far */
    bool receives;        /* a part of the commands is on its way */
    int64_t lag_us;
    int64_t halted_until_us;
    int64_t whole_until_us; /* it has what was executed until then */
} all[SERVERS_MAX][REDIS_REPLICAS_MAX];

/* Four times this, for two parts in a row, is below the 500 ms of a WAIT (store_wait.c):
 * under load tarry accepts nothing if its replicas are always later than that. */
#define LAG_MAX_US (120 * MS)
static int64_t looks_us[SERVERS_MAX]; /* when a WAIT may be over; 0: none is open */

/* What is on its way to a replica. */
struct part {
    struct replica *replica;
    unsigned connection;
    int64_t sent_us;
    uint64_t offset;
};

static bool all_must_have(void)
{
    return world.plan.wait_for == world.plan.replicas;
}

/* ---------------------------------------------------------------------------- WAIT */

static void look(void *arg, int64_t us)
{
    struct server *s = arg;
    if (looks_us[s->index] == us)
        replicas_note_time(s);
}

void replicas_note_time(struct server *s)
{
    server_tick(s);
    int64_t next_us = redis_model_end_waits(s->redis);
    looks_us[s->index] = next_us == INT64_MAX ? 0 : next_us - s->clock_us;
    if (next_us < INT64_MAX)
        at(looks_us[s->index], look, s, looks_us[s->index]);
}

/* --------------------------------------------------------------------- replication */

static void send(struct replica *r);

static void receive(void *arg, int64_t number)
{
    struct part *part = arg;
    struct replica *r = part->replica;
    if (part->connection == r->connections && r->halted_until_us > world.now_us) {
        at(r->halted_until_us, receive, part, number);
        return;
    }
    if (part->connection == r->connections) {
        r->model->has = part->offset;
        r->whole_until_us = part->sent_us;
        r->receives = false;
        server_tick(r->server);
        redis_model_replicated(r->server->redis);
        replicas_note_time(r->server);
        send(r);
    }
    free(part);
}

/* Sends what it lacks. */
static void send(struct replica *r)
{
    uint64_t offset = redis_model_offset(r->server->redis);
    if (!r->model->online || r->receives || r->model->has == offset)
        return;
    struct part *part = mem_alloc(sizeof(*part));
    *part = (struct part){r, r->connections, world.now_us, offset};
    r->receives = true;
    uint64_t *before = draw_from(&r->stream);
    after(r->lag_us + skewed(0, r->lag_us), receive, part, 0);
    draw_from(before);
}

void replicas_note_command(struct server *s)
{
    if (world.plan.replicas == 0)
        return;
    for (unsigned i = 0; i < world.plan.replicas; i++)
        send(&all[s->index][i]);
    replicas_note_time(s);
}

static void disconnect(struct replica *r)
{
    r->model->online = r->receives = false;
    r->connections++;
}

/* It receives all data at once. */
static void connect(void *arg, int64_t connection)
{
    struct replica *r = arg;
    if (r->connections != (unsigned)connection || r->model->online)
        return;
    if (r->server->down) {
        after(SECOND, connect, r, connection);
        return;
    }
    tell("Redis %u: replica %d is online", r->server->index,
         (int)(r - all[r->server->index]));
    r->model->online = true;
    r->model->has = redis_model_offset(r->server->redis);
    r->whole_until_us = world.now_us;
    replicas_note_time(r->server);
}

static void connect_later(struct replica *r, int64_t us)
{
    uint64_t *before = draw_from(&r->stream);
    after(us, connect, r, r->connections);
    draw_from(before);
}

void replicas_init(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++)
        for (unsigned n = 0; n < world.plan.replicas; n++) {
            struct replica *r = &all[i][n];
            r->server = &servers[i];
            r->model = &redis_model_replicas(servers[i].redis)[n];
            r->model->online = true;
            r->stream = stream_new('r', i * REDIS_REPLICAS_MAX + n);
            r->lag_us = skewed(50, LAG_MAX_US);
        }
}

void replicas_of_crashed(struct server *s)
{
    for (unsigned n = 0; n < world.plan.replicas; n++) {
        struct replica *r = &all[s->index][n];
        uint64_t offset = redis_model_offset(s->redis);
        disconnect(r);
        r->model->has = r->model->has < offset ? r->model->has : offset;
        connect_later(r, skewed(100 * MS, 5 * SECOND));
    }
}

void replicas_heal(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++)
        for (unsigned n = 0; n < world.plan.replicas; n++) {
            all[i][n].halted_until_us = 0;
            disconnect(&all[i][n]);
            connect(&all[i][n], all[i][n].connections);
        }
}

/* -------------------------------------------------------------------------- faults */

static struct replica *any_replica(void)
{
    struct server *s = any_server();
    return &all[s->index][between(0, world.plan.replicas - 1)];
}

static void end_halt(void *arg, int64_t until_us)
{
    const struct replica *r = arg;
    if (r->halted_until_us == until_us)
        fault("a replica of Redis %u receives again", r->server->index);
}

void replica_halts(void)
{
    struct replica *r = any_replica();
    r->halted_until_us = world.now_us + skewed(10 * MS, 30 * SECOND);
    fault("a replica of Redis %u receives nothing", r->server->index);
    tell("replica %d, for %lld ms", (int)(r - all[r->server->index]),
         (long long)(r->halted_until_us - world.now_us) / MS);
    at(r->halted_until_us, end_halt, r, r->halted_until_us);
}

void replica_leaves(void)
{
    struct replica *r = any_replica();
    fault("a replica of Redis %u leaves", r->server->index);
    tell("replica %d", (int)(r - all[r->server->index]));
    disconnect(r);
    connect_later(r, skewed(100 * MS, 60 * SECOND));
}

bool replicas_are_enough(void)
{
    for (unsigned s = 0; s < world.plan.servers && world.plan.wait_for > 0; s++) {
        unsigned online = 0;
        for (unsigned i = 0; i < world.plan.replicas; i++)
            online += all[s][i].model->online;
        if (online < world.plan.wait_for)
            return false;
    }
    return true;
}

/* Chooses the replica to promote: as Sentinel does, that which has most; or any of them,
 * if no accepted job can be lost by that, or may be. NULL: it is not online. */
static struct replica *choose(const struct server *s)
{
    struct replica *best = NULL;
    bool any = world.plan.wait_for == 0 || all_must_have();
    unsigned first = (unsigned)between(0, world.plan.replicas - 1);
    for (unsigned i = 0; i < world.plan.replicas; i++) {
        struct replica *r = &all[s->index][(first + i) % world.plan.replicas];
        if (any ? r->model->online && best == NULL
                : best == NULL || r->model->has > best->model->has)
            best = r;
    }
    return best && best->model->online ? best : NULL;
}

static void start_server(void *arg, int64_t number)
{
    (void)number;
    server_start(arg);
}

/* The old server becomes a replica, later. */
static void promote(struct server *s, struct replica *chosen)
{
    uint64_t offset = redis_model_offset(s->redis), has = chosen->model->has;
    int64_t since_us = chosen->whole_until_us;
    fault("Redis %u fails over to a replica", s->index);
    tell("replica %d lacks %llu of %llu commands, since %.6f",
         (int)(chosen - all[s->index]), (unsigned long long)(offset - has),
         (unsigned long long)offset, (double)since_us / 1e6);
    conns_of_crashed(s);
    s->down = true;
    for (unsigned i = 0; i < world.plan.replicas; i++) {
        struct replica *r = &all[s->index][i];
        disconnect(r);
        r->model->has = r->model->has < has ? r->model->has : has;
        connect_later(r, r == chosen ? skewed(SECOND, 60 * SECOND)
                                     : skewed(10 * MS, 3 * SECOND));
    }
    redis_model_fail_over(s->redis, has, one_in(4));
    *redis_model_faults(s->redis) = (struct redis_faults){0};
    if (world.plan.clock_jumps)
        server_choose_clock(s);
    if (has < offset)
        server_lost(s, since_us, world.plan.wait_for > 0);
    after(one_in(2) ? 0 : skewed(MS, 5 * SECOND), start_server, s, 0);
}

static void promote_one(void *arg, int64_t number)
{
    struct server *s = arg;
    struct replica *chosen = choose(s);
    (void)number;
    if (chosen && !s->down && !world.healed)
        promote(s, chosen);
    else
        redis_model_faults(s->redis)->readonly = false; /* if it was demoted for that */
}

void fail_over(void)
{
    struct server *s = any_server();
    if (one_in(2) && !s->down) { /* the old server rejects writes before */
        fault("Redis %u is demoted", s->index);
        server_tick(s);
        redis_model_demote(s->redis);
        after(skewed(MS, 5 * SECOND), promote_one, s, 0);
    } else {
        promote_one(s, 0);
    }
}
