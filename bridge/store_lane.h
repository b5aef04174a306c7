/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_lane.h - a lane: the queue of one kind of change of one bucket, and its batches.
 *
 * Internal to the store. Order within a lane is kept, also across lost connections: what
 * has to be sent again goes back to its old place in the queue.
 */
#ifndef BRIDGE_STORE_LANE_H
#define BRIDGE_STORE_LANE_H

#include "bridge/log.h"
#include "bridge/pacer.h"
#include "bridge/store.h"

/* The default's fall-through is not marked for clang. */
#define HASH_FUNCTION HASH_FNV
#include <sys/queue.h>
#include <uthash.h>

enum lane_kind {
    LANE_ENQUEUE,
    LANE_ACK,
    LANE_RETRY,
    LANE_BURY,
    LANE_CANCEL,
    LANE_FINISH,
    LANE_RELEASE,
    LANES
};
enum {
    LANE_BATCHES = 4,    /* on their way at once */
    ARGS_PER_CHANGE = 9, /* at most */
    ARGS_PER_CALL = 256  /* digest, keys, partitions */
};

struct change {
    TAILQ_ENTRY(change) link;
    uint64_t seq;                   /* place among the bucket's changes */
    struct slice id, record, tries; /* behind the struct, in one allocation */
    struct slice group;             /* of an enqueue; at the end of the same */
    struct slice kept_id, kept;     /* a run given up, of a repeat; in the same */
    struct origin origin;
    int64_t due_ms, lease;
    int64_t due_us;                 /* of a release */
    int64_t queued_us, deadline_us; /* monotonic; deadline 0: none */
    int64_t expires_ms;             /* 0: never */
    char how;                       /* the script's letter for it; 0: none */
    bool now;                       /* due when it is stored */
    bool awaited;       /* somebody sends no more until this one is answered */
    bool once;          /* not sent again when its answer was lost: it would do harm */
    unsigned partition; /* its number in the batch, from 1; 0: none */
    unsigned refused;   /* times that the script asked for the batch before it */
    change_cb *cb;
    void *arg;
};
TAILQ_HEAD(change_list, change);

struct lane {
    struct bucket *bucket;
    enum lane_kind kind;
    struct change_list queue;
    TAILQ_HEAD(, batch) flights; /* on their way */
    unsigned queued, flying;     /* changes; batches */
    unsigned awaited;            /* of those queued */
    int64_t newest_us;
    uint64_t newest_turn;
    int64_t hold_until_us; /* after an error reply that asks to wait */
    struct pacer pacer;
    bool listed; /* in the store's list of lanes with work */
    TAILQ_ENTRY(lane) link;
};
TAILQ_HEAD(lane_list, lane);

enum bucket_key {
    KEY_POOL,
    KEY_DELAY,
    KEY_UNACK,
    KEY_ERROR,
    KEY_TRIES,
    KEY_INGEST,
    KEY_TTL,
    KEY_DONE,
    KEY_SEEN, /* from here on: of a route */
    KEY_HELD,
    KEY_PLACE,
    KEY_LEAD,
    KEY_ENDED,
    KEY_PACE,
    KEY_TARGETS,
    KEY_STOPPED,
    KEY_IDS, /* of a queue whose ids are global; else none */
    BUCKET_KEYS
};

struct bucket {
    struct store *store;
    UT_hash_handle hh; /* by name */
    char *name;
    char *wake;                      /* text of a wake: "ROUTE/N INSTANCE" */
    const struct queue_rules *rules; /* NULL: not a queue's */
    const struct bucket_rules *ways; /* NULL: not a route's */
    const struct bucket_events *events;
    void *owner;
    char *key_text[BUCKET_KEYS];
    struct slice key[BUCKET_KEYS]; /* enum bucket_key */
    struct lane lane[LANES];
    unsigned calls; /* questions and claims on their way */
    uint64_t next_seq;
};

/* A question or a claim on its way. tell casts cb back to what it is and calls it once;
 * reply NULL: no answer, or an error. */
struct call {
    struct bucket *bucket;
    enum script script;
    void (*tell)(struct call *call, const struct redisReply *reply);
    void (*cb)(void);
    void *arg;
};
/* Starts the arguments in bucket->store->args: the first key_count keys of key[]. */
struct call *call_begin(struct bucket *b, enum script script, const enum bucket_key *key,
                        unsigned key_count);
void call_send(struct call *call, void (*tell)(struct call *, const struct redisReply *),
               void (*cb)(void), void *arg);
/* Those of a job: pool, delay, unack, error, tries. */
extern const enum bucket_key job_keys[5];
/* The keys of lib/queue.lua and their number; its first arguments. */
extern const enum bucket_key queue_keys[8];
unsigned queue_key_count(const struct bucket *b);
void queue_args(struct args *a, const struct bucket *b);
/* The last three numbers of a reply of lib/queue.lua are told. */
void queue_settled(const struct bucket *b, const struct redisReply *r);
/* A change for a lane. Everything is copied. */
struct change *change_new(struct slice id, struct slice record, struct slice tries,
                          struct slice group);

/* What a lane needs of the store. */
struct store {
    struct store_conf conf;
    struct store_events events;
    void *arg;
    struct redis *redis, *wakes;
    struct scripts scripts;
    struct args args;
    struct clock clock;
    enum { STORE_DOWN, STORE_LOADING, STORE_UP } state;
    bool refusing;          /* it takes no jobs at present: until an enqueue succeeds */
    bool clock_stale;       /* the clock is that of an earlier connection */
    int64_t pause_until_us; /* after an error reply that concerns everything */
    char trouble[160];
    unsigned open_count;
    uint64_t turn; /* of the loop */
    uint64_t errors[REDIS_WRONG + 1], connections;
    struct lane_list lanes; /* with work */
    struct timer *flush_timer, *tick;
    struct turn_hook *hook;
    struct log_limit complain, complain_wakes;
    struct bucket *buckets; /* by name */
    char *wake_channel;
};

void lane_init(struct lane *lane, struct bucket *b, enum lane_kind kind);
/* Takes c, and answers it once. */
void lane_add(struct lane *lane, struct change *c);
/* Sends what is ripe. Gives the us until it wants to be called again; -1: not before
 * something changes. */
int64_t lane_flush(struct lane *lane, int64_t now_us);
/* Answers 0 to changes that were not sent by their deadline. */
void lane_expire(struct lane *lane, int64_t now_us);
/* Answers 0 to everything queued. */
void lane_close(struct lane *lane);

/* In store.c: judges an error reply, and pauses everything where it concerns everything.
 * Gives what it means; reply NULL is REDIS_WAIT. */
enum redis_error store_judge(struct store *st, const struct redisReply *reply,
                             enum script script);
/* For how long whoever got such a reply should rest; others need not. */
int64_t store_rest_us(enum redis_error e);
void store_list_lane(struct store *st, struct lane *lane);

#endif
