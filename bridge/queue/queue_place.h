/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_place.h - the queue objects of this process, and the mapping from a source's
 * topic to a queue. For the queue_*.c files and submit.c.
 *
 * The first call that names a queue creates its object. If the queue has no known job,
 * and no call and no consumer uses it, its object is soon freed; about a hundred of them
 * are kept. So queue names from clients cannot exhaust the memory. Other objects are
 * freed when they were unused for a while. Redis contains all lasting data.
 */
#ifndef BRIDGE_QUEUE_PLACE_H
#define BRIDGE_QUEUE_PLACE_H

#include "bridge/base/hash.h"
#include "bridge/engine/bridge.h"
#include "bridge/store/store.h"

enum { QUEUE_NAME_MAX = JOB_TARGET_MAX };
#define QUEUE_NOT_LISTED (INT64_MIN / 2) /* of listed_ms: not in Redis */

struct pull;

/* A consumer's entry at one queue. */
struct waiter {
    TAILQ_ENTRY(waiter) link;
    struct pull *pull;
    struct queue *queue; /* NULL: that topic leads to no queue */
    struct route *route;
    unsigned topic;
    /* HELD: the route is paused; the waiter waits until it is resumed */
    enum { WAITER_AWAY, WAITER_FRESH, WAITER_PARKED, WAITER_HELD } where;
};
TAILQ_HEAD(waiter_list, waiter);

struct queue {
    UT_hash_handle hh;            /* in its sink, by name */
    TAILQ_ENTRY(queue) link;      /* in bridge->queues_due */
    TAILQ_ENTRY(queue) idle_link; /* in bridge->queues_idle */
    struct sink *sink;
    struct bucket *bucket;
    struct timer *timer;
    struct waiter_list fresh;  /* to be asked for once, whatever is known of the queue */
    struct waiter_list parked; /* asked for before: they wait for a job */
    struct waiter **asked;     /* waiters of the call in flight */
    unsigned asked_count, asked_cap;
    unsigned waiters;            /* number of fresh, parked and held waiters */
    unsigned guess;              /* number of parked waiters to ask for at once */
    int64_t head_ms;             /* first due time; -1: unknown or none */
    int64_t lease_ms;            /* expiry of the first known lease; -1: none */
    int64_t looked_us, again_us; /* monotonic: last reply; no call before again_us, after
                                  * an error */
    int64_t used_ms;             /* monotonic: last use */
    int64_t listed_ms;           /* monotonic: when its name was last written to Redis */
    unsigned refs;               /* waiters that point here, in any state */
    bool pulling, stale, due_listed, idle_listed;
    bool known;        /* jobs were stored or seen: do not free the object soon */
    bool note_lost;    /* the ZADD of its name failed and must be repeated */
    bool passed_over;  /* the last call did not include the fresh waiters */
    bool settles_more; /* a call settled as many jobs as one call can */
    size_t name_n;
    char name[];
};

/* The destination of a topic (and an id) of a source. */
struct place {
    enum queue_code code; /* QUEUE_OK, QUEUE_NO_ROUTE */
    struct route *route;
    struct queue *queue;   /* NULL: the route does not end at a queue */
    struct bucket *bucket; /* NULL: unknown without an id */
};
/* Find the destination. id: p NULL if only a queue is needed. */
void place_find(struct source *src, struct slice topic, struct slice id,
                struct place *place);
/* Return the store that contains the route's jobs. */
struct store *route_store(const struct route *route);
/* Return the queue of that name and mark it as used; creates the object. */
struct queue *queue_of(struct sink *sink, struct slice name);
/* The same without marking it as used. */
struct queue *queue_borrow(struct sink *sink, struct slice name);
/* Return whether name is valid for a queue. */
bool queue_name_is_good(struct slice name);
/* Return the bucket of a job; of its queue if the route ends at one. target: rendered.
 * stores: the job creates the queue; false for a cancel. */
struct bucket *route_bucket_of(struct route *route, struct slice id, struct slice target,
                               bool stores);
/* The same without a target; NULL: the queue depends on the topic. */
struct bucket *route_bucket_of_id(struct route *route, struct slice id);
/* Append the name of a key of the sink: "PREFIX:{SINK}:what". */
void queue_sink_key(const struct sink *sink, const char *what, struct buf *key);

