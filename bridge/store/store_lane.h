/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_lane.h - a lane: the queue of one kind of change of one bucket, and its batches.
 *
 * Internal to the store. Order within a lane is kept, also across lost connections: what
 * has to be sent again goes back to its old place in the queue.
 */
#ifndef BRIDGE_STORE_LANE_H
#define BRIDGE_STORE_LANE_H

#include "bridge/base/hash.h"
#include "bridge/base/log.h"
#include "bridge/store/pacer.h"
#include "bridge/store/store.h"
#include "bridge/store/store_far.h"
#include "bridge/store/store_map.h"
#include "bridge/store/store_node.h"

#include <sys/queue.h>

enum lane_kind {
    LANE_ENQUEUE,
    LANE_ACK,
    LANE_RETRY,
    LANE_BURY,
    LANE_CANCEL,
    LANE_FINISH,
    LANE_RELEASE,
    LANE_RENEW,
    LANES
};

struct change {
    TAILQ_ENTRY(change) link;
    uint64_t seq;                   /* place among the bucket's changes */
    struct slice id, record, tries; /* behind the struct, in one allocation */
    struct slice group;             /* of an enqueue; at the end of the same */
    struct slice kept_id, kept;     /* a run given up, of a repeat; in the same */
    struct origin origin;
    int64_t due_ms, lease;
    int64_t due_us;      /* of a release */
    int64_t deadline_us; /* monotonic; 0: none */
    int64_t expires_ms;  /* 0: never */
    char how;            /* the script's letter for it; 0: none */
    bool now;            /* due when it is stored */
    bool awaited;        /* somebody sends no more until this one is answered */
    bool once;           /* not sent again when its answer was lost: it would do harm */
    bool again;          /* it was sent before, and may have been carried out then */
    unsigned partition;  /* its number in the batch, from 1; 0: none */
    unsigned refused;    /* times that the script asked for the batch before it */
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
    struct pacer pacer;
    int64_t hold_until_us; /* after an error reply that asks to wait */
    bool listed;           /* in the store's list of lanes with work */
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
    KEY_IDS,   /* of a queue whose ids are global; else none */
    KEY_WHOLE, /* never exists: see store_map.h; only in a cluster */
    BUCKET_KEYS
};

struct bucket {
    struct store *store;
    UT_hash_handle hh; /* by name */
    unsigned slot;     /* of a cluster */
    char *name;
    char *wake;                      /* text of a wake: "ROUTE/N INSTANCE" */
    char *claimant;                  /* of this struct alone: a field of :sums */
    const struct queue_rules *rules; /* NULL: not a queue's */
    const struct bucket_rules *ways; /* NULL: not a route's */
    const struct bucket_events *events;
    void *owner;
    char *key_text[BUCKET_KEYS];
    struct slice key[BUCKET_KEYS]; /* enum bucket_key */
    struct lane lane[LANES];
    struct far far;
    unsigned calls; /* questions and claims on their way */
    uint64_t next_seq;
};

struct lane_partition {
    const char *name; /* interned, as in struct origin */
    int64_t before;   /* of its first record in the batch */
};
/* Changes of one lane on their way in one call. */
struct batch {
    struct lane *lane;
    struct node *node; /* that has them */
    TAILQ_ENTRY(batch) link;
    uint64_t first_seq;
    struct change_list list;
    unsigned count;
    /* Of Kafka's records; where there are some, each change has a timestamp at its end.
     */
    struct lane_partition partitions[BATCH_PARTITIONS_MAX];
    unsigned partition_count;
    /* Of store_wait.c: done there, the letters of the answer, and whether the WAIT that
     * is on its way is about it. */
    TAILQ_ENTRY(batch) unsure;
    char *codes;
    size_t code_count;
    bool asked;
};
/* How the changes of a lane become the arguments of its script. */
struct lane_row {
    enum script script;
    unsigned key_count;
    const enum bucket_key *key;
    bool of_queue; /* its keys and first arguments are those of lib/queue.lua */
    bool sure;     /* it counts when as many replicas have it as are asked for */
    void (*head)(struct args *a, struct batch *batch); /* before the changes; or NULL */
    void (*change)(struct args *a, struct batch *batch, const struct change *c);
    /* Pairs: the answer to what was sent again, and what the first run has answered then,
     * most likely. NULL: the script knows. */
    const char *again;
    unsigned jobs_max; /* of one call, where each takes Redis long; 0: batch_max */
};
extern const struct lane_row lane_rows[LANES];

