/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis.c - the states of a connection that reconnects by itself. Loop thread.
 *
 * RESTING -> FINDING -> OPENING -> GREETING -> READY, and from each state back to RESTING
 * with a reason. FINDING is skipped without a finder.
 *
 * net.c transfers bytes, resp.c formats commands, hiredis parses replies. Every queued
 * command gets its callback exactly once, in order.
 */
#include "bridge/redis/redis.h"
#include "bridge/base/histogram.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/base/net.h"
#include "bridge/base/retry.h"
#include "bridge/redis/redis_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum {
    STEADY_MS = 10000,               /* connected this long: the next failure starts a new
                                      * series */
    READER_KEEP_BYTES = 1024 * 1024, /* free an empty parse buffer above this size */
    REPLY_MAX_BYTES = 1024 * 1024 * 1024
};

/* ----------------------------------------------------------------------- commands */

/* Checks the oldest open command. The timer is set when the first command is sent, not
 * for each command. */
static void on_deadline(void *arg)
{
    struct redis *r = arg;
    if (r->open.count == 0)
        return;
    int64_t since_ms = redis_queue_oldest_us(&r->open) / 1000;
    since_ms = r->heard_ms > since_ms ? r->heard_ms : since_ms;
    int64_t left_ms = since_ms + r->conf.command_timeout_ms - loop_mono_ms();
    if (left_ms > 0) {
        timer_set(r->deadline_timer, left_ms);
        return;
    }
    char why[96];
    snprintf(why, sizeof(why), "no reply for %" PRId64 " ms, %u commands pending",
             r->conf.command_timeout_ms, r->open.count);
    redis_reconnect(r, why);
}

static void send_whole(struct redis *r, struct slice bytes, struct histogram *took,
                       redis_reply_cb *cb, void *arg)
{
    net_write(r->net, bytes.p, bytes.n);
    redis_queue_add(&r->open, &(struct redis_waiting){cb, arg, took, loop_mono_us()});
    if (!timer_is_set(r->deadline_timer))
        timer_set(r->deadline_timer, r->conf.command_timeout_ms);
}

void redis_send(struct redis *r, const struct slice *args, unsigned count,
                redis_reply_cb *cb, void *arg)
{
    resp_begin(&r->command);
    for (unsigned i = 0; i < count; i++)
        resp_add(&r->command, args[i]);
    send_whole(r, resp_end(&r->command), NULL, cb, arg);
}

void redis_command(struct redis *r, const struct slice *args, unsigned count,
                   redis_reply_cb *cb, void *arg)
{
    must(r->phase == READY && count > 0 && cb != NULL);
    redis_send(r, args, count, cb, arg);
}

void redis_whole_command(struct redis *r, struct slice bytes, struct histogram *took,
                         redis_reply_cb *cb, void *arg)
{
    must(r->phase == READY && took != NULL && cb != NULL);
    send_whole(r, bytes, took, cb, arg);
}

void redis_push(struct redis *r)
{
    net_push(r->net);
}

unsigned redis_open_count(const struct redis *r)
{
    return r->open.count;
}

bool redis_is_up(const struct redis *r)
{
    return r->phase == READY;
}

bool redis_is_failing_over(const struct redis *r)
{
    const struct redis_finder *finder = r->conf.finder;
    return finder != NULL && finder->is_failing_over != NULL &&
           finder->is_failing_over(finder->self);
}

/* ------------------------------------------------------------------ state changes */

/* Call back every open command with NULL: its outcome is unknown. A callback may free
 * r. */
static void answer_open(struct redis *r)
{
    while (r->open.count > 0) {
        struct redis_waiting c = redis_queue_take(&r->open);
        c.cb(c.arg, NULL);
    }
}

static void close_connection(struct redis *r)
{
    r->connection++;
    net_close(r->net);
    r->net = NULL;
    if (r->reader)
        redisReaderFree(r->reader);
    r->reader = NULL;
    timer_stop(r->deadline_timer);
    timer_stop(r->connect_timer);
}

static int64_t rest_ms(const struct redis *r)
{
    int64_t max_ms = r->conf.backoff_max_ms;
    return retry_connect_ms(r->denied ? max_ms : r->conf.backoff_first_ms, max_ms,
                            r->failures);
}

