/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_node.c - the connection to one server, and the pauses after its error replies.
 *
 * DOWN -> LOADING: scripts, then TIME, then the probe of its persistence -> UP
 */
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum {
    PAUSE_US = 100 * 1000,         /* after LOADING, BUSY and the like */
    DENIED_PAUSE_US = 5000 * 1000, /* the operator must act */
    WHOLE_PROBE_TICKS = 60,        /* an operator may change the settings of Redis */
    SECONDS_DIGITS = 11,           /* limit for the first word of TIME */
    MICROS_DIGITS = 6              /* limit for its second word */
};

void node_set_trouble(struct node *node, const char *text)
{
    if (*text && node->place.host)
        snprintf(node->trouble, sizeof(node->trouble), "%s:%s: %s", node->place.host,
                 node->place.port, text);
    else
        snprintf(node->trouble, sizeof(node->trouble), "%s", text);
}

static void go_down(struct node *node, const char *why)
{
    bool was_up = node->state == NODE_UP;
    node->state = NODE_DOWN;
    node_set_trouble(node, why);
    wait_connection_lost(node);
    if (was_up)
        store_node_down(node->store, node->trouble);
}

/* --- the steps to be up --- */

static void go_up(struct node *node)
{
    bool again = node->reloading;
    node->state = NODE_UP;
    node->pause_until_us = 0;
    node->halted = node->reloading = false;
    node_set_trouble(node, "");
    node->store->counters.arrivals += !again;
    if (!again && node->place.host)
        log_info("redis", "%s:%s is ready", node->place.host, node->place.port);
    else if (!again)
        log_info("redis", "ready");
    store_node_up(node->store);
}

static void on_probe(void *arg, bool answered)
{
    struct node *node = arg;
    struct store *st = node->store;
    struct err err;
    node->probing = false;
    if (!answered || node->state != NODE_LOADING)
        return;
    node->full = memory_mark_passed(&st->conf.memory_mark, &node->facts, node->full);
    if (redis_facts_fit(&node->facts, &st->conf.durability, &err) < 0) {
        /* node_tick() retries */
        node_set_trouble(node, err.text);
        log_limited(&st->complain, LOG_ERROR, "redis", "%s", node->trouble);
        if (st->events.incompatible && !st->was_up)
            st->events.incompatible(st->arg, node->trouble);
        return;
    }
    redis_facts_warn(&node->facts, &st->conf.durability);
    go_up(node);
}

static void probe(struct node *node)
{
    if (node->probing)
        return;
    node->probing = true;
    redis_probe(node->redis, &node->facts, on_probe, node);
}

static void on_time(void *arg, const struct redisReply *reply)
{
    struct node *node = arg;
    int64_t sent_us = node->time_sent_us;
    node->time_sent_us = 0;
    if (node_classify_reply(node, reply, SCRIPTS) != REDIS_NO_ERROR)
        return;
    struct slice s = redis_text(redis_item(reply, 0)),
                 us = redis_text(redis_item(reply, 1));
    if (s.n == 0 || s.n > SECONDS_DIGITS || us.n == 0 || us.n > MICROS_DIGITS)
        return; /* not a time; node_tick() retries */
    int64_t redis_us = strtoll(s.p, NULL, 10) * 1000000 + strtoll(us.p, NULL, 10);
    if (node->clock_stale) /* perhaps another server, with another clock */
        node->clock = (struct clock){0};
    node->clock_stale = false;
    clock_sample(&node->clock, sent_us, loop_mono_us(), redis_us);
    if (node->state == NODE_LOADING && node->loading == 0)
        probe(node);
}

static void ask_time(struct node *node)
{
    if (node->time_sent_us)
        return;
    node->time_sent_us = loop_mono_us();
    const struct slice args[] = {SLICE_LIT("TIME")};
    redis_command(node->redis, args, 1, on_time, node);
}

/* The replies arrive in the order of the scripts. */
static void on_loaded(void *arg, const struct redisReply *reply)
{
    struct node *node = arg;
    struct slice sha = redis_text(reply);
    char *to = node->store->sha[SCRIPTS - node->loading];
    if (sha.n == sizeof(node->store->sha[0]) - 1)
        slice_put(to, sha);
    else
        node->load_failed = true;
    if (--node->loading > 0 || node->state != NODE_LOADING)
        return;
    if (!node->load_failed)
        ask_time(node);
    else /* node_tick() retries */
        log_limited(&node->store->complain, LOG_WARN, "redis",
                    "Redis does not accept the scripts yet");
}

