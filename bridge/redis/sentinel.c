/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sentinel.c - a lookout for each sentinel: its connections and its last answer. The
 * belief is computed from all answers, and the seekers (connections to Redis) get its
 * address. When a connection to a sentinel is lost, its answer is discarded.
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
    PATIENCE_MS = 500, /* to wait for slower sentinels once some have answered */
    ANSWER_MAX_MS = 2000,
    BACKOFF_MAX_MS = 2000
};

struct lookout {
    struct sentinel *sentinel;
    struct redis *redis;
    struct redis *news; /* subscriber for failover events */
    char *shown;        /* "10.0.0.1:26379" */
    unsigned open;      /* commands without a reply yet */
    bool again;         /* ask again after these replies */
    int64_t epoch;      /* of its answer; -1: no answer */
    int64_t heard;      /* epoch of an answer whose address is still missing; -1: none */
    bool promotes;      /* it promotes a replica to master, or is about to */
    char *host, *port;
    char why[160]; /* why there is no answer; "": answered, or not asked yet */
    struct log_limit complain, complain_news;
};

/* A connection that uses the finder. */
struct seeker {
    struct seeker *next;
    struct redis *redis;
    bool waits;        /* for an address */
    char *host, *port; /* address it received last; NULL: none */
};

struct sentinel {
    struct redis_finder finder;
    char *name; /* of the master */
    struct lookout *lookouts;
    struct sentinel_answer *answers; /* of all lookouts; temporary */
    size_t count;
    struct sentinel_belief belief;
    struct seeker *seekers;
    struct timer *round, *patience;
    int64_t wait_begun_ms; /* monotonic: start of the longest wait of a seeker */
    int64_t find_max_ms;   /* longest wait of a seeker for an address */
};

/* ------------------------------------------------------------------------ seekers */

static bool told_so(const struct seeker *k, const struct sentinel_belief *belief)
{
    return k->host && k->port && belief->host && strcmp(k->host, belief->host) == 0 &&
           strcmp(k->port, belief->port) == 0;
}

static void note_told(struct seeker *k, const char *host, const char *port)
{
    free(k->host);
    free(k->port);
    k->host = mem_strdup(host);
    k->port = mem_strdup(port);
}

static bool somebody_answers(const struct sentinel *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->lookouts[i].epoch >= 0)
            return true;
    return false;
}

static struct seeker *who_waits(const struct sentinel *s)
{
    struct seeker *k = s->seekers;
    while (k && !k->waits)
        k = k->next;
    return k;
}

/* A sentinel that knows the name would have answered, so "No such master" means that the
 * name is wrong. */
static void say_why(const struct sentinel *s, struct buf *out)
{
    bool name_unknown = false;
    for (size_t i = 0; i < s->count; i++)
        name_unknown = name_unknown || strstr(s->lookouts[i].why, "No such master");
    if (name_unknown)
        buf_addf(out,
                 "the sentinels know no master named \"%s\" (the name at the end of "
                 "redis.url): ",
                 s->name);
    else
        buf_addf(out, "no sentinel returns the address of the master \"%s\": ", s->name);
    for (size_t i = 0; i < s->count; i++) {
        const struct lookout *l = &s->lookouts[i];
        buf_addf(out, "%s%s (%s)", i > 0 ? ", " : "", l->shown,
                 l->why[0] ? l->why : "no answer");
    }
}

/* A callback of a seeker may change the list, so each turn starts at its head. */
static void answer_seekers(struct sentinel *s)
{
    struct buf why = {0};
    bool found = somebody_answers(s);
    struct seeker *k;
    if (!found)
        say_why(s, &why);
    while ((k = who_waits(s)) != NULL) {
        k->waits = false;
        note_told(k, found ? s->belief.host : NULL, found ? s->belief.port : NULL);
        if (found)
            redis_found(k->redis, s->belief.host, s->belief.port);
        else
            redis_not_found(k->redis, buf_str(&why));
    }
    buf_free(&why);
    timer_rest(s->patience);
}

/* Make all seekers with another address, or none, ask again immediately. */
static void move_seekers(struct sentinel *s)
{
    struct err why;
    for (;;) {
        struct seeker *k = s->seekers;
        while (k && (k->waits || told_so(k, &s->belief)))
            k = k->next;
        if (k == NULL)
            return;
        note_told(k, s->belief.host, s->belief.port);
        err_set(&why, "the sentinels report another master, %s:%s", s->belief.host,
                s->belief.port);
        struct redis *r = k->redis;
        redis_reconnect(r, why.text);
        redis_reconnect_now(r);
    }
}

