/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_health.c - the state of all servers of a store: whether they are usable and
 * answer, their clocks, how they persist data, what they use.
 */
#include "bridge/base/loop.h"
#include "bridge/store/batcher.h"

bool store_is_up(const struct store *st)
{
    for (unsigned i = 0; i < st->node_count; i++)
        if (st->nodes[i]->state != NODE_UP)
            return false;
    return st->map == NULL || map_is_whole(st->map);
}

bool store_is_ready(const struct store *st)
{
    for (unsigned i = 0; i < st->node_count; i++)
        if (st->nodes[i]->halted)
            return false;
    return store_is_up(st);
}

bool store_accepts_jobs(const struct store *st)
{
    for (unsigned i = 0; i < st->node_count; i++)
        if (st->nodes[i]->rejects_jobs || st->nodes[i]->full)
            return false;
    return store_is_up(st);
}

const char *store_trouble(const struct store *st)
{
    if (st->map && !map_is_whole(st->map))
        return map_trouble(st->map);
    for (unsigned i = 0; i < st->node_count; i++)
        if (*st->nodes[i]->trouble)
            return st->nodes[i]->trouble;
    return "";
}

/* Returns the server that has been silent for the longest time; NULL: none is silent. */
static const struct node *silent_node(const struct store *st)
{
    const struct node *worst = NULL;
    int64_t worst_ms = STORE_SILENT_MS - 1;
    for (unsigned i = 0; i < st->node_count; i++) {
        int64_t ms = redis_silent_ms(st->nodes[i]->redis);
        worst = ms > worst_ms ? st->nodes[i] : worst;
        worst_ms = ms > worst_ms ? ms : worst_ms;
    }
    return worst;
}

int64_t store_silent_ms(const struct store *st)
{
    const struct node *node = silent_node(st);
    return node ? redis_silent_ms(node->redis) : 0;
}

int64_t store_answered_ms(const struct store *st)
{
    int64_t least_ms = loop_mono_ms();
    for (unsigned i = 0; i < st->node_count; i++) {
        int64_t heard_ms = redis_heard_ms(st->nodes[i]->redis);
        least_ms = heard_ms < least_ms ? heard_ms : least_ms;
    }
    return store_is_up(st) ? least_ms : -1;
}

unsigned store_server_count(const struct store *st)
{
    return st->node_count;
}

void store_add_trouble(const struct store *st, struct buf *out)
{
    const struct node *node = silent_node(st);
    const char *trouble = store_trouble(st);
    if (node) {
        buf_add_str(out, "Redis");
        if (node->place.host) {
            buf_add_str(out, " ");
            redis_place_add(out, node->place.host, node->place.port);
        }
        buf_addf(out, " has not answered for %lld s%s",
                 (long long)((redis_silent_ms(node->redis) + 500) / 1000),
                 *trouble ? ": " : "");
    }
    buf_add_str(out, trouble);
}

bool store_knows_time(const struct store *st)
{
    for (unsigned i = 0; i < st->node_count; i++)
        if (!clock_is_set(&st->nodes[i]->clock))
            return false;
    return st->map == NULL || map_is_whole(st->map);
}

int64_t store_now_ms(const struct store *st)
{
    int64_t mono_us = loop_mono_us(), latest_ms = 0;
    for (unsigned i = 0; i < st->node_count; i++) {
        const struct clock *clock = &st->nodes[i]->clock;
        int64_t now_ms = clock_is_set(clock) ? clock_now_ms(clock, mono_us) : 0;
        latest_ms = now_ms > latest_ms ? now_ms : latest_ms;
    }
    return latest_ms > 0 ? latest_ms : loop_wall_ms();
}

enum redis_persistence store_persistence(const struct store *st)
{
    enum redis_persistence least = PERSISTS_EVERY_WRITE;
    for (unsigned i = 0; i < st->node_count; i++)
        if (st->nodes[i]->facts.persistence < least)
            least = st->nodes[i]->facts.persistence;
    return st->node_count > 0 ? least : PERSISTS_UNKNOWN;
}

bool store_usage(const struct store *st, struct queue_usage *sum)
{
    bool known = store_is_up(st);
    *sum = (struct queue_usage){0};
    for (unsigned i = 0; i < st->node_count; i++) {
        const struct redis_facts *facts = &st->nodes[i]->facts;
        known = known && facts->used_bytes >= 0;
        sum->used_bytes += facts->used_bytes;
        sum->max_bytes += facts->max_bytes;
        sum->clients += facts->clients;
        sum->blocked_clients += facts->blocked_clients;
        sum->keys += facts->keys;
        sum->expiring_keys += facts->expiring_keys;
    }
    return known;
}

struct judging { /* of one server */
    const struct node *node;
    redis_warn_cb *warn;
    void *arg;
};

static void on_judged(void *arg, bool serious, const char *text)
{
    const struct judging *j = arg;
    struct buf named = {0};
    if (j->node->place.host) {
        redis_place_add(&named, j->node->place.host, j->node->place.port);
        buf_add_str(&named, ": ");
    }
    buf_add_str(&named, text);
    j->warn(j->arg, serious, buf_str(&named));
    buf_free(&named);
}

void store_judge(const struct store *st, redis_warn_cb *warn, void *arg)
{
    for (unsigned i = 0; i < st->node_count; i++) {
        struct judging j = {st->nodes[i], warn, arg};
        redis_facts_judge(&j.node->facts, &st->conf.durability, on_judged, &j);
    }
}
