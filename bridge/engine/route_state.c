/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/route_state.h"
#include "bridge/engine/membership.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/route.h"
#include "bridge/engine/sched.h"

#include <stdlib.h>

enum {
    REFRESH_MS = 10000, /* states are read again after this */
    SLACK_MS = 2000,    /* plus this, for a late tick or a slow Redis */
    ALONE_MS = 1000     /* by then jobs submitted just before are stored */
};

/* No source or route has this name. */
static const char publish_name[] = "=@states", *const channel_name = publish_name + 1;

struct route_states {
    struct bridge *bridge;
    bool known;
    int64_t read_ms; /* monotonic: time of the last read */
    struct log_limit complain;
};

static const struct {
    const char *name; /* also the value in Redis; running routes have no field there */
    enum log_level level;
    const char *text; /* log text for the change to this state */
    enum mark_kind mark;
} rows[] = {
    [ROUTE_UNKNOWN] = {"unknown", LOG_INFO, "", MARK_PAUSE},
    [ROUTE_RUNNING] = {"running", LOG_INFO, "is running again", MARK_RESUME},
    [ROUTE_PAUSED] = {"paused", LOG_WARN, "is paused: it accepts jobs and delivers none",
                      MARK_PAUSE},
    [ROUTE_DRAINING] = {"draining", LOG_WARN,
                        "is draining: it delivers jobs and accepts none", MARK_PAUSE},
};

const char *route_state_name(enum route_state state)
{
    return rows[state].name;
}

bool route_may_claim(const struct route *route)
{
    return route->state == ROUTE_RUNNING || route->state == ROUTE_DRAINING;
}

int64_t route_state_lateness_ms(const struct route *route, int64_t due_ms, int64_t now_ms)
{
    int64_t from_ms = due_ms > route->paused_ms ? due_ms : route->paused_ms;
    int64_t to_ms = now_ms < route->resumed_ms ? now_ms : route->resumed_ms;
    return now_ms - due_ms - (to_ms > from_ms ? to_ms - from_ms : 0);
}

int64_t route_state_everywhere_ms(const struct route *route)
{
    bool alone = membership_list(route->bridge->membership)->n == 1;
    return route->state_ms + (alone ? ALONE_MS : REFRESH_MS + SLACK_MS);
}

static bool all_drain(const struct source *src)
{
    const struct bridge *bridge = src->bridge;
    bool fed = false;
    EACH_ROUTE (bridge, route) {
        if (!route_comes_from(route, src))
            continue;
        if (route->state != ROUTE_DRAINING)
            return false;
        fed = true;
    }
    return fed && !src->ops->answers;
}

/* inst_pause_sources() reads the mark at each turn. */
static void mark_sources(struct bridge *bridge)
{
    EACH_SOURCE (bridge, src)
        src->drains = all_drain(src);
}

/* --- reading --- */

static void set_state(struct route *route, enum route_state state)
{
    bool silent = route->state == ROUTE_UNKNOWN && state == ROUTE_RUNNING;
    bool could = route_may_claim(route);
    if (route->state == state)
        return;
    if (route->state == ROUTE_PAUSED)
        route->resumed_ms = store_now_ms(route->bridge->store);
    else if (state == ROUTE_PAUSED)
        route->paused_ms =
            route->state == ROUTE_UNKNOWN ? 0 : store_now_ms(route->bridge->store);
    route->state = state;
    route->state_ms = loop_mono_ms();
    if (!silent) {
        log_msg(rows[state].level, route->conf->name, "%s", rows[state].text);
        marks_add(&route->bridge->marks, store_now_ms(route->bridge->store),
                  rows[state].mark, route->conf->name, slice_of(rows[state].name));
    }
    if (could || !route_may_claim(route))
        return;
    EACH_SCHED (route, s)
        sched_read_head(s);
    route->bridge->pulls_resumed = true;
}

/* A newer tarry may have set an unknown state: treat the route as paused. */
static enum route_state state_of(struct slice word)
{
    return slice_is(word, rows[ROUTE_DRAINING].name)  ? ROUTE_DRAINING
           : slice_is(word, rows[ROUTE_RUNNING].name) ? ROUTE_RUNNING
                                                      : ROUTE_PAUSED;
}

static enum route_state find_state(const struct redisReply *reply, const char *route)
{
    for (size_t i = 0; i + 1 < redis_items(reply); i += 2)
        if (slice_is(redis_text(redis_item(reply, i)), route))
            return state_of(redis_text(redis_item(reply, i + 1)));
    return ROUTE_RUNNING;
}

static bool is_good(struct route_states *states, const struct redisReply *reply,
                    const char *what)
{
    struct slice error = redis_error_text(reply);
    if (error.p)
        log_limited(&states->complain, LOG_ERROR, "daemon", "%s:states in Redis %s: %.*s",
                    store_prefix(states->bridge->store), what, SLICE_ARG(error));
    return reply && error.p == NULL;
}

static void on_read(void *arg, const struct redisReply *reply)
{
    struct route_states *states = arg;
    bool good = is_good(states, reply, "cannot be read, so all routes run");
    if (reply == NULL)
        return;
    EACH_ROUTE (states->bridge, route)
        if (good)
            set_state(route, find_state(reply, route->conf->name));
        else if (route->state == ROUTE_UNKNOWN)
            set_state(route, ROUTE_RUNNING);
    states->known = true;
    mark_sources(states->bridge);
}

