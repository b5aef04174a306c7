/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis.h - one connection to one Redis server, which reconnects by itself.
 *
 * This module does TCP, Unix sockets, TLS, AUTH, SELECT, deadlines, and reconnection with
 * backoff and jitter. resp.c formats commands, and hiredis parses replies. Commands are
 * pipelined and answered in order. All commands queued in one turn of the loop are sent
 * in one write.
 */
#ifndef BRIDGE_REDIS_H
#define BRIDGE_REDIS_H

#include "bridge/base/mem.h"
#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct histogram;
struct redisReply; /* type of hiredis; only files of the store use its fields */
struct redis;

/* redis://[USER:PASSWORD@]HOST[:PORT][/DB]  rediss://... (TLS)
 * unix://[USER:PASSWORD@]/PATH[?db=N]
 * redis+sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/MASTER[/DB]
 * redis+cluster://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]
 * and rediss+sentinel://, rediss+cluster:// (TLS for every connection). */
enum redis_kind { REDIS_ONE, REDIS_SENTINEL, REDIS_CLUSTER };
struct redis_place {
    char *host, *port;
};
struct redis_url {
    enum redis_kind kind;
    bool tls;
    char *unix_path;            /* NULL: TCP */
    char *host;                 /* for REDIS_ONE; else NULL */
    char *port;                 /* "6379" */
    struct redis_place *places; /* sentinels, or seed nodes of the cluster */
    size_t place_count;
    char *master; /* name of the master at the sentinels; NULL: no Sentinel */
    char *user;   /* at the Redis servers, not at the sentinels; NULL: none */
    char *password;
    unsigned db;
};
int redis_url_parse(const char *text, struct redis_url *url, struct err *err);
/* The caller frees `to` with redis_url_free(). */
void redis_url_copy(const struct redis_url *from, struct redis_url *to);
void redis_url_free(struct redis_url *url);
/* Appends "10.0.0.1:6379" or "[::1]:6379". */
void redis_place_add(struct buf *out, const char *host, const char *port);

/* Finds the address of the server before each connection. find must call redis_found() or
 * redis_not_found(), at once or later; an answer that r does not wait for is ignored.
 * forget: r is being freed. A finder that learns of a new address also calls
 * redis_move(). is_failing_over: a failover is in
 * progress, so the server may lose new writes; NULL: never. */
struct redis_finder {
    void (*find)(void *self, struct redis *r);
    void (*forget)(void *self, struct redis *r);
    void *self;
    bool (*is_failing_over)(void *self);
};

struct redis_conf {
    struct redis_url url;              /* copied */
    const struct redis_finder *finder; /* NULL: use url; must outlive the redis */
    bool master_only;      /* disconnect and retry if the server is not a master (ROLE) */
    const char *ca_file;   /* TLS; NULL: CA certificates of the system */
    const char *cert_file; /* TLS client certificate; NULL: none */
    const char *key_file;
    int64_t connect_timeout_ms; /* for finder, DNS, connect, TLS and AUTH together */
    int64_t command_timeout_ms; /* without a reply for so long: reconnect */
    int64_t backoff_first_ms;   /* minimum before a reconnection; doubles, with jitter */
    int64_t backoff_max_ms;
    const char *client_name; /* CLIENT SETNAME; NULL: none */
};

/* Copies conf and all that it points to, except the finder. */
void redis_conf_copy(const struct redis_conf *from, struct redis_conf *to);
void redis_conf_free(struct redis_conf *conf);

enum redis_state { REDIS_CONNECTING, REDIS_UP, REDIS_DOWN };

/* Called at every change of state. why: "" if up, else the reason. The module reconnects
 * by itself. On REDIS_UP the callback may queue commands. REDIS_DOWN is reported before
 * the open commands get their NULL replies. */
typedef void redis_state_cb(void *arg, enum redis_state state, const char *why);
/* Messages of subscribed channels. */
typedef void redis_message_cb(void *arg, struct slice channel, struct slice message);