void redis_reconnect(struct redis *r, const char *why)
{
    struct err reason;
    err_set(&reason, "%s", why); /* why may lie in memory that is freed below */
    if (r->phase == RESTING || r->phase == GONE)
        return;
    if (r->phase == READY && loop_mono_ms() - r->up_ms >= STEADY_MS)
        r->failures = 0;
    r->failures += r->failures < 1000;
    r->phase = RESTING;
    close_connection(r);
    timer_set(r->connect_timer, rest_ms(r));
    r->denied = false;
    /* Before answer_open(): a callback may send a command and must see the connection
     * down. */
    r->on_state(r->arg, REDIS_DOWN, reason.text);
    answer_open(r);
}

void redis_reconnect_now(struct redis *r)
{
    if (r->phase != RESTING)
        return;
    r->failures = 0;
    timer_set(r->connect_timer, 0);
}

static void subscribe_all(struct redis *r);

void redis_ready(struct redis *r)
{
    r->phase = READY;
    r->up_ms = loop_mono_ms();
    timer_stop(r->connect_timer);
    subscribe_all(r);
    r->on_state(r->arg, REDIS_UP, "");
}

static void on_open(void *arg)
{
    struct redis *r = arg;
    r->phase = GREETING;
    redis_handshake(r);
}

/* ------------------------------------------------------------------------ replies */

static struct slice element(const redisReply *reply, size_t i)
{
    if (i >= reply->elements || reply->element[i]->type != REDIS_REPLY_STRING)
        return (struct slice){"", 0};
    return (struct slice){reply->element[i]->str, (size_t)reply->element[i]->len};
}

/* Handles a pushed message, which no command waits for. */
static bool dispatched(struct redis *r, const redisReply *reply)
{
    if (r->subscriptions == NULL || reply->type != REDIS_REPLY_ARRAY ||
        !slice_is(element(reply, 0), "message"))
        return false;
    struct slice channel = element(reply, 1);
    for (struct subscription *s = r->subscriptions; s; s = s->next)
        if (slice_is(channel, s->channel)) {
            r->failures = 0;
            s->cb(s->arg, channel, element(reply, 2));
            break;
        }
    return true;
}

static void take_reply(struct redis *r, redisReply *reply)
{
    int64_t now_us = loop_mono_us();
    r->heard_ms = now_us / 1000;
    if (dispatched(r, reply))
        return;
    if (r->open.count == 0) {
        redis_reconnect(r, reply->type == REDIS_REPLY_ERROR
                               ? reply->str
                               : "Redis sent a reply without a command");
        return;
    }
    struct redis_waiting c = redis_queue_take(&r->open);
    if (c.took) {
        histogram_add(c.took, (double)(now_us - c.since_us) / 1e6);
        if (reply->type != REDIS_REPLY_ERROR)
            r->failures = 0;
    }
    c.cb(c.arg, reply);
}

/* net.c bounds the bytes of one turn. Any callback may close this connection. */
static void on_data(void *arg, struct slice bytes)
{
    struct redis *r = arg;
    uint64_t connection = r->connection;
    void *reply = NULL;
    redisReaderFeed(r->reader, bytes.p, bytes.n);
    r->unparsed_bytes += bytes.n;
    for (;;) {
        if (redisReaderGetReply(r->reader, &reply) != REDIS_OK) {
            struct err why;
            err_set(&why, "not a Redis reply: %s", r->reader->errstr);
            redis_reconnect(r, why.text);
            return;
        }
        if (reply == NULL)
            break;
        r->unparsed_bytes = 0;
        take_reply(r, reply);
        redis_pool_clear(&r->replies);
        if (r->connection != connection)
            return;
    }
    if (r->unparsed_bytes > REPLY_MAX_BYTES)
        redis_reconnect(r, "a reply of more than 1 GiB");
}

static void on_closed(void *arg, const char *why)
{
    redis_reconnect(arg, why);
}

/* ------------------------------------------------------------------------ subscriber */

static void on_subscribed(void *arg, const redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_ERROR)
        redis_handshake_failed(arg, "SUBSCRIBE", reply);
}

static void subscribe_one(struct redis *r, const struct subscription *s)
{
    const struct slice args[] = {SLICE_LIT("SUBSCRIBE"), slice_of(s->channel)};
    redis_send(r, args, 2, on_subscribed, r);
}

