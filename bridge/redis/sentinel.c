/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sentinel.c - one struct server for each sentinel of the URL: its connections and its
 * last answer. The master is chosen from all answers, and the clients (connections to
 * Redis) get its address. When a connection to a sentinel is lost, its answer is
 * discarded.
 */
#include "bridge/redis/sentinel.h"
#include "bridge/base/buf.h"
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ROUND_MS = 1000,
    GRACE_MS = 500, /* to wait for slower sentinels once some have answered */
    ANSWER_MAX_MS = 2000,
    BACKOFF_MAX_MS = 2000
};

struct server {
    struct sentinel *sentinel;
    struct redis *redis;
    struct redis *events; /* subscriber for failover events */
    char *shown;          /* "10.0.0.1:26379" */
    unsigned open;        /* commands without a reply yet */
    bool again;           /* ask again after these replies */
    int64_t epoch;        /* of its answer; -1: no answer */
    int64_t new_epoch; /* epoch of an answer whose address is still missing; -1: none */
    bool promotes;     /* it promotes a replica to master, or is about to */
    char *host, *port;
    char why[160]; /* why there is no answer; "": answered, or not asked yet */
    struct log_limit complain, complain_events;
};

/* A connection that uses the finder. */
struct client {
    struct client *next;
    struct redis *redis;
    bool waits;        /* for an address */
    char *host, *port; /* address it received last; NULL: none */
};

struct sentinel {
    struct redis_finder finder;
    char *name; /* of the master */
    struct server *servers;
    struct sentinel_answer *answers; /* of all servers; temporary */
    size_t count;
    struct sentinel_master master;
    struct client *clients;
    struct timer *round, *grace;
    int64_t wait_begun_ms; /* monotonic: start of the longest wait of a client */
    int64_t find_max_ms;   /* longest wait of a client for an address */
};

/* ------------------------------------------------------------------------ clients */

static bool has_master_address(const struct client *client,
                               const struct sentinel_master *master)
{
    return client->host && client->port && master->host &&
           strcmp(client->host, master->host) == 0 &&
           strcmp(client->port, master->port) == 0;
}

static void set_address(struct client *client, const char *host, const char *port)
{
    free(client->host);
    free(client->port);
    client->host = mem_strdup(host);
    client->port = mem_strdup(port);
}

static bool any_answer(const struct sentinel *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->servers[i].epoch >= 0)
            return true;
    return false;
}

static struct client *first_waiting(const struct sentinel *s)
{
    struct client *client = s->clients;
    while (client && !client->waits)
        client = client->next;
    return client;
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

/* A callback of a client may change the list, so each turn starts at its head. */
static void answer_clients(struct sentinel *s)
{
    struct buf why = {0};
    bool found = any_answer(s);
    struct client *client;
    if (!found)
        describe_failure(s, &why);
    while ((client = first_waiting(s)) != NULL) {
        client->waits = false;
        set_address(client, found ? s->master.host : NULL, found ? s->master.port : NULL);
        if (found)
            redis_found(client->redis, s->master.host, s->master.port);
        else
            redis_not_found(client->redis, buf_str(&why));
    }
    buf_free(&why);
    timer_stop(s->grace);
}

/* Make all clients with another address, or none, ask again immediately. */
static void reconnect_clients(struct sentinel *s)
{
    struct err why;
    for (;;) {
        struct client *client = s->clients;
        while (client && (client->waits || has_master_address(client, &s->master)))
            client = client->next;
        if (client == NULL)
            return;
        set_address(client, s->master.host, s->master.port);
        err_set(&why, "the sentinels report another master, %s:%s", s->master.host,
                s->master.port);
        struct redis *r = client->redis;
        redis_reconnect(r, why.text);
        redis_reconnect_now(r);
    }
}

/* ------------------------------------------------------------------------ answers */

static bool is_pending(const struct server *server)
{
    /* its first connection is not up yet */
    bool fresh = server->why[0] == '\0' && server->epoch < 0;
    return redis_is_up(server->redis) ? server->open > 0 : fresh;
}

static void choose_master(struct sentinel *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct server *server = &s->servers[i];
        s->answers[i] =
            (struct sentinel_answer){server->epoch, server->host, server->port};
    }
    int chosen = sentinel_choose(&s->master, s->answers, s->count, loop_mono_ms());
    if (chosen < 0)
        return;
    sentinel_master_set(&s->master, &s->answers[chosen]);
    log_info("redis", "the sentinels report %s:%s as the master \"%s\", epoch %" PRId64,
             s->master.host, s->master.port, s->name, s->master.epoch);
}

static void use_answers(struct sentinel *s)
{
    bool pending = false;
    choose_master(s);
    for (size_t i = 0; i < s->count; i++)
        pending = pending || is_pending(&s->servers[i]);
    if (!pending && first_waiting(s))
        answer_clients(s);
    if (any_answer(s))
        reconnect_clients(s);
}

