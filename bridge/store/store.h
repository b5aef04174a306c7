/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h - jobs in Redis: the buckets, and the calls that change their jobs.
 *
 * The store queues changes (enqueue, ack, retry, bury, cancel) per bucket and sends them
 * in batches. A batch is one script call; several may be open at once. If a reply is
 * lost, the outcome is unknown: the store sends the batch again, in its old place, until
 * Redis answers. Every script is repeatable by job id. So the store never drops a change
 * by itself.
 *
 * Keys: bucket ROUTE/N has PREFIX:{ROUTE/N}:pool, :delay, :unack, :error, :tries and
 * :ingest, and as the route requires :seen, :held, :place, :lead, :away, :pace and
 * others. The queue of a sink has PREFIX:{SINK:QUEUE}:pool and so on, :ttl and :done;
 * with global ids PREFIX:{SINK}:QUEUE:pool and so on, and PREFIX:{SINK}:ids. The comments
 * at the top of the files in lua/ explain each key.
 */
#ifndef BRIDGE_STORE_H
#define BRIDGE_STORE_H

#include "bridge/job/job.h"
#include "bridge/queue.h"
#include "bridge/redis/redis_probe.h"
#include "bridge/redis/redis.h"
#include "bridge/base/histogram.h"
#include "bridge/store/calls.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct store;
struct bucket;
struct bucket_rules;

struct store_conf {
    struct redis_conf redis; /* copied */
    const char *prefix;      /* common prefix of all keys */
    const char *instance;    /* unique among the instances that share Redis */
    unsigned batch_max;      /* limit of jobs per script call */
    int64_t horizon_ms; /* jobs due later go to the second tier (store_far.c); 0: none */
    struct durability durability;
    struct memory_mark memory_mark;
};

struct store_events {
    /* Redis is ready: connected, scripts loaded, clock known. In a cluster: first when
     * every master is ready, then whenever a master becomes ready again. */
    void (*up)(void *arg);
    void (*down)(void *arg, const char *why); /* may be NULL */
    /* Another instance published "=name" with store_notify(). name none: the subscription
     * was interrupted, so a message may have been missed. */
    void (*notified)(void *arg, struct slice name);
    /* Before the first up(): Redis cannot provide the configured durability. May be NULL.
     * */
    void (*incompatible)(void *arg, const char *why);
    /* A bucket with these rules has rejected new jobs, because its epoch is later. May be
     * NULL. */
    void (*fenced)(void *arg, const struct bucket_rules *rules);
};

/* Creates a store and starts to connect. Events are never called from within. Copies
 * conf. */
struct store *store_new(const struct store_conf *conf, const struct store_events *events,
                        void *arg);
/* Ends the connections. Answers all open calls with NULL and all open changes with code
 * 0, also those that the callbacks make meanwhile. NULL is ignored. */
void store_close(struct store *st);
/* Closes and frees the store. NULL is ignored. */
void store_free(struct store *st);
/* In a cluster: every slot has a master, and every master is up. */
bool store_is_up(const struct store *st);
/* Whether sources may accept jobs: Redis is up and does not reject writes for lack of
 * memory or replicas. */
bool store_accepts_jobs(const struct store *st);
/* Whether Redis executes calls: it is up and does not answer every call with an error
 * such as BUSY or MISCONF. A Redis out of memory is still ready, because acks and other
 * removals succeed. */
bool store_is_ready(const struct store *st);
/* Text for /readyz; "" if there is no problem. */
const char *store_trouble(const struct store *st);
/* How long the servers have owed a reply, in ms: the longest; 0: each has answered within
 * STORE_SILENT_MS. Each is asked for its time once a second, so a server that hangs is
 * known after at most 1 s + STORE_SILENT_MS. */
enum { STORE_SILENT_MS = 800 };
int64_t store_silent_ms(const struct store *st);
/* The monotonic time in ms at which all servers had replied: the last reply of the one
 * that has been silent for the longest. -1: a server is not usable. */
int64_t store_answered_ms(const struct store *st);
unsigned store_server_count(const struct store *st);
/* Appends the text of store_trouble(), behind "Redis has not answered for 3 s: " if
 * store_silent_ms() is not 0. Appends nothing if there is no problem. */
void store_add_trouble(const struct store *st, struct buf *out);
/* Number of changes without an answer. */
unsigned store_open_count(const struct store *st);
/* Answers 0 to every queued change that came from a Kafka record, so its source reads the
 * record again. The next record of each partition has no predecessor. Call it if Redis
 * may have lost earlier changes. */