/* reply: borrowed until the callback returns; may be an error reply (see redis_error()).
 * NULL: the connection was lost before the reply, so the outcome is unknown. */
typedef void redis_reply_cb(void *arg, const struct redisReply *reply);

/* Creates a connection and starts to connect. on_state is never called from within.
 * Copies conf. */
struct redis *redis_new(const struct redis_conf *conf, redis_state_cb *on_state,
                        void *arg);
/* Ends the connection for ever. Open commands get NULL replies from within; no callback
 * is called afterwards. */
void redis_close(struct redis *r);
/* Closes and frees the connection. NULL is ignored. */
void redis_free(struct redis *r);
bool redis_is_up(const struct redis *r);
/* Whether the finder reports a failover in progress (is_failing_over). */
bool redis_is_failing_over(const struct redis *r);
/* The answers of the finder. Texts are copied. */
void redis_found(struct redis *r, const char *host, const char *port);
void redis_not_found(struct redis *r, const char *why);
bool redis_is_finding(const struct redis *r); /* waits for an answer */
/* The finder learned a new address. Unless r uses it or waits for an answer, r reconnects
 * at once. */
void redis_move(struct redis *r, const char *host, const char *port, const char *why);
/* If r waits for its backoff, reconnects at once; else does nothing. Call it when the
 * cause of the failure may be gone. */
void redis_reconnect_now(struct redis *r);
/* Closes the connection, if any, and reconnects after the backoff. Open commands get NULL
 * replies. */
void redis_reconnect(struct redis *r, const char *why);

/* Queues a command; r must be up. Arguments are copied. cb may be NULL. conf sets the
 * deadline. */
void redis_command(struct redis *r, const struct slice *args, unsigned count,
                   redis_reply_cb *cb, void *arg);
/* Queues a command formatted by resp_end(). The first reply without an error resets the
 * backoff. took: histogram that counts the response time; must outlive r. */
void redis_whole_command(struct redis *r, struct slice bytes, struct histogram *took,
                         redis_reply_cb *cb, void *arg);
/* Sends queued commands now instead of at the end of the turn. */
void redis_push(struct redis *r);
/* How long the server has owed a reply, in ms: since the oldest command without a reply
 * or the last reply, whichever is later; 0: it owes none. While the connection is down,
 * and until its first reply: since the last reply that was missing on an earlier
 * connection, or since redis_new(). */
int64_t redis_silent_ms(const struct redis *r);
/* The monotonic time of the last reply on this connection, in ms; 0: none. */
int64_t redis_heard_ms(const struct redis *r);
/* Subscribes to the channels, also after each reconnection; call it once. Borrows
 * channels until redis_free(). The connection then accepts no other commands. */
void redis_subscribe(struct redis *r, const char *const *channels, size_t count,
                     redis_message_cb *cb, void *arg);

/* Accessors of a reply for code that does not use hiredis: its text (p NULL: not a text),
 * the number of its items (0: not a list), one item. r may be NULL. */
struct slice redis_text(const struct redisReply *r);
struct slice redis_error_text(const struct redisReply *r); /* p NULL: not an error */
char redis_letter(const struct redisReply *r);     /* first letter of a text; 0: none */
int64_t redis_integer(const struct redisReply *r); /* 0: not an integer */
int64_t redis_score(const struct redisReply *r);   /* score in a sorted set; 0: none */
size_t redis_items(const struct redisReply *r);
const struct redisReply *redis_item(const struct redisReply *r, size_t i); /* or NULL */