static struct buf key_of(const struct route_states *states)
{
    struct buf key = {0};
    buf_addf(&key, "%s:states", store_prefix(states->bridge->store));
    return key;
}

static void read_states(struct route_states *states, redis_reply_cb *cb, void *arg)
{
    struct buf key = key_of(states);
    const struct slice args[] = {SLICE_LIT("HGETALL"), buf_slice(&key)};
    states->read_ms = loop_mono_ms();
    store_command(states->bridge->store, args, 2, cb, arg);
    buf_free(&key);
}

/* Replies arrive in the order of the calls, so several reads may be in flight. */
void route_states_read(struct route_states *states)
{
    if (store_is_up(states->bridge->store))
        read_states(states, on_read, states);
}

void route_states_changed(struct route_states *states)
{
    mark_sources(states->bridge);
    route_states_read(states);
}

void route_states_notified(struct route_states *states, struct slice name)
{
    if (name.p == NULL || slice_is(name, channel_name))
        route_states_read(states);
}

bool route_states_known(const struct route_states *states)
{
    return states->known;
}

/* A reload may have added routes. */
static bool all_known(const struct bridge *bridge)
{
    EACH_ROUTE (bridge, route)
        if (route->state == ROUTE_UNKNOWN)
            return false;
    return true;
}

void route_states_tick(struct route_states *states)
{
    if (loop_mono_ms() - states->read_ms >= REFRESH_MS || !all_known(states->bridge))
        route_states_read(states);
}

struct route_states *route_states_new(struct bridge *bridge)
{
    struct route_states *states = mem_alloc(sizeof(*states));
    states->bridge = bridge;
    return states;
}

void route_states_free(struct route_states *states)
{
    free(states);
}

/* --- setting --- */

static bool is_among(struct route *const *routes, size_t n, const struct route *route)
{
    for (size_t i = 0; i < n; i++)
        if (routes[i] == route)
            return true;
    return false;
}

/* A source without answers can only be paused as a whole: name its routes that would have
 * to drain too. */
static int check_source(const struct bridge *bridge, struct route *const *routes,
                        size_t n, const struct source *src, struct err *err)
{
    struct buf others = {0};
    bool meant = false;
    EACH_ROUTE (bridge, route) {
        if (!route_comes_from(route, src))
            continue;
        if (is_among(routes, n, route))
            meant = true;
        else if (route->state != ROUTE_DRAINING)
            buf_addf(&others, "%s%s", others.n ? ", " : "", route->conf->name);
    }
    int bad = 0;
    if (meant && others.n > 0)
        bad = err_set(err,
                      "the source %s can only be paused as a whole, and it also feeds "
                      "%.300s: drain all these routes in one call",
                      src->conf->name, buf_str(&others));
    buf_free(&others);
    return bad;
}

int route_states_check(const struct bridge *bridge, struct route *const *routes, size_t n,
                       enum route_state state, struct err *err)
{
    if (state != ROUTE_DRAINING)
        return 0;
    EACH_SOURCE (bridge, src)
        if (!src->ops->answers && check_source(bridge, routes, n, src, err) < 0)
            return -1;
    return 0;
}

struct setting {
    struct route_states *states;
    route_states_cb *done;
    void *arg;
};

/* The states were read after the change. */
static void on_applied(void *arg, const struct redisReply *reply)
{
    struct setting *setting = arg;
    on_read(setting->states, reply);
    setting->done(setting->arg, reply ? 0 : -1);
    free(setting);
}

static void on_set(void *arg, const struct redisReply *reply)
{
    struct setting *setting = arg;
    struct route_states *states = setting->states;
    if (is_good(states, reply, "cannot be written")) {
        store_notify(states->bridge->store, publish_name);
        read_states(states, on_applied, setting);
    } else {
        setting->done(setting->arg, -1);
        free(setting);
    }
}

void route_states_set(struct route_states *states, struct route *const *routes, size_t n,
                      enum route_state state, route_states_cb *done, void *arg)
{
    struct setting *setting = mem_alloc(sizeof(*setting));
    struct slice *args = mem_alloc((2 + 2 * n) * sizeof(*args));
    struct buf key = key_of(states);
    bool runs = state == ROUTE_RUNNING;
    unsigned count = 0;
    *setting = (struct setting){states, done, arg};
    args[count++] = runs ? SLICE_LIT("HDEL") : SLICE_LIT("HSET");
    args[count++] = buf_slice(&key);
    for (size_t i = 0; i < n; i++) {
        args[count++] = slice_of(routes[i]->conf->name);
        if (!runs)
            args[count++] = slice_of(rows[state].name);
    }
    store_command(states->bridge->store, args, count, on_set, setting);
    buf_free(&key);
    free(args);
}

void route_states_print(const struct bridge *bridge, struct buf *out)
{
    buf_add_str(out, "# HELP tarry_route_state 1 for the state that the route is in.\n"
                     "# TYPE tarry_route_state gauge\n");
    EACH_ROUTE (bridge, route)
        for (int s = ROUTE_RUNNING; s <= ROUTE_DRAINING; s++)
            buf_addf(out, "tarry_route_state{route=\"%s\",state=\"%s\"} %d\n",
                     route->conf->name, rows[s].name,
                     route->state == (enum route_state)s);
}