void store_reject_kafka_changes(struct store *st);
/* Whether the clock of every server is known. */
bool store_knows_time(const struct store *st);
/* Redis' time in ms, see clock_now_ms(); in a cluster the latest of all clocks. */
int64_t store_now_ms(const struct store *st);
unsigned store_open_connections(const struct store *st);
/* What happened since the start. */
struct store_counters {
    uint64_t calls[SCRIPTS];        /* sent */
    struct histogram took[SCRIPTS]; /* from sending them to their reply */
    uint64_t errors[REDIS_WRONG + 1];
    uint64_t connections;     /* made */
    uint64_t arrivals;        /* a server became ready on a new connection; it may have
                               * lost its last writes */
    uint64_t wait_shortfalls; /* WAIT replies with too few replicas for durability */
};
const struct store_counters *store_counters(const struct store *st);

/* How Redis persists data; of several servers the weakest. */
enum redis_persistence store_persistence(const struct store *st);
/* Reports what redis_facts_judge() reports, for each server; in a cluster a text begins
 * with "HOST:PORT: ". */
void store_judge(const struct store *st, redis_warn_cb *warn, void *arg);
/* Sums the usage of the servers, read once a second. Returns false if it is unknown. */
bool store_usage(const struct store *st, struct queue_usage *sum);

/* Sends a command on the key args[1]. It is never repeated, except when another node of
 * the cluster serves the key. cb is called once, later; reply NULL: Redis is not
 * reachable. */
void store_command(struct store *st, const struct slice *args, unsigned n,
                   redis_reply_cb *cb, void *arg);
/* moves: this process moves jobs out of the second tier (store_far.c). */
void store_move_far(struct store *st, bool moves);
/* The common prefix of all keys. */
const char *store_prefix(const struct store *st);
/* Publishes name to all other instances, which call notified(). */
void store_notify(struct store *st, const char *name);

struct bucket_events {
    /* The first due time of the bucket is now head_ms; -1: it has no pending job. */
    void (*head)(void *owner, int64_t head_ms);
    /* Another instance made the head of this bucket earlier. */
    void (*woken)(void *owner);
    /* A call has also settled these numbers of jobs of a queue. NULL for a route. */
    void (*settled)(void *owner, unsigned expired, unsigned timed_out,
                    unsigned exhausted);
    /* bucket_is_idle() became true. Must not free the bucket. May be NULL. */
    void (*idle)(void *owner);
};
/* Settings of the buckets of a route. */
enum { EPOCH_UNKNOWN = -1 };
struct bucket_rules {
    int64_t remember_ms;   /* how long delivered ids are remembered; 0: not */
    bool by_key;           /* jobs of a group are delivered in order, one at a time */
    int64_t epoch;         /* see meta.h; a bucket with a later one rejects new jobs.
                            * EPOCH_UNKNOWN: no new jobs are sent */
    double rate;           /* jobs claimed per second; 0: no limit */
    int64_t burst;         /* jobs that may be claimed at once */
    int64_t in_flight_max; /* limit of jobs in flight of all instances; 0: no limit */
    const struct job_names *names; /* names that the records omit; NULL: none */
    /* rate applies to all instances together; else to each instance. in_flight_max
     * applies only if shared is set. */
    bool shared;
};
/* Creates the bucket of a route. name: "ROUTE/N", copied. rules must outlive the bucket.
 * store_free() frees buckets that still exist. */
struct bucket *bucket_new(struct store *st, const char *name,
                          const struct bucket_rules *rules,
                          const struct bucket_events *events, void *owner);
/* Creates the bucket of a queue. rules must outlive the bucket. */
struct bucket *bucket_new_queue(struct store *st, const char *sink, const char *queue,
                                const struct queue_rules *rules,
                                const struct bucket_events *events, void *owner);
/* Frees a bucket, which must be idle. */
void bucket_free(struct bucket *b);
/* Sends queued calls now instead of at the end of the turn. */
void bucket_push(struct bucket *b);
/* No change is queued and no call is open. */
bool bucket_is_idle(const struct bucket *b);
const char *bucket_name(const struct bucket *b);
/* Lower bound in ms of the due time of the first far job, as last reported; -1: no far
 * jobs known. */
int64_t bucket_far_ms(const struct bucket *b);
/* left: another instance owns the bucket (membership.h) and moves its far jobs first. */
void bucket_set_owner_first(struct bucket *b, bool left);
/* bucket_is_up: whether the server of the bucket is ready. bucket_is_silent: it has owed
 * a reply for STORE_SILENT_MS. bucket_clock: its clock. bucket_now_ms: its time, as of
 * store_now_ms(), which counts while the clock is not known. */
