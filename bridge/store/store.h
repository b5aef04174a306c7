/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h - jobs in Redis: the buckets, and the calls that move jobs between their parts.
 *
 * Changes (enqueue, ack, retry, bury, cancel) are queued per bucket and leave in batches,
 * one script call each, several on their way at once. A reply that never came leaves the
 * outcome unknown: the batch is sent again, in its old place, until Redis has answered;
 * every script is repeatable by job id. So the store never drops a change by itself.
 *
 * Layout of the keys: bucket ROUTE/N has PREFIX:{ROUTE/N}:pool, :delay, :unack, :error,
 * :tries and :ingest, and where the route asks for it :seen, :held, :place, :lead, :away,
 * :pace and so on; the queue of a sink PREFIX:{SINK:QUEUE}:pool and so on, and :ttl and
 * :done; where ids are global, PREFIX:{SINK}:QUEUE:pool and so on, and PREFIX:{SINK}:ids.
 * What each holds stands at the head of the files in lua/.
 */
#ifndef BRIDGE_STORE_H
#define BRIDGE_STORE_H

#include "bridge/job/job.h"
#include "bridge/store/queue_data.h"
#include "bridge/redis/redis_probe.h"
#include "bridge/redis/redis.h"
#include "bridge/store/script.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct store;
struct bucket;

struct store_conf {
    struct redis_conf redis; /* copied */
    const char *prefix;      /* of every key */
    const char *instance;    /* this daemon's name among those on the same Redis */
    unsigned batch_max;      /* jobs of one script call */
    int64_t horizon_ms;      /* see store_far.h; 0: no new far jobs */
    struct durability durability;
    struct memory_mark memory_mark;
};

struct store_events {
    /* Redis can be worked with: connected, scripts loaded, clock known. In a cluster,
     * first when that is so of every master, then again whenever one of them has come
     * back. */
    void (*up)(void *arg);
    void (*down)(void *arg, const char *why);
    /* Another instance says "=name", or (name none) may have while nobody listened. */
    void (*told)(void *arg, struct slice name);
    /* Before it was ever up: Redis can't give the durability that is asked for. May be
     * NULL. */
    void (*unfit)(void *arg, const char *why);
};

/* Begins to connect; events come later. Copies conf. */
struct store *store_new(const struct store_conf *conf, const struct store_events *events,
                        void *arg);
/* Changes still queued are answered with code 0. NULL is fine. */
void store_free(struct store *st);
/* In a cluster: every master is, and every slot has one. */
bool store_is_up(const struct store *st);
/* Up, and not refusing writes for lack of memory: sources may go on. */
bool store_takes_jobs(const struct store *st);
/* Up, and not answering everything with an error, such as BUSY or MISCONF. Full is ready
 * all the same: what waits can leave. */
bool store_is_ready(const struct store *st);
/* In words, for /readyz; "" when all is well. */
const char *store_trouble(const struct store *st);
/* Changes queued or on their way. */
unsigned store_open_count(const struct store *st);
/* Answers 0 to every queued change that a Kafka record asked for: its source reads it
 * again. The next of each partition has nothing before it. For when Redis may have lost
 * what was sent before them. */
void store_give_back(struct store *st);
/* The clock of every server is known. */
bool store_knows_time(const struct store *st);
/* Redis' time in ms, see clock_now_ms(); in a cluster that of the clock most ahead. */
int64_t store_now_ms(const struct store *st);
uint64_t store_script_calls(const struct store *st, enum script s);
const struct histogram *store_script_took(const struct store *st, enum script s);
/* Answers of WAIT that named fewer replicas than durability asks for. */
uint64_t store_wait_shortfalls(const struct store *st);
uint64_t store_connections(const struct store *st);
/* How often one of its servers became ready on a new connection, perhaps without what it
 * took last. */
uint64_t store_arrivals(const struct store *st);
/* Error replies so far, by what they mean. */
uint64_t store_errors(const struct store *st, enum redis_error e);

/* How Redis keeps what it was told (of the servers, the one that keeps least); the memory
 * that they use, and may use (0: no limit). */
enum redis_durability store_keeps(const struct store *st);
void store_memory(const struct store *st, int64_t *used_bytes, int64_t *max_bytes);

/* A command of its own, about the key args[1], never repeated but where another node has
 * it. cb once, later. reply NULL: Redis is away. */