static void on_grace_over(void *arg)
{
    struct sentinel *s = arg;
    int64_t left_ms = s->wait_begun_ms + s->find_max_ms - loop_mono_ms();
    if (!first_waiting(s))
        return;
    if (any_answer(s) || left_ms <= 0)
        answer_clients(s);
    else
        timer_set(s->grace, left_ms);
}

static void drop_answer(struct server *server, const char *why)
{
    server->epoch = -1;
    free(server->host);
    free(server->port);
    server->host = server->port = NULL;
    server->promotes = false;
    snprintf(server->why, sizeof(server->why), "%s", why);
}

static void store_answer(struct server *server, struct slice host, struct slice port)
{
    bool promotes = server->promotes;
    drop_answer(server, "");
    server->epoch = server->new_epoch;
    server->promotes = promotes;
    server->host = mem_strndup(host.p, host.n);
    server->port = mem_strndup(port.p, port.n);
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
    server->open--;
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
    server->open--;
    if (reply == NULL) /* on_state() was called before */
        return;
    struct slice host = redis_text(redis_item(reply, 0));
    struct slice port = redis_text(redis_item(reply, 1));
    if (server->new_epoch >= 0 && host.n > 0 && port.n > 0)
        store_answer(server, host, port);
    if (server->again)
        ask(server);
    use_answers(server->sentinel);
}

/* Two commands, because during a failover MASTER returns the new epoch with the old
 * address. This order is safe: an old epoch with the new address does no harm. */
static void ask(struct server *server)
{
    struct slice name = slice_of(server->sentinel->name);
    server->again = server->open > 0;
    if (!redis_is_up(server->redis) || server->open > 0)
        return;
    server->open = 2;
    redis_command(
        server->redis,
        (const struct slice[]){SLICE_LIT("SENTINEL"), SLICE_LIT("MASTER"), name}, 3,
        on_master, server);
    redis_command(server->redis,
                  (const struct slice[]){SLICE_LIT("SENTINEL"),
                                         SLICE_LIT("GET-MASTER-ADDR-BY-NAME"), name},
                  3, on_address, server);
}

static void ask_all(struct sentinel *s)
{
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

static void on_round(void *arg)
{
    ask_all(arg);
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
    struct client *client = s->clients;
    while (client && client->redis != r)
        client = client->next;
    if (client == NULL) {
        client = mem_alloc(sizeof(*client));
        *client = (struct client){.next = s->clients, .redis = r};
        s->clients = client;
    }
    if (!first_waiting(s)) {
        s->wait_begun_ms = loop_mono_ms();
        timer_set(s->grace, GRACE_MS);
    }
    client->waits = true;
    ask_all(s);
    use_answers(s);
}

static void forget(void *self, struct redis *r)
{
    struct sentinel *s = self;
    for (struct client **at = &s->clients; *at; at = &(*at)->next) {
        struct client *client = *at;
        if (client->redis != r)
            continue;
        *at = client->next;
        set_address(client, NULL, NULL);
        free(client);
        return;
    }
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

static void server_init(struct server *server, struct sentinel *s,
                        const struct redis_place *place, const struct redis_conf *conf)
{
    struct buf shown = {0};
    redis_place_add(&shown, place->host, place->port);
    *server = (struct server){.sentinel = s, .epoch = -1, .new_epoch = -1};
    server->shown = mem_strdup(buf_str(&shown));
    buf_free(&shown);
    struct redis_conf own = *conf;
    own.url.host = place->host;
    own.url.port = place->port;
    server->redis = redis_new(&own, on_state, server);
    server->events = redis_new(&own, on_events_state, server);
    for (size_t i = 0; i < CHANNELS; i++)
        redis_subscribe(server->events, channels[i], on_event, server);
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
    s->master.epoch = -1;
    s->find_max_ms = conf->connect_timeout_ms * 3 / 4;
    s->count = conf->url.place_count;
    s->answers = mem_alloc(s->count * sizeof(*s->answers));
    s->servers = mem_alloc(s->count * sizeof(*s->servers));
    for (size_t i = 0; i < s->count; i++)
        server_init(&s->servers[i], s, &conf->url.places[i], &own);
    s->grace = timer_new(on_grace_over, s);
    s->round = timer_every(ROUND_MS, on_round, s);
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
        drop_answer(&s->servers[i], "");
        free(s->servers[i].shown);
    }
    while (s->clients)
        forget(s, s->clients->redis);
    timer_del(s->round);
    timer_del(s->grace);
    sentinel_master_free(&s->master);
    free(s->servers);
    free(s->answers);
    free(s->name);
    free(s);
}