bool bucket_is_up(const struct bucket *b);
bool bucket_is_silent(const struct bucket *b);
const struct clock *bucket_clock(const struct bucket *b);
int64_t bucket_now_ms(const struct bucket *b);
/* How long (us) changes of this bucket pause after an error reply; 0: no pause. Do not
 * claim jobs meanwhile, because their acks could not be sent. */
int64_t bucket_pause_us(const struct bucket *b);

/* code: the answer of the script (enum NAME_answer of calls.h). 0: the store was closed,
 * or the deadline passed without an answer. change_unsafe(code): the job was stored or
 * cancelled, but the deadline passed before enough replicas had the change. */
#define change_unsafe(code) ((char)((code) & ~0x20))
#define change_safe(code) ((char)((code) | 0x20)) /* inverse of change_unsafe() */
typedef void change_cb(void *arg, char code);

/* The Kafka record that a change came from: lua/lib/ingest.lua executes each record once.
 * */
struct origin {
    /* See admit.h. Equal names in a bucket have the same pointer. NULL: not a Kafka
     * record. */
    const char *partition;
    int64_t offset;
    int64_t before;   /* offset of the previous record sent to this bucket; -1: unknown */
    int64_t stamp_ms; /* the record's timestamp; 0: none */
    int64_t before_ms; /* highest timestamp of the records up to before; 0: none */
};

/* A change of a bucket, from the request until Redis answers. The caller may embed it as
 * the first member of its own struct. Zero fields mean none, never or false. */
struct change {
    struct slice id, record; /* stored behind the struct in the same allocation, like: */
    union {
        struct slice tries, reason; /* reason: for finish */
    };
    struct slice group; /* for enqueue: jobs of a group are delivered one at a time */
    struct slice kept_id, kept_record, kept_tries; /* for retry: a failed run */
    struct origin origin;
    union {
        int64_t due_ms, new_lease; /* new_lease: for renew */
    };
    int64_t lease;
    int64_t due_us;      /* for release */
    int64_t deadline_us; /* monotonic; answered with 0 if not sent by then; 0: none */
    int64_t expires_ms;  /* for a job of a queue */
    char how;            /* letter of the script: enum NAME_value of calls.h */
    bool now;            /* due when stored; due_ms is ignored */
    bool awaited;        /* the client sends nothing more until this is answered */
    bool no_repeat;      /* do not repeat after a lost answer: a repeat would do harm */
    change_cb *cb;       /* called once, later; then the change is freed. May be NULL */
    void *arg;
    /* Set by the batcher: */
    TAILQ_ENTRY(change) link;
    uint64_t seq;       /* sequence number in the bucket */
    bool resent;        /* it was sent before, and Redis may have executed it */
    unsigned partition; /* its index in the batch, from 1; 0: none */
};
/* Allocates a zeroed change with copies of the texts. size: of the caller's struct that
 * begins with it. bucket_add() takes ownership. */
void *change_new(size_t size, struct slice id, struct slice record, struct slice tries,
                 struct slice group);
/* Like change_new(), for storing job in b; due at job->due_ms. */
void *change_of_job(size_t size, const struct bucket *b, const struct job *job,
                    struct slice tries, struct slice group);
/* Sets the origin of a change just before bucket_add(). partition: copied, interned per
 * bucket. */
void bucket_set_origin(struct bucket *b, struct slice partition, int64_t offset,
                       int64_t stamp_ms, struct origin *origin);
enum batcher_kind {
    BATCHER_ENQUEUE,
    BATCHER_ACK,
    BATCHER_RETRY,
    BATCHER_BURY,
    BATCHER_CANCEL,
    BATCHER_FINISH,
    BATCHER_RELEASE,
    BATCHER_RENEW,
    BATCHERS
};

/* Takes ownership of c and answers it once. Redis executes changes of one kind in order,
 * and also cancels relative to enqueues. */
void bucket_add(struct bucket *b, enum batcher_kind kind, struct change *c);
/* In the following calls lease is the token of the claim. All arguments are copied. cb
 * may be NULL. */
/* store_ack: how: ACK_HOW_LAPSED for an expired job: its id is not remembered, and only
 * the present lease counts; else 0. store_retry: empty tries remove the entry in :tries.
 * store_repeat: puts the job back with the record of its next run and deletes its tries.
 * at_ms 0: due at job->due_ms. */
void store_ack(struct bucket *b, struct slice id, int64_t lease, char how, change_cb *cb,
               void *arg);
void store_retry(struct bucket *b, struct slice id, int64_t lease, int64_t due_ms,
                 struct slice tries, change_cb *cb, void *arg);
void store_repeat(struct bucket *b, const struct job *job, int64_t lease, int64_t at_ms,
                  change_cb *cb, void *arg);