void store_command(struct store *st, const struct slice *args, unsigned n,
                   redis_reply_cb *cb, void *arg);
/* moves: this process sees to it that jobs leave the second tier (store_far.h). */
void store_move_far(struct store *st, bool moves);
/* PREFIX of every key. */
const char *store_prefix(const struct store *st);
/* Says name to every other instance: told(). */
void store_tell(struct store *st, const char *name);

struct bucket_events {
    /* The first due time of the bucket is now head_ms; -1: it has no waiting job. */
    void (*head)(void *owner, int64_t head_ms);
    /* Another instance made the head of this bucket earlier. */
    void (*woken)(void *owner);
    /* A call has settled so many jobs of a queue by the way. NULL where it is none. */
    void (*settled)(void *owner, unsigned expired, unsigned timed_out,
                    unsigned exhausted);
    /* bucket_is_idle() became true. Do not free the bucket from within. May be NULL. */
    void (*idle)(void *owner);
};
/* What a route asks of its buckets. */
struct bucket_rules {
    int64_t remember_ms;   /* ids of delivered jobs are remembered so long; 0: not */
    bool by_key;           /* jobs of one group leave one at a time, in their order */
    double rate;           /* jobs claimed per second; 0: no limit */
    int64_t burst;         /* of them, at once */
    int64_t in_flight_max; /* claimed and not yet ended, all instances; 0: no limit */
    const struct job_names *names; /* what records leave out; NULL: nothing */
    bool shared; /* rate is of all instances together; else of each. in_flight_max holds
                  * only where it is */
    bool kept;   /* nobody delivers its jobs: they stay in the second tier */
};
/* name: "ROUTE/N"; copied. rules must stay. Lives as long as the store, unless it is
 * freed before. */
struct bucket *bucket_new(struct store *st, const char *name,
                          const struct bucket_rules *rules,
                          const struct bucket_events *events, void *owner);
/* The bucket of a queue. rules must stay. */
struct bucket *bucket_new_queue(struct store *st, const char *sink, const char *queue,
                                const struct queue_rules *rules,
                                const struct bucket_events *events, void *owner);
/* Only when it is idle. */
void bucket_free(struct bucket *b);
/* What was asked of it leaves now, in the midst of the turn; else it does at its end. */
void bucket_push(struct bucket *b);
/* Nothing queued, nothing on its way. */
bool bucket_is_idle(const struct bucket *b);
const char *bucket_name(const struct bucket *b);
/* When its first far job is due at the earliest, as was told last; -1: none is known of.
 */
int64_t bucket_far_ms(const struct bucket *b);
/* left: another instance owns it (alive.h), and is the first to move its far jobs. */
void bucket_leave_to_owner(struct bucket *b, bool left);
/* The server that has it can be worked with; its clock. */
bool bucket_is_up(const struct bucket *b);
const struct clock *bucket_clock(const struct bucket *b);
/* Changes of this bucket are held back after an error reply, for so long: nothing should
 * be claimed whose ack could not leave. 0: they are not. */
int64_t bucket_hold_us(const struct bucket *b);

/* code: the answer of the script (enum NAME_answer of calls.h), or 0: the store was
 * closed, or the deadline passed, before Redis had answered. change_unsafe(code) of a job
 * that was stored or cancelled: the deadline passed before there were enough replicas of
 * it. */
#define change_unsafe(code) ((char)((code) & ~0x20))
#define change_was(code) ((char)((code) | 0x20)) /* what change_unsafe() was made of */
typedef void change_cb(void *arg, char code);

/* What belongs to Kafka in a change: lua/lib/ingest.lua carries each record out once. */
struct origin {
    /* See name.h; the same pointer for the same name in a bucket; NULL: none. */
    const char *partition;
    int64_t offset;
    int64_t before;   /* offset sent before it to the same bucket; -1: none known */
    int64_t stamp_ms; /* the record's timestamp; 0: none */
};

/* A change of a bucket, from its request to Redis' answer. It may be the beginning of a
 * struct of the caller's. Fields that are not set mean none, never or no. */
