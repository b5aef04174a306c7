/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sentinel.c - one struct server for each sentinel of the URL: its connections. The
 * master is chosen from the last answers of all, and the clients (connections to Redis)
 * get its address. When a connection to a sentinel is lost, its answer is discarded.
 */
#include "bridge/redis/redis.h"
#include "bridge/base/log.h"
#include "bridge/base/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <glib.h>

enum {
    ROUND_MS = 1000,
    GRACE_MS = 500, /* to wait for slower sentinels once some have answered */
    ANSWER_MAX_MS = 2000,
    BACKOFF_MAX_MS = 2000
};

struct server {
    struct sentinel *sentinel;
    struct sentinel_answer *answer; /* owns its host and port */
    struct redis *redis, *events;   /* events: subscriber for failover events */
    char *shown;                    /* "10.0.0.1:26379" */
    bool asked;                     /* a reply is missing */
    bool again;                     /* ask again after it */
    int64_t new_epoch; /* epoch of an answer whose address is still missing; -1: none */
    bool promotes;     /* it promotes a replica to master, or is about to */
    char why[160];     /* why there is no answer; "": answered, or not asked yet */
    struct log_limit complain, complain_events;
};

struct sentinel {
    struct redis_finder finder;
    char *name; /* of the master */
    struct server *servers;
    struct sentinel_answer *answers; /* count of them, like servers */
    size_t count;
    struct sentinel_master master;
    GPtrArray *clients; /* struct redis that use the finder */
    struct timer *round, *grace;
    int64_t wait_begun_ms; /* monotonic: start of the longest wait of a client */
    int64_t find_max_ms;   /* longest wait of a client for an address */
};

/* ------------------------------------------------------------------- the choice */

static bool same_address(const struct sentinel_answer *a, const char *host,
                         const char *port)
{
    return host != NULL && strcmp(a->host, host) == 0 && strcmp(a->port, port) == 0;
}

/* Returns the number of answers with the same address and an epoch of at least this
 * value. */
static size_t votes(const struct sentinel_answer *answers, size_t count, size_t which,
                    int64_t epoch_min)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (answers[i].epoch >= epoch_min)
            n += same_address(&answers[i], answers[which].host, answers[which].port);
    return n;
}

/* Returns the index of the best answer; -1: there is none. */
static int best(const struct sentinel_master *master,
                const struct sentinel_answer *answers, size_t count)
{
    int64_t top = -1;
    for (size_t i = 0; i < count; i++)
        top = answers[i].epoch > top ? answers[i].epoch : top;
    int chosen = -1;
    size_t most = 0;
    for (size_t i = 0; top >= 0 && i < count; i++) {
        if (answers[i].epoch != top)
            continue;
        /* Two for each vote, plus one for the address that is already chosen. */
        size_t weight = 2 * votes(answers, count, i, top) +
                        same_address(&answers[i], master->host, master->port);
        if (weight > most) {
            most = weight;
            chosen = (int)i;
        }
    }
    return chosen;
}

int sentinel_choose(struct sentinel_master *master, const struct sentinel_answer *answers,
                    size_t count, int64_t now_ms)
{
    int chosen = best(master, answers, count);
    if (chosen < 0)
        return -1;
    const struct sentinel_answer *answer = &answers[chosen];
    if (answer->epoch < master->epoch) {
        if (2 * votes(answers, count, (size_t)chosen, 0) <= count) {
            master->older_since_ms = 0;
            return -1;
        }
        if (master->older_since_ms == 0)
            master->older_since_ms = now_ms;
        return now_ms - master->older_since_ms >= SENTINEL_RESET_MS ? chosen : -1;
    }
    master->older_since_ms = 0;
    bool same = answer->epoch == master->epoch &&
                same_address(answer, master->host, master->port);
    return same ? -1 : chosen;
}

void sentinel_master_set(struct sentinel_master *master,
                         const struct sentinel_answer *answer)
{
    sentinel_master_free(master);
    master->epoch = answer->epoch;
    master->host = mem_strdup(answer->host);
    master->port = mem_strdup(answer->port);
}

void sentinel_master_free(struct sentinel_master *master)
{
    free(master->host);
    free(master->port);
    *master = (struct sentinel_master){.epoch = -1};
}