/* Call queue_pump() at the end of this turn. */
void queue_list_due(struct queue *q);
/* Call it when a consumer or a call has finished: if it was the last, and the queue has
 * no known job, the object may be freed at the end of a turn. */
void queue_leave(struct queue *q);
/* Decode a job from Redis into out. The caller sets state, at_ms, expires_ms (-1: never),
 * lease and now_ms before. Returns the job, which the caller must free; NULL: it cannot
 * be read. */
struct job *queue_read(const struct queue_rules *rules, const struct job_names *names,
                       struct slice id, struct slice record, struct slice tries,
                       struct queue_job *out);

/* --- for the daemon and the engine --- */
/* Call it after the store was freed, which frees the buckets. */
void queue_sink_fini(struct sink *sink);
/* Send the calls of all queues that need one; call it once per turn. */
void queue_turn(struct bridge *bridge);
/* Call it once a second. */
void queue_tick(struct bridge *bridge);
/* Return the number of waiters at the queues of a sink. */
unsigned queue_consumers(const struct sink *sink);
/* Ask for all queues again: Redis is usable again, or wake-ups may have been missed. */
void queue_look_all(struct bridge *bridge);
/* End all waits: the daemon stops, or (src not NULL) that source does. */
void queue_end_waits(struct bridge *bridge, const struct source *src);
/* End all waits at queues of that route: a reload may have changed its topics. */
void queue_end_waits_at(struct route *route);
/* Return whether no queue of this sink has an object or a call in flight, so a reload can
 * free it. */
bool queue_sink_is_idle(const struct sink *sink);
/* Free the unused queues of a sink that a reload has taken out. */
void queue_old_tick(struct sink *sink);
/* queue_call.c */
void queue_pump(struct queue *q);
/* queue_pull.c: fresh or parked waiters, not held ones */
bool queue_has_waiters(const struct queue *q);
/* The route is resumed: its held waiters wait as parked ones again. */
void queue_release_held(struct route *route);
/* queue_list.c: return whether a job may be stored in that queue: it exists, or is within
 * names_max, as far as this instance knows. */
bool queue_has_room(struct sink *sink, struct slice name);
/* A job is about to create the queue, or has recently. */
void queue_name_noted(struct sink *sink, struct slice name);
/* queue_list.c: compute the sums of all queues, of the last sweep. */
void queue_sweep_tick(struct sink *sink);
void queue_sweep_fini(struct sink *sink);
bool queue_sweep_is_open(const struct sink *sink); /* a call is in flight */

/* --- queue_pull.c (waiting consumers), and queue_call.c (calls of lua/pull.lua) --- */

/* A consumer that pulls. */
struct pull {
    TAILQ_ENTRY(pull) link;
    struct source *src;
    queue_pull_cb *cb;
    void *arg;
    struct timer *timer;    /* NULL: it does not wait, or not any more */
    struct queue *asked_at; /* the queue whose call in flight includes it; NULL: none */
    unsigned max;
    int64_t lease_ms;
    bool gone, deferred;
    bool gather;            /* as asked */
    bool queueless;         /* none of its topics leads to a queue: it can never get a
                             * job */
    bool answered;          /* Redis has answered for it, without jobs */
    struct queue_job *jobs; /* claimed for it so far; owned */
    unsigned got;           /* number of jobs */
    unsigned turn;          /* index of the fresh waiter */
    unsigned waiter_count;
    struct waiter waiters[];
};

void pull_leave_waiter(struct waiter *waiter);
/* Add the consumer as fresh waiter of its next queue. After the last queue, park it at
 * all queues, or call its callback. */
void pull_ask_next(struct pull *p);
/* Redis is unreachable. Tries the next queue, which may be in another Redis. After the
 * last queue a consumer that does not wait is answered at once; others continue to
 * wait. */
void pull_unanswered(struct waiter *waiter);
/* The waiter's route is paused: take the waiter out of its list. A fresh one tries its
 * next queue later, from the loop. */
void pull_hold(struct waiter *waiter);
/* Answer the consumer with its jobs and free it. */
void pull_answer(struct pull *p);
/* Answer the consumer with what it has: its time is over, or it does not wait. */
void pull_give_up(struct pull *p);
void pull_free(struct pull *p);

#endif