struct change {
    struct slice id, record; /* behind the struct, in one allocation; and so are */
    union {
        struct slice tries, reason; /* reason: of a finish */
    };
    struct slice group; /* of an enqueue: jobs of one group leave one at a time */
    struct slice kept_id, kept_record, kept_tries; /* of a retry: a run given up */
    struct origin origin;
    union {
        int64_t due_ms, new_lease; /* new_lease: of a renew */
    };
    int64_t lease;
    int64_t due_us;      /* of a release */
    int64_t deadline_us; /* monotonic: 0 is answered if it has not left by then */
    int64_t expires_ms;  /* of a queue's job */
    char how;            /* the script's letter for it: enum NAME_value of calls.h */
    bool now;            /* due when it is stored, whatever due_ms says */
    bool awaited;        /* somebody sends no more until this one is answered */
    bool once;           /* not sent again when its answer was lost: it would do harm */
    change_cb *cb;       /* once, later; then the change is freed. May be NULL */
    void *arg;
    /* Of its batcher: */
    TAILQ_ENTRY(change) link;
    uint64_t seq;       /* place among the bucket's changes */
    bool again;         /* it was sent before, and may have been carried out then */
    unsigned partition; /* its number in the batch, from 1; 0: none */
    unsigned refused;   /* times that the script asked for the batch before it */
};
/* Makes a change with copies of its texts. size: of the struct that begins with it. */
void *change_new(size_t size, struct slice id, struct slice record, struct slice tries,
                 struct slice group);
/* The same of a job that b stores, due at job->due_ms. */
void *change_of_job(size_t size, const struct bucket *b, const struct job *job,
                    struct slice tries, struct slice group);
/* Fills in partition (copied, once per bucket), offset and before of a change that is
 * about to be handed over. */
void bucket_chain(struct bucket *b, struct slice partition, int64_t offset,
                  struct origin *origin);
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

/* Takes c, and answers it once. Changes of one kind leave in their order, and a cancel
 * and an enqueue in theirs. */
void bucket_add(struct bucket *b, enum batcher_kind kind, struct change *c);
/* lease: the token of the claim. Everything is copied. cb may be NULL. */
/* lapse: as ack, for a job that expired: its id is not remembered, and only this lease
 * may. retry: tries empty: the entry in :tries goes. repeat: puts the job back with the
 * record of its next run, due at job->due_ms unless at_ms is given, and forgets its
 * tries. */
void store_ack(struct bucket *b, struct slice id, int64_t lease, change_cb *cb,
               void *arg);
void store_retry(struct bucket *b, struct slice id, int64_t lease, int64_t due_ms,
                 struct slice tries, change_cb *cb, void *arg);
void store_lapse(struct bucket *b, struct slice id, int64_t lease, change_cb *cb,
                 void *arg);
void store_repeat(struct bucket *b, const struct job *job, int64_t lease, int64_t at_ms,
                  change_cb *cb, void *arg);
/* A run that is given up, and stays as a job of its own. */
struct lost_run {
    const struct job *job; /* with the id under which it is kept */
    struct slice tries;
    bool dead; /* it goes to the error bucket; else it is due now */
};
/* lose: in one step the run is kept and the job put back for its next one, at at_ms; next
 * NULL: there is none. */
void store_lose(struct bucket *b, struct slice id, int64_t lease,
                const struct lost_run *lost, const struct job *next, int64_t at_ms,
                change_cb *cb, void *arg);
void store_bury(struct bucket *b, struct slice id, int64_t lease, struct slice tries,
                change_cb *cb, void *arg);
/* new_lease: the end of the new lease, which is also its token. r: the job has it; x: the
 * lease is another's. Until it is answered, nothing else may be said about the job. */
void store_renew(struct bucket *b, struct slice id, int64_t lease, int64_t new_lease,
                 change_cb *cb, void *arg);
/* --- questions and claims: one call each, never repeated by the store; see calls.h.
 * Without an answer it is not known what was done. --- */
/* As store_claim() of calls.h: at the limits of the route. */
void bucket_claim(struct bucket *b, unsigned max, int64_t lease_ms, store_claim_cb *cb,
                  void *arg);
/* As store_reap(): jobs whose lease has ended. */
void bucket_reap(struct bucket *b, unsigned max, store_reap_cb *cb, void *arg);
/* The answer to the last claim of this bucket was lost: if Redis made it, its jobs go
 * back. known_lease: of the last claim of this struct that was answered with jobs; 0:
 * none. Ask before the next claim leaves. */