static void load(struct node *node)
{
    must(node->loading == 0);
    node->state = NODE_LOADING;
    node->load_failed = false;
    node->loading = SCRIPTS;
    for (int i = 0; i < SCRIPTS; i++) {
        const struct slice args[] = {SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"),
                                     slice_of(script_texts[i])};
        redis_command(node->redis, args, 3, on_loaded, node);
    }
}

static void on_state(void *arg, enum redis_state state, const char *why)
{
    struct node *node = arg;
    if (state == REDIS_UP) {
        node->store->counters.connections++;
        node->clock_stale = true;
        node->rejects_jobs = false; /* the errors were those of the previous connection */
        load(node);
    } else if (state == REDIS_DOWN) {
        if (strstr(node->trouble, why) == NULL)
            log_limited(&node->store->complain, LOG_WARN, "redis", "unreachable: %s",
                        why);
        node->reloading = false;
        go_down(node, why);
    }
}

/* --- errors --- */

/* What to pause after each class of error reply. */
static const struct {
    int64_t rest_us;
    bool for_all;      /* affects the server, not one bucket or script */
    bool rejects_jobs; /* pauses the sources, if a reply to enqueue or cancel */
} asks[] = {
    [REDIS_WAIT] = {PAUSE_US, true, true},
    [REDIS_FULL] = {PAUSE_US, false, true},
    [REDIS_MOVED_AWAY] = {PAUSE_US, true, true},
    [REDIS_MOVING] = {PAUSE_US, false, false},
    [REDIS_FENCED] = {PAUSE_US, false, false},
    [REDIS_DENIED] = {DENIED_PAUSE_US, false, false},
    [REDIS_WRONG] = {PAUSE_US, false, false},
};

int64_t node_pause_us(enum redis_error e)
{
    return asks[e].rest_us;
}

/* The scripts whose errors pause the sources. */
static bool is_of_producers(enum script script)
{
    return script == SCRIPT_ENQUEUE || script == SCRIPT_CANCEL;
}

static void judge_error(struct node *node, enum redis_error e, const char *text,
                        enum script script)
{
    struct store *st = node->store;
    int64_t until_us = loop_mono_us() + asks[e].rest_us;
    node_set_trouble(node, text);
    log_limited(&st->complain, LOG_WARN, "redis", "%s: %s",
                script < SCRIPTS ? script_names[script] : "TIME", node->trouble);
    if (is_of_producers(script) && asks[e].rejects_jobs)
        node->rejects_jobs = true;
    node->halted = node->halted || asks[e].for_all;
    if (asks[e].for_all && until_us > node->pause_until_us)
        node->pause_until_us = until_us;
    if (st->map)
        map_refresh_soon(st->map);
    if (e == REDIS_MOVED_AWAY)
        redis_reconnect(node->redis, text);
}

enum redis_error node_classify_reply(struct node *node, const struct redisReply *reply,
                                     enum script script)
{
    struct store *st = node->store;
    char text[160];
    if (reply == NULL)
        return REDIS_WAIT;
    enum redis_error e = redis_error(reply);
    st->counters.errors[e]++;
    if (e == REDIS_NO_ERROR) {
        if (script < SCRIPTS)
            node->halted = false;
        if (script == SCRIPT_ENQUEUE && st->conf.durability.replicas == 0)
            node->rejects_jobs = false; /* else the reply of WAIT decides */
        if (node->state == NODE_UP && !node->rejects_jobs && !node->full)
            node->trouble[0] = '\0';
    } else if (e == REDIS_ELSEWHERE && st->map && map_moved(st->map, reply->str)) {
        /* sent again at once, to the node in the reply */
    } else if (e == REDIS_ELSEWHERE) { /* after a pause: two nodes may redirect to each
                                          other */
        snprintf(text, sizeof(text), "%.120s: the redirection is followed later",
                 reply->str);
        e = REDIS_MOVING;
        judge_error(node, e, text, script);
    } else if (e != REDIS_NO_SCRIPT) {
        judge_error(node, e, reply->str, script);
    } else if (node->state == NODE_UP) {
        log_limited(&st->complain, LOG_WARN, "redis",
                    "the scripts were flushed from Redis; loading them again");
        go_down(node, "loading scripts");
        node->reloading = true;
        load(node);
    }
    return e;
}

