/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis.c - the states of a connection that reconnects by itself. Loop thread.
 *
 * RESTING -> FINDING -> OPENING -> GREETING -> READY, and from each state back to RESTING
 * with a reason. FINDING is skipped without a finder. redis_greet.c: GREETING.
 *
 * Every queued command gets its callback exactly once, in order.
 */
#include "bridge/redis/redis_internal.h"
#include "bridge/base/histogram.h"
#include "bridge/base/loop.h"
#include "bridge/base/net.h"
#include "bridge/base/retry.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    STEADY_MS = 10000,               /* after this long a failure starts a new series */
    READER_KEEP_BYTES = 1024 * 1024, /* free an empty parse buffer above this size */
    REPLY_MAX_BYTES = 1024 * 1024 * 1024
};

/* ----------------------------------------------------------------------- commands */

/* Returns how long this connection has waited for a reply; 0: it waits for none. */
static int64_t waits_ms(const struct redis *r)
{
    if (r->open.count == 0)
        return 0;
    int64_t since_ms = r->open.ring[r->open.first].since_us / 1000;
    return loop_mono_ms() - (r->heard_ms > since_ms ? r->heard_ms : since_ms);
}

int64_t redis_silent_ms(const struct redis *r)
{
    return r->lost_ms > 0 ? loop_mono_ms() - r->lost_ms : waits_ms(r);
}

int64_t redis_heard_ms(const struct redis *r)
{
    return r->heard_ms;
}

/* Checks the oldest open command. The timer is set when the first command is sent. */
static void on_deadline(void *arg)
{
    struct redis *r = arg;
    int64_t left_ms = r->conf.command_timeout_ms - waits_ms(r);
    if (r->open.count == 0)
        return;
    if (left_ms > 0) {
        timer_set(r->deadline_timer, left_ms);
        return;
    }
    struct err why;
    err_set(&why, "no reply for %" PRId64 " ms, %u commands pending",
            r->conf.command_timeout_ms, r->open.count);
    redis_reconnect(r, why.text);
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

/* Call back every open command with NULL: unknown outcome. A callback may free r. */
static void answer_open(struct redis *r)
{
    while (r->open.count > 0) {
        struct redis_waiting c = redis_queue_take(&r->open);
        if (c.cb)
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

void redis_reconnect(struct redis *r, const char *why)
{
    struct err reason;
    err_set(&reason, "%s", why); /* why may lie in memory that is freed below */
    if (r->phase == RESTING || r->phase == GONE)
        return;
    if (r->phase == READY && loop_mono_ms() - r->up_ms >= STEADY_MS)
        r->failures = 0;
    r->failures++;
    r->lost_ms = loop_mono_ms() - redis_silent_ms(r);
    r->phase = RESTING;
    close_connection(r);
    timer_set(r->connect_timer, retry_connect_ms(r->denied ? r->conf.backoff_max_ms
                                                           : r->conf.backoff_first_ms,
                                                 r->conf.backoff_max_ms, r->failures));
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

/* ------------------------------------------------------------------------ replies */

/* Handles a pushed message, which no command waits for. */
static bool dispatched(struct redis *r, const redisReply *reply)
{
    if (r->channels == NULL || !slice_is(redis_text(redis_item(reply, 0)), "message"))
        return false;
    r->failures = 0;
    r->on_message(r->message_arg, redis_text(redis_item(reply, 1)),
                  redis_text(redis_item(reply, 2)));
    return true;
}

static void take_reply(struct redis *r, redisReply *reply)
{
    int64_t now_us = loop_mono_us();
    r->heard_ms = now_us / 1000;
    r->lost_ms = 0;
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
    if (c.cb)
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

void redis_subscribe(struct redis *r, const char *const *channels, size_t count,
                     redis_message_cb *cb, void *arg)
{
    r->channels = channels;
    r->channel_count = count;
    r->on_message = cb;
    r->message_arg = arg;
    if (r->phase == READY)
        redis_greet_channels(r);
}

/* ---------------------------------------------------------------------- life */

/* Greets at once: the first commands of a connection. */
static void on_open(void *arg)
{
    struct redis *r = arg;
    r->phase = GREETING;
    redis_greet(r);
}

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

static void set_address(struct redis *r, const char *host, const char *port)
{
    free(r->conf.url.host);
    free(r->conf.url.port);
    r->conf.url.host = mem_strdup(host);
    r->conf.url.port = mem_strdup(port);
}

static void begin(struct redis *r)
{
    const struct redis_finder *finder = r->conf.finder;
    timer_set(r->connect_timer, r->conf.connect_timeout_ms);
    r->phase = FINDING;
    if (finder == NULL)
        open_net(r);
    else
        set_address(r, NULL, NULL);
    r->on_state(r->arg, REDIS_CONNECTING, "");
    if (finder && r->phase == FINDING) /* not freed by a callback */
        finder->find(finder->self, r);
}

void redis_found(struct redis *r, const char *host, const char *port)
{
    if (r->phase != FINDING)
        return;
    set_address(r, host, port);
    open_net(r);
}

void redis_not_found(struct redis *r, const char *why)
{
    if (r->phase == FINDING)
        redis_reconnect(r, why);
}

bool redis_is_finding(const struct redis *r)
{
    return r->phase == FINDING;
}

void redis_move(struct redis *r, const char *host, const char *port, const char *why)
{
    const struct redis_url *url = &r->conf.url;
    bool there =
        url->host && strcmp(url->host, host) == 0 && strcmp(url->port, port) == 0;
    if (there || r->phase == FINDING)
        return;
    redis_reconnect(r, why);
    redis_reconnect_now(r);
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
    r->lost_ms = loop_mono_ms();
    r->deadline_timer = timer_new(on_deadline, r);
    r->connect_timer = timer_new(on_connect_timer, r);
    timer_set(r->connect_timer, 0);
    return r;
}

void redis_close(struct redis *r)
{
    if (r->phase != GONE) {
        r->phase = GONE;
        if (r->conf.finder)
            r->conf.finder->forget(r->conf.finder->self, r);
        close_connection(r);
    }
    answer_open(r);
}

void redis_free(struct redis *r)
{
    if (r == NULL)
        return;
    redis_close(r);
    timer_del(r->deadline_timer);
    timer_del(r->connect_timer);
    redis_conf_free(&r->conf);
    redis_queue_free(&r->open);
    resp_free(&r->command);
    redis_pool_free(&r->replies);
    loop_defer_free(r);
}
