/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batcher.h - a batcher queues one kind of change of one bucket and sends it in batches.
 * Internal to the store.
 *
 * A batcher keeps the order of its changes, also across lost connections: a change that
 * must be sent again returns to its old place in the queue.
 */
#ifndef BRIDGE_STORE_BATCHER_H
#define BRIDGE_STORE_BATCHER_H

#include "bridge/base/hash.h"
#include "bridge/base/log.h"
#include "bridge/redis/resp.h"
#include "bridge/store/pacer.h"
#include "bridge/store/store.h"

#include <sys/queue.h>

struct batch;
struct map;
struct timer;

/* --- a server (store_node.c): its connection, its scripts, its clock, and the pauses
 * after its error replies. A store has one node; the store of a cluster has one for each
 * master --- */

TAILQ_HEAD(batch_list, batch);

enum node_state { NODE_DOWN, NODE_LOADING, NODE_UP };

struct node {
    struct store *store;
    struct redis_place place; /* of a master in a cluster; else NULLs */
    struct redis *redis;
    struct clock clock;
    struct redis_facts facts; /* results of the last probe */
    struct redis_facts fresh; /* of the whole probe that has no reply yet */
    unsigned usage_probes;    /* since the last whole probe */
    enum node_state state;
    unsigned slots;         /* slots that it serves; only in a cluster */
    bool rejects_jobs;      /* pauses the sources; see "errors" in store_node.c */
    bool halted;            /* every reply is an error such as BUSY: retry later */
    bool full;              /* memory use is above memory_mark */
    bool clock_stale;       /* clock was measured on an earlier connection */
    bool reloading;         /* only the scripts are loaded again */
    bool probing;           /* the probe is waiting for a reply */
    bool load_failed;       /* a reply to SCRIPT LOAD is missing or an error */
    unsigned loading;       /* scripts without a reply to SCRIPT LOAD */
    int64_t time_sent_us;   /* of the TIME without a reply; 0: none */
    int64_t pause_until_us; /* monotonic; set by an error reply that affects all calls */
    char trouble[160];      /* why the node is not usable; "" = it is */
    struct batch_list
        unreplicated;      /* executed, but perhaps not replicated yet (store_wait.c) */
    int64_t wait_again_us; /* monotonic: no WAIT before this time */
    bool waiting;          /* a WAIT has no reply yet */
    /* For store_far.c, monotonic us. far_clock_us: offset of Redis' clock to ours. */
    bool moving; /* a call that moves far jobs has no reply yet */
    int64_t move_sent_us, move_after_us, far_clock_us;
};

/* --- the second tier (store_far.c): when to move a slot of far jobs --- */

struct far {          /* of one bucket */
    int64_t first_ms; /* start of its first slot, Redis' clock; -1: no far jobs known */
    bool owner_first; /* the owner of the bucket, another instance, moves first */
    struct timer *timer; /* fires when the first slot may be moved; NULL: not set yet */
    struct node *node;   /* the node that executes a move; NULL: none */
    bool listed;         /* the bucket is in movers.queue */
    TAILQ_ENTRY(bucket) link;
};

struct movers {       /* of one store */
    bool allowed;     /* this process moves far jobs */
    int64_t early_ms; /* move a slot this long before it starts */
    TAILQ_HEAD(, bucket) queue;
    struct timer *timer; /* ends the pause between two moves */
};

/* --- batchers --- */

TAILQ_HEAD(change_list, change);

struct batcher {
    struct bucket *bucket;
    enum batcher_kind kind;
    struct change_list queue;
    TAILQ_HEAD(, batch) in_flight;    /* batches without a reply */
    unsigned queued, in_flight_count; /* queued: changes; in_flight_count: batches */
    unsigned awaited;                 /* queued changes with awaited set */
    struct pacer pacer;
    int64_t
        pause_until_us; /* monotonic; set by an error reply that asks to retry later */
    bool listed;        /* in the store's list of batchers with work */
    TAILQ_ENTRY(batcher) link;
};
TAILQ_HEAD(batcher_list, batcher);