/* --- every second --- */

static void on_usage(void *arg, bool answered)
{
    struct node *node = arg;
    struct store *st = node->store;
    char text[120];
    node->probing = false;
    if (!answered || node->state != NODE_UP)
        return;
    bool was = node->full;
    node->full = memory_mark_passed(&st->conf.memory_mark, &node->facts, was);
    if (!node->full) {
        if (was)
            node_set_trouble(node, "");
        return;
    }
    snprintf(text, sizeof(text),
             "Redis uses %lld MiB of memory, more than redis.memory_mark",
             (long long)(node->facts.used_bytes >> 20));
    node_set_trouble(node, text);
    if (!was)
        log_limited(&st->complain, LOG_WARN, "redis", "%s", node->trouble);
}

static void on_whole_probe(void *arg, bool answered)
{
    struct node *node = arg;
    bool read = node->fresh.appends >= 0 && node->fresh.used_bytes >= 0;
    bool worse = node->fresh.persistence < node->facts.persistence;
    if (answered && read && node->state == NODE_UP) { /* else a later probe reads them */
        node->facts = node->fresh;
        if (worse)
            redis_facts_warn(&node->facts, &node->store->conf.durability);
    }
    on_usage(node, answered);
}

/* Reads the usage; once a minute all facts, if this user may read the settings. */
static void probe_again(struct node *node)
{
    bool whole = node->facts.appends >= 0 && ++node->usage_probes >= WHOLE_PROBE_TICKS;
    if (node->probing)
        return;
    node->probing = true;
    if (!whole) {
        redis_probe_usage(node->redis, &node->facts, on_usage, node);
        return;
    }
    node->usage_probes = 0;
    node->fresh.db = node->facts.db;
    redis_probe(node->redis, &node->fresh, on_whole_probe, node);
}

static bool no_producer_waits(const struct store *st)
{
    const struct batcher *batcher;
    TAILQ_FOREACH (batcher, &st->batchers, link) {
        if (is_of_producers(batcher_rows[batcher->kind].script))
            return false;
    }
    return true;
}

void node_tick(struct node *node)
{
    int64_t now_us = loop_mono_us();
    if (node->state == NODE_DOWN || !redis_is_up(node->redis))
        return;
    if (node->state == NODE_LOADING) {
        if (node->loading == 0 && !node->probing)
            load(node); /* the last attempt got an error reply */
        return;
    }
    ask_time(node);
    probe_again(node);
    if (node->pause_until_us > now_us)
        return;
    if (node->rejects_jobs && TAILQ_EMPTY(&node->unreplicated) &&
        no_producer_waits(node->store))
        node->rejects_jobs = false; /* the next job shows whether the error persists */
    if (TAILQ_EMPTY(&node->store->batchers))
        node->halted = false;
}

/* --- life --- */

struct node *node_new(struct store *st, const struct redis_place *place)
{
    struct node *node = mem_alloc(sizeof(*node));
    struct redis_conf conf = st->conf.redis;
    node->store = st;
    node->facts.db = conf.url.db;
    TAILQ_INIT(&node->unreplicated);
    if (place) {
        node->place.host = mem_strdup(place->host);
        node->place.port = mem_strdup(place->port);
        conf.url.kind = REDIS_ONE;
        conf.url.host = node->place.host;
        conf.url.port = node->place.port;
        conf.url.places = NULL;
        conf.url.place_count = 0;
    }
    node_set_trouble(node, "connecting");
    node->redis = redis_new(&conf, on_state, node);
    return node;
}

void node_close(struct node *node)
{
    node->state = NODE_DOWN;
    redis_close(node->redis);
    wait_connection_lost(node);
}

void node_free(struct node *node)
{
    node_close(node);
    redis_free(node->redis);
    free(node->place.host);
    free(node->place.port);
    loop_defer_free(node); /* a callback of it may be on the way out */
}
