/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis.h - one connection to one Redis server, kept up.
 *
 * Ours on the loop (TCP, Unix socket, TLS, AUTH, SELECT, deadlines, reconnection with
 * backoff and jitter); resp.c formats commands, hiredis parses replies. They are
 * pipelined and answered in order. Everything queued in one turn of the loop leaves in
 * one write.
 */
#ifndef BRIDGE_REDIS_H
#define BRIDGE_REDIS_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct histogram;
struct redisReply; /* hiredis' own; only files of the store look inside */
struct redis;

/* redis://[USER:PASSWORD@]HOST[:PORT][/DB]  rediss://... (TLS)
 * unix://[USER:PASSWORD@]/PATH[?db=N]
 * redis+sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/MASTER[/DB]
 * redis+cluster://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]
 * and rediss+sentinel://, rediss+cluster:// (TLS to every one of them). */
enum redis_kind { REDIS_ONE, REDIS_SENTINEL, REDIS_CLUSTER };
struct redis_place {
    char *host, *port;
};
struct redis_url {
    enum redis_kind kind;
    bool tls;
    char *unix_path;            /* NULL: TCP */
    char *host;                 /* of REDIS_ONE; else NULL */
    char *port;                 /* "6379" */
    struct redis_place *places; /* the sentinels, or nodes of the cluster to ask first */
    size_t place_count;
    char *master; /* name of the master that the sentinels watch; NULL: no Sentinel */
    char *user;   /* NULL: none; of the Redis servers, not of the sentinels */
    char *password;
    unsigned db;
};
int redis_url_parse(const char *text, struct redis_url *url, struct err *err);
/* Gives what it fills in; redis_url_free(). */
void redis_url_copy(const struct redis_url *from, struct redis_url *to);
void redis_url_free(struct redis_url *url);
/* "redis://127.0.0.1:6379/0", with neither user nor password; for logs. Gives; free(). */
char *redis_url_shown(const struct redis_url *url);
/* "10.0.0.1:6379", "[::1]:6379", for people. */
void redis_place_add(struct buf *out, const char *host, const char *port);

/* Tells where the server is at present: asked before each connection. find is answered
 * by redis_found() or redis_not_found(), at once or later; an answer that comes when r
 * waits for none is ignored. forget: r is being freed. Whoever knows that the server has
 * moved uses redis_reconnect() and redis_reconnect_now() too. doubts: another server is
 * taking its place, so that it may lose what it accepts from now on; NULL: never.
 */
struct redis_finder {
    void (*find)(void *self, struct redis *r);
    void (*forget)(void *self, struct redis *r);
    void *self;
    bool (*doubts)(void *self);
};

struct redis_conf {
    struct redis_url url;              /* copied */
    const struct redis_finder *finder; /* NULL: url says where; must stay */
    bool master_only;    /* what is no master (ROLE) is no good: lost, and tried again */
    const char *ca_file; /* TLS: NULL: the system's */
    const char *cert_file; /* TLS: ours; NULL: none */
    const char *key_file;
    int64_t connect_timeout_ms; /* for finder, address, connect, TLS, AUTH together */
    int64_t
        command_timeout_ms; /* without a reply so long: outcome unknown, new connection */
    int64_t
        backoff_first_ms; /* before each reconnection, at least; doubling with jitter */
    int64_t backoff_max_ms;
    const char *client_name; /* CLIENT SETNAME; NULL: none */
};

/* Everything that conf points at is copied, but the finder. */
void redis_conf_copy(const struct redis_conf *from, struct redis_conf *to);
void redis_conf_free(struct redis_conf *conf);

enum redis_state { REDIS_CONNECTING, REDIS_UP, REDIS_DOWN };

/* Called at every change. why: "" when up, else the reason in words. Connecting again is
 * this module's business; a new connection's commands may be queued from within it.
 * REDIS_DOWN comes before the NULL replies of the commands that were open. */
typedef void redis_state_cb(void *arg, enum redis_state state, const char *why);
/* Messages of subscribed channels. */
typedef void redis_message_cb(void *arg, struct slice channel, struct slice message);

/* reply: borrowed until the callback returns; may be an error reply (see redis_error).
 * NULL: the connection went before the answer came, and the outcome is unknown. */
typedef void redis_reply_cb(void *arg, const struct redisReply *reply);

/* Begins to connect. on_state is called later, never from within. Copies conf. */
struct redis *redis_new(const struct redis_conf *conf, redis_state_cb *on_state,
                        void *arg);
/* Open commands get NULL replies from within, then nothing more. NULL is fine. */
void redis_free(struct redis *r);
bool redis_is_up(const struct redis *r);
/* Its finder doubts the server. */
bool redis_is_doubted(const struct redis *r);
/* The finder's answers. Both are copied. */
void redis_found(struct redis *r, const char *host, const char *port);
void redis_not_found(struct redis *r, const char *why);
/* A connection that waits before its next try makes it now: what stood in the way may be
 * gone. Else nothing. */
void redis_reconnect_now(struct redis *r);
/* Drops the connection, if there is one, and connects again after the backoff. Open
 * commands get NULL replies. */
void redis_reconnect(struct redis *r, const char *why);

/* Queues a command; must be up. Arguments are copied. deadline by conf. */
void redis_command(struct redis *r, const struct slice *args, unsigned count,
                   redis_reply_cb *cb, void *arg);
/* The same with a call as resp_end() gives it, for which the connection is there: once
 * one has been answered without an error, the backoff starts anew. took: counts the time
 * to the reply, and stays as long as r. */
void redis_whole_command(struct redis *r, struct slice bytes, struct histogram *took,
                         redis_reply_cb *cb, void *arg);
/* What was queued leaves now, in the midst of the turn; else it does at its end. */
void redis_push(struct redis *r);
/* Commands sent and not answered yet. */
unsigned redis_open_count(const struct redis *r);
/* Turns the connection into a subscriber; again after each reconnection by itself. */
void redis_subscribe(struct redis *r, const char *channel, redis_message_cb *cb,
                     void *arg);

/* What a reply holds, for those who do not know hiredis: a text (p NULL: it is none), the
 * number of its items (0: no list), one of them. r may be NULL. */
struct slice redis_text(const struct redisReply *r);
struct slice redis_error_text(const struct redisReply *r); /* p NULL: it is no error */
char redis_letter(const struct redisReply *r);     /* of a text the first; 0: none */
int64_t redis_integer(const struct redisReply *r); /* 0: it is none */
int64_t redis_score(const struct redisReply *r); /* of a sorted set, as a text; 0: none */
size_t redis_items(const struct redisReply *r);
const struct redisReply *redis_item(const struct redisReply *r, size_t i); /* or NULL */

/* What an error reply means, by its first word (table in redis_reply.c). */
enum redis_error {
    REDIS_NO_ERROR,
    REDIS_NO_SCRIPT, /* load the script again and send the same */
    REDIS_WAIT, /* LOADING BUSY NOREPLICAS MISCONF CLUSTERDOWN...: back off, send again */
    REDIS_ELSEWHERE,  /* MOVED: another node of the cluster has the slot */
    REDIS_MOVING,     /* ASK TRYAGAIN: its slot is being moved; the others go on */
    REDIS_FULL,       /* OOM: pause sources, keep draining */
    REDIS_MOVED_AWAY, /* READONLY MASTERDOWN UNBLOCKED: this is no master; connect again
                       */
    REDIS_DENIED,     /* NOAUTH WRONGPASS NOPERM: the operator must act; back off long */
    REDIS_WRONG       /* anything else: a bug or a wrong key type; not repeatable */
};
enum redis_error redis_error(const struct redisReply *reply);

#endif