struct bucket {
    struct store *store;
    UT_hash_handle hh; /* by name */
    unsigned slot;     /* hash slot, in a cluster */
    char *name;
    char *wake;     /* message that wakes other instances: "ROUTE/N INSTANCE" */
    char *claimant; /* name of this struct as a claimant: a field of :sums */
    const struct queue_rules *queue_rules;  /* NULL: not the bucket of a queue */
    const struct bucket_rules *route_rules; /* NULL: not the bucket of a route */
    const struct bucket_events *events;
    void *owner;
    /* Keys, owned. pool_key: scripts derive all others from it (lua/lib/bucket.lua).
     * ids_key: of a queue with global ids. whole_key: never exists (store_map.c). */
    struct slice pool_key, ids_key, whole_key;
    struct batcher batcher[BATCHERS];
    struct far far;
    unsigned calls;                   /* queries and claims without a reply */
    struct partition_row *partitions; /* of Kafka, by name */
    uint64_t next_seq;
};

struct batcher_partition {     /* see lua/lib/ingest.lua */
    const char *name;          /* interned, as in struct origin */
    int64_t before, before_ms; /* of the origin of its first record in the batch */
    int64_t last;              /* offset of its last record in the batch */
};
/* Changes of one batcher that were sent in one call and have no reply yet. */
struct batch {
    struct batcher *batcher;
    struct node *node; /* the node that they were sent to */
    TAILQ_ENTRY(batch) link;
    uint64_t first_seq;
    struct change_list list;
    unsigned count;
    /* Partitions of Kafka records. If there is at least one, the arguments of each change
     * end with a timestamp. */
    struct batcher_partition partitions[BATCH_PARTITIONS_MAX];
    unsigned partition_count;
    char *codes; /* the answers in list, from the reply on */
    size_t code_count;
    TAILQ_ENTRY(batch) unreplicated; /* of node */
};
/* How the changes of a batcher become the arguments of its script; filled in by calls.c.
 * */
struct batcher_row {
    enum script script;
    /* Writes the arguments before the changes. */
    void (*head)(struct resp *a, const struct batch *batch);
    void (*change)(struct resp *a, const struct batch *batch, const struct change *c);
    const char *resent_answers; /* pairs like script_again; NULL: use script_again */
    bool replicated;            /* answer only after durability's replicas have it */
    unsigned jobs_max;          /* limit per call for slow changes; 0: batch_max */
};
extern const struct batcher_row batcher_rows[BATCHERS];

/* Sets c->partition to the index of its Kafka partition in the batch. false: the batch
 * has no room for another partition, or lacks the record before c. */
bool batch_accepts(struct batch *batch, struct change *c);
/* Forgets the last offset sent of each partition, so that the next record has no
 * predecessor. */
void bucket_forget_offsets(struct bucket *b);
/* Calls the idle event if the bucket is idle. Call it after any work that may have been
 * the last. */
void bucket_check_idle(struct bucket *b);
/* Answers each change with its code, and frees the batch. */
void batch_answer(struct batch *batch);
/* Returns the changes to the queue of their batcher, and frees the batch. lost: their
 * outcome is unknown. */
void batch_send_again(struct batch *batch, bool lost);
/* Answers the changes whose deadline has passed: they were executed, but too few replicas
 * have them. */
void batch_expire(struct batch *batch, int64_t now_us);

/* The first member of a call that no node can execute now. */
struct unsent {
    TAILQ_ENTRY(unsent) link; /* of store->unsent */
    void (*answer)(struct unsent *unsent);
};
TAILQ_HEAD(unsent_list, unsent);
/* Calls answer in the next turn, or when the store is closed. */
void store_answer_later(struct store *st, struct unsent *unsent,
                        void (*answer)(struct unsent *unsent));