bool sentinel_is_promoting(struct slice state)
{
    static const char *const states[] = {"select_slave", "send_slaveof_noone",
                                         "wait_promotion"};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        if (slice_is(state, states[i]))
            return true;
    return false;
}

/* ------------------------------------------------------------------------ clients */

/* A callback of a client may remove clients: walk from the last to the first. NULL: the
 * client was removed. */
static struct redis *client_at(const struct sentinel *s, guint i)
{
    return i < s->clients->len ? g_ptr_array_index(s->clients, i) : NULL;
}

static bool any_answer(const struct sentinel *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->answers[i].epoch >= 0)
            return true;
    return false;
}

static bool is_awaited(const struct sentinel *s)
{
    for (guint i = 0; i < s->clients->len; i++)
        if (redis_is_finding(client_at(s, i)))
            return true;
    return false;
}

/* A sentinel that knows the name would have answered, so "No such master" means that the
 * name is wrong. */
static void describe_failure(const struct sentinel *s, struct buf *out)
{
    bool name_unknown = false;
    for (size_t i = 0; i < s->count; i++)
        name_unknown = name_unknown || strstr(s->servers[i].why, "No such master");
    if (name_unknown)
        buf_addf(out,
                 "the sentinels know no master named \"%s\" (the name at the end of "
                 "redis.url): ",
                 s->name);
    else
        buf_addf(out, "no sentinel returns the address of the master \"%s\": ", s->name);
    for (size_t i = 0; i < s->count; i++) {
        const struct server *server = &s->servers[i];
        buf_addf(out, "%s%s (%s)", i > 0 ? ", " : "", server->shown,
                 server->why[0] ? server->why : "no answer");
    }
}

static void answer_clients(struct sentinel *s)
{
    struct buf why = {0};
    bool found = any_answer(s);
    if (!found)
        describe_failure(s, &why);
    for (guint i = s->clients->len; i-- > 0;) {
        struct redis *r = client_at(s, i);
        if (r && found)
            redis_found(r, s->master.host, s->master.port);
        else if (r)
            redis_not_found(r, buf_str(&why));
    }
    buf_free(&why);
    timer_stop(s->grace);
}

/* ------------------------------------------------------------------------ answers */

static bool is_pending(const struct server *server)
{
    /* its first connection is not up yet */
    bool fresh = server->why[0] == '\0' && server->answer->epoch < 0;
    return redis_is_up(server->redis) ? server->asked : fresh;
}

static void choose_master(struct sentinel *s)
{
    int chosen = sentinel_choose(&s->master, s->answers, s->count, loop_mono_ms());
    if (chosen < 0)
        return;
    sentinel_master_set(&s->master, &s->answers[chosen]);
    log_info("redis", "the sentinels report %s:%s as the master \"%s\", epoch %" PRId64,
             s->master.host, s->master.port, s->name, s->master.epoch);
}

static void use_answers(struct sentinel *s)
{
    struct err why;
    bool pending = false;
    choose_master(s);
    for (size_t i = 0; i < s->count; i++)
        pending = pending || is_pending(&s->servers[i]);
    if (!pending && is_awaited(s))
        answer_clients(s);
    if (!any_answer(s))
        return;
    err_set(&why, "the sentinels report another master, %s:%s", s->master.host,
            s->master.port);
    for (guint i = s->clients->len; i-- > 0;)
        if (client_at(s, i))
            redis_move(client_at(s, i), s->master.host, s->master.port, why.text);
}

static void on_grace_over(void *arg)
{
    struct sentinel *s = arg;
    int64_t left_ms = s->wait_begun_ms + s->find_max_ms - loop_mono_ms();
    if (!is_awaited(s))
        return;
    if (any_answer(s) || left_ms <= 0)
        answer_clients(s);
    else
        timer_set(s->grace, left_ms);
}

static void set_answer(struct server *server, int64_t epoch, struct slice host,
                       struct slice port, const char *why)
{
    struct sentinel_answer *a = server->answer;
    free((char *)a->host);
    free((char *)a->port);
    *a = (struct sentinel_answer){epoch, mem_strndup(host.p, host.n),
                                  mem_strndup(port.p, port.n)};
    snprintf(server->why, sizeof(server->why), "%s", why);
}

static void drop_answer(struct server *server, const char *why)
{
    const struct slice none = {NULL, 0};
    set_answer(server, -1, none, none, why);
    server->promotes = false;
}