void bucket_recover(struct bucket *b, unsigned max, int64_t known_lease,
                    store_reap_cb *cb, void *arg);

struct counts {
    int64_t waiting, in_flight, dead, overdue, head_ms, lease_ms, now_ms;
    int64_t far; /* of those waiting: in the second tier */
};
typedef void count_cb(void *arg, const struct counts *counts); /* NULL: no answer */
void store_count(struct bucket *b, count_cb *cb, void *arg);
/* The same of several buckets of one store, in one call: at most store_count_most(). */
struct count_ask {
    struct bucket *bucket;
    count_cb *cb; /* of each, in their order */
    void *arg;
};
unsigned store_count_most(const struct store *st);
void store_count_many(const struct count_ask *asks, unsigned n);

/* --- for operators --- */

enum {
    STORE_DEAD_MAX = 500,           /* letters to look at in one call of store_dead() */
    STORE_DEAD_BYTES = 1024 * 1024, /* of records in one reply; one letter comes even if
                                     * it is larger */
    STORE_LIST_LOOK = 500,          /* jobs to look at in one call of bucket_list() */
    STORE_LIST_MEMBER_MAX =
        JOB_ID_MAX + 64 /* bytes: of :held it holds more than the id */
};
/* Where a job stands among all of a route: by score; far ones before others of it; by
 * bucket; by ordinal, or member. */
struct list_place {
    int64_t score, ordinal; /* ordinal -1: it is not far */
    int64_t bucket;         /* the caller's number for it */
    struct slice member;
};

/* As store_list(): a page of the bucket of that number, behind a place (NULL: from the
 * beginning), which is filled in. */
void bucket_list(struct bucket *b, struct store_list_ask *ask,
                 const struct list_place *behind, int64_t number, store_list_cb *cb,
                 void *arg);

/* --- the buckets of queues: each call also settles leases that have ended, and jobs that
 * have expired --- */

/* lease 0: whoever has it. how: enum finish_value, 0: none. deadline_ms: 0 is
 * answered if it has not left by then. */
void store_finish(struct bucket *b, struct slice id, int64_t lease, const char *reason,
                  char how, int64_t deadline_ms, change_cb *cb, void *arg);
/* due_us 0: now. counts: as a delivery. Without a lease it is not sent again when its
 * answer was lost: it could take the job from the next consumer. */
void store_release(struct bucket *b, struct slice id, int64_t lease, int64_t due_us,
                   bool counts, int64_t deadline_ms, change_cb *cb, void *arg);

/* store_measure() of at most QUEUE_SPANS limits. */
void bucket_measure(struct bucket *b, const int64_t *limits_ms, unsigned limits,
                    store_measure_cb *cb, void *arg);
struct queue_counts measure_counts(const struct store_measure_reply *r); /* NULL: zeros */

/* Takes a name off the list of queues at key, if its score is still used_ms. */
void store_unlist(struct store *st, struct slice key, struct slice name, int64_t used_ms);

enum { STORE_STEP_MAX = 1000 }; /* of the max of store_respawn() and store_drop() */

/* How much the servers of a store have in use, by INFO: asked of each, once per call. */
/* usage: borrowed; NULL: a server is away, or does not say. Never called from within. */
typedef void usage_cb(void *arg, const struct queue_usage *usage);
void store_usage(struct store *st, usage_cb *cb, void *arg);

/* --- the targets of a route, in its bucket 0: their places at their rate (lua/pace.lua),
 * and which an operator must start again. Each call is answered once, never before it has
 * returned; none is repeated --- */

enum { STORE_PACE_MAX = 100 }; /* jobs of one call */

struct pace_rate {
    double per_s;
    int64_t burst;
    int64_t hold_us; /* how long a job may wait here instead of coming back */
    bool shared;     /* it is of all instances together */
};
/* As store_pace(), for the instance. */
void bucket_pace(struct bucket *b, const struct pace_rate *rate,
                 const struct store_pace_want *jobs, unsigned n, store_pace_cb *cb,
                 void *arg);

/* --- keys of their own: one call each, never repeated --- */

/* One call, never repeated; cb once, later. reply NULL: Redis is away, or answered with
 * an error, which is logged. What is handed in is copied. */
void store_script(struct store *st, enum script script, struct slice key,
                  const struct slice *argv, unsigned n, redis_reply_cb *cb, void *arg);

#endif