/* Notes in c of which of the batch's partitions it is. false: there is no room for
 * another one. */
bool batch_takes(struct batch *batch, struct change *c);
/* Reports the bucket idle if it is; for the end of whatever may have been its last work.
 */
void bucket_check_idle(struct bucket *b);
/* It is done: one letter per change. */
void batch_answer(struct batch *batch, struct slice codes);
/* Its outcome is unknown: its changes go back to their lane. */
void batch_send_again(struct batch *batch);
/* Answers those of its changes whose time is over: they are done, but not safe. */
void batch_expire(struct batch *batch, int64_t now_us);

/* A question or a claim on its way. tell casts cb back to what it is and calls it once;
 * reply NULL: no answer, or an error. */
struct call {
    struct bucket *bucket;
    struct node *node; /* that is asked; NULL: none can be */
    enum script script;
    unsigned asked; /* where the reply must have as many items; the caller's */
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
/* The last numbers of a reply of lib/queue.lua are told. */
void queue_settled(struct bucket *b, const struct redisReply *r);
/* A change for a lane. Everything is copied. */
struct change *change_new(struct slice id, struct slice record, struct slice tries,
                          struct slice group);

/* What the store's files share. */
struct store {
    struct store_conf conf; /* a copy */
    struct store_events events;
    void *arg;
    struct node **nodes; /* one, or the masters of the cluster as far as known */
    unsigned node_count, node_cap;
    struct map *map; /* NULL: not a cluster */
    struct redis *wakes;
    struct scripts scripts;
    struct args args;
    struct buf record; /* of the job that store_call.c makes a change of */
    bool up, was_up;   /* as told by events; it was at least once */
    unsigned open_count;
    uint64_t errors[REDIS_WRONG + 1], connections, arrivals, wait_shortfalls;
    struct lane_list lanes; /* with work */
    struct timer *flush_timer, *tick;
    struct turn_hook *hook;
    struct log_limit complain, complain_wakes;
    struct bucket *buckets; /* by name */
    unsigned claimants;     /* named so far */
    uint64_t seq_floor;     /* no bucket that is freed has used a next_seq above it */
    struct movers movers;
    char *wake_channel;
};
/* A node for place, which is copied; not given any slot yet. */
struct node *store_add_node(struct store *st, const struct redis_place *place);
/* Told by a node, or by the map: perhaps all is well now. */
void store_node_up(struct store *st);
void store_node_down(struct store *st, const char *why);
/* Where the bucket is served; NULL: nowhere at present. */
struct node *bucket_node(const struct bucket *b);
/* Where key is served; NULL: nowhere at present. */
struct node *store_node_of(const struct store *st, struct slice key);
/* The same, and the node can be worked with. */
struct node *store_up_node(const struct store *st, struct slice key);

void lane_init(struct lane *lane, struct bucket *b, enum lane_kind kind);
/* Takes c, and answers it once. */
void lane_add(struct lane *lane, struct change *c);
/* How long the head of the queue still waits for company; 0: it leaves now; -1: when an
 * answer comes. A full batch leaves. Else Redis sets the pace: while two batches are on
 * their way the next one gathers, so that batches grow with the load and with the time
 * that an answer takes, and a change that comes alone leaves at once. What nobody awaits
 * is paced besides. */
int64_t lane_wait_us(const struct lane *lane, unsigned full, int64_t now_us);
/* Sends what is ripe. Gives the us until it wants to be called again; -1: not before
 * something changes. */
int64_t lane_flush(struct lane *lane, int64_t now_us);
/* Answers 0 to changes that were not sent by their deadline. */
void lane_expire(struct lane *lane, int64_t now_us);
/* Answers 0 to what is queued and came from a Kafka record. */
void lane_give_back(struct lane *lane);
/* Answers 0 to everything queued. */
void lane_close(struct lane *lane);

void store_list_lane(struct store *st, struct lane *lane);

#endif