/* A run that failed for good. It is kept as a separate job. */
struct failed_run {
    const struct job *job; /* its id is the one under which the run is kept */
    struct slice tries;
    bool dead; /* becomes a dead letter; else it is due now */
};
/* Keeps the failed run and puts the job back for its next run at at_ms, in one step. next
 * NULL: there is no next run. */
void store_fail_run(struct bucket *b, struct slice id, int64_t lease,
                    const struct failed_run *lost, const struct job *next, int64_t at_ms,
                    change_cb *cb, void *arg);
void store_bury(struct bucket *b, struct slice id, int64_t lease, struct slice tries,
                change_cb *cb, void *arg);
/* Renews a lease. new_lease: end of the new lease, which is also its token. Answer r:
 * renewed; x: the caller does not hold the lease. Report no other outcome of the job
 * before the answer. */
void store_renew(struct bucket *b, struct slice id, int64_t lease, int64_t new_lease,
                 change_cb *cb, void *arg);
/* --- queries and claims: one call each, which the store never repeats; see calls.h.
 * Without an answer the outcome is unknown. --- */
/* Like store_claim() of calls.h, with the limits of the route. */
void bucket_claim(struct bucket *b, unsigned max, int64_t lease_ms, store_claim_cb *cb,
                  void *arg);
/* Like store_reap(), for jobs whose lease has expired. */
void bucket_reap(struct bucket *b, unsigned max, store_reap_cb *cb, void *arg);
/* Puts the jobs of the last claim back if its answer was lost. known_lease: lease of the
 * last claim that was answered with jobs; 0: none. Call it before the next claim. */
void bucket_recover(struct bucket *b, unsigned max, int64_t known_lease,
                    store_reap_cb *cb, void *arg);

/* --- for operators --- */

enum {
    STORE_DEAD_MAX = 500, /* letters that one store_dead() examines */
    /* bytes of records in one reply; a single larger letter is still returned */
    STORE_DEAD_BYTES = 1024 * 1024,
    STORE_LIST_EXAMINE_MAX = 500, /* jobs that one bucket_list() examines */
    STORE_LIST_MEMBER_MAX =
        JOB_ID_MAX + 64 /* bytes; members of :held are longer than the id */
};
/* Sort key of a job in a route: score, then far jobs before others of the same score,
 * then bucket, then ordinal or member. */
struct list_position {
    int64_t score, ordinal; /* ordinal -1: not a far job */
    int64_t bucket;         /* the caller's number of the bucket */
    struct slice member;
};

/* Like store_list(): reads a page behind `behind` (NULL: from the start). Fills in the
 * position of ask. number: the caller's number of the bucket. look 0: the maximum. */
void bucket_list(struct bucket *b, struct store_list_ask *ask,
                 const struct list_position *behind, int64_t number, store_list_cb *cb,
                 void *arg);

/* --- the buckets of queues: each call also settles expired leases and expired jobs ---
 * */

/* lease 0: any holder. how: enum finish_value; 0: none. deadline_ms: answered with 0 if
 * not sent by then. */
void store_finish(struct bucket *b, struct slice id, int64_t lease, const char *reason,
                  char how, int64_t deadline_ms, change_cb *cb, void *arg);
/* due_us 0: now. counts: counts as a delivery. Without a lease a lost answer is not
 * repeated, because the repeat could take the job from the next consumer. */
void store_release(struct bucket *b, struct slice id, int64_t lease, int64_t due_us,
                   bool counts, int64_t deadline_ms, change_cb *cb, void *arg);

/* Like store_measure(); limits is at most QUEUE_SPANS. */
void bucket_measure(struct bucket *b, const int64_t *limits_ms, unsigned limits,
                    store_measure_cb *cb, void *arg);
/* r NULL: returns zeros. */
struct queue_counts measure_counts(const struct store_measure_reply *r);

enum { STORE_STEP_MAX = 1000 }; /* limit of max in store_respawn() and store_drop() */

/* --- the targets of a route, in its bucket 0: their rate limits (lua/pace.lua), and the
 * targets that an operator must restart. Each call is answered once, never from within.
 * The store repeats none --- */

enum { STORE_PACE_MAX = 100 };

struct pace_rate {
    double per_s;
    int64_t burst;
    int64_t hold_us; /* how long a job may wait in memory instead of being put back */
    bool shared;     /* the rate applies to all instances together */
};
/* Like store_pace(), for this instance. */
void bucket_pace(struct bucket *b, const struct pace_rate *rate,
                 const struct store_pace_want *jobs, unsigned n, store_pace_cb *cb,
                 void *arg);

#endif