/* A query or a claim without a reply. call_cb casts cb to its real type and calls it
 * once; reply NULL: there was no answer, or an error. */
struct call {
    struct unsent unsent;
    struct store *store;
    struct bucket *bucket; /* NULL: the call concerns no bucket */
    struct node *node;     /* the node that is asked; NULL: none is up */
    enum script script;
    void (*call_cb)(struct call *call, const struct redisReply *reply);
    void (*cb)(void);
    void *arg;
};
/* Start a call; its arguments are written to store->args. */
struct call *call_begin(struct bucket *b, enum script script);
struct call *call_begin_key(struct store *st, struct slice key, enum script script);
/* Without a node the call is answered with NULL in the next turn of the loop. */
void call_send(struct call *call,
               void (*call_cb)(struct call *, const struct redisReply *),
               void (*cb)(void), void *arg);
/* Reports the first due time to the owner of the bucket. head: as the script returned it;
 * -1 = none. */
void call_report_head(struct call *call, int64_t head);
/* Starts the call in store->args. Its keys are :pool, :ids if ids are global, and in
 * a cluster :whole. */
void args_begin_bucket(const struct bucket *b, enum script script);
/* Reports the counters at the end of a reply of lib/queue.lua. */
void queue_settled(struct bucket *b, const struct redisReply *r);

/* Writes one argument: '' for 0 or false. */
void args_number_or_none(struct resp *a, int64_t n);
void args_letter(struct resp *a, char letter);
void args_flag(struct resp *a, bool on);
/* Sends the call in st->args. */
void args_send(struct store *st, enum script script, struct redis *r, redis_reply_cb *cb,
               void *arg);
/* Arguments that come neither from the caller nor from a plain field of the change: see
 * lua/scripts.def. */
void put_kind(struct resp *a, const struct bucket *b);
void put_wake(struct resp *a, const struct bucket *b);
void put_horizon(struct resp *a, const struct bucket *b);
void put_epoch(struct resp *a, const struct bucket *b);
/* The arguments that lib/queue.lua reads first. */
void put_queue(struct resp *a, const struct bucket *b);
void put_remembers(struct resp *a, const struct batch *batch);
void put_remember_ms(struct resp *a, const struct batch *batch);
void put_asker(struct resp *a, const struct batch *batch);
void put_parts(struct resp *a, const struct batch *batch);
void put_due(struct resp *a, const struct batch *batch, const struct change *c);
void put_how(struct resp *a, const struct batch *batch, const struct change *c);
void put_group(struct resp *a, const struct batch *batch, const struct change *c);
void put_stamp(struct resp *a, const struct batch *batch, const struct change *c);

/* Internal state of the store. */
struct store {
    struct store_conf conf; /* a copy */
    struct store_events events;
    void *arg;
    struct node **nodes; /* one, or the known masters of the cluster */
    unsigned node_count, node_cap;
    struct map *map; /* NULL: not a cluster */
    struct redis *wakes;
    char sha[SCRIPTS][41];
    struct resp args;  /* of the call that is being written; reused */
    struct buf record; /* record of a job that store_call.c encodes */
    bool up, was_up;   /* as last reported by events; was up at least once */
    unsigned open_count;
    struct store_counters counters;
    struct batcher_list batchers; /* that have work */
    struct unsent_list unsent;
    struct timer *flush_timer, *unsent_timer, *tick;
    struct turn_hook *hook;
    struct log_limit complain, complain_wakes;
    struct bucket *buckets; /* by name */
    unsigned claimants;     /* claimant names used so far */
    uint64_t seq_floor;     /* every freed bucket had a next_seq of at most this */
    struct movers movers;
    char *wake_channel;
};
/* Adds a node for place, which is copied. The node has no slots yet. */
struct node *store_add_node(struct store *st, const struct redis_place *place);
/* A node or the map calls it after a recovery: checks whether the store is up. */
void store_node_up(struct store *st);
void store_node_down(struct store *st, const char *why);
/* Return the node that serves the slot, or the bucket; NULL: none at present. */
struct node *slot_node(const struct store *st, unsigned slot);
struct node *bucket_node(const struct bucket *b);

