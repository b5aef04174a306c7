/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_handshake.c - the first commands on a new connection: login, database, client
 * name, role. All are sent at once. The reply to the last shows that the connection is
 * usable.
 */
#include "bridge/redis/redis_internal.h"

#include <stdio.h>

#include <hiredis/hiredis.h>

void redis_handshake_failed(struct redis *r, const char *what, const redisReply *reply)
{
    struct err why;
    enum redis_error e = redis_error(reply);
    r->denied = e == REDIS_DENIED || e == REDIS_WRONG;
    /* A server quotes the arguments of a command that it does not know. They may contain
     * a password, so cut the text there. */
    err_set(&why, "%s failed: %.*s", what, (int)strcspn(reply->str, "'"), reply->str);
    redis_reconnect(r, why.text);
}

static void on_auth(void *arg, const redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_ERROR)
        redis_handshake_failed(arg, "AUTH", reply);
}

static void on_select(void *arg, const redisReply *reply)
{
    if (reply && reply->type == REDIS_REPLY_ERROR)
        redis_handshake_failed(arg, "SELECT", reply);
}

/* An ACL may forbid the command. As the first command it also receives the error for too
 * many clients. */
static void on_named(void *arg, const redisReply *reply)
{
    if (reply && redis_error(reply) == REDIS_WAIT)
        redis_handshake_failed(arg, "CLIENT SETNAME", reply);
}

/* A replica rejects every write. If ROLE is forbidden, the first rejected write shows
 * it. */
static void on_role(void *arg, const redisReply *reply)
{
    struct redis *r = arg;
    struct err why;
    if (reply == NULL)
        return;
    if (redis_error(reply) == REDIS_WAIT) {
        redis_handshake_failed(r, "ROLE", reply);
        return;
    }
    struct slice role =
        redis_items(reply) > 0 ? redis_text(reply->element[0]) : (struct slice){NULL, 0};
    if (role.p == NULL || slice_is(role, "master"))
        return;
    if (slice_is(role, "slave") && redis_items(reply) >= 3)
        err_set(&why, "the server is a replica (of %.*s:%lld), not the master",
                SLICE_ARG(redis_text(reply->element[1])), reply->element[2]->integer);
    else
        err_set(&why, "the server is not a master but a %.*s", SLICE_ARG(role));
    redis_reconnect(r, why.text);
}

/* The last command: a reply to it means that the server serves us. */
static void on_ping(void *arg, const redisReply *reply)
{
    struct redis *r = arg;
    if (reply == NULL)
        return;
    /* An ACL may forbid PING itself. NOPERM still proves that the login succeeded. */
    bool forbidden =
        reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0;
    if (reply->type == REDIS_REPLY_ERROR && !forbidden) {
        redis_handshake_failed(r, "PING", reply);
        return;
    }
    redis_ready(r);
}

void redis_handshake(struct redis *r)
{
    const struct redis_url *url = &r->conf.url;
    if (url->password) {
        struct slice auth[] = {SLICE_LIT("AUTH"), slice_of(url->user),
                               slice_of(url->password)};
        if (url->user == NULL)
            auth[1] = auth[2];
        redis_send(r, auth, url->user ? 3 : 2, on_auth, r);
    }
    if (url->db) {
        char db[16];
        snprintf(db, sizeof(db), "%u", url->db);
        redis_send(r, (const struct slice[]){SLICE_LIT("SELECT"), slice_of(db)}, 2,
                   on_select, r);
    }
    if (r->conf.client_name)
        redis_send(r,
                   (const struct slice[]){SLICE_LIT("CLIENT"), SLICE_LIT("SETNAME"),
                                          slice_of(r->conf.client_name)},
                   3, on_named, r);
    if (r->conf.master_only)
        redis_send(r, (const struct slice[]){SLICE_LIT("ROLE")}, 1, on_role, r);
    redis_send(r, (const struct slice[]){SLICE_LIT("PING")}, 1, on_ping, r);
}
