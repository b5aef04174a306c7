/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batcher.h - a batcher: the queue of one kind of change of one bucket, and its batches.
 *
 * Internal to the store. Order within a batcher is kept, also across lost connections:
 * what has to be sent again goes back to its old place in the queue.
 */
#ifndef BRIDGE_STORE_BATCHER_H
#define BRIDGE_STORE_BATCHER_H

#include "bridge/base/hash.h"
#include "bridge/base/log.h"
#include "bridge/redis/redis_slot.h"
#include "bridge/store/pacer.h"
#include "bridge/store/store.h"

#include <sys/queue.h>

struct batch;
struct map;
struct timer;

/* --- a server (store_node.c): its connection, whether it has our scripts, its clock, and
 * what an error reply of it holds back. A store has one; that of a cluster one for each
 * master --- */

TAILQ_HEAD(batch_list, batch);

enum node_state { NODE_DOWN, NODE_LOADING, NODE_UP };

struct node {
    struct store *store;
    struct redis_place place; /* of a cluster; else NULLs */
    struct redis *redis;
    struct script_load load;
    struct clock clock;
    struct redis_facts facts; /* what the probe of this connection found */
    enum node_state state;
    unsigned slots;         /* of a cluster: that it has */
    bool refusing;          /* pauses the sources; see "errors" in store_node.c */
    bool halted;            /* it answers everything with an error that asks to wait */
    bool full;              /* above the memory mark */
    bool clock_stale;       /* the clock is that of an earlier connection */
    bool reloading;         /* only the scripts had gone */
    bool probing;           /* an answer of the probe is awaited */
    int64_t pause_until_us; /* after an error reply that concerns everything */
    char trouble[160];      /* in words; "" */
    struct batch_list
        unsure;            /* done, but perhaps not on the replicas yet (store_wait.c) */
    int64_t wait_again_us; /* monotonic: not before */
    bool waiting;          /* for the answer to a WAIT */
    /* Of store_far.c, in us of our clock, but for far_clock_us: the offset of Redis'. */
    bool moving; /* a move of far jobs is on its way */
    int64_t move_sent_us, move_after_us, far_clock_us;
};

/* --- the second tier (store_far.c): when a slot of far jobs is moved, see there --- */

struct far {             /* of a bucket */
    int64_t first_ms;    /* start of its first slot, Redis' clock; -1: none is known of */
    bool left_to_owner;  /* another instance comes first */
    struct timer *timer; /* until that one's time; NULL: there was none yet */
    struct node *node;   /* where a move is on its way */
    bool listed;         /* its time has come, and it is in line */
    TAILQ_ENTRY(bucket) link;
};

struct movers {       /* of a store */
    bool allowed;     /* this process moves */
    int64_t early_ms; /* before its start a slot's time has come */
    TAILQ_HEAD(, bucket) line;
    struct timer *timer; /* the end of a rest */
};

/* --- batchers --- */

TAILQ_HEAD(change_list, change);

struct batcher {
    struct bucket *bucket;
    enum batcher_kind kind;
    struct change_list queue;
    TAILQ_HEAD(, batch) flights; /* on their way */
    unsigned queued, flying;     /* changes; batches */
    unsigned awaited;            /* of those queued */
    struct pacer pacer;
    int64_t hold_until_us; /* after an error reply that asks to wait */
    bool listed;           /* in the store's list of batchers with work */
    TAILQ_ENTRY(batcher) link;
};
TAILQ_HEAD(batcher_list, batcher);

enum bucket_key {
    KEY_POOL,    /* scripts make those of a bucket of it: lua/lib/bucket.lua */
    KEY_TARGETS, /* of a route */
    KEY_IDS,     /* of a queue whose ids are global; else none */
    KEY_WHOLE,   /* never exists: see store_map.h; only in a cluster */
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
    struct batcher batcher[BATCHERS];
    struct far far;
    unsigned calls;                   /* questions and claims on their way */
    struct partition_row *partitions; /* Kafka's, by name */
    uint64_t next_seq;
};

