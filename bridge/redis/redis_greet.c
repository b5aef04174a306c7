/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_greet.c - the first commands of a connection: login, database, name, role, and
 * the subscriptions. Loop thread.
 */
#include "bridge/redis/redis_internal.h"
#include "bridge/base/loop.h"

#include <stdio.h>

/* Closes the connection. The server answers, so it is not silent meanwhile. */
static void refuse(struct redis *r, const char *why)
{
    redis_reconnect(r, why);
    r->lost_ms = 0;
}

/* Returns true, and closes the connection, if reply is an error, or NULL. optional: an
 * ACL may forbid the command; only REDIS_WAIT counts. */
static bool is_refused(struct redis *r, const char *what, const redisReply *reply,
                       bool optional)
{
    struct err why;
    if (reply == NULL)
        return true;
    enum redis_error e = redis_error(reply);
    if (e == REDIS_NO_ERROR || (optional && e != REDIS_WAIT))
        return false;
    r->denied = e == REDIS_DENIED || e == REDIS_WRONG;
    /* A server quotes the arguments of a command that it does not know. They may contain
     * a password, so cut the text there. */
    err_set(&why, "%s failed: %.*s", what, (int)strcspn(reply->str, "'"), reply->str);
    refuse(r, why.text);
    return true;
}

static void on_auth(void *arg, const redisReply *reply)
{
    is_refused(arg, "AUTH", reply, false);
}

static void on_select(void *arg, const redisReply *reply)
{
    is_refused(arg, "SELECT", reply, false);
}

/* As the first command it also receives the error for too many clients. */
static void on_named(void *arg, const redisReply *reply)
{
    is_refused(arg, "CLIENT SETNAME", reply, true);
}

/* A replica rejects every write, which shows it even if ROLE is forbidden. */
static void on_role(void *arg, const redisReply *reply)
{
    struct redis *r = arg;
    struct err why;
    if (is_refused(r, "ROLE", reply, true))
        return;
    struct slice role = redis_text(redis_item(reply, 0));
    if (role.p == NULL || slice_is(role, "master"))
        return;
    if (slice_is(role, "slave"))
        err_set(&why, "the server is a replica (of %.*s:%lld), not the master",
                SLICE_ARG(redis_text(redis_item(reply, 1))),
                (long long)redis_integer(redis_item(reply, 2)));
    else
        err_set(&why, "the server is not a master but a %.*s", SLICE_ARG(role));
    refuse(r, why.text);
}

static void on_subscribed(void *arg, const redisReply *reply)
{
    is_refused(arg, "SUBSCRIBE", reply, false);
}

/* Sends up to three words; the first NULL ends them. */
static void send_words(struct redis *r, redis_reply_cb *cb, const char *first,
                       const char *second, const char *third)
{
    const struct slice words[] = {slice_of(first), slice_of(second), slice_of(third)};
    redis_send(r, words, !second ? 1 : !third ? 2 : 3, cb, r);
}

void redis_greet_channels(struct redis *r)
{
    for (size_t i = 0; i < r->channel_count; i++)
        send_words(r, on_subscribed, "SUBSCRIBE", r->channels[i], NULL);
}

/* The last command: a reply to it means that the server serves us. An ACL may forbid PING
 * itself: NOPERM still proves that the login succeeded. */
static void on_ping(void *arg, const redisReply *reply)
{
    struct redis *r = arg;
    struct slice error = redis_error_text(reply);
    bool forbidden = error.n >= 6 && memcmp(error.p, "NOPERM", 6) == 0;
    if (!forbidden && is_refused(r, "PING", reply, false))
        return;
    r->phase = READY;
    r->up_ms = loop_mono_ms();
    timer_stop(r->connect_timer);
    redis_greet_channels(r);
    r->on_state(r->arg, REDIS_UP, "");
}

void redis_greet(struct redis *r)
{
    const struct redis_url *url = &r->conf.url;
    if (url->password && url->user)
        send_words(r, on_auth, "AUTH", url->user, url->password);
    else if (url->password)
        send_words(r, on_auth, "AUTH", url->password, NULL);
    if (url->db) {
        char db[16];
        snprintf(db, sizeof(db), "%u", url->db);
        send_words(r, on_select, "SELECT", db, NULL);
    }
    if (r->conf.client_name)
        send_words(r, on_named, "CLIENT", "SETNAME", r->conf.client_name);
    if (r->conf.master_only)
        send_words(r, on_role, "ROLE", NULL, NULL);
    send_words(r, on_ping, "PING", NULL, NULL);
}