/* ------------------------------------------------------------------------ answers */

static bool is_pending(const struct lookout *l)
{
    /* its first connection is not up yet */
    bool fresh = l->why[0] == '\0' && l->epoch < 0;
    return redis_is_up(l->redis) ? l->open > 0 : fresh;
}

static void form_belief(struct sentinel *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct lookout *l = &s->lookouts[i];
        s->answers[i] = (struct sentinel_answer){l->epoch, l->host, l->port};
    }
    int chosen = sentinel_believe(&s->belief, s->answers, s->count, loop_mono_ms());
    if (chosen < 0)
        return;
    sentinel_belief_take(&s->belief, &s->answers[chosen]);
    log_info("redis", "the sentinels report %s:%s as the master \"%s\", epoch %" PRId64,
             s->belief.host, s->belief.port, s->name, s->belief.epoch);
}

static void consider(struct sentinel *s)
{
    bool pending = false;
    form_belief(s);
    for (size_t i = 0; i < s->count; i++)
        pending = pending || is_pending(&s->lookouts[i]);
    if (!pending && who_waits(s))
        answer_seekers(s);
    if (somebody_answers(s))
        move_seekers(s);
}

static void on_patience(void *arg)
{
    struct sentinel *s = arg;
    int64_t left_ms = s->wait_begun_ms + s->find_max_ms - loop_mono_ms();
    if (!who_waits(s))
        return;
    if (somebody_answers(s) || left_ms <= 0)
        answer_seekers(s);
    else
        timer_set(s->patience, left_ms);
}

static void forget_answer(struct lookout *l, const char *why)
{
    l->epoch = -1;
    free(l->host);
    free(l->port);
    l->host = l->port = NULL;
    l->promotes = false;
    snprintf(l->why, sizeof(l->why), "%s", why);
}

static void take_answer(struct lookout *l, struct slice host, struct slice port)
{
    bool promotes = l->promotes;
    forget_answer(l, "");
    l->epoch = l->heard;
    l->promotes = promotes;
    l->host = mem_strndup(host.p, host.n);
    l->port = mem_strndup(port.p, port.n);
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
    struct lookout *l = arg;
    struct slice error = redis_error_text(reply);
    struct slice epoch = field_of(reply, "config-epoch");
    l->open--;
    l->heard = epoch.p ? strtoll(epoch.p, NULL, 10) : -1;
    l->promotes =
        (l->again && l->promotes) || sentinel_promotes(field_of(reply, "failover-state"));
    if (reply == NULL || l->heard >= 0)
        return;
    char why[sizeof(l->why)];
    snprintf(why, sizeof(why), "%.*s", error.p ? (int)error.n : 60,
             error.p ? error.p : "its reply to SENTINEL MASTER contains no config-epoch");
    forget_answer(l, why);
    log_limited(&l->complain, LOG_WARN, "redis", "sentinel %s: %s", l->shown, why);
}

static void ask(struct lookout *l);

static void on_address(void *arg, const struct redisReply *reply)
{
    struct lookout *l = arg;
    l->open--;
    if (reply == NULL) /* on_state() was called before */
        return;
    struct slice host = redis_text(redis_item(reply, 0));
    struct slice port = redis_text(redis_item(reply, 1));
    if (l->heard >= 0 && host.n > 0 && port.n > 0)
        take_answer(l, host, port);
    if (l->again)
        ask(l);
    consider(l->sentinel);
}

/* Two commands, because during a failover MASTER returns the new epoch with the old
 * address. This order is safe: an old epoch with the new address does no harm. */
static void ask(struct lookout *l)
{
    struct slice name = slice_of(l->sentinel->name);
    l->again = l->open > 0;
    if (!redis_is_up(l->redis) || l->open > 0)
        return;
    l->open = 2;
    redis_command(
        l->redis,
        (const struct slice[]){SLICE_LIT("SENTINEL"), SLICE_LIT("MASTER"), name}, 3,
        on_master, l);
    redis_command(l->redis,
                  (const struct slice[]){SLICE_LIT("SENTINEL"),
                                         SLICE_LIT("GET-MASTER-ADDR-BY-NAME"), name},
                  3, on_address, l);
}

static void ask_all(struct sentinel *s)
{
    for (size_t i = 0; i < s->count; i++)
        ask(&s->lookouts[i]);
}