struct batcher_partition {
    const char *name; /* interned, as in struct origin */
    int64_t before;   /* of its first record in the batch */
};
/* Changes of one batcher on their way in one call. */
struct batch {
    struct batcher *batcher;
    struct node *node; /* that has them */
    TAILQ_ENTRY(batch) link;
    uint64_t first_seq;
    struct change_list list;
    unsigned count;
    /* Of Kafka's records; where there are some, each change has a timestamp at its end.
     */
    struct batcher_partition partitions[BATCH_PARTITIONS_MAX];
    unsigned partition_count;
    /* Of store_wait.c: done there, the letters of the answer, and whether the WAIT that
     * is on its way is about it. */
    TAILQ_ENTRY(batch) unsure;
    char *codes;
    size_t code_count;
    bool asked;
};
/* How the changes of a batcher become the arguments of its script: calls.c. */
struct batcher_row {
    enum script script;
    void (*head)(struct args *a, const struct batch *batch); /* before the changes */
    void (*change)(struct args *a, const struct batch *batch, const struct change *c);
    const char *again; /* pairs, as of script_again; NULL: those */
    bool sure;         /* it counts when as many replicas have it as are asked for */
    unsigned jobs_max; /* of one call, where each takes Redis long; 0: batch_max */
};
extern const struct batcher_row batcher_rows[BATCHERS];

/* Notes in c of which of the batch's partitions it is. false: there is no room for
 * another one. */
bool batch_takes(struct batch *batch, struct change *c);
/* The next record of any partition has nothing before it. */
void bucket_unchain(struct bucket *b);
/* Reports the bucket idle if it is; for the end of whatever may have been its last work.
 */
void bucket_check_idle(struct bucket *b);
/* It is done: one letter per change. */
void batch_answer(struct batch *batch, struct slice codes);
/* Its changes go back to their batcher. lost: their outcome is unknown. */
void batch_send_again(struct batch *batch, bool lost);
/* Answers those of its changes whose time is over: they are done, but not safe. */
void batch_expire(struct batch *batch, int64_t now_us);

/* A question or a claim on its way. tell casts cb back to what it is and calls it once;
 * reply NULL: no answer, or an error. */
struct call {
    struct bucket *bucket; /* NULL: it is about something else */
    struct node *node;     /* that is asked; NULL: none can be */
    enum script script;
    unsigned asked; /* where the reply must have as many items; the caller's */
    void (*tell)(struct call *call, const struct redisReply *reply);
    void (*cb)(void);
    void *arg;
};
/* Starts the arguments in bucket->store->args. */
struct call *call_begin(struct bucket *b, enum script script);
/* The same of a script about another key of the bucket. */
struct call *call_begin_at(struct bucket *b, enum script script, enum bucket_key key);
void call_send(struct call *call, void (*tell)(struct call *, const struct redisReply *),
               void (*cb)(void), void *arg);
/* The same of a call whose script, tell, cb and arg are set. node NULL: it is answered
 * with NULL in the next turn. */
void call_send_to(struct call *call, struct store *st, struct node *node);
/* The owner of the bucket is told its first due time, as a script tells it. */
void call_told_head(struct call *call, int64_t head);
int64_t reply_number(const struct redisReply *r);
/* Starts the arguments of a call about b: its keys are :pool, :ids where ids are global,
 * and in a cluster :whole. */
void args_begin_bucket(struct args *a, const struct bucket *b, enum script script);
/* The last numbers of a reply of lib/queue.lua are told. */
void queue_settled(struct bucket *b, const struct redisReply *r);

/* Arguments that are neither the caller's nor a plain field of the change: see
 * lua/scripts.def. */
void put_kind(struct args *a, const struct bucket *b);
void put_wake(struct args *a, const struct bucket *b);
void put_horizon(struct args *a, const struct bucket *b);
void put_queue(struct args *a, const struct bucket *b); /* the first of lib/queue.lua */
void put_remembers(struct args *a, const struct batch *batch);
void put_remember_ms(struct args *a, const struct batch *batch);
void put_asker(struct args *a, const struct batch *batch);
void put_parts(struct args *a, const struct batch *batch);
void put_due(struct args *a, const struct batch *batch, const struct change *c);
void put_offset(struct args *a, const struct batch *batch, const struct change *c);
void put_mark(struct args *a, const struct batch *batch, const struct change *c);
void put_numbered(struct args *a, const struct batch *batch, const struct change *c);
void put_finish_mark(struct args *a, const struct batch *batch, const struct change *c);
void put_group(struct args *a, const struct batch *batch, const struct change *c);
void put_stamp(struct args *a, const struct batch *batch, const struct change *c);
void put_number(struct args *a, const struct batch *batch, const struct change *c);

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
    struct batcher_list batchers; /* with work */
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