static void subscribe_all(struct redis *r)
{
    for (struct subscription *s = r->subscriptions; s; s = s->next)
        subscribe_one(r, s);
}

void redis_subscribe(struct redis *r, const char *channel, redis_message_cb *cb,
                     void *arg)
{
    struct subscription *s = mem_alloc(sizeof(*s));
    *s = (struct subscription){r->subscriptions, mem_strdup(channel), cb, arg};
    r->subscriptions = s;
    if (r->phase == READY)
        subscribe_one(r, s);
}

/* ---------------------------------------------------------------------- life */

static const struct net_cbs net_cbs = {on_open, on_data, on_closed};

static void open_net(struct redis *r)
{
    const struct redis_url *url = &r->conf.url;
    const struct net_conf conf = {
        .unix_path = url->unix_path,
        .host = url->host,
        .port = url->port,
        .tls = url->tls,
        .ca_file = r->conf.ca_file,
        .cert_file = r->conf.cert_file,
        .key_file = r->conf.key_file,
        .connect_timeout_ms = r->conf.connect_timeout_ms,
        .unacknowledged_timeout_ms = r->conf.command_timeout_ms,
    };
    r->phase = OPENING;
    r->heard_ms = 0;
    r->unparsed_bytes = 0;
    redis_pool_clear(&r->replies); /* drop partial replies of the previous connection */
    r->reader = redis_pool_reader(&r->replies);
    r->reader->maxbuf = READER_KEEP_BYTES;
    r->net = net_open(&conf, &net_cbs, r);
}

static void begin(struct redis *r)
{
    const struct redis_finder *finder = r->conf.finder;
    timer_set(r->connect_timer, r->conf.connect_timeout_ms);
    r->phase = FINDING;
    if (finder == NULL)
        open_net(r);
    r->on_state(r->arg, REDIS_CONNECTING, "");
    if (finder && r->phase == FINDING) /* not freed by a callback */
        finder->find(finder->self, r);
}

void redis_found(struct redis *r, const char *host, const char *port)
{
    if (r->phase != FINDING)
        return;
    free(r->conf.url.host);
    free(r->conf.url.port);
    r->conf.url.host = mem_strdup(host);
    r->conf.url.port = mem_strdup(port);
    open_net(r);
}

void redis_not_found(struct redis *r, const char *why)
{
    if (r->phase == FINDING)
        redis_reconnect(r, why);
}

static void on_connect_timer(void *arg)
{
    static const char *const late[] = {
        [FINDING] = "could not find the address of the server in time",
        [OPENING] = "could not connect in time",
        [GREETING] = "connected, but the server did not answer in time",
    };
    struct redis *r = arg;
    if (r->phase == RESTING)
        begin(r);
    else
        redis_reconnect(r, late[r->phase]);
}

struct redis *redis_new(const struct redis_conf *conf, redis_state_cb *on_state,
                        void *arg)
{
    struct redis *r = mem_alloc(sizeof(*r));
    must(conf->finder != NULL || conf->url.unix_path != NULL || conf->url.host != NULL);
    redis_conf_copy(conf, &r->conf);
    r->on_state = on_state;
    r->arg = arg;
    r->deadline_timer = timer_new(on_deadline, r);
    r->connect_timer = timer_new(on_connect_timer, r);
    timer_set(r->connect_timer, 0);
    return r;
}

static void free_subscriptions(struct redis *r)
{
    while (r->subscriptions) {
        struct subscription *s = r->subscriptions;
        r->subscriptions = s->next;
        free(s->channel);
        loop_defer_free(s); /* dispatched() may still use it */
    }
}

void redis_free(struct redis *r)
{
    if (r == NULL)
        return;
    r->phase = GONE;
    if (r->conf.finder)
        r->conf.finder->forget(r->conf.finder->self, r);
    close_connection(r);
    answer_open(r);
    timer_del(r->deadline_timer);
    timer_del(r->connect_timer);
    free_subscriptions(r);
    redis_conf_free(&r->conf);
    redis_queue_free(&r->open);
    resp_free(&r->command);
    redis_pool_free(&r->replies);
    loop_defer_free(r);
}