static void on_state(void *arg, enum redis_state state, const char *why)
{
    struct lookout *l = arg;
    if (state == REDIS_UP) {
        ask(l);
    } else if (state == REDIS_DOWN) {
        if (l->why[0] == '\0')
            log_limited(&l->complain, LOG_WARN, "redis", "sentinel %s: unreachable: %s",
                        l->shown, why);
        forget_answer(l, *why ? why : "away");
        consider(l->sentinel);
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
static const char *const news[] = {before_promotion, "+promoted-slave", "+switch-master"};
enum { NEWS = sizeof(news) / sizeof(news[0]) };

static void on_news(void *arg, struct slice channel, struct slice text)
{
    struct lookout *l = arg;
    const char *name = l->sentinel->name;
    if (slice_is(channel, before_promotion) &&
        memmem(text.p, text.n, name, strlen(name)) != NULL)
        l->promotes = true; /* until its next answer */
    ask_all(l->sentinel);   /* the event may concern another master: the answers decide */
}

static void on_news_state(void *arg, enum redis_state state, const char *why)
{
    struct lookout *l = arg;
    if (state == REDIS_UP)
        ask(l);
    else if (state == REDIS_DOWN && redis_is_up(l->redis))
        log_limited(&l->complain_news, LOG_WARN, "redis",
                    "sentinel %s sends no notifications, so tarry notices a failover up "
                    "to a second later: %s",
                    l->shown, why);
}

/* ------------------------------------------------------------------------- finder */

static void find(void *self, struct redis *r)
{
    struct sentinel *s = self;
    struct seeker *k = s->seekers;
    while (k && k->redis != r)
        k = k->next;
    if (k == NULL) {
        k = mem_alloc(sizeof(*k));
        *k = (struct seeker){.next = s->seekers, .redis = r};
        s->seekers = k;
    }
    if (!who_waits(s)) {
        s->wait_begun_ms = loop_mono_ms();
        timer_set(s->patience, PATIENCE_MS);
    }
    k->waits = true;
    ask_all(s);
    consider(s);
}

static void forget(void *self, struct redis *r)
{
    struct sentinel *s = self;
    for (struct seeker **at = &s->seekers; *at; at = &(*at)->next) {
        struct seeker *k = *at;
        if (k->redis != r)
            continue;
        *at = k->next;
        note_told(k, NULL, NULL);
        free(k);
        return;
    }
}

static bool doubts(void *self)
{
    const struct sentinel *s = self;
    for (size_t i = 0; i < s->count; i++)
        if (s->lookouts[i].promotes)
            return true;
    return false;
}

/* --------------------------------------------------------------------------- life */

static void lookout_init(struct lookout *l, struct sentinel *s,
                         const struct redis_place *place, const struct redis_conf *conf)
{
    struct buf shown = {0};
    redis_place_add(&shown, place->host, place->port);
    *l = (struct lookout){.sentinel = s, .epoch = -1, .heard = -1};
    l->shown = mem_strdup(buf_str(&shown));
    buf_free(&shown);
    struct redis_conf own = *conf;
    own.url.host = place->host;
    own.url.port = place->port;
    l->redis = redis_new(&own, on_state, l);
    l->news = redis_new(&own, on_news_state, l);
    for (size_t i = 0; i < NEWS; i++)
        redis_subscribe(l->news, news[i], on_news, l);
}

/* Like connections to Redis, but with shorter timeouts: other sentinels may answer. */
static struct redis_conf lookout_conf(const struct redis_conf *conf, const char *user,
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
    const struct redis_conf own = lookout_conf(conf, user, password);
    struct sentinel *s = mem_alloc(sizeof(*s));
    s->finder = (struct redis_finder){find, forget, s, doubts};
    s->name = mem_strdup(conf->url.master);
    s->belief.epoch = -1;
    s->find_max_ms = conf->connect_timeout_ms * 3 / 4;
    s->count = conf->url.place_count;
    s->answers = mem_alloc(s->count * sizeof(*s->answers));
    s->lookouts = mem_alloc(s->count * sizeof(*s->lookouts));
    for (size_t i = 0; i < s->count; i++)
        lookout_init(&s->lookouts[i], s, &conf->url.places[i], &own);
    s->patience = timer_new(on_patience, s);
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
        redis_free(s->lookouts[i].redis);
        redis_free(s->lookouts[i].news);
        forget_answer(&s->lookouts[i], "");
        free(s->lookouts[i].shown);
    }
    while (s->seekers)
        forget(s, s->seekers->redis);
    timer_del(s->round);
    timer_del(s->patience);
    sentinel_belief_free(&s->belief);
    free(s->lookouts);
    free(s->answers);
    free(s->name);
    free(s);
}