void batcher_init(struct batcher *batcher, struct bucket *b, enum batcher_kind kind);
/* How long the head of the queue still waits for company; 0: it leaves now; -1: when an
 * answer comes. A full batch leaves. Else Redis sets the pace: while two batches are on
 * their way the next one gathers, so that batches grow with the load and with the time
 * that an answer takes, and a change that comes alone leaves at once. What nobody awaits
 * is paced besides. */
int64_t batcher_wait_us(const struct batcher *batcher, unsigned full, int64_t now_us);
/* Sends what is ripe. Gives the us until it wants to be called again; -1: not before
 * something changes. */
int64_t batcher_flush(struct batcher *batcher, int64_t now_us);
/* Answers 0 to changes that were not sent by their deadline. */
void batcher_expire(struct batcher *batcher, int64_t now_us);
/* Answers 0 to what is queued and came from a Kafka record. */
void batcher_give_back(struct batcher *batcher);
/* Answers 0 to everything queued. */
void batcher_close(struct batcher *batcher);

void store_list_batcher(struct store *st, struct batcher *batcher);

/* --- a server --- */

/* Begins to connect, to place (copied) or where the store's configuration says (NULL). */
struct node *node_new(struct store *st, const struct redis_place *place);
/* What is on its way is answered with NULL, so goes back to its batcher. */
void node_free(struct node *node);
/* Once a second. */
void node_tick(struct node *node);
/* Judges a reply, and holds back what an error asks to. NULL is REDIS_WAIT. */
enum redis_error node_judge(struct node *node, const struct redisReply *reply,
                            enum script script);
/* For how long whoever got such a reply should rest; others need not. */
int64_t node_rest_us(enum redis_error e);
/* Sources may go on, as far as it is concerned. */
bool node_takes_jobs(const struct node *node);
void node_set_trouble(struct node *node, const char *text);

/* --- the second tier --- */

void far_init(struct store *st);
void far_fini(struct store *st);
void far_close(struct bucket *b);
/* What is due later goes to the second tier, in ms; 0: nothing does. */
int64_t far_horizon_ms(const struct store *st);
/* Redis says where the first slot of the bucket begins now; -1: it has none. */
void far_note(struct bucket *b, int64_t first_ms);
/* Once a second: goes on with what could not be asked, and after a clock was set. */
void far_tick(struct store *st);

/* --- a Redis Cluster (store_map.c): which master has which slot --- */

/* Begins to ask. Nodes are added to the store as they are found. */
struct map *map_new(struct store *st);
void map_free(struct map *map); /* NULL is fine */
/* NULL: no master is known for it. */
struct node *map_node(const struct map *map, unsigned slot);
/* Every slot has a master. */
bool map_is_whole(const struct map *map);
/* Why not, in words. */
const char *map_trouble(const struct map *map);
/* Something does not fit: it is asked again soon. */
void map_doubt(struct map *map);
/* "MOVED SLOT HOST:PORT" is noted. false: it is another text, or the slot went to and fro
 * too often; the next map tells. */
bool map_moved(struct map *map, const char *text);
/* "ASK SLOT HOST:PORT": the node that is named; NULL: another text. */
struct node *map_asked(struct map *map, const char *text);
/* Once a second. */
void map_tick(struct map *map);
/* Finds any node that can be reached, another one each time. */
const struct redis_finder *map_finder(const struct map *map);

/* --- durability = "replicas:N" (store_wait.c) --- */

/* batch has been done by node; codes are its letters. batch_answer() comes later. */
void wait_for_replicas(struct node *node, struct batch *batch, struct slice codes);
/* At the end of each turn. Gives the us until it wants to be called again; -1: not. */
int64_t wait_flush(struct node *node, int64_t now_us);
/* The connection is gone. */
void wait_lost(struct node *node);

#endif