/* Class of an error reply, by its first word (table in redis_reply.c). */
enum redis_error {
    REDIS_NO_ERROR,
    REDIS_NO_SCRIPT, /* load the scripts and send again */
    REDIS_WAIT, /* LOADING BUSY NOREPLICAS MISCONF CLUSTERDOWN...: wait, send again */
    REDIS_ELSEWHERE,  /* MOVED: another node of the cluster has the slot */
    REDIS_MOVING,     /* ASK TRYAGAIN: its slot is being moved; other slots work */
    REDIS_FULL,       /* OOM: pause sources, continue to deliver */
    REDIS_MOVED_AWAY, /* READONLY MASTERDOWN UNBLOCKED: not a master; reconnect */
    REDIS_FENCED,     /* the answer of lua/enqueue.lua to an earlier epoch: read meta */
    REDIS_DENIED,     /* NOAUTH WRONGPASS NOPERM: the operator must act; long pause */
    REDIS_WRONG       /* anything else: a bug or a wrong key type; not repeatable */
};
enum redis_error redis_error(const struct redisReply *reply);

/* --- Redis Cluster; pure --- */

/* The slot of a key: redis.io/topics/cluster-spec, "Keys distribution model". If the text
 * between the first { and the next } is not empty, only that text is hashed. */
enum { REDIS_SLOTS = 16384 };
unsigned redis_slot(struct slice key);

/* One row of a CLUSTER SLOTS reply. */
enum { REDIS_PORT_BYTES = 8 };

struct redis_slots {
    unsigned first, last;        /* slot range of one master, inclusive */
    const char *host;            /* borrowed; "": the node that answered */
    char port[REDIS_PORT_BYTES]; /* 1 to 65535 */
    bool nameless;               /* the master does not announce a host name: "?" */
};
/* Reads one row. -1: the row has no usable address of a master. */
int redis_slots_read(const struct redisReply *row, struct redis_slots *out);

/* --- sentinel.c: asks Redis Sentinel for the address of a master, and reconnects when it
 * changes --- */

/* All sentinels of the URL are asked every second, before each connection, and when a
 * sentinel announces a failover. The answer with the newest configuration (config-epoch)
 * wins, so a sentinel that was partitioned from the others does no harm. While no
 * sentinel answers, existing connections stay open. */
struct sentinel;

/* Starts to connect to the sentinels. conf: for the connections to Redis; its url is of
 * kind REDIS_SENTINEL; copied. user, password: at the sentinels; NULL: none. */
struct sentinel *sentinel_new(const struct redis_conf *conf, const char *user,
                              const char *password);
/* Returns the finder for redis_conf.finder. It is valid until sentinel_free(). */
const struct redis_finder *sentinel_finder(const struct sentinel *s);
/* Frees s. Free the connections that use the finder first. NULL is ignored. */
void sentinel_free(struct sentinel *s);

/* --- the choice between the answers of several sentinels; pure --- */

struct sentinel_answer {
    int64_t epoch;           /* config-epoch, grows with each failover; -1: no answer */
    const char *host, *port; /* borrowed */
};

/* If most sentinels report the same older epoch for this long, it is accepted: the
 * sentinels were set up anew and count from the start. */
enum { SENTINEL_RESET_MS = 10000 };

/* A zeroed struct with epoch -1 is valid. */
struct sentinel_master {
    int64_t epoch;
    char *host, *port;
    int64_t older_since_ms; /* monotonic: since when most report an older one; 0: not */
};

/* Chooses an answer. answers: one per sentinel of the URL. The newest epoch wins; on a
 * tie the majority, then the current master. An older epoch is accepted only after
 * SENTINEL_RESET_MS. Returns the index of an answer that changes the address or epoch;
 * -1: no change. */
int sentinel_choose(struct sentinel_master *master, const struct sentinel_answer *answers,
                    size_t count, int64_t now_ms);
/* Copies address and epoch of the answer. */
void sentinel_master_set(struct sentinel_master *master,
                         const struct sentinel_answer *answer);
void sentinel_master_free(struct sentinel_master *master);

/* Whether failover-state of SENTINEL MASTER (p NULL: none) shows that the sentinel is
 * promoting a replica, or has promoted it but still reports the address of the old
 * master. */
bool sentinel_is_promoting(struct slice state);

#endif
