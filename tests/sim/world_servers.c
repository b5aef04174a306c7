/* SPDX-License-Identifier: BSD-2-Clause */
/* world_servers.c - the Redis servers: their addresses, clocks, disks, and crashes. */
#include "tests/sim/world.h"

#include <stdlib.h>

enum { FIRST_PORT = 6379 };

struct server servers[SERVERS_MAX];
static int64_t loss_us; /* when a crash lost commands; 0: never */

static void set_fsync_always(struct redis_model *redis)
{
    static const struct slice words[] = {SLICE_LIT("CONFIG"), SLICE_LIT("SET"),
                                         SLICE_LIT("appendfsync"), SLICE_LIT("always")};
    struct buf out = {0};
    redis_model_command(redis, words, 4, &out);
    buf_free(&out);
}

void servers_init(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++) {
        struct server *s = &servers[i];
        s->index = i;
        s->port = FIRST_PORT + i;
        s->redis = redis_model_new();
        s->clock_us = SERVERS_CLOCK_US;
        if (i > 0 && world.plan.clock_jumps)
            s->clock_us += skewed(0, 2 * SECOND) - skewed(0, 2 * SECOND);
        server_tick(s);
        if (world.plan.fsync_always)
            set_fsync_always(s->redis);
        redis_model_sync(s->redis);
    }
    replicas_init();
}

struct server *server_at(const char *host, const char *port)
{
    unsigned long i = strtoul(port, NULL, 10) - FIRST_PORT;
    return strcmp(host, "127.0.0.1") == 0 && i < world.plan.servers ? &servers[i] : NULL;
}

struct server *any_server(void)
{
    unsigned n = world.plan.servers;
    return &servers[n > 1 ? between(0, n - 1) : 0];
}

struct server *server_of(struct slice key)
{
    return world.plan.masters > 0 ? cluster_holder(key) : &servers[0];
}

/* ------------------------------------------------------------------------- clocks */

int64_t server_now_us(const struct server *s)
{
    return world.now_us + s->clock_us;
}

void server_tick(struct server *s)
{
    int64_t now_ms = server_now_us(s) / 1000;
    redis_model_set_time(s->redis, server_now_us(s));
    s->latest_ms = now_ms > s->latest_ms ? now_ms : s->latest_ms;
}

void server_set_clock(struct server *s, int64_t by_us)
{
    server_tick(s);
    s->clock_us += by_us;
    s->regained_us = s->latest_ms * MS - s->clock_us;
    tell("the clock of Redis %u has changed by %lld ms", s->index, (long long)by_us / MS);
    replicas_note_time(s);
}

void server_choose_clock(struct server *s)
{
    int64_t off_us = one_in(2) ? skewed(0, 3600 * SECOND) : -skewed(0, 3600 * SECOND);
    server_set_clock(s, SERVERS_CLOCK_US + off_us - s->clock_us);
}

void server_inherits(struct server *to, struct server *from)
{
    server_tick(to);
    server_tick(from);
    if (from->latest_ms > to->latest_ms)
        to->latest_ms = from->latest_ms;
    if (to->latest_ms * MS - to->clock_us > to->regained_us)
        to->regained_us = to->latest_ms * MS - to->clock_us;
}

int64_t servers_regained_us(void)
{
    int64_t regained_us = 0;
    for (unsigned i = 0; i < world.plan.servers; i++)
        if (servers[i].regained_us > regained_us)
            regained_us = servers[i].regained_us;
    return regained_us;
}

int64_t servers_latest_ms(void)
{
    int64_t latest_ms = 0;
    for (unsigned i = 0; i < world.plan.servers; i++) {
        server_tick(&servers[i]);
        if (servers[i].latest_ms > latest_ms)
            latest_ms = servers[i].latest_ms;
    }
    return latest_ms;
}

int64_t servers_due_us(int64_t due_ms)
{
    int64_t due_us = 0;
    for (unsigned i = 0; i < world.plan.servers; i++) {
        int64_t us = due_ms * MS - servers[i].clock_us;
        due_us = i == 0 || us > due_us ? us : due_us;
    }
    return due_us;
}

/* ------------------------------------------------------------------ disks, crashes */

void servers_sync(void *arg, int64_t number)
{
    (void)arg, (void)number;
    for (unsigned i = 0; i < world.plan.servers; i++) {
        if (servers[i].down)
            continue;
        redis_model_sync(servers[i].redis);
        servers[i].synced_us = world.now_us;
    }
    after(SECOND, servers_sync, NULL, 0);
}

void server_crash(struct server *s, size_t lost)
{
    size_t unsynced = redis_model_unsynced(s->redis);
    lost = lost < unsynced ? lost : unsynced;
    fault("Redis %u crashes and loses %zu of %zu commands", s->index, lost, unsynced);
    conns_of_crashed(s);
    s->down = true;
    server_tick(s);
    redis_model_crash(s->redis, lost);
    replicas_of_crashed(s);
    if (lost > 0)
        server_lost(s, s->synced_us, false);
}

void server_lost(struct server *s, int64_t since_us, bool promised)
{
    if (!promised)
        loss_us = world.now_us;
    s->synced_us = world.now_us;
    jobs_server_lost(since_us, promised);
}

void server_start(struct server *s)
{
    tell("Redis %u starts", s->index);
    s->down = false;
    cluster_server_starts(s);
}

int64_t servers_last_loss_us(void)
{
    return loss_us;
}

bool servers_are_up(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++)
        if (servers[i].down)
            return false;
    return true;
}

void servers_heal(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++) {
        *redis_model_faults(servers[i].redis) = (struct redis_faults){0};
        if (servers[i].down)
            server_start(&servers[i]);
    }
    replicas_heal();
}