static struct slice field_of(const struct redisReply *fields, const char *name)
{
    for (size_t i = 0; i + 1 < redis_items(fields); i += 2)
        if (slice_is(redis_text(redis_item(fields, i)), name))
            return redis_text(redis_item(fields, i + 1));
    return (struct slice){NULL, 0};
}

static void on_master(void *arg, const struct redisReply *reply)
{
    struct server *server = arg;
    struct slice error = redis_error_text(reply);
    struct slice epoch = field_of(reply, "config-epoch");
    server->new_epoch = epoch.p ? strtoll(epoch.p, NULL, 10) : -1;
    server->promotes = (server->again && server->promotes) ||
                       sentinel_is_promoting(field_of(reply, "failover-state"));
    if (reply == NULL || server->new_epoch >= 0)
        return;
    char why[sizeof(server->why)];
    snprintf(why, sizeof(why), "%.*s", error.p ? (int)error.n : 60,
             error.p ? error.p : "its reply to SENTINEL MASTER contains no config-epoch");
    drop_answer(server, why);
    log_limited(&server->complain, LOG_WARN, "redis", "sentinel %s: %s", server->shown,
                why);
}

static void ask(struct server *server);

static void on_address(void *arg, const struct redisReply *reply)
{
    struct server *server = arg;
    server->asked = false;
    if (reply == NULL) /* on_state() was called before */
        return;
    struct slice host = redis_text(redis_item(reply, 0));
    struct slice port = redis_text(redis_item(reply, 1));
    if (server->new_epoch >= 0 && host.n > 0 && port.n > 0)
        set_answer(server, server->new_epoch, host, port, "");
    if (server->again)
        ask(server);
    use_answers(server->sentinel);
}

/* Two commands, because during a failover MASTER returns the new epoch with the old
 * address. This order is safe: an old epoch with the new address does no harm. */
static void ask(struct server *server)
{
    struct slice name = slice_of(server->sentinel->name);
    server->again = server->asked;
    if (!redis_is_up(server->redis) || server->asked)
        return;
    server->asked = true;
    redis_command(
        server->redis,
        (const struct slice[]){SLICE_LIT("SENTINEL"), SLICE_LIT("MASTER"), name}, 3,
        on_master, server);
    redis_command(server->redis,
                  (const struct slice[]){SLICE_LIT("SENTINEL"),
                                         SLICE_LIT("GET-MASTER-ADDR-BY-NAME"), name},
                  3, on_address, server);
}

static void ask_all(void *arg)
{
    struct sentinel *s = arg;
    for (size_t i = 0; i < s->count; i++)
        ask(&s->servers[i]);
}

static void on_state(void *arg, enum redis_state state, const char *why)
{
    struct server *server = arg;
    if (state == REDIS_UP) {
        ask(server);
    } else if (state == REDIS_DOWN) {
        if (server->why[0] == '\0')
            log_limited(&server->complain, LOG_WARN, "redis",
                        "sentinel %s: unreachable: %s", server->shown, why);
        drop_answer(server, *why ? why : "away");
        use_answers(server->sentinel);
    }
}

/* In a planned failover the old master stays writable for seconds, and these writes are
 * lost, so waiting for the next round is too slow. Sentinel publishes the first event
 * about 100 ms before it promotes a replica, the second up to a second after that. */
static const char before_promotion[] = "+failover-state-select-slave";
static const char *const channels[] = {before_promotion, "+promoted-slave",
                                       "+switch-master"};
enum { CHANNELS = sizeof(channels) / sizeof(channels[0]) };

static void on_event(void *arg, struct slice channel, struct slice text)
{
    struct server *server = arg;
    const char *name = server->sentinel->name;
    if (slice_is(channel, before_promotion) &&
        memmem(text.p, text.n, name, strlen(name)) != NULL)
        server->promotes = true; /* until its next answer */
    /* The event may concern another master: the answers decide. */
    ask_all(server->sentinel);
}

static void on_events_state(void *arg, enum redis_state state, const char *why)
{
    struct server *server = arg;
    if (state == REDIS_UP)
        ask(server);
    else if (state == REDIS_DOWN && redis_is_up(server->redis))
        log_limited(&server->complain_events, LOG_WARN, "redis",
                    "sentinel %s sends no notifications, so tarry notices a failover up "
                    "to a second later: %s",
                    server->shown, why);
}