void batcher_init(struct batcher *batcher, struct bucket *b, enum batcher_kind kind);
/* Returns how long (us) the head of the queue must still wait for more changes. 0: send
 * now; -1: wait for a reply. A full batch is sent at once. While two batches have no
 * reply, the next one collects changes, so batches grow with the load and with the
 * response time of Redis. A batch without any awaited change also waits for the pacer. */
int64_t batcher_wait_us(const struct batcher *batcher, unsigned full, int64_t now_us);
/* Sends the batches that are due. Returns the us until the next call; -1: no call is
 * needed before something changes. */
int64_t batcher_flush(struct batcher *batcher, int64_t now_us);
/* Answers 0 to queued changes: those for which applies() returns true; NULL: all. */
void batcher_reject(struct batcher *batcher,
                    bool (*applies)(const struct change *c, int64_t now_us),
                    int64_t now_us);

void store_list_batcher(struct store *st, struct batcher *batcher);

/* --- a server --- */

/* Creates a node and starts to connect. place: copied; NULL: use the address from the
 * store's configuration. */
struct node *node_new(struct store *st, const struct redis_place *place);
/* Ends the connection. Open calls are answered with NULL, so their changes return to
 * their batchers. */
void node_close(struct node *node);
/* Closes and frees the node. */
void node_free(struct node *node);
/* Once a second. */
void node_tick(struct node *node);
/* Classifies a reply, and pauses what an error reply concerns. reply NULL: REDIS_WAIT. */
enum redis_error node_classify_reply(struct node *node, const struct redisReply *reply,
                                     enum script script);
/* How long (us) the caller should pause after such an error. Other callers need not
 * pause. */
int64_t node_pause_us(enum redis_error e);
void node_set_trouble(struct node *node, const char *text);

/* --- the second tier --- */

void far_init(struct store *st);
void far_fini(struct store *st);
void far_close(struct bucket *b);
/* Records the start of the bucket's first slot as Redis reported it; -1: it has none. */
void far_set_first(struct bucket *b, int64_t first_ms);
/* Call once a second: retries moves that could not be sent, and adjusts timers after a
 * clock change. */
void far_tick(struct store *st);

/* --- a Redis Cluster (store_map.c): which master has which slot --- */

/* Creates the map and starts to ask the cluster. It adds the nodes that it finds to the
 * store. */
struct map *map_new(struct store *st);
void map_free(struct map *map); /* NULL is fine */
/* Returns the master of the slot; NULL: unknown. */
struct node *map_node(const struct map *map, unsigned slot);
/* Whether every slot has a master. */
bool map_is_whole(const struct map *map);
/* Why map_is_whole() is false. */
const char *map_trouble(const struct map *map);
/* Asks for the map again soon, because a reply contradicts it. */
void map_refresh_soon(struct map *map);
/* Applies "MOVED SLOT HOST:PORT". false: the text is not a MOVED, or the slot moved back
 * and forth too often; then only the next map changes it. */
bool map_moved(struct map *map, const char *text);
/* Returns the node that "ASK SLOT HOST:PORT" names; NULL: the text is not an ASK. */
struct node *map_asked(struct map *map, const char *text);
/* Once a second. */
void map_tick(struct map *map);
/* Returns a finder that names another node at each call. */
const struct redis_finder *map_finder(const struct map *map);

/* --- durability = "replicas:N" (store_wait.c) --- */

/* Call at the end of each turn. Returns the us until the next call; -1: no call is
 * needed. */
int64_t wait_flush(struct node *node, int64_t now_us);
/* Sends the waiting batches again after the connection was lost. */
void wait_connection_lost(struct node *node);

#endif