/* ------------------------------------------------------------------------- finder */

static void find(void *self, struct redis *r)
{
    struct sentinel *s = self;
    if (!timer_is_set(s->grace)) {
        s->wait_begun_ms = loop_mono_ms();
        timer_set(s->grace, GRACE_MS);
    }
    if (!g_ptr_array_find(s->clients, r, NULL))
        g_ptr_array_add(s->clients, r);
    ask_all(s);
    use_answers(s);
}

static void forget(void *self, struct redis *r)
{
    struct sentinel *s = self;
    g_ptr_array_remove(s->clients, r);
}

static bool is_failing_over(void *self)
{
    const struct sentinel *s = self;
    for (size_t i = 0; i < s->count; i++)
        if (s->servers[i].promotes)
            return true;
    return false;
}

/* --------------------------------------------------------------------------- life */

static void server_init(struct sentinel *s, size_t i, const struct redis_place *place,
                        const struct redis_conf *conf)
{
    struct server *server = &s->servers[i];
    struct buf shown = {0};
    redis_place_add(&shown, place->host, place->port);
    s->answers[i].epoch = -1;
    *server = (struct server){.sentinel = s, .answer = &s->answers[i], .new_epoch = -1};
    server->shown = mem_strdup(buf_str(&shown));
    buf_free(&shown);
    struct redis_conf own = *conf;
    own.url.host = place->host;
    own.url.port = place->port;
    server->redis = redis_new(&own, on_state, server);
    server->events = redis_new(&own, on_events_state, server);
    redis_subscribe(server->events, channels, CHANNELS, on_event, server);
}

/* Like connections to Redis, but with shorter timeouts: other sentinels may answer. */
static struct redis_conf server_conf(const struct redis_conf *conf, const char *user,
                                     const char *password)
{
    struct redis_conf own = *conf;
    own.url = (struct redis_url){
        .tls = conf->url.tls, .user = (char *)user, .password = (char *)password};
    own.finder = NULL;
    own.master_only = false;
    own.connect_timeout_ms = (conf->connect_timeout_ms + 1) / 2;
    if (own.command_timeout_ms > ANSWER_MAX_MS)
        own.command_timeout_ms = ANSWER_MAX_MS;
    if (own.backoff_max_ms > BACKOFF_MAX_MS)
        own.backoff_max_ms = BACKOFF_MAX_MS;
    if (own.backoff_first_ms > own.backoff_max_ms)
        own.backoff_first_ms = own.backoff_max_ms;
    return own;
}

struct sentinel *sentinel_new(const struct redis_conf *conf, const char *user,
                              const char *password)
{
    must(conf->url.kind == REDIS_SENTINEL && conf->url.place_count > 0);
    const struct redis_conf own = server_conf(conf, user, password);
    struct sentinel *s = mem_alloc(sizeof(*s));
    s->finder = (struct redis_finder){find, forget, s, is_failing_over};
    s->name = mem_strdup(conf->url.master);
    s->clients = g_ptr_array_new();
    s->master.epoch = -1;
    s->find_max_ms = conf->connect_timeout_ms * 3 / 4;
    s->count = conf->url.place_count;
    s->answers = mem_alloc(s->count * sizeof(*s->answers));
    s->servers = mem_alloc(s->count * sizeof(*s->servers));
    for (size_t i = 0; i < s->count; i++)
        server_init(s, i, &conf->url.places[i], &own);
    s->grace = timer_new(on_grace_over, s);
    s->round = timer_every(ROUND_MS, ask_all, s);
    return s;
}

const struct redis_finder *sentinel_finder(const struct sentinel *s)
{
    return &s->finder;
}

void sentinel_free(struct sentinel *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->count; i++) {
        redis_free(s->servers[i].redis);
        redis_free(s->servers[i].events);
        free((char *)s->answers[i].host);
        free((char *)s->answers[i].port);
        free(s->servers[i].shown);
    }
    g_ptr_array_free(s->clients, TRUE);
    timer_del(s->round);
    timer_del(s->grace);
    sentinel_master_free(&s->master);
    free(s->servers);
    free(s->answers);
    free(s->name);
    free(s);
}
